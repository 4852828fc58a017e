"""Damages files of decisions, and counts what is noticed, what is harmless, and what goes wrong.

Bits are flipped, sectors zeroed, pages swapped, doubled or overwritten, and files cut short: the
database, its log, the commit marker. Of each damaged file all that a store answers is compared with
what it answered before, all batches are delivered again, and the file is recovered:

- refused: it is not opened, and no byte of the three files has changed;
- noticed at use: it is opened, and an error comes where something damaged is read;
- harmless: all answers are as before;
- WRONG: an answer differs, a batch is lost or counts twice without a word, a refused file has
  changed, recovery keeps what is no beginning of the truth, or says another loss than there is.

python benchmarks/damage.py [--count 800] [--seed 0] [--verbose] [--json]
"""

import argparse
import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from damaged_bytes import damages

from postgrad.errors import StoreError
from postgrad.store import Batch, Database, Event, Issue, Store, StoredState
from postgrad.store.opening import connecting, open_checked
from postgrad.store.recovery import check, recover

FILES = ("", "-wal", "-acknowledged")
EVENT = Event(35, 1.0, "relearned", "{}")


def saved(name: str, stage: int, still: int = 0) -> StoredState:
    state = np.random.default_rng([stage, len(name)]).bytes(400)
    return StoredState(stage, '[["a", "float64", [50]]]', state, "[]", b"told", b"counted", still)


def batch(name: str, number: int) -> Batch:
    rng = np.random.default_rng([number, len(name), 1])
    long = 60_000 if name == "bulk" else 5000 if number % 40 == 7 else 8 * (1 + number % 3)
    rows = rng.bytes(long)
    alarm = f"alarm {number}" if number % 9 == 3 else None
    context = json.dumps({"promo": number}) if number % 4 == 1 else None
    return Batch(f"{name} {number}", float(number), rng.bytes(8) if number % 2 else None, rows,
                 rng.bytes(64), alarm, context)  # fmt: skip


def issue(name: str, number: int) -> Issue:
    answer = np.random.default_rng([number, len(name), 2]).bytes(24 * (1 + number % 2))
    return Issue(f"for {name} {number}", number, float(number), f'{{"promo": {number}}}', answer)


def deliver(store: Store, name: str, numbers: range) -> None:
    """As an agent does: what is known already is not stored again."""
    for number in numbers:
        if number % 3 == 0 and store.issued(f"for {name} {number}") is None:
            store.issue(store.load(), issue(name, number))
        entry = batch(name, number)
        known = store.find(entry.id or "")
        if known is not None:
            assert (known[1].rows, known[1].x) == (entry.rows, entry.x), "other data"
            continue
        head = store.load()
        stage, since = head.saved.stage + 1, head.saved.fixed_since
        fixed = ("[]", b"") if stage in (5, 70) else None
        store.append(head, entry, saved(name, stage, stage if fixed else since), fixed)


class Kind(NamedTuple):
    """A kind of file: streams, how many batches, which part is in the log, and what is checked."""

    streams: dict[str, int]
    logged: str  # nothing, half, all
    back: bool = False
    large: bool = False


KINDS = {
    "small": Kind({"main": 7}, "nothing"),
    "small, in the log": Kind({"main": 5, "other": 4}, "all"),
    "small, half in the log": Kind({"main": 9, "other": 6}, "half"),
    "streams": Kind({"main": 150, "other": 80, "a third": 20}, "nothing", back=True),
    "streams, half in the log": Kind({"main": 150, "other": 80, "a third": 20}, "half"),
    "above 16 MB, half in the log": Kind({"bulk": 300, "main": 60}, "half"),
    "as above 16 MB": Kind({"main": 150, "other": 80}, "nothing", back=True, large=True),
    "as above 16 MB, half in the log": Kind({"main": 120, "other": 90}, "half", large=True),
}


@dataclass
class Case:
    """A file, and all that is true of it."""

    kind: Kind
    path: Path
    truth: dict[str, list[tuple[int, Batch]]] = field(default_factory=dict)
    issues: dict[str, list[Issue]] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


def made(kind: Kind, folder: Path) -> Case:
    """The files, as a process leaves them that is killed, or that closes them."""
    folder.mkdir()
    path = folder / "live.db"
    case = Case(kind, folder / "whole.db")
    database = Database(path)
    stores = {name: Store(database, name) for name in kind.streams}
    for name, store in stores.items():
        store.create(f"settings of {name}", saved(name, 0))
    for part in (0, 1):
        for name, store in stores.items():
            count = kind.streams[name]
            half = count // 2
            deliver(store, name, range(1, half + 1) if part == 0 else range(half + 1, count + 1))
            if kind.back and part == 0 and name == "main":
                store.go_back(store.load(), saved(name, half - 40, 5), None)
                store.amend(store.load(), saved(name, half - 40, 5), None, EVENT)
        if part == 0 and kind.logged == "half":
            database.connection.execute("PRAGMA wal_checkpoint")
    if kind.logged == "nothing":
        database.close()
    for suffix in FILES:
        if Path(f"{path}{suffix}").exists():
            shutil.copy(f"{path}{suffix}", f"{case.path}{suffix}")
    database.close()
    with opened(case.path, kind) as whole:
        for name in kind.streams:
            store = Store(whole, name)
            case.truth[name] = list(store.batches(1, store.load().saved.stage))
            case.issues[name] = list(store.issues())
    case.answers = dict(asked(case, case.path))
    for end in ("-wal", "-shm"):  # readers leave an empty log
        if end == "-shm" or kind.logged == "nothing":
            Path(f"{case.path}{end}").unlink(missing_ok=True)
    return case


def opened(path: Path, kind: Kind) -> Database:
    open_checked.SMALL = 0 if kind.large else 16 << 20
    return Database(path)


def questions(case: Case, store: Store, name: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All that can be asked of a stream."""
    yield "settings", lambda: store.settings
    yield "state", lambda: store.load().saved
    yield "fixed arrays", lambda: store.fixed_arrays(store.load().saved)
    yield "alarms", store.alarms
    yield "events", lambda: store.events(store.load())
    yield "batches", lambda: list(store.batches(1, store.load().saved.stage))
    yield "last", lambda: list(store.batches(store.load().saved.stage, store.load().saved.stage))
    for number in range(1, case.kind.streams[name] + 2):
        yield f"find {number}", lambda number=number: store.find(f"{name} {number}")
        if number % 3 == 0:
            yield f"issued {number}", lambda number=number: store.issued(f"for {name} {number}")
    yield "issued", lambda: list(store.issues())
    yield "last issued", store.last_issued


def asked(case: Case, path: Path) -> Iterator[tuple[str, Any]]:
    """Each question and its answer, or the error."""
    with opened(path, case.kind) as database:
        for name in case.kind.streams:
            try:
                store = Store(database, name)
                store.load()
            except StoreError as error:
                yield f"{name}: open", error
                continue
            yield f"{name}: open", None
            for question, answer in questions(case, store, name):
                try:
                    yield f"{name}: {question}", answer()
                except StoreError as error:
                    yield f"{name}: {question}", error


def copy(source: Path, target: Path) -> None:
    for suffix in (*FILES, "-shm"):
        Path(f"{target}{suffix}").unlink(missing_ok=True)
        if suffix != "-shm" and Path(f"{source}{suffix}").exists():
            shutil.copy(f"{source}{suffix}", f"{target}{suffix}")


def contents(path: Path) -> dict[str, bytes | None]:
    names = {suffix: Path(f"{path}{suffix}") for suffix in FILES}
    # A log that readers have left empty says nothing.
    return {s: (name.read_bytes() or None) if name.exists() else None for s, name in names.items()}


def judged(case: Case, damaged: Path, work: Path) -> tuple[str, list[str]]:
    """What becomes of a damaged file, and what goes wrong with it."""
    path, wrong = work / "copy.db", []
    copy(damaged, path)
    before, verdict = contents(path), "harmless"
    try:
        for question, answer in asked(case, path):
            if isinstance(answer, StoreError):
                opening = question.endswith(": open")
                verdict = "refused" if opening and verdict == "harmless" else verdict
                verdict = "noticed at use" if verdict == "harmless" else verdict
            elif answer != case.answers[question]:
                wrong.append(f"{question} was answered with {answer!r:.80}")
    except StoreError:
        verdict = "refused"
    except Exception as error:
        wrong.append(f"reading: {type(error).__name__}: {error}")
    if contents(path) != before:
        wrong.append("reading has changed the files")
    wrong += recovered(case, damaged, path)
    wrong += delivered_again(case, damaged, path)
    return verdict, wrong


def delivered_again(case: Case, damaged: Path, path: Path) -> list[str]:
    """Deliver all batches once more, and a new one, to each stream."""
    copy(damaged, path)
    added: dict[str, bool] = {}
    try:
        with opened(path, case.kind) as database:
            for name, count in case.kind.streams.items():
                try:
                    store = Store(database, name)
                    if store.settings is None:
                        return [f"stream {name!r} was not found"]
                    known = {entry.id for _, entry in case.truth[name]}
                    numbers = [n for n in range(1, count + 1) if f"{name} {n}" in known]
                    for number in numbers:
                        deliver(store, name, range(number, number + 1))
                    deliver(store, name, range(count + 1, count + 2))
                    added[name] = True
                except StoreError:
                    pass
    except StoreError:
        return []
    except Exception as error:
        return [f"writing: {type(error).__name__}: {error}"]
    return counted(case, damaged, path, added)


def counted(case: Case, damaged: Path, path: Path, added: dict[str, bool]) -> list[str]:
    """What is wrong in a file that all batches were delivered to again."""
    twice = ids_in(path) - ids_in(damaged)
    wrong = [f"batch {key} counts twice" for key, n in twice.items() if ids_in(path)[key] > 1]
    for name in added:
        last = batch(name, case.kind.streams[name] + 1)
        expected = [entry for _, entry in case.truth[name]] + [last]
        try:
            with opened(path, case.kind) as database:
                store = Store(database, name)
                found = [entry for _, entry in store.batches(1, store.load().saved.stage)]
                issued = list(store.issues())
        except StoreError:
            continue
        if issued[: len(case.issues[name])] != case.issues[name]:
            wrong.append(f"after delivering again {name!r} has {len(issued)} decisions")
        if found != expected:
            wrong.append(f"after delivering again {name!r} has {len(found)} batches")
    return wrong


def ids_in(path: Path) -> Counter[tuple[Any, Any]]:
    """How often each id is in the table of batches; those of doubled pages, too."""
    connection = sqlite3.connect(path)
    try:
        found = connection.execute("SELECT stream, id FROM batches NOT INDEXED").fetchall()
        return Counter(key for key in found if key[1] is not None)
    except (sqlite3.Error, UnicodeDecodeError):
        return Counter()  # noticed by whoever reads it
    finally:
        connection.close()


def recovered(case: Case, damaged: Path, path: Path) -> list[str]:
    """What is wrong with a file after recovery, and with what was said."""
    copy(damaged, path)
    before = contents(path)
    open_checked.SMALL = 16 << 20
    try:
        done = recover(path)
    except StoreError as error:
        changed = ["a recovery that was refused has changed the files"] * (contents(path) != before)
        nothing = "nothing in it is good" in str(error)
        return changed if nothing else [*changed, f"recovery failed: {error}"]
    except Exception as error:
        return [f"recovery: {type(error).__name__}: {error}"]
    wrong = [f"recovered, but {problem}" for problem in check(path).problems]
    if done.folder is not None:
        if contents(done.folder / path.name) != before:
            wrong.append("the damaged files were not kept as they were")
        shutil.rmtree(done.folder)
    said = {stream.name: stream for stream in done.streams if stream.name is not None}
    with Database(path) as database:
        streams = database.streams()
        for name, truth in case.truth.items():
            if name not in streams:
                nameless = [s for s in done.streams if s.name is None]
                lost = [s.lost + s.lost_issued + s.missing for s in nameless]
                count = len(truth) + len(case.issues[name])
                if count not in lost and done.folder is not None:
                    wrong.append(f"{name!r} was lost, and {lost} of {count} said")
                continue
            store = Store(database, name)
            head = store.load()
            found, issued = list(store.batches(1, head.saved.stage)), list(store.issues())
            if found != truth[: len(found)] or not is_part(issued, case.issues[name]):
                wrong.append(f"{name!r} was recovered, but not as it was")
            states = [head.saved, store.checkpoint(1 << 40)]
            if any(s and s.state not in (b"", saved(name, s.stage).state) for s in states):
                wrong.append(f"{name!r} has a state that it never had")
            told, unissued = said.get(name), len(case.issues[name]) - len(issued)
            actual = len(truth) - len(found) + unissued
            gone = case.answers[f"{name}: events"] != store.events(head)[:1]
            if gone and (told is None or not (told.lost or told.missing or told.lost_events)):
                wrong.append(f"the event of {name!r} was lost, and nothing said")
            least = 0 if told is None else told.lost + told.lost_issued
            lost = 0 if told is None else least + told.missing
            # Commits that were gone back from are among the missing ones.
            went_back = case.kind.back and name == "main"
            if not least <= actual <= lost or (actual != lost and not went_back):
                wrong.append(f"{actual} of {name!r} were lost, {least} to {lost} said")
            ids = {entry.id for _, entry in truth[len(found) :]}
            if name in said and not set(said[name].lost_ids) <= ids:
                wrong.append(f"of {name!r} {set(said[name].lost_ids) - ids} were said to be lost")
    return wrong


def is_part(found: list[Issue], whole: list[Issue]) -> bool:
    """Whether these decisions are some of those, in their order."""
    rest = iter(whole)
    return all(issue in rest for issue in found)


def run(count: int, seed: int, kinds: list[str], tell: Callable[[str], None]) -> dict[str, Any]:
    """Damage files, and count what becomes of them, by kind of file."""
    connecting.PATIENCE_S = 0.2
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    with tempfile.TemporaryDirectory(prefix="damage-") as folder:
        cases = {kind: made(KINDS[kind], Path(folder) / str(n)) for n, kind in enumerate(kinds)}
        for number in range(count):
            kind = kinds[number % len(kinds)]
            case, rng = cases[kind], np.random.default_rng([seed, number])
            work = Path(folder) / "work"
            work.mkdir()
            damaged = work / "damaged.db"
            copy(case.path, damaged)
            there = [s for s in FILES if Path(f"{damaged}{s}").exists()]
            weights = np.array([{"": 6, "-wal": 4, "-acknowledged": 1}[s] for s in there])
            suffix = str(rng.choice(there, p=weights / weights.sum()))
            what, data = damages(rng, Path(f"{damaged}{suffix}").read_bytes(), suffix)
            Path(f"{damaged}{suffix}").write_bytes(data)
            verdict, wrong = judged(case, damaged, work)
            totals[kind]["WRONG" if wrong else verdict] += 1
            for text in wrong:
                tell(f"{number}: {kind}: {what}: {text}")
            shutil.rmtree(work)
    return {kind: dict(total) for kind, total in totals.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    totals = run(given.count, given.seed, list(KINDS), print)
    if given.json:
        print(json.dumps(totals))
        return
    columns = ("refused", "noticed at use", "harmless", "WRONG")
    print(f"{'':34}" + "".join(f"{column:>16}" for column in columns))
    for kind, total in totals.items():
        print(f"{kind:34}" + "".join(f"{total.get(column, 0):16}" for column in columns))
    whole = sum((Counter(total) for total in totals.values()), Counter())
    print(f"{'all':34}" + "".join(f"{whole[column]:16}" for column in columns))


if __name__ == "__main__":
    main()

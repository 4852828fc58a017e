"""A store whose process is killed, or whose machine loses power, at any change of its files.

Under LD_PRELOAD=recorded_disk.so, with arguments SHIM FOLDER crash|power POINTS SEED; or, without
it, with `- FOLDER writers KILLS SEED`. Prints totals as JSON.

crash: a process is ended by SIGKILL before, in the middle of or after one change of the database,
its log or the commit marker, at every change in turn.
power: all changes of a run are recorded once. At a point, what was forced to the disk is there, and
of each sector (512 bytes) changed since any one of its versions: so writes are torn and reordered.
writers: four processes write to one file; again and again one of them is killed.

What the next process finds must be the state after the last acknowledged commit, or the one after
the commit that was under way, in each stream.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import struct
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from test_store import batch, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Issue, Store, database
from postgrad.store.guards import opened_file

STREAMS, ISSUED = ("main", "other"), "issued by "
SECTOR = 512
FILES = {"d": "", "l": "-wal", "m": "-acknowledged", "j": "-journal"}
HEAD = struct.Struct("<ccqI")


def plan(rng, count):
    """Commits, and the ids in each stream before the first and after each of them.

    Under `ISSUED` and its name, those of the decisions that it has issued.
    """
    ids, number = {each: [] for name in STREAMS for each in (name, ISSUED + name)}, 0
    commits, states = [], [{}]
    for place in range(count):
        name = STREAMS[int(rng.integers(2))]
        draw = rng.random()
        if place < 2:
            commits.append(("create", STREAMS[place]))
        elif draw < 0.08 and ids[name]:
            kept = int(rng.integers(len(ids[name])))
            commits.append(("go back", name, kept))
            ids[name] = ids[name][:kept]
        elif draw < 0.16:
            commits.append(("reopen",))
        elif draw < 0.4:
            commits.append(("issue", name, f"for {place}"))
            ids[ISSUED + name] = [*ids[ISSUED + name], f"for {place}"]
        else:
            new = [f"id {number + i}" for i in range(int(rng.integers(1, 5)))]
            number += len(new)
            commits.append(("append", name, new))
            ids[name] = ids[name] + new
        created = STREAMS[: min(place + 1, 2)]
        states.append({each: ids[each] for n in created for each in (n, ISSUED + n)})
    return commits, states


def issue(name):
    return Issue(name, 0, 0.0, None, name.encode())


def append(store, names):
    with store.database.transaction():
        for name in names:
            head = store.load()
            stage = head.saved.stage + 1
            store.append(head, batch(stage, id=name), saved(stage), None)


def work(path, commits, acknowledge):
    """Does all of a plan."""
    database._LOG_PAGES = 20  # so that the log is copied into the database now and then
    opened = Database(path)
    for number, (what, *details) in enumerate(commits, start=1):
        if what == "reopen":
            opened.close()
            opened = Database(path)
        else:
            store = Store(opened, details[0])
            if what == "create":
                store.create("settings", saved(0))
            elif what == "go back":
                store.go_back(store.load(), saved(details[1]), None)
            elif what == "issue":
                store.issue(store.load(), issue(details[1]))
            else:
                append(store, details[1])
        acknowledge(number)
    opened.close()


def found_in(path):
    """The ids of each stream, and how many states are wrong; everything is checked."""
    ids, wrong = {}, 0
    with Database(path) as opened:
        for name in opened.streams():
            store = Store(opened, name)
            head = store.load()
            store.verify(head)
            ids[name] = [entry.id for _, entry in store.batches(1, head.saved.stage)]
            ids[ISSUED + name] = [one.id for one in store.issues()]
            wrong += head.saved != saved(len(ids[name]))
            wrong += any(store.issued(one) != issue(one) for one in ids[ISSUED + name])
    return ids, wrong


def judge(path, states, last, total):
    """Adds to the totals what is found after the last acknowledged commit."""
    allowed = states[last : last + 2]
    total["points"] += 1
    try:
        ids, wrong = found_in(path)
        with Database(path) as opened:  # and it goes on from there
            store = Store(opened, "main")
            if store.settings is None:
                store.create("settings", saved(0))
            append(store, ["one more"])
        again, wrong_again = found_in(path)
    except StoreError as error:
        total["refused"] += 1
        print(f"refused after commit {last}: {error}", file=sys.stderr)
        return
    lost = [name for name, kept in states[last].items() if len(ids.get(name, ())) < len(kept)]
    total["lost"] += bool(lost) and ids not in allowed
    total["counted twice"] += any(len(set(names)) < len(names) for names in ids.values())
    total["wrong"] += ids not in allowed or bool(wrong)
    total["wrong afterwards"] += bool(wrong_again) or again != {
        f"{ISSUED}main": [], **ids, "main": [*ids.get("main", ()), "one more"],
    }  # fmt: skip
    total["commits under way that count"] += ids != states[last]


def crash(shim, folder, points, rng):
    """Kills at every change of one plan after the other, in random order, at so many points."""
    total = Counter()
    while total["points"] < points:
        commits, states = plan(rng, 24)
        path = str(folder / "whole.db")
        shim.watch(path.encode(), -1)
        work(path, commits, lambda number: None)
        changes = shim.changes_so_far()
        shim.watch(b"", -1)
        for place in rng.permutation(3 * changes)[: points - total["points"]].tolist():
            path = str(folder / "crash.db")
            last = killed(shim, path, commits, *divmod(place, 3))
            judge(path, states, last, total)
            remove(path)
        remove(str(folder / "whole.db"))
    return total


def killed(shim, path, commits, number, where):
    """The last commit that a process acknowledged before it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            shim.watch(path.encode(), -1)
            shim.die_at(number, where)
            work(path, commits, lambda done: os.write(writing, bytes([done])))
        finally:
            os._exit(1)
    os.close(writing)
    told = b""
    while more := os.read(reading, 4096):
        told += more
    os.close(reading)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL, number
    return told[-1] if told else 0


class Disk:
    """What a file holds for sure, and what it may hold: the versions of each sector."""

    def __init__(self):
        self.exists, self.sure, self.pending = False, b"", []

    def change(self, kind, place, data):
        if kind == "s":
            self.sure, self.pending = self.now(len(self.pending)), []
        else:
            self.exists = True
            self.pending.append((kind, place, data))

    def now(self, count):
        """The content if the first so many pending changes have all reached the disk."""
        content = bytearray(self.sure)
        for kind, place, data in self.pending[:count]:
            if kind == "t":
                del content[place:]
                content.extend(bytes(place - len(content)))
            else:
                content.extend(bytes(max(0, place - len(content))))
                content[place : place + len(data)] = data
        return bytes(content)

    def after_power_loss(self, rng):
        """The length as of some moment since; each sector as of some moment since."""
        count = len(self.pending)
        # All, none, or some; a cut of the file may undo what a sector held.
        moments = sorted({0, count, *rng.integers(0, count + 1, 6).tolist()})
        versions = [self.now(moment) for moment in moments]
        content = bytearray(versions[int(rng.integers(len(versions)))])
        eager = rng.choice([0.0, 0.3, 0.7, 1.0])  # how much of it the system has written already
        for start in range(0, len(content), SECTOR):
            version = versions[-1 if rng.random() < eager else int(rng.integers(len(versions)))]
            piece = version[start : start + SECTOR]
            end = min(start + SECTOR, len(content))
            content[start:end] = piece[: end - start].ljust(end - start, b"\0")
        return bytes(content)


def recorded(shim, path, commits):
    """All changes of a run, in order."""
    with open(f"{path}.record", "w+b", buffering=0) as record:
        shim.watch(path.encode(), record.fileno())
        work(path, commits, shim.acknowledge)
        shim.watch(b"", -1)
        data = Path(f"{path}.record").read_bytes()
    place, entries = 0, []
    while place < len(data):
        kind, file, where, size = HEAD.unpack_from(data, place)
        place += HEAD.size
        entries.append((kind.decode(), file.decode(), where, data[place : place + size]))
        place += size
    return entries


def power(shim, folder, points, rng):
    """Loses power after changes of one plan after the other, twice for each; see `Disk`."""
    total = Counter()
    while total["points"] < points:
        commits, states = plan(rng, 24)
        path = str(folder / "whole.db")
        entries = recorded(shim, path, commits)
        disks, deleted, last = {file: Disk() for file in FILES}, {}, 0
        count = min(2 * len(entries), points - total["points"])
        times = np.bincount(rng.integers(len(entries), size=count), minlength=len(entries))
        for (kind, file, place, data), visits in zip(entries, times, strict=True):
            if kind == "a":
                last = place
            elif kind == "u":
                deleted[file], disks[file] = disks[file], Disk()
            else:
                disks[file].change(kind, place, data)
            if kind == "s":  # forces also what was done to folders to the disk
                deleted.clear()
            for _ in range(visits):
                lost = str(folder / "power.db")
                for each, suffix in FILES.items():
                    disk = disks[each]
                    if each in deleted and rng.random() < 0.5:
                        disk = deleted[each]
                    if disk.exists:
                        Path(lost + suffix).write_bytes(disk.after_power_loss(rng))
                judge(lost, states, last, total)
                remove(lost)
        remove(path)
    return total


def remove(path):
    opened_file._all.clear()  # files of this name come and go
    for suffix in (*FILES.values(), "-shm", ".record"):
        Path(path + suffix).unlink(missing_ok=True)


def writer(path, name, pipe):
    """Appends batch after batch, and tells of each; those of its predecessor's end again."""
    opened = Database(path)
    store = Store(opened, "main")
    number = 0
    while store.find(f"{name} {number}") is not None:
        number += 1
    number = max(0, number - 3)
    while True:
        with opened.transaction():
            if store.find(f"{name} {number}") is None:
                append(store, [f"{name} {number}"])
        os.write(pipe, f"{name} {number}\n".encode())
        number += 1


def start_writer(path, name):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            writer(path, name, writing)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(1)
    os.close(writing)
    return child, reading


def writers(_, folder, kills, rng):
    """Four processes write to one file; again and again one is killed, and replaced by another."""
    path, total, told = str(folder / "writers.db"), Counter(), []
    with Database(path) as opened:
        Store(opened, "main").create("settings", saved(0))
    running = [start_writer(path, str(who)) for who in range(4)]
    for number in range(kills + len(running)):
        who = number - kills if number >= kills else int(rng.integers(len(running)))
        until = time.monotonic() + rng.uniform(0.0, 0.06)
        while (left := until - time.monotonic()) > 0:
            ready = select.select([pipe for _, pipe in running], [], [], left)[0]
            told += [os.read(pipe, 65536) for pipe in ready]
        child, pipe = running[who]
        os.kill(child, signal.SIGKILL)
        while more := os.read(pipe, 65536):
            told.append(more)
        os.close(pipe)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        total["points"] += 1
        if number < kills:
            running[who] = start_writer(path, str(who))
        else:
            running[who] = (0, os.open(os.devnull, os.O_RDONLY))
    acknowledged = {line for part in told for line in part.decode().splitlines()}
    ids, wrong = found_in(path)
    found = Counter(ids["main"])
    total["acknowledged"] = len(acknowledged)
    total["lost"] = len(acknowledged - set(found))
    total["counted twice"] = sum(times > 1 for times in found.values())
    total["wrong"] = wrong
    total["refused"] = 0
    return total


def main(library, folder, kind, points, seed):
    shim = None if library == "-" else ctypes.CDLL(library)
    if shim is not None:
        shim.watch.argtypes = [ctypes.c_char_p, ctypes.c_int]
        shim.die_at.argtypes = [ctypes.c_long, ctypes.c_int]
        shim.acknowledge.argtypes = [ctypes.c_long]
        shim.changes_so_far.restype = ctypes.c_long
    kinds = {"crash": crash, "power": power, "writers": writers}
    total = kinds[kind](shim, Path(folder), int(points), np.random.default_rng(int(seed)))
    print(json.dumps(total))


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main(*sys.argv[1:])

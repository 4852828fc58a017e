"""A damaged file: what is good in it becomes a new file, and what was lost is said."""

import dataclasses
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from postgrad.errors import StoreError
from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.batch_rows import BatchRows
from postgrad.store.changes.event_rows import EventRows
from postgrad.store.changes.issue_rows import IssueRows
from postgrad.store.changes.migrations import EARLIER, INSTEAD
from postgrad.store.commit_marker import CommitMarker
from postgrad.store.database import Database
from postgrad.store.recovery.checking import PARTS, Checked, check, must_exist
from postgrad.store.recovery.pages import Pages
from postgrad.store.recovery.replacing import copy, keep, nobody_else, replace
from postgrad.store.recovery.salvage import Salvage, StreamPart
from postgrad.store.state_rows import StateRows
from postgrad.store.stored_state import (
    MISSING,
    WENT_BACK,
    Commit,
    Event,
    StoredState,
    StreamHead,
)

# So many ids are named in words.
_NAMED = 20


@dataclass(frozen=True)
class StreamRecovery:
    """What became of a stream.

    Attributes:
        number: The number that the stream had in the damaged file.
        name: The name; None if it is lost, and then the whole stream is.
        stages: How many batches there were, as far as can be known.
        kept: How many batches were kept: all up to the first that is damaged.
        state: The last of these stages whose state is good; later ones are learned again.
        missing: How many later commits were acknowledged of which nothing is left. A commit has
            at most one batch, or one issued decision, of a stream; one that went back has none.
        lost_ids: The ids of lost batches, where they are good; None for those without an id.
        lost_events: How many events on record (`Agent.events`) are known to be lost.
        issued: How many decisions that were issued under ids were kept: all that are good.
        lost_issued: How many others are known to be lost.
    """

    number: int
    name: str | None
    stages: int
    kept: int
    state: int
    missing: int
    lost_ids: tuple[str | None, ...]
    lost_events: int
    issued: int
    lost_issued: int

    @property
    def lost(self) -> int:
        """How many batches are known to be lost, those of missing commits aside."""
        return self.stages - self.kept

    def __str__(self) -> str:
        name = f"stream {self.number}, whose name is lost" if self.name is None else repr(self.name)
        if not self.lost and not self.missing and self.name is not None:
            text = f"{name}: all {self.kept} batches were kept"
        else:
            text = f"{name}: {self.kept} of {self.stages} batches were kept"
        if self.lost:
            text += f"; lost are the batches of stages {self.kept + 1} to {self.stages}"
            ids = [name for name in self.lost_ids if name is not None]
            if ids:
                more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
                text += f", with the ids {', '.join(map(repr, ids[:_NAMED]))}{more}"
            if len(ids) < self.lost:
                text += f" ({self.lost - len(ids)} without an id, or with one that is lost too)"
        if self.missing:
            what = "batches or issued decisions" if self.issued else "batches"
            text += f"; up to {self.missing} later {what}, which were acknowledged, left no trace"
        if self.lost_events:
            text += f"; lost are {self.lost_events} of the events on record besides batches"
        if self.lost_issued:
            count = self.issued + self.lost_issued
            text += f"; lost are {self.lost_issued} of {count} decisions issued under an id"
        if self.state < self.kept:
            text += f"; the next agent learns stages {self.state + 1} to {self.kept} again"
        return text


@dataclass(frozen=True)
class Recovery:
    """What a recovery has done.

    Attributes:
        path: The file.
        problems: What was damaged or missing; if nothing was, nothing was done.
        streams: What became of each stream.
        folder: Where the damaged files are; None if nothing was done.
    """

    path: str
    problems: tuple[str, ...]
    streams: tuple[StreamRecovery, ...]
    folder: Path | None

    def __str__(self) -> str:
        if self.folder is None:
            return f"{self.path} is not damaged; nothing was done"
        lines = [f"{self.path} was damaged:", *(f"  {problem}" for problem in self.problems)]
        lines += ["Recovered:", *(f"  {stream}" for stream in self.streams)]
        lines.append(f"The damaged files are kept in {self.folder}")
        if any(stream.lost or stream.missing for stream in self.streams):
            lines.append("Observe again, with the same ids, what was lost")
        return "\n".join(lines)


def recover(path: str | os.PathLike[str]) -> Recovery:
    """Put in the place of a damaged file one that holds what is good in it.

    Of each stream that is all batches up to the first damaged one, and the states up to there. The
    damaged files are kept. No problem is needed: where the latest state is lost, the next agent
    learns again from the last good one.

    Raises:
        StoreError: If the file is in use, or nothing in it is good. It is then as it was.
    """
    must_exist(path)
    path = os.path.realpath(os.fspath(path))
    with nobody_else(path):
        work = tempfile.mkdtemp(prefix=f"{os.path.basename(path)}-recovering-", dir=_folder(path))
        try:
            problems = _check_copy(path, os.path.join(work, "checked.db")).problems
            if not problems:
                return Recovery(path, (), (), None)
            problems = tuple(
                text.replace(os.path.join(work, "checked.db"), path) for text in problems
            )
            new = os.path.join(work, "new.db")
            streams = _rebuilt(path, new)
            _must_be_good(new, streams)
            folder = keep(path, "damaged")
            replace(path, new)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Recovery(path, problems, streams, folder)


def _folder(path: str) -> str:
    return os.path.dirname(path)


def _check_copy(path: str, place: str) -> Checked:
    """Check a copy: not even a file of shared memory is made beside what may be damaged."""
    for suffix in PARTS:
        if os.path.exists(path + suffix):
            copy(path + suffix, place + suffix)
    return check(place)


def _rebuilt(path: str, new: str) -> tuple[StreamRecovery, ...]:
    """Make a new file of what is good."""
    marks, pages = CommitMarker(path).read(), Pages(Path(path), all_frames=False)
    source, version = Salvage(pages, marks), int.from_bytes(pages.page(1)[60:64], "big")
    if version in EARLIER and not source.has_states:  # else the number itself is damaged
        raise StoreError(
            f"{path}: its format, {version}, is of an earlier postgrad, of which nothing can be "
            f"recovered; {INSTEAD}. It is as it was"
        )
    parts = [(part, source) for part in source.streams()]
    if any(part.missing or part.stages > len(part.places) for part, _ in parts):
        parts = _with_all_frames(path, parts)
    if not any(part.name is not None for part, _ in parts):
        raise StoreError(f"{path}: nothing in it is good; restore a backup. It is as it was")
    done = []
    with Database(new) as database, database.transaction():
        number = 0
        for part, good in parts:
            if part.name is None:
                done.append(
                    StreamRecovery(
                        part.number,
                        None,
                        part.stages,
                        0,
                        0,
                        part.missing,
                        _ids(part, good),
                        part.lost_events,
                        0,
                        len(part.issues) + part.lost_issues,
                    )
                )
            else:
                number += 1
                done.append(_insert(database, number, part, good))
    return tuple(done)


def _with_all_frames(
    path: str, parts: list[tuple[StreamPart, Salvage]]
) -> list[tuple[StreamPart, Salvage]]:
    """Take a stream from the log behind damaged pages if it is all that was acknowledged."""
    marks = CommitMarker(path).read()
    more = Salvage(Pages(Path(path), all_frames=True), marks)
    better = {part.number: part for part in more.streams()}
    chosen = []
    for part, good in parts:
        other, mark = better.get(part.number), marks.get(part.number)
        whole = (
            other is not None
            and mark is not None
            and other.name is not None
            and not other.missing
            and (other.commits, other.chains[-1]) == (mark.commits, mark.chain)
        )
        chosen.append((other, more) if whole and other is not None else (part, good))
    return chosen


def _ids(part: StreamPart, good: Salvage) -> tuple[str | None, ...]:
    """The ids of all batches of a stream that is lost as a whole."""
    return (*(good.batch(place)[0].id for place in part.places), *part.lost_ids)


def _insert(database: Database, number: int, part: StreamPart, good: Salvage) -> StreamRecovery:
    """Insert a stream, under a number that may be another, so that checksums are made anew."""
    assert part.name is not None
    database.insert("streams", number, part.name, part.settings)
    batches = BatchRows(database, number)
    states = StateRows(database, number, ArrayHeaders(database))
    chains = [batches.chain(0)]
    for stage, place in enumerate(part.places, start=1):
        batch, _ = good.batch(place)
        chains.append(batches.next_chain(chains[-1], stage, batch))
        batches.insert(stage, batch, chains[-1])
    kept = len(part.places)
    events, good_states = _events(part), _states(part)
    for event_number, event in enumerate(events, start=1):
        EventRows(database, number).insert(event_number, event)
    for since in {state.saved.fixed_since for state in good_states} - {0}:
        states.insert_fixed_arrays(since, *good.fixed[part.number, since])
    issues = IssueRows(database, number)
    for issue_number, place in enumerate(part.issues, start=1):
        issues.insert(issue_number, good.issue(place)[0])
    last = good_states[-1] if good_states else None
    commits = part.commits + part.missing + 1
    if last is not None and last.saved.stage == kept:
        saved = last.saved
    else:
        saved = StoredState(kept, MISSING, b"", MISSING, b"", b"", 0)
    for state in good_states:
        if state.saved.stage > 0 and state.saved is not saved:
            states.insert(
                "checkpoints", dataclasses.replace(state, chain=chains[state.saved.stage])
            )
    head = StreamHead(saved, commits, chains[-1], len(events), len(part.issues))
    states.insert("heads", head)
    database.note(Commit(number, None, head))
    return StreamRecovery(
        part.number, part.name, part.stages, kept,
        last.saved.stage if last is not None else 0, part.missing, part.lost_ids, part.lost_events,
        len(part.issues), part.lost_issues,
    )  # fmt: skip


def _events(part: StreamPart) -> list[Event]:
    """The events to keep: all; if some are later than the last batch, with one that undoes them.

    What they say about batches that were kept, such as corrections, is still so.
    """
    kept = len(part.places)
    if all(event.stage <= kept for event in part.events):
        return list(part.events)
    last = max(part.stages, *(event.stage for event in part.events))
    return [*part.events, Event(kept, time.time(), WENT_BACK, json.dumps({"from": last}))]


def _states(part: StreamPart) -> tuple[StreamHead, ...]:
    """The states to keep: those that mean what they meant.

    Of what the settings say now, states before a later event may not be; nor states before an event
    that is lost. Where none is kept, the next agent learns all batches again.
    """
    kept = len(part.places)
    if any(event.stage > kept for event in part.events):
        return ()
    if part.lost_events:
        return tuple(state for state in part.states[-1:] if state.saved.stage == kept)
    return part.states


def _must_be_good(new: str, streams: tuple[StreamRecovery, ...]) -> None:
    """Check what was made.

    Raises:
        StoreError: If it is not good: then this program, or the disk, is not.
    """
    found = check(new)
    expected = {stream.name: stream.kept for stream in streams if stream.name is not None}
    if found.problems or found.stages != expected:
        raise StoreError(
            f"{new}: what was recovered is damaged itself: {'; '.join(found.problems)}"
        )

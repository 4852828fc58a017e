"""What is on record about a stream besides its batches, and what follows from it."""

import base64
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from postgrad.store import WENT_BACK, Batch, Event

# The kinds of events. All but other versions replace the state, so that the stages up to them are
# not what the state follows from.
VERSIONS, ANEW, RELEARNED = "versions", "search anew", "relearned"
CORRECTED, WITHDRAWN, CHANGED = "corrected", "withdrawn", "changed"


@dataclass(frozen=True)
class StreamEvent:
    """Something that happened to an agent between two batches; `str()` puts it in words.

    Attributes:
        stage: How many batches had been observed.
        time: When it happened.
        kind: What happened: "versions", "search anew", "relearned", "corrected", "withdrawn",
            "changed" or "went back".
        details: What there is to say about it.
    """

    stage: int
    time: datetime
    kind: str
    details: dict[str, Any]

    def __str__(self) -> str:
        said = self.details
        words = {
            VERSIONS: lambda: f"computed by other versions from here on ({said['differences']})",
            ANEW: lambda: "the search began anew: its stored state is of another version",
            RELEARNED: lambda: "what is believed was learned again from all batches",
            CORRECTED: lambda: f"batch {said['id']!r} of stage {said['batch']} was corrected",
            WITHDRAWN: lambda: f"batch {said['id']!r} of stage {said['batch']} was withdrawn",
            CHANGED: lambda: f"the problem was changed: {'; '.join(said['differences'])}",
            WENT_BACK: lambda: f"went back here from stage {said['from']}",
        }[self.kind]()
        return f"after stage {self.stage}, on {self.time:%Y-%m-%d %H:%M} UTC: {words}"


@dataclass(frozen=True)
class Correction:
    """What was on record of a batch before it was corrected or withdrawn.

    Attributes:
        event: The number of the event.
        rows: The observations before, as bytes.
        x: The decision in force before, as bytes; None if the caller did not name one.
        stage: How many batches had been observed when it was corrected.
        time: When.
        withdrawn: Whether the batch was withdrawn.
    """

    event: int
    rows: bytes
    x: bytes | None
    stage: int
    time: datetime
    withdrawn: bool


def event(stage: int, kind: str, **details: Any) -> Event:
    """An event that happens now."""
    return Event(stage, time.time(), kind, json.dumps(details))


def correction_event(
    stage: int, kind: str, number: int, batch: Batch, decision: np.ndarray
) -> Event:
    """The event that the batch of a stage is replaced: what was on record of it so far.

    Args:
        stage: How many batches have been observed.
        kind: `CORRECTED` or `WITHDRAWN`.
        number: The stage of the batch.
        batch: The batch so far.
        decision: The decision that was sought anew.
    """
    x = None if batch.x is None else _text(batch.x)
    details = {"id": batch.id, "batch": number, "rows": _text(batch.rows), "x": x}
    return event(stage, kind, **details, decision=np.asarray(decision).tolist())


class EventLog:
    """The events of a stream.

    Attributes:
        all: All events, in the order in which they happened.
        in_force: (number, event) of those that have not been undone by going back.
    """

    def __init__(self, rows: Iterable[Event], created: dict[str, str] | None):
        """Args: the events as stored, and the versions that the stream was created by."""
        self._created = created
        self.all = tuple(
            StreamEvent(
                row.stage,
                datetime.fromtimestamp(row.time, UTC),
                row.kind,
                dict(json.loads(row.content)),
            )
            for row in rows
        )
        self.in_force: list[tuple[int, StreamEvent]] = []
        self._corrections: dict[int, list[Correction]] = {}
        for number, one in enumerate(self.all, start=1):
            self._take(number, one)

    def _take(self, number: int, one: StreamEvent) -> None:
        str(one)  # fails here if it is not what postgrad writes
        said = one.details
        if one.kind == WENT_BACK:
            self.in_force = [(n, kept) for n, kept in self.in_force if kept.stage <= one.stage]
            self._corrections = {k: c for k, c in self._corrections.items() if k <= one.stage}
        elif one.kind in (CORRECTED, WITHDRAWN):
            x = None if said["x"] is None else _bytes(said["x"])
            is_withdrawn = one.kind == WITHDRAWN
            before = Correction(number, _bytes(said["rows"]), x, one.stage, one.time, is_withdrawn)
            self._corrections.setdefault(said["batch"], []).append(before)
        self.in_force.append((number, one))

    @property
    def last_break(self) -> int:
        """The last stage at which something else than a batch replaced the state; 0 if none."""
        return max((one.stage for _, one in self.in_force if one.kind != VERSIONS), default=0)

    def rebound(self, until: int | None = None) -> int:
        """The last stage up to which stored states mean something else, as of an event or today."""
        found = ((number, one) for number, one in self.in_force if one.details.get("rebound"))
        return max((one.stage for n, one in found if until is None or n < until), default=0)

    def after(self, stage: int) -> bool:
        """Whether anything that has not been undone happened after a stage."""
        return any(one.stage > stage for _, one in self.in_force)

    def decision(self, stage: int) -> np.ndarray | None:
        """The decision in force after a stage, if an event there has replaced it."""
        for _, one in reversed(self.in_force):
            if one.stage == stage and "decision" in one.details:
                return np.asarray(one.details["decision"], float)
        return None

    @property
    def first_decision(self) -> np.ndarray | None:
        """x_1, if the agent is made with another one since."""
        for one in self.all:
            if one.kind == CHANGED:
                return np.asarray(one.details["x"], float)
        return None

    def changed(self, number: int) -> StreamEvent:
        """The event of a number."""
        return self.all[number - 1]

    @property
    def changes(self) -> int:
        """How often the problem was changed."""
        return sum(one.kind == CHANGED for one in self.all)

    def corrections(self, stage: int) -> tuple[Correction, ...]:
        """What was on record of the batch of a stage before each of its corrections."""
        return tuple(self._corrections.get(stage, ()))

    def as_of(self, number: int, stage: int, batch: Batch) -> tuple[bytes, bytes | None]:
        """The observations of a stage's batch, and its x, as they were before an event."""
        for before in self._corrections.get(stage, ()):
            if before.event >= number:
                return before.rows, before.x
        return batch.rows, batch.x

    def versions_since(self, stage: int) -> list[dict[str, str] | None]:
        """The versions that computed the stages after `stage`, as far as known, in order."""
        found = [self.versions(stage)]
        for _, one in self.in_force:
            if one.kind == VERSIONS and one.stage > stage:
                found.append(one.details["versions"])
        return found

    def versions(self, stage: int) -> dict[str, str] | None:
        """The versions that computed the stage after `stage`, as far as known."""
        found = self._created
        for _, one in self.in_force:
            if one.kind == VERSIONS and one.stage <= stage:
                found = one.details["versions"]
        return found


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)

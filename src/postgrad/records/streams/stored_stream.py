"""A stream as it is stored, for reading alone: no JAX, and nothing is computed."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from postgrad.records.alarm import Alarm
from postgrad.records.answer import size_of_answer
from postgrad.records.explanation import (
    Explanation,
    StageReport,
    explained,
    interval_of,
    spreads_of,
)
from postgrad.records.issued import IssuedDecision, read_issued
from postgrad.records.moments import read_moments
from postgrad.records.outlook import Outlook
from postgrad.records.record import Record
from postgrad.records.settings import created_by, read_settings
from postgrad.records.streams.stored_record import (
    Shapes,
    alarm_of,
    issued_after,
    issued_first,
    record_of,
)
from postgrad.records.streams.stream_events import EventLog, StreamEvent
from postgrad.records.surprise import Surprise
from postgrad.store import Database, Issue, Store
from postgrad.store.array_codec import decode

# Where the arrays of a stage's report are that are told.
_SURPRISE, _OUTLOOK = "learn.learned.surprise.", "descend.descended.outlook."
_COURSE = "descend.descended.course."
_RANKS, _AHEAD = Surprise.__dataclass_fields__, Outlook.__dataclass_fields__
_TOLD = {
    *(_SURPRISE + name for name in _RANKS),
    *(_OUTLOOK + name for name in _AHEAD),
    *(_COURSE + name for name in ("settled", "local_only")),
}


class StoredStream:
    """One stream of a file. It tells what an `Agent` tells, as of one moment.

    To be used in a `Database.snapshot`.

    Attributes:
        notes: What the stream's agent was told to note: see `Agent`; None if nothing.
        stage: How many batches were observed.
    """

    def __init__(self, database: Database, name: str):
        """Find the stream.

        Raises:
            StoreError: If the file is damaged.
        """
        self._database, self._store = database, Store(database, name)
        with database.reading():
            settings = self._store.settings or "{}"
            kept = read_settings(settings)
            self.notes: Any = kept.get("notes")
            self._head = self._store.load()
            saved = self._head.saved
            self.stage = saved.stage
            self._told = {} if saved.is_missing else decode(saved.report_header, saved.report)
            self._start = np.asarray(kept.get("start", np.nan), float)
            event = self._told.get(f"{_SURPRISE}pit_location", self._start)
            self._shapes = Shapes(self._start.shape, event.shape)
            rows = self._store.events(self._head) if self._head.events else []
            self._log = EventLog(rows, created_by(settings))

    @property
    def is_whole(self) -> bool:
        """Whether all that there is to tell is stored: not by earlier versions, nor at first."""
        with self._database.reading():
            told = self._told
            if self.stage == 0 or not told.keys() >= _TOLD or not read_moments(told, "after"):
                return False
            _, batch = next(self._store.batches(self.stage, self.stage))
            known = not np.isnan(self._start).any()
            return bool(known) and size_of_answer(*self._shapes) == len(batch.answer)

    @property
    def tells_last_move(self) -> bool:
        """Whether mean and spread before the last batch are stored: not after a correction."""
        with self._database.reading():
            return bool(read_moments(self._told, "before"))

    @property
    def decision(self) -> np.ndarray:
        """The decision in force."""
        return self._issued(self.stage)[()]

    def issued(self, name: str) -> IssuedDecision | None:
        """The decision that was issued under an id; None if there is none.

        Raises:
            StoreError: If it is damaged.
        """
        return self._read_issued(self._store.issued(name))

    def last_issued(self) -> IssuedDecision | None:
        """The decision that was issued last under an id; None if there is none.

        Raises:
            StoreError: If it is damaged or missing.
        """
        return self._read_issued(self._store.last_issued())

    def _read_issued(self, issue: Issue | None) -> IssuedDecision | None:
        with self._database.reading():
            return None if issue is None else read_issued(issue, self._shapes.decision)

    @property
    def interval(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the best decision lies, with 95 % entry by entry; None where nothing tells."""
        with self._database.reading():
            return interval_of(self._outlook)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What was noticed so far: data that do not look like the model."""
        with self._database.reading():
            return tuple(alarm_of(text) for _, text in self._store.alarms())

    @property
    def events(self) -> tuple[StreamEvent, ...]:
        """What happened besides batches: other versions, corrections, changes."""
        return self._log.all

    def history(self, last: int | None = None, *, first: int = 1) -> Iterator[Record]:
        """What was observed and decided, read as it is asked for.

        Args:
            last: Only so many of the latest batches.
            first: Only batches from this stage on.

        Raises:
            StoreError: At the first batch that is damaged.
        """
        first = max(first, 1 if last is None else self.stage - last + 1)
        issued = issued_first(self._start, self._log)
        for stage, batch in self._store.batches(max(first - 1, 1), self.stage):
            with self._database.reading():
                record = record_of(stage, batch, issued, self._log, self._shapes)
                issued = issued_after(stage, batch, self._log, self._shapes)
            if stage >= first:
                yield record

    def explain(self) -> Explanation:
        """The decision, what moved it and what is uncertain about it; `str()` puts it in words."""
        told = self._told
        with self._database.reading():
            report = StageReport(
                surprise=Surprise(
                    *(told[f"{_SURPRISE}{n}"] for n in Surprise.__dataclass_fields__)
                ),
                outlook=self._outlook,
                settled=float(told[f"{_COURSE}settled"]),
                local_only=bool(told[f"{_COURSE}local_only"]),
                before=spreads_of(read_moments(told, "before")),
                after=spreads_of(read_moments(told, "after")),
            )
        (last,) = self.history(1)
        before = self._issued(self.stage - 1)
        return explained(report, last, self._issued(self.stage), before, self.alarms, self.events)

    @property
    def _outlook(self) -> Outlook:
        return Outlook(*(self._told[_OUTLOOK + name] for name in _AHEAD))

    def _issued(self, stage: int) -> np.ndarray:
        """The decision in force after a stage."""
        if stage == 0:
            return issued_first(self._start, self._log)
        _, batch = next(self._store.batches(stage, stage))
        with self._database.reading():
            return issued_after(stage, batch, self._log, self._shapes)

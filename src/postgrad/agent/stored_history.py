"""A stream's past: told from what is stored, and computed again, batch by batch."""

import dataclasses
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from postgrad.agent.changes.relearning import Relearning
from postgrad.agent.changes.versions import versions_now
from postgrad.agent.decisions.occasions import as_text
from postgrad.agent.pooling.membership import Membership
from postgrad.agent.state_codec import StateCodec
from postgrad.beliefs.belief import Belief
from postgrad.engine.occasion import Occasion
from postgrad.engine.snapshot import Snapshot, Solved
from postgrad.engine.stream import Stream
from postgrad.monitoring.assumptions import AssumptionFailedError, AssumptionWarning
from postgrad.records.alarm import Alarm
from postgrad.records.record import Record
from postgrad.records.streams.stored_record import alarm_of, record_of
from postgrad.records.streams.stream_events import RELEARNED
from postgrad.store import Batch, StaleStateError, Store

Told = TypeVar("Told")
# The occasion of a batch, given what is known before it.
When = Callable[[Snapshot], Occasion]


class _Stage(NamedTuple):
    """A stage that was computed before its batch was observed."""

    before: Snapshot
    data: tuple[bytes, bytes | None, str | None]
    after: Snapshot


class StoredHistory(Relearning):
    """What can be told of the past."""

    def __init__(
        self,
        stream: Stream,
        codec: StateCodec,
        store: Store,
        until: int | None = None,
        membership: Membership | None = None,
    ):
        """See `Relearning`."""
        super().__init__(stream, codec, store, until, membership)
        self._prepared: deque[_Stage] = deque()

    def records(self, first: int, end: int) -> Iterator[Record]:
        """Batches and what came of them, from one stage to another, read as they are asked for.

        Raises:
            StaleStateError: If another process has gone back in the stream since this was called.
            StoreError: At the first batch that is damaged.
        """
        return self._records(first, self._store.batches(max(first - 1, 1), end))

    def _records(self, first: int, batches: Iterator[tuple[int, Batch]]) -> Iterator[Record]:
        issued = self.issued(0)
        for stage, batch in batches:
            with self._store.database.reading():
                record = record_of(stage, batch, issued, self.events, self._shapes)
            if stage >= first:
                yield record
            issued = self._issued_after(stage, batch)

    def latest(self, end: int, count: int | None, first: int) -> Iterator[Record]:
        """So many records up to a stage, or all up to it, from one on; see `records`."""
        return self.records(max(first, 1 if count is None else end - count + 1), end)

    def record(self, name: str) -> Record | None:
        """What came of the batch of an id; None if there was none; see `records`."""
        found = self._store.find(name)
        return None if found is None else next(self.records(found[0], found[0]))

    def told(self, what: Iterator[Told]) -> Iterator[Told]:
        """What is told of the past bit by bit, with an error that says why it breaks off.

        Raises:
            StoreError: If another process has gone back in the stream, or at the first batch that
                is damaged.
        """
        try:
            yield from what
        except StaleStateError as error:
            raise self._store.database.error(
                "another process has gone back in the stream, or corrected a batch, while this was "
                "read; ask for it again"
            ) from error

    def alarms(self) -> list[Alarm]:
        """All alarms so far.

        Raises:
            StoreError: If one is damaged.
        """
        with self._store.database.reading():
            return [alarm_of(text) for _, text in self._store.alarms()]

    def snapshot(self, stage: int, known: Snapshot | None = None) -> Snapshot:
        """What was known after a stage, computed from the last snapshot that is at hand.

        Before the last event that replaced the state, what is believed is that of the data as they
        are now, the decision is the one that was in force, and the search knows nothing else.

        Args:
            stage: The stage.
            known: A snapshot of an earlier stage, if there is one.

        Raises:
            StoreError: If a batch is damaged.
        """
        kept = self.kept(stage)
        snapshot = kept if known is None or known.stage < kept.stage else known
        if snapshot.stage < self.events.last_break:
            return self._stream.anew(self.believed(stage, snapshot), self.issued(stage))
        for _, batch in self._store.batches(snapshot.stage + 1, stage):
            snapshot = self.again(snapshot, batch.rows, batch.x, batch.context)
        return snapshot

    def found_again(self, stage: int, rebind: bool) -> tuple[Snapshot, str | None]:
        """The snapshot of the latest stage, which was lost, and the kind of event that it takes.

        No event is needed if the stages are computed as they were, from a snapshot that is kept.
        Otherwise what is believed is learned under the decisions that were really in force.

        Args:
            stage: The stage.
            rebind: Whether what the kept snapshots refer to is something else by today's code.

        Raises:
            StoreError: If a batch is damaged.
        """
        kept = self._stream.start if rebind else self.kept(stage)
        same = kept.stage == stage or self.events.versions_since(kept.stage) == [versions_now()]
        if not rebind and same and kept.stage >= self.events.last_break:
            return self.snapshot(stage, kept), None
        return self._stream.anew(self.believed(stage, kept), self.issued(stage)), RELEARNED

    def again(
        self, before: Snapshot, rows: bytes, x: bytes | None, context: str | None
    ) -> Snapshot:
        """One stage, from a batch as it is stored; see `after`."""
        return self.after(before, *self._data(rows, x), self._occasion(context))

    def prepare(self, now: Snapshot, rows: np.ndarray, x: np.ndarray | None, when: When) -> None:
        """Compute the stage that follows `now`, or the last one prepared, for `after` to find.

        Of a member of a population it is compiled only: the population will be another one.
        """
        if self._membership is not None:
            if self._membership.is_new_size(rows):
                self._computed(now, rows, x, when(now))
            return
        if self._prepared and self._prepared[0].before is not now:
            self._prepared.clear()
        before = self._prepared[-1].after if self._prepared else now
        on = when(before)
        after = self._computed(before, rows, x, on)
        self._prepared.append(_Stage(before, _bytes(rows, x, on), after))

    def after(
        self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None, on: Occasion
    ) -> Snapshot:
        """One stage; where an assumption fails, after learning all batches again without it.

        See `Stream.after`. Which decisions were in force then is what was answered then.

        Raises:
            StoreError: If a batch is damaged.
        """
        if self._prepared:
            stage = self._prepared.popleft()
            if stage.before is before and stage.data == _bytes(rows, x, on):
                return stage.after
            self._prepared.clear()
        return self._computed(before, rows, x, on)

    def _computed(
        self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None, on: Occasion
    ) -> Snapshot:
        try:
            return self._after(before, rows, x, on)
        except AssumptionFailedError as failed:
            again = self._learned_again(before.stage, failed.which)
            new = self._computed(again, rows, before.decision if x is None else x, on)
            return new._replace(warning=AssumptionWarning(new.without & ~before.without))

    def solved(
        self,
        now: Snapshot,
        on: Occasion,
        fixed: dict[Any, float] | None = None,
        previous: np.ndarray | None = None,
    ) -> Solved:
        """The decision for an occasion; without an assumption where that fails: see `Stream.solve`.

        The decision for an occasion is the same whatever was decided before. So what is believed is
        learned again for this decision alone. A member of a population borrows what the others know
        by now.
        """
        try:
            return self._stream.solve(self._lent(now), on, fixed, previous)
        except AssumptionFailedError as failed:
            return self.solved(self._learned_again(now.stage, failed.which), on, fixed, previous)

    def believed_for_decisions(self, now: Snapshot) -> Snapshot:
        """What decisions are made by: of a member of a population, with what it borrows now."""
        return self._lent(now)

    def entry(
        self,
        new: Snapshot,
        name: str | None,
        rows: np.ndarray,
        x: np.ndarray | None,
        context: str | None,
    ) -> Batch:
        """What is kept of a batch, and of what came of it."""
        return Batch(
            id=name,
            time=time.time(),
            x=None if x is None else x.tobytes(),
            rows=rows.tobytes(),
            answer=new.answer,
            alarm=None if new.alarm is None else json.dumps(dataclasses.asdict(new.alarm)),
            context=context,
        )

    def _learned_again(self, stage: int, without: int) -> Snapshot:
        """What was known after a stage, had some assumptions (bits) never been made."""
        snapshot, issued = self._stream.begin(without), self.issued(0)
        if self.events.last_break:
            return self._stream.anew(self.believed(stage, snapshot), self.issued(stage))
        for number, batch in self._store.batches(1, stage):
            rows, x = self._data(batch.rows, batch.x)
            in_force, on = issued if x is None else x, self._occasion(batch.context)
            try:
                snapshot = self._after(snapshot, rows, in_force, on)
            except AssumptionFailedError as failed:
                return self._learned_again(stage, failed.which)
            issued = self._issued_after(number, batch)
        return snapshot

    def beliefs(self, stages: Iterable[int]) -> Iterator[Belief]:
        """What was believed after each of some stages, in order: learned again, without descents.

        Raises:
            StoreError: If a batch is damaged.
        """
        snapshot = self._stream.start
        for stage in sorted(stages):
            kept = self.kept(stage)
            snapshot = self.believed(stage, kept if kept.stage > snapshot.stage else snapshot)
            yield snapshot.belief


def _bytes(
    rows: np.ndarray, x: np.ndarray | None, on: Occasion
) -> tuple[bytes, bytes | None, str | None]:
    return rows.tobytes(), None if x is None else x.tobytes(), as_text(on)

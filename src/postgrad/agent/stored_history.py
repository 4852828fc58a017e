"""A stream's past: told from what is stored, and computed again, batch by batch."""

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

from postgrad.agent.record import Record, Replay
from postgrad.agent.state_codec import StateCodec
from postgrad.beliefs import Belief
from postgrad.engine.stream import Snapshot, Stream
from postgrad.errors import StoreError
from postgrad.monitoring.assumptions import AssumptionFailedError, AssumptionWarning
from postgrad.monitoring.misspecification import Alarm
from postgrad.store import Batch, StaleStateError, Store

Told = TypeVar("Told")


class StoredHistory:
    """What can be told of the past."""

    def __init__(self, stream: Stream, codec: StateCodec, store: Store):
        """Args: what computes stages, what reads stored states, and where the batches are."""
        self._stream, self._codec, self._store = stream, codec, store

    def records(self, first: int, end: int) -> Iterator[Record]:
        """Batches and what came of them, from one stage to another, read as they are asked for.

        Raises:
            StaleStateError: If another process has gone back in the stream since this was called.
            StoreError: At the first batch that is damaged.
        """
        return self._records(first, self._store.batches(max(first - 1, 1), end))

    def _records(self, first: int, batches: Iterator[tuple[int, Batch]]) -> Iterator[Record]:
        issued = self._stream.start.decision
        for stage, batch in batches:
            answer = self._codec.read_answer(batch.answer)
            if stage >= first:
                rows, x = self._data(batch)
                unknown = np.isnan(answer.low).any()
                yield Record(
                    stage=stage,
                    id=batch.id,
                    time=datetime.fromtimestamp(batch.time, UTC),
                    x=(issued if x is None else x)[()],
                    rows=rows,
                    decision=answer.decision[()],
                    interval=None if unknown else (answer.low[()], answer.high[()]),
                    log_predictive=answer.log_predictive / len(rows),
                    surprise=answer.surprise,
                    alarm=None if batch.alarm is None else _alarm(batch.alarm),
                )
            issued = answer.decision

    def latest(self, end: int, count: int | None) -> Iterator[Record]:
        """So many records up to a stage, or all up to it; see `records`."""
        return self.records(1 if count is None else max(1, end - count + 1), end)

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
                "another process has gone back in the stream while this was read; ask for it again"
            ) from error

    def alarms(self) -> list[Alarm]:
        """All alarms so far.

        Raises:
            StoreError: If one is damaged.
        """
        return [_alarm(text) for _, text in self._store.alarms()]

    def snapshot(self, stage: int, known: Snapshot | None = None) -> Snapshot:
        """What was known after a stage, computed from the last snapshot that is at hand.

        Args:
            stage: The stage.
            known: A snapshot of an earlier stage, if there is one.

        Raises:
            StoreError: If a batch is damaged.
        """
        kept = self._kept(stage)
        snapshot = kept if known is None or known.stage < kept.stage else known
        for _, batch in self._store.batches(snapshot.stage + 1, stage):
            snapshot = self._again(snapshot, batch)
        return snapshot

    def after(self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None) -> Snapshot:
        """One stage; where an assumption fails, after learning all batches again without it.

        See `Stream.after`. Which decisions were in force then is what was answered then.

        Raises:
            StoreError: If a batch is damaged.
        """
        try:
            return self._stream.after(before, rows, x)
        except AssumptionFailedError as failed:
            again = self._learned_again(before.stage, failed.which)
            new = self.after(again, rows, before.decision if x is None else x)
            return new._replace(warning=AssumptionWarning(new.without & ~before.without))

    def _learned_again(self, stage: int, without: int) -> Snapshot:
        """What was known after a stage, had some assumptions (bits) never been made."""
        snapshot, issued = self._stream.begin(without), self._stream.start.decision
        for _, batch in self._store.batches(1, stage):
            rows, x = self._data(batch)
            try:
                snapshot = self._stream.after(snapshot, rows, issued if x is None else x)
            except AssumptionFailedError as failed:
                return self._learned_again(stage, failed.which)
            issued = self._codec.read_answer(batch.answer).decision
        return snapshot

    def beliefs(self, stages: Iterable[int]) -> Iterator[Belief]:
        """What was believed after each of some stages, in order.

        Raises:
            StoreError: If a batch is damaged.
        """
        snapshot = None
        for stage in sorted(stages):
            snapshot = self.snapshot(stage, snapshot)
            yield snapshot.belief

    def replay(self, now: Snapshot, since: int) -> Replay:
        """Computes stages again and compares with what is stored, and the last with what is known.

        Raises:
            StoreError: If a batch is damaged.
        """
        snapshot = self._kept(since)
        start, different = snapshot.stage, None
        for stage, batch in self._store.batches(start + 1, now.stage):
            snapshot = self._again(snapshot, batch)
            if snapshot.answer != batch.answer and different is None:
                different = stage
        if different is None and self._codec.save(snapshot) != self._codec.save(now):
            different = snapshot.stage + 1
        return Replay(start + 1, snapshot.stage - start, different is None, different)

    def _kept(self, stage: int) -> Snapshot:
        """The last snapshot that is kept and not after a stage."""
        while (kept := self._store.checkpoint(stage)) is not None:
            with suppress(StoreError):  # they were there: another process has thinned them out
                return self._codec.restore(kept, self._store.fixed_arrays(kept))
        return self._stream.start

    def _again(self, before: Snapshot, batch: Batch) -> Snapshot:
        return self.after(before, *self._data(batch))

    def _data(self, batch: Batch) -> tuple[np.ndarray, np.ndarray | None]:
        """The observations of a batch, and the decision in force, if the caller named one."""
        rows = np.frombuffer(batch.rows, "<f8").reshape(-1, *self._stream.event_shape)
        if batch.x is None:
            return rows, None
        return rows, np.frombuffer(batch.x, "<f8").reshape(self._stream.start.decision.shape)


def _alarm(text: str) -> Alarm:
    numbers = json.loads(text)
    return Alarm(**{**numbers, "coordinate": tuple(numbers["coordinate"])})

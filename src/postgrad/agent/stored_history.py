"""A stream's past: told from what is stored, and computed again, batch by batch."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

import numpy as np

from postgrad.agent.record import Record, Replay, interval
from postgrad.agent.stored_state import StateCodec
from postgrad.beliefs import Belief
from postgrad.engine.stream import Snapshot, Stream
from postgrad.monitoring.misspecification import Alarm
from postgrad.store import Batch, Store


class StoredHistory:
    """What can be told of the past."""

    def __init__(self, stream: Stream, codec: StateCodec, store: Store):
        """Args: what computes stages, what reads stored states, and where the batches are."""
        self._stream, self._codec, self._store = stream, codec, store

    def records(self, first: int, end: int) -> Iterator[Record]:
        """Batches and what came of them, from one stage to another, read as they are asked for.

        Raises:
            StoreError: At the first batch that is damaged.
        """
        issued = self._stream.start.decision
        feasible = self._stream.policy.problem.feasible
        for stage, batch in self._store.batches(max(first - 1, 1), end):
            answer = self._codec.read_answer(batch.answer)
            if stage >= first:
                rows = self._rows(batch)
                x = self._in_force(batch)
                yield Record(
                    stage=stage,
                    id=batch.id,
                    time=datetime.fromtimestamp(batch.time, UTC),
                    x=(issued if x is None else x)[()],
                    rows=rows,
                    decision=answer.decision[()],
                    interval=interval(answer.decision, answer.epistemic, feasible),
                    log_predictive=answer.log_predictive / len(rows),
                    surprise=answer.surprise,
                    alarm=None if batch.alarm is None else _alarm(batch.alarm),
                )
            issued = answer.decision

    def alarms(self) -> list[Alarm]:
        """All alarms so far.

        Raises:
            StoreError: If one is damaged.
        """
        return [_alarm(text) for _, text in self._store.alarms()]

    def snapshot(self, stage: int) -> Snapshot:
        """What was known after a stage.

        Raises:
            StoreError: If a batch is damaged.
        """
        base, start = self._base(stage)
        for _, batch in self._store.batches(start + 1, stage):
            base = self._again(base, batch)
        return base

    def beliefs(self, stages: Iterable[int]) -> Iterator[Belief]:
        """What was believed after each of some stages, in order.

        Raises:
            StoreError: If a batch is damaged.
        """
        snapshot, done = self._stream.start, 0
        for stage in sorted(stages):
            kept, start = self._base(stage)
            if start > done:
                snapshot, done = kept, start
            for _, batch in self._store.batches(done + 1, stage):
                snapshot = self._again(snapshot, batch)
            done = stage
            yield snapshot.belief

    def replay(self, now: Snapshot, since: int) -> Replay:
        """Computes stages again and compares with what is stored, and the last with what is known.

        Raises:
            StoreError: If a batch is damaged.
        """
        base, start = self._base(since)
        different, stage = None, start
        for stage, batch in self._store.batches(start + 1, now.stage):
            base = self._again(base, batch)
            if base.answer != batch.answer and different is None:
                different = stage
        if different is None and self._codec.save(base) != self._codec.save(now):
            different = stage + 1
        return Replay(start + 1, stage - start, different is None, different)

    def _base(self, stage: int) -> tuple[Snapshot, int]:
        """The last snapshot that is kept and not after a stage."""
        kept = self._store.checkpoint(stage)
        if kept is None:
            return self._stream.start, 0
        return self._codec.restore(kept, self._store.stills(kept)), kept.stage

    def _again(self, before: Snapshot, batch: Batch) -> Snapshot:
        return self._stream.after(before, self._rows(batch), self._in_force(batch))

    def _rows(self, batch: Batch) -> np.ndarray:
        return _numbers(batch.rows, (-1, *self._stream.event_shape))

    def _in_force(self, batch: Batch) -> np.ndarray | None:
        return None if batch.x is None else _numbers(batch.x, self._stream.start.decision.shape)


def _numbers(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    return np.frombuffer(data, "<f8").reshape(shape)


def _alarm(text: str) -> Alarm:
    numbers = json.loads(text)
    return Alarm(**{**numbers, "coordinate": tuple(numbers["coordinate"])})

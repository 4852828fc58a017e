"""What is believed, learned again from stored batches; and what states of earlier code mean."""

from collections.abc import Mapping
from contextlib import suppress

import jax.numpy as jnp
import numpy as np

from postgrad.agent.decisions.occasions import from_text
from postgrad.agent.pooling.membership import Membership
from postgrad.agent.state_codec import OtherArraysError, StateCodec
from postgrad.engine.occasion import Occasion
from postgrad.engine.snapshot import Snapshot
from postgrad.engine.stream import Stream
from postgrad.errors import StoreError
from postgrad.monitoring.assumptions import AssumptionFailedError
from postgrad.records.settings import created_by
from postgrad.records.streams.stored_record import Shapes, issued_after, issued_first
from postgrad.records.streams.stream_events import ANEW, RELEARNED, EventLog
from postgrad.store import Batch, Store, StoredState, StreamHead

# Observations and x of batches, by stage.
Replaced = Mapping[int, tuple[bytes, bytes | None]]


class Relearning:
    """Learns again, without descents, under the decisions that were really in force.

    Attributes:
        start: x_1, as the file has it.
        only_start: Whether states that are kept refer to something else, which could not be put on
            record.
    """

    def __init__(
        self,
        stream: Stream,
        codec: StateCodec,
        store: Store,
        until: int | None = None,
        membership: Membership | None = None,
    ):
        """The parts.

        Args:
            stream: What computes stages.
            codec: What reads stored states.
            store: Where the batches are.
            until: The number of the event that changed the problem, if the stream is of an earlier
                one.
            membership: What each stage borrows from a population, if anything.
        """
        self._membership = membership
        self._stream, self._codec, self._store, self._until = stream, codec, store, until
        self.start, self.only_start = stream.start.decision, False
        self._shapes = Shapes(self.start.shape, stream.event_shape)
        self._head: StreamHead | None = None
        self._log: EventLog | None = None

    def take_up(self, head: StreamHead, *, undone: bool = False) -> None:
        """From now on, tell the past of this state; `undone`, if later ones were undone."""
        if undone or self._head is None or self._head.events != head.events:
            self._log = None
        self._head = head

    @property
    def events(self) -> EventLog:
        """What is on record besides batches.

        Raises:
            StaleStateError: If another process has written since the state was taken up.
            StoreError: If it is damaged.
        """
        if self._log is None:
            assert self._head is not None
            with self._store.database.reading():
                rows = self._store.events(self._head) if self._head.events else []
                created = created_by(self._store.settings or "{}")
                self._log = EventLog(rows, created)
        return self._log

    def issued(self, stage: int) -> np.ndarray:
        """The decision in force after a stage.

        Raises:
            StoreError: If the batch of the stage is damaged.
        """
        if stage > 0:
            _, batch = next(self._store.batches(stage, stage))
            return self._issued_after(stage, batch)
        return issued_first(self.start, self.events)

    def _issued_after(self, stage: int, batch: Batch) -> np.ndarray:
        """The decision in force after the batch of a stage."""
        return issued_after(stage, batch, self.events, self._shapes)

    def believed(
        self,
        stage: int,
        base: Snapshot,
        replaced: Replaced | None = None,
        as_of: int | None = None,
    ) -> Snapshot:
        """What is believed after a stage, learned from an earlier snapshot on without descents.

        Each batch is learned from under the decision that was really in force. Decision and search
        of the result are of no use.

        Args:
            stage: The stage.
            base: The earlier snapshot.
            replaced: Observations and x of batches, by stage, in place of those that are stored.
            as_of: Learn from the data as they were before the event of this number.

        Raises:
            StoreError: If a batch is damaged.
            SupportError, ImpossibleDataError, ModelError: If a batch cannot have happened.
        """
        snapshot, issued = base, self.issued(base.stage)
        for number, batch in self._store.batches(base.stage + 1, stage):
            data = self.events.as_of(as_of, number, batch) if as_of else (batch.rows, batch.x)
            rows, x = self._data(*(replaced or {}).get(number, data))
            in_force, on = issued if x is None else x, self._occasion(batch.context)
            try:
                snapshot = self._relearned(snapshot, rows, in_force, on)
            except AssumptionFailedError as failed:
                return self.believed(stage, self._stream.begin(failed.which), replaced, as_of)
            issued = self._issued_after(number, batch)
        return snapshot

    def _relearned(
        self, before: Snapshot, rows: np.ndarray, x: np.ndarray, on: Occasion
    ) -> Snapshot:
        """One stage without its descent; see `Stream.relearned`."""
        return self._kept_prior(self._stream.relearned(self._lent(before), rows, x, on))

    def _after(
        self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None, on: Occasion
    ) -> Snapshot:
        """One stage; see `Stream.after`."""
        return self._kept_prior(self._stream.after(self._lent(before), rows, x, on))

    def _lent(self, before: Snapshot) -> Snapshot:
        """With what the population lends, if there is one."""
        return before if self._membership is None else self._membership.borrowed(before)

    def _kept_prior(self, new: Snapshot) -> Snapshot:
        """After a stage, with the prior that was lent for it, if one was."""
        return new if self._membership is None else self._membership.with_prior(new)

    def corrected(
        self,
        now: Snapshot,
        number: int,
        replaced: tuple[bytes, bytes | None] | None = None,
        as_of: int | None = None,
    ) -> Snapshot:
        """What is known if the batch of a stage is another one; see `believed` and `sought`.

        It takes the learning of all stages after the last snapshot before the batch.

        Args:
            now: What is known so far.
            number: The stage of the batch.
            replaced: The batch's observations and x, if they are not those that are stored.
            as_of: Learn from the data as they were before the event of this number.
        """
        base = self.kept(number - 1)
        if base.without != now.without:
            base = self._stream.begin(now.without)
        others = None if replaced is None else {number: replaced}
        believed = self.believed(now.stage, base, others, as_of)
        return self.sought(believed, now.decision, others, as_of)

    def sought(
        self,
        believed: Snapshot,
        decision: np.ndarray,
        replaced: Replaced | None = None,
        as_of: int | None = None,
    ) -> Snapshot:
        """What is known if the decision is sought anew, from another one, under what is believed.

        Args:
            believed: What is believed.
            decision: Where to start from.
            replaced: See `believed`; if an assumption fails, all is learned again.
            as_of: Likewise.

        Raises:
            StepSizeError, DivergenceError: See `Stream.sought`.
        """
        try:
            return self._stream.sought(self._stream.anew(believed, decision))
        except AssumptionFailedError as failed:
            start = self._stream.begin(failed.which)
            again = self.believed(believed.stage, start, replaced, as_of)
            return self._stream.sought(self._stream.anew(again, decision))

    def kept(self, stage: int) -> Snapshot:
        """The last snapshot that is kept, not after a stage, and made of today's arrays."""
        while not self.only_start and (kept := self._store.checkpoint(stage)) is not None:
            if kept.stage < self.events.rebound(self._until):
                break
            # they were there: another process has thinned them out
            with suppress(StoreError), self._store.database.reading():
                fixed = self._store.fixed_arrays(kept)
                try:
                    return self._codec.restore(kept, fixed, self.issued)
                except OtherArraysError:
                    break
        return self._stream.start

    def restored(
        self,
        saved: StoredState,
        fixed: tuple[str, bytes] | None,
        rebind: bool,
        as_of: int | None = None,
    ) -> tuple[Snapshot, str | None]:
        """A stored snapshot, and the kind of event that it takes to make it of today's arrays.

        Args:
            saved: What was stored.
            fixed: The arrays that stages do not change.
            rebind: Whether what these would be by today's code is something else.
            as_of: See `believed`.
        """
        try:
            if saved.stage and (rebind or not self._is_of_today(saved.stage)):
                raise OtherArraysError("what the belief follows from, or its form, has changed")
            snapshot = self._codec.restore(saved, fixed, self.issued)
            return snapshot, ANEW if self._codec.is_anew(saved) else None
        except OtherArraysError:
            again = self.believed(saved.stage, self._stream.start, as_of=as_of)
            return self._stream.anew(again, self.issued(saved.stage)), RELEARNED

    def changed(self, now: Snapshot, in_force: np.ndarray, as_of: int | None = None) -> Snapshot:
        """What is known if the problem has become another one; see `believed` and `sought`.

        Args:
            now: What is known so far, as this stream has it.
            in_force: The decision in force.
            as_of: See `believed`.
        """
        if now.stage == 0:
            return now
        nearest = self._stream.policy.problem.feasible.project(jnp.asarray(in_force))
        return self.sought(now, np.asarray(nearest), as_of=as_of)

    def _is_of_today(self, stage: int) -> bool:
        """Whether the state after a stage is laid out as today's code would."""
        if self.events.all:
            return True  # on record, and so written by code that is later
        _, batch = next(self._store.batches(stage, stage))
        return self._codec.is_of_today(batch.answer)

    def _occasion(self, context: str | None) -> Occasion:
        """The occasion on which a batch arose."""
        with self._store.database.reading():
            return from_text(self._stream, context)

    def _data(self, rows: bytes, x: bytes | None) -> tuple[np.ndarray, np.ndarray | None]:
        """The observations of a batch, and the decision in force, if the caller named one."""
        with self._store.database.reading():
            return self._shapes.rows(rows), None if x is None else self._shapes.x(x)

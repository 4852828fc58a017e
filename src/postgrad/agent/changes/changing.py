"""What changes an agent besides new batches: corrections, another problem, going back."""

import dataclasses
import functools
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from postgrad.agent.changes.stream_events import (
    CHANGED,
    CORRECTED,
    RELEARNED,
    VERSIONS,
    WENT_BACK,
    WITHDRAWN,
    correction_event,
    event,
)
from postgrad.agent.changes.versions import told_apart, versions_now
from postgrad.agent.input_checks import as_decision, as_name, as_rows
from postgrad.agent.looking_back import LookingBack
from postgrad.agent.settings_check import (
    Difference,
    differences,
    fingerprint,
    first_decision,
    in_words,
    is_rebound,
)
from postgrad.agent.state_codec import StateCodec
from postgrad.agent.stored_history import StoredHistory
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs import Belief
from postgrad.engine.stream import Snapshot, Stream
from postgrad.errors import BatchError, PostgradError, SettingError, StoreError
from postgrad.problem.problem import Problem
from postgrad.store import Event, StaleStateError, StreamHead


class Changing(LookingBack):
    """What changes an agent besides new batches. It is of use as a part of `Agent` only."""

    _shared: bool
    _rebind: bool
    _changes: int | None

    def correct(self, id: str, batch: Any, *, x: Any = None) -> np.ndarray:  # noqa: A002
        """Replaces a batch that was wrong, durably and on record.

        Afterwards what is believed is what the right data teach: every later batch is learned from
        again, at its stage, with its random numbers, and under the decision that was really in
        force. The decision is sought anew from the one in force now. Decisions and alarms that were
        given stay on record: see `Record.corrections`. The batch may be delivered again both as it
        was and as it is.

        It takes the learning of all stages after the last checkpoint before the batch, and one
        transaction that writes the checksums of all later batches anew.

        Args:
            id: The id of the batch.
            batch: The right data; see `observe`.
            x: The decision in force when the batch arose, if that was wrong too.

        Returns:
            The new decision.

        Raises:
            BatchError: If there is no batch of that id, or the data are none.
            SupportError, ImpossibleDataError, ModelError: If the data cannot have happened.
            DivergenceError, StepSizeError: If no new decision is found.
            StoreError: If it could not be stored. Nothing has changed then, unless it says so.
        """
        rows = as_rows(batch, self._stream.event_shape)
        in_force = None if x is None else as_decision(x, self._stream.start.decision.shape)
        return self._replaced(id, rows, in_force)

    def withdraw(self, id: str) -> np.ndarray:  # noqa: A002
        """Takes a batch back, durably and on record: its stage stays, empty. See `correct`.

        Args:
            id: The id of the batch.

        Returns:
            The new decision.

        Raises:
            BatchError: If there is no batch of that id.
            StoreError: If it could not be stored. Nothing has changed then, unless it says so.
        """
        return self._replaced(id, np.empty((0, *self._stream.event_shape)), None)

    def _replaced(self, id: str, rows: np.ndarray, x: np.ndarray | None) -> np.ndarray:  # noqa: A002
        key = as_name(id, BatchError, "id")
        with self._database.lock:
            while True:
                known = self._store.find(key)
                if known is None:
                    raise BatchError(f"there is no batch {key!r}; see history()")
                stage, old = known
                new = dataclasses.replace(
                    old, rows=rows.tobytes(), x=old.x if x is None else x.tobytes()
                )
                if new == old:
                    return self.decision
                try:
                    if not self._store.is_current(self._head):
                        raise StaleStateError
                    now = self._past.corrected(self._now, stage, (new.rows, new.x))
                    kind = CORRECTED if len(rows) else WITHDRAWN
                    why = correction_event(self.stage, kind, stage, old, now.decision)
                    head = self._amended(now, self._head, why, corrected=(stage, new))
                    break
                except (StaleStateError, PostgradError) as error:
                    if isinstance(error, StoreError) or self._store.is_current(self._head):
                        raise
                    self._load()
            self._move(now, head)
            return self.decision

    def change(self, problem: Problem, *, x: Any = None) -> np.ndarray:
        """Goes on with another cost or feasible set, durably and on record.

        What is believed stays as it is. The decision is sought anew, from the one in force. From
        now on the agent must be made with the new problem. `replay` covers the stages since the
        change, and earlier ones where the problem before is passed.

        Args:
            problem: The new problem; its model must be the same.
            x: What `x` the agent will be made with from now on, if the first decision lies outside
                the new feasible set. The record keeps the one that was in force.

        Returns:
            The new decision.

        Raises:
            SettingError: If the model is another one: what is believed would be no posterior.
            DecisionError: If x lies outside the new feasible set.
            DivergenceError, StepSizeError: If no new decision is found.
            StoreError: If it could not be stored. Nothing has changed then, unless it says so.
        """
        with self._database.lock:
            before = (self._stream, self._codec, self._past)
            settings, bound = fingerprint(*self._parts()), self._codec.bound
            start = self._stream.start.decision if x is None else x
            policy = BayesianSGD(problem, **self._options)
            stream = Stream(policy, self._prior, start, self._alpha)
            found = differences(settings, policy, self._prior, stream.start.decision, self._alpha)
            if refused := [one for one in found if not one.changeable]:
                words = "; ".join(one.words for one in refused[:5])
                raise SettingError(
                    f"only cost and feasible set may change, or what is believed would be no "
                    f"posterior: {words}. Make another agent for another model"
                )
            if not found:
                return self.decision
            try:
                self._work_on(stream)
                self._past.start = before[2].start
                self._rebind = is_rebound(json.dumps({"bound": bound}), self._codec.bound)
                self._load(found)
            except BaseException:
                self._take_back(*before)
                raise
            if self._database.in_transaction:
                self._database.on_undo(functools.partial(self._take_back, *before))
            return self.decision

    def rollback(self, stage: int) -> np.ndarray:
        """Goes back to an earlier stage, for good. The ids of later batches may be used again.

        Args:
            stage: How many batches remain.

        Returns:
            The decision that was issued then.

        Raises:
            SettingError: If there was no such stage.
            StoreError: If it could not be stored. Nothing has changed then, unless it says so.
        """
        with self._database.lock:
            while True:
                whole = isinstance(stage, int | np.integer) and not isinstance(stage, bool)
                if not whole or not 0 <= stage <= self.stage:
                    raise SettingError(f"stage must be from 0 to {self.stage}, got {stage!r}")
                try:
                    now = self._past.snapshot(int(stage))
                    saved, fixed_arrays = self._codec.save(now), self._codec.save_fixed(now)
                    events = self._undone(int(stage))
                    head = self._store.go_back(self._head, saved, fixed_arrays, events)
                    break
                except StaleStateError:
                    self._load()
            self._move(now, head)
            self._alarms = None
            return self.decision

    def _take_back(self, stream: Stream, codec: StateCodec, past: StoredHistory) -> None:
        self._stream, self._codec, self._past = stream, codec, past
        self._changes, self._rebind = None, False
        past.take_up(self._head, undone=True)

    def _changed(
        self, now: Snapshot, head: StreamHead, found: Sequence[Difference]
    ) -> tuple[Snapshot, StreamHead]:
        """Seeks the decision of another problem, and stores it."""
        first, settings = self._past.issued(0), self._settings()
        now = self._past.changed(now, self._past.issued(now.stage))
        why = event(
            now.stage,
            CHANGED,
            differences=[one.words for one in found],
            x=first.tolist(),
            decision=now.decision.tolist(),
            rebound=self._rebind,
        )
        return now, self._amended(now, head, why, settings=settings)

    def _other_versions(self) -> list[Event]:
        """The event that other versions compute the next stage, if they do."""
        was, now = self._past.events.versions(self.stage), versions_now()
        if was == now:
            return []
        words = told_apart(was or {}, now)
        return [event(self.stage, VERSIONS, versions=now, differences=words)]

    def _undone(self, stage: int) -> list[Event]:
        """The event of going back to a stage, if that undoes others."""
        undoes = self._past.events.after(stage)
        return [event(stage, WENT_BACK, **{"from": self.stage})] if undoes else []

    def _work_on(self, stream: Stream) -> None:
        """Computes the stages of a stream from now on."""
        self._stream, self._codec = stream, StateCodec(stream)
        self._past = StoredHistory(stream, self._codec, self._store)

    def _parts(self) -> tuple[BayesianSGD, Belief, np.ndarray, float]:
        """What settings are about."""
        return self._stream.policy, self._prior, self._stream.start.decision, self._alpha

    def _settings(self) -> str:
        """What the agent is made of, as it is stored."""
        kept = self._store.settings
        created = versions_now() if kept is None else json.loads(kept).get("versions")
        settings: dict[str, Any] = {"iterations": self.iterations, "versions": created}
        if self._shared or self._database.path is not None:  # else nobody comes again
            found = json.loads(fingerprint(*self._parts()))
            start = self._stream.start.decision.tolist()
            settings |= {**found, "start": start, "bound": self._codec.bound}
        return json.dumps(settings)

    def _take_up(self, accept_change: bool) -> None:
        """Begins the stream, or goes on with it."""
        self._rebind, self._changes = False, None
        kept, found = self._store.settings, []
        if kept is None:
            kept = self._store.create(self._settings(), self._codec.save(self._stream.start))
        if kept is not None:
            with self._database.reading():
                found = differences(kept, *self._parts())
                self._rebind = is_rebound(kept, self._codec.bound)
                self._past.start = first_decision(kept, self._stream.start.decision)
            if found and not (accept_change and all(one.changeable for one in found)):
                raise self._database.error(in_words(found))
        try:
            self._load(found)
        except StoreError:
            if not self._database.recover:
                raise
            self._rebuild()

    def _load(self, changed: Sequence[Difference] = ()) -> None:
        """Takes up what is in the store.

        Args:
            changed: In what the problem differs from that of the store, if that is meant.
        """
        while True:
            with self._database.reading(), suppress(StaleStateError):
                (head, fixed_arrays), self._alarms = self._store.latest(), None
                self._past.take_up(head)
                log = self._past.events
                now, kind = self._past.restored(head.saved, fixed_arrays, self._rebind)
                if changed:
                    now, head = self._changed(now, head, changed)
                elif kind is not None:
                    again = event(head.saved.stage, kind, rebound=kind == RELEARNED)
                    head = self._amended(now, head, again, settings=self._settings())
                elif self._changes is not None and self._changes != log.changes:
                    raise StoreError("another process has changed the problem; make a new agent")
                self._rebind = False
                self._move(now, head)
                self._changes = self._past.events.changes
                return

    def _amended(self, now: Snapshot, head: StreamHead, why: Event, **others: Any) -> StreamHead:
        """Stores a state in place of the latest one, on record."""
        saved, fixed_arrays = self._codec.save(now), self._codec.save_fixed(now)
        return self._store.amend(head, saved, fixed_arrays, why, **others)

    def _move(self, now: Snapshot, head: StreamHead, before: Snapshot | None = None) -> None:
        """Takes up a state; if a transaction that is open comes to nothing, the one before."""
        if self._database.in_transaction:
            self._database.on_undo(functools.partial(self._move_back, self._now, self._head))
        self._now, self._head, self._before = now, head, before
        self._past.take_up(head)

    def _move_back(self, now: Snapshot, head: StreamHead) -> None:
        self._now, self._head, self._before, self._alarms = now, head, None, None
        self._past.take_up(head, undone=True)
        self._store.array_headers.forget()

    def _rebuild(self) -> None:
        """Computes the last state anew, from the last good checkpoint and the batches after it."""
        base = self._store.checkpoint(1 << 62)
        last = self._store.last_good(0 if base is None else base.stage)
        now, self._alarms = self._past.snapshot(last), None
        self._now = now
        self._head = self._store.rebuild(self._codec.save(now), self._codec.save_fixed(now))

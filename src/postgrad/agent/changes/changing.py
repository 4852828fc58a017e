"""What changes an agent besides new batches: corrections, another problem, going back."""

import dataclasses
import functools
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from postgrad.agent.changes.versions import told_apart, versions_now
from postgrad.agent.input_checks import as_decision, as_name, as_rows
from postgrad.agent.looking_back import LookingBack
from postgrad.agent.moments import StoredMoments
from postgrad.agent.pooling.membership import Membership, pool_settings, refuse
from postgrad.agent.settings_check import (
    Difference,
    differences,
    fingerprint,
    in_words,
    is_rebound,
)
from postgrad.agent.shared_parts import SharedParts, shared_parts
from postgrad.agent.stored_history import StoredHistory
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs.pooling.pool import Pool
from postgrad.engine.snapshot import Snapshot
from postgrad.errors import BatchError, PostgradError, SettingError, StoreError
from postgrad.problem.problem import Problem
from postgrad.records.settings import created_by, first_decision, read_settings
from postgrad.records.streams.stream_events import (
    CHANGED,
    CORRECTED,
    RELEARNED,
    VERSIONS,
    WITHDRAWN,
    correction_event,
    event,
)
from postgrad.store import WENT_BACK, Event, StaleStateError, StoredState, StreamHead
from postgrad.store.opening.connecting import is_writable


class Changing(LookingBack):
    """What changes an agent besides new batches. It is of use as a part of `Agent` only."""

    _shared: bool
    _parts: SharedParts
    _rebind: bool
    _unstored: bool
    _changes: int | None
    _notes: Any
    _moments: StoredMoments
    _name: str
    _pool: Pool | None

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
        if self._pool is not None:
            refuse("to correct or withdraw a batch")
        with self._database.lock:
            self._prepare_to_write()
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
            before, bound = (self._parts, self._past), self._codec.bound
            start = self._stream.start.decision if x is None else x
            policy = BayesianSGD(problem, **self._options)
            parts = shared_parts(policy, self._prior, start, self._alpha, self._context)
            found = parts.once(differences, self._parts.once(fingerprint))
            if refused := [one for one in found if not one.changeable]:
                words = "; ".join(one.words for one in refused[:5])
                raise SettingError(
                    f"only cost, feasible set, outcomes and rules may change, or what is "
                    f"believed is no posterior: {words}. Make another agent for another model"
                )
            if not found:
                return self.decision
            self._prepare_to_write()
            try:
                self._work_on(parts)
                self._past.start = before[1].start
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
        if self._pool is not None:
            refuse("to go back")
        with self._database.lock:
            self._prepare_to_write()
            while True:
                whole = isinstance(stage, int | np.integer) and not isinstance(stage, bool)
                if not whole or not 0 <= stage <= self.stage:
                    raise SettingError(f"stage must be from 0 to {self.stage}, got {stage!r}")
                try:
                    now = self._past.snapshot(int(stage))
                    saved, fixed_arrays = self._saved(now), self._codec.save_fixed(now)
                    events = self._undone(int(stage))
                    head = self._store.go_back(self._head, saved, fixed_arrays, events)
                    break
                except StaleStateError:
                    self._load()
            self._move(now, head)
            self._alarms = None
            return self.decision

    def _take_back(self, parts: SharedParts, past: StoredHistory) -> None:
        self._work_on(parts)
        self._past, self._changes, self._rebind = past, None, False
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
        log = self._past.events
        if not log.after(stage):
            return []
        # Settings stay as they are, and with them what stored states refer to.
        rebound = log.rebound() > stage
        return [event(stage, WENT_BACK, **{"from": self.stage}, rebound=rebound)]

    def _work_on(self, parts: SharedParts) -> None:
        """Computes the stages of a problem from now on."""
        self._parts, self._stream, self._codec = parts, parts.stream, parts.codec
        self._membership = None
        if self._pool is not None:
            prior, new = parts.stream.start.belief, self._store.settings is None
            self._membership = Membership(self._database, self._pool, prior, self._name, new=new)
        self._past = StoredHistory(
            parts.stream, parts.codec, self._store, membership=self._membership
        )

    def _prepare_to_write(self) -> None:
        """Connects for writing, and stores what could not be stored before."""
        self._database.prepare_to_write()
        if self._unstored:
            self._load()
        kept = self._store.settings
        if self._notes is not None and kept is not None:
            settings = read_settings(kept)
            if settings.get("notes") != self._notes:  # the problem is the same: it was compared
                self._store.annotate(json.dumps({**settings, "notes": self._notes}))

    def _settings(self) -> str:
        """What the agent is made of, as it is stored."""
        kept = self._store.settings
        created = versions_now() if kept is None else created_by(kept)
        settings: dict[str, Any] = {"iterations": self.iterations, "versions": created}
        if self._shared or self._database.path is not None:  # else nobody comes again
            found = json.loads(self._parts.once(fingerprint))
            start = self._stream.start.decision.tolist()
            settings |= {**found, "start": start, "bound": self._codec.bound}
            settings |= {} if self._notes is None else {"notes": self._notes}
            settings |= pool_settings(self._pool)
        return json.dumps(settings)

    def _saved(self, now: Snapshot, before: Snapshot | None = None) -> StoredState:
        """A snapshot as it is stored; with moments, if somebody is to read it without JAX.

        Args:
            now: The snapshot.
            before: The snapshot before the last batch, if it is at hand.
        """
        saved = self._codec.save(now)
        return saved if self._notes is None else self._moments.added(saved, now, before)

    def _take_up(self, accept_change: bool) -> None:
        """Begins the stream, or goes on with it."""
        self._rebind, self._unstored, self._changes = False, False, None
        kept, found = self._store.settings, []
        if kept is None:
            kept = self._store.create(self._settings(), self._codec.save(self._stream.start))
        if kept is not None:
            with self._database.reading():
                found = self._parts.once(differences, kept)
                self._rebind = is_rebound(kept, self._codec.bound)
                self._past.start = first_decision(kept, self._stream.start.decision)
            if found and not (accept_change and all(one.changeable for one in found)):
                raise self._database.error(in_words(found))
        self._load(found)

    def _load(self, changed: Sequence[Difference] = ()) -> None:
        """Takes up what is in the store.

        Args:
            changed: In what the problem differs from that of the store, if that is meant.
        """
        while True:
            with self._database.reading(), suppress(StaleStateError):
                (head, fixed_arrays), self._alarms = self._store.latest(), None
                self._past.take_up(head)
                self._check_membership(head)
                log, self._unstored = self._past.events, False
                if head.saved.is_missing:  # the file was recovered
                    now, kind = self._past.found_again(head.saved.stage, self._rebind)
                else:
                    now, kind = self._past.restored(head.saved, fixed_arrays, self._rebind)
                if changed:
                    now, head = self._changed(now, head, changed)
                elif self._changes is not None and self._changes != log.changes:
                    raise StoreError("another process has changed the problem; make a new agent")
                elif head.saved.is_missing or kind is not None:
                    self._unstored = not is_writable(self._database.path)
                    if not self._unstored:
                        head = self._stored(now, head, kind)
                self._rebind = self._past.only_start = self._rebind and self._unstored
                self._move(now, head)
                self._changes = self._past.events.changes
                return

    def _check_membership(self, head: StreamHead) -> None:
        """Check that the population and the stream have lost nothing, or the same.

        Raises:
            StaleStateError: If another process has written meanwhile.
            StoreError: If one of them has lost batches.
        """
        stage = head.saved.stage
        if self._membership is not None and not self._membership.knows(stage):
            if not self._store.is_current(head):
                raise StaleStateError
            raise self._membership.not_one(stage)

    def _stored(self, now: Snapshot, head: StreamHead, kind: str | None) -> StreamHead:
        """Stores a state in place of one that is lost, or of other arrays than today's.

        Args:
            now: The state.
            head: The latest state of the store.
            kind: What is to be on record; None, if the state is the one that was lost.
        """
        if kind is None:
            return self._store.go_back(head, self._saved(now), self._codec.save_fixed(now))
        again = event(head.saved.stage, kind, rebound=kind == RELEARNED)
        return self._amended(now, head, again, settings=self._settings())

    def _amended(self, now: Snapshot, head: StreamHead, why: Event, **others: Any) -> StreamHead:
        """Stores a state in place of the latest one, on record."""
        saved, fixed_arrays = self._saved(now), self._codec.save_fixed(now)
        return self._store.amend(head, saved, fixed_arrays, why, **others)

    def _move(self, now: Snapshot, head: StreamHead, before: Snapshot | None = None) -> None:
        """Takes up a state; if a transaction that is open comes to nothing, the one before."""
        if self._database.in_transaction and hasattr(self, "_now"):
            self._database.on_undo(functools.partial(self._move_back, self._now, self._head))
        self._now, self._head, self._before = now, head, before
        self._past.take_up(head)

    def _move_back(self, now: Snapshot, head: StreamHead) -> None:
        self._now, self._head, self._before, self._alarms = now, head, None, None
        self._past.take_up(head, undone=True)
        self._store.array_headers.forget()

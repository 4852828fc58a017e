"""One live decision: observe a batch, ask for the decision, and lose neither."""

import functools
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

import numpy as np

from postgrad.agent.affordable import affordable
from postgrad.agent.explanation import Explanation, explain, in_short
from postgrad.agent.input_checks import as_decision, as_name, as_rows
from postgrad.agent.record import Record, Replay
from postgrad.agent.settings_check import differences, fingerprint, in_words
from postgrad.agent.shared_parts import SharedParts, shared_parts
from postgrad.agent.stored_history import StoredHistory
from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.beliefs import Belief
from postgrad.engine.stream import Snapshot
from postgrad.errors import (
    BatchError,
    DuplicateBatchError,
    PostgradError,
    SettingError,
    StoreError,
)
from postgrad.monitoring.misspecification import Alarm, MisspecificationWarning, Monitor
from postgrad.problem.problem import Problem
from postgrad.store import Batch, Database, StaleStateError, Store, StreamHead
from postgrad.store.opening.connecting import is_writable

Read = TypeVar("Read")


class Agent(AbstractContextManager["Agent"]):
    """Keeps one decision good while batches arrive, and says when they do not look like the model.

    Every `observe` is one stage of `BayesianSGD`. Bad input raises a typed error from
    `postgrad.errors` before anything changes: a batch counts entirely or not at all.

    With a `path`, batches and what came of them are kept in a file. When `observe` returns, the
    batch is there for good: the process may be killed at any moment, and an agent made with the
    same arguments goes on where it was, to the last bit. docs/durable.md has the guarantees.

    Batches of up to eight rows share one compiled program, those of up to sixteen the next, and so
    on; what finds the decision is compiled once for all sizes.
    """

    def __init__(
        self,
        problem: Problem,
        belief: Belief,
        x: Any,
        *,
        path: str | os.PathLike[str] | Database | None = None,
        name: str = "main",
        alpha: float = 1e-3,
        budget_ms: float | None = None,
        **options: Any,
    ):
        """Start from a prior and an initial decision, or go on from a file.

        Args:
            problem: Cost, model and feasible set.
            belief: pi_0.
            x: x_1, the decision in force until the first batch.
            path: Where to keep everything: a file, or a `Database` that agents share; in memory,
                if not given.
            name: Which of the streams in the file; each has an agent of its own.
            alpha: The level of alarms: see `Monitor`.
            budget_ms: How long a stage may take. K is then as large as fits, found by timing two
                values of it here and now; `iterations` tells what came out. A file remembers it.
            **options: As for `BayesianSGD`: gradient, steps, risk, output, iterations, samples,
                seed.

        Raises:
            SettingError: If both budget_ms and iterations are given, or the budget is not positive.
            StoreError: If the file is damaged, or belongs to another problem.
        """
        stream, self._shared = as_name(name, SettingError, "name"), isinstance(path, Database)
        self._database = path if isinstance(path, Database) else Database(path)
        self._alarms: list[Alarm] | None = None
        self._now: Snapshot
        self._head: StreamHead
        self._before: Snapshot | None = None
        try:
            with self._database.lock:
                self._store = Store(self._database, stream)
                kept = self._store.settings
                if budget_ms is not None and kept is not None:
                    with self._database.reading():
                        options["iterations"] = json.loads(kept)["iterations"]
                elif budget_ms is not None:
                    options["iterations"] = affordable(problem, belief, x, budget_ms, options)
                parts = shared_parts(BayesianSGD(problem, **options), belief, x, alpha)
                self._stream, self._codec = parts.stream, parts.codec
                self._past = StoredHistory(self._stream, self._codec, self._store)
                self._take_up(parts)
        except BaseException:
            self.close()
            raise

    def _take_up(self, parts: SharedParts) -> None:
        """Begins the stream, or goes on with it."""
        store, kept = self._store, self._store.settings
        if kept is None:
            settings: dict[str, Any] = {"iterations": self.iterations}
            if self._shared or self._database.path is not None:  # else nobody comes again
                settings |= json.loads(parts.once(fingerprint))
            kept = store.create(json.dumps(settings), self._codec.save(self._stream.start))
        if kept is not None:
            with self._database.reading():
                lines = parts.once(differences, kept)
            if lines:
                raise self._database.error(in_words(lines))
        self._load()

    def _load(self) -> None:
        """Takes up what is in the store."""
        with self._database.reading():
            (head, fixed_arrays), self._alarms = self._store.latest(), None
            if head.saved.is_missing:  # the file was recovered
                self._learn_again(head)
            else:
                self._move(self._codec.restore(head.saved, fixed_arrays), head)

    def _as_of_now(self, read: Callable[[], Read]) -> Read:
        """What is read of the past; if another process has gone back in it, anew from there."""
        with self._database.lock:
            while True:
                with suppress(StaleStateError):
                    found = read()
                    if self._store.is_past(self._head):
                        return found
                self._load()

    def _move(self, now: Snapshot, head: StreamHead, before: Snapshot | None = None) -> None:
        """Takes up a state; if a transaction that is open comes to nothing, the one before."""
        if self._database.in_transaction and hasattr(self, "_now"):
            self._database.on_undo(functools.partial(self._move_back, self._now, self._head))
        self._now, self._head, self._before = now, head, before

    def _move_back(self, now: Snapshot, head: StreamHead) -> None:
        self._now, self._head, self._before, self._alarms = now, head, None, None
        self._store.array_headers.forget()

    def _learn_again(self, head: StreamHead) -> None:
        """Computes a state that was lost, from the last good one and the batches after it."""
        now = self._past.snapshot(head.saved.stage)
        if is_writable(self._database.path) and not self._database.in_transaction:
            saved, fixed_arrays = self._codec.save(now), self._codec.save_fixed(now)
            try:
                head = self._store.go_back(head, saved, fixed_arrays)
            except StaleStateError:  # another process was faster
                self._load()
                return
        self._move(now, head)

    @property
    def problem(self) -> Problem:
        """Cost, model and feasible set."""
        return self._stream.policy.problem

    @property
    def decision(self) -> np.ndarray:
        """The decision in force, in the shape of the initial x."""
        return self._now.decision[()]

    @property
    def state(self) -> State:
        """What the algorithm carries from stage to stage."""
        return self._now.state

    @property
    def belief(self) -> Belief:
        """The current posterior."""
        return self._now.belief

    @property
    def iterations(self) -> int:
        """K."""
        return self._stream.policy.iterations

    @property
    def stage(self) -> int:
        """How many batches have been observed."""
        return self._now.stage

    @property
    def info(self) -> Info | None:
        """What the last stage told about itself; None before the first."""
        return self._now.info

    @property
    def monitor(self) -> Monitor:
        """The test of whether batches come as foreseen."""
        return self._now.monitor

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What was noticed so far: data that do not look like the model."""
        with self._database.lock:
            if self._alarms is None:
                self._alarms = self._past.alarms()
            return tuple(self._alarms)

    def observe(self, batch: Any, *, id: str | None = None, x: Any = None) -> np.ndarray:  # noqa: A002
        """Bayes' rule, then K projected steps.

        Args:
            batch: One observation or several along the leading axis; also a frame with the Arrow
                interface, one column for each entry of an observation.
            id: A name for the batch. If one of that name was observed before, with the same data,
                nothing happens, and the decision that was answered then is returned again: so a
                batch may be delivered twice, and counts once.
            x: The decision in force when the batch arose; the last one issued, if not given. It
                may lie outside the feasible set, as the past may.

        Returns:
            The new decision. The batch and all that came of it are then stored.

        Warns:
            MisspecificationWarning: If the data do not look like the model. The batch counts.
            ConvergenceWarning: If the decision of this very stage may be wrong.
            AssumptionWarning: If something that was assumed of cost or model does not hold where
                the decision has come to; all batches are then learned again without it.
            LockInWarning: If the decision has come to where data teach nothing more.

        Raises:
            BatchError: If the batch is empty, not finite numbers or of the wrong shape.
            SupportError: If an observation lies outside the model's support.
            ImpossibleDataError: If no theta explains the batch.
            DuplicateBatchError: If the id was seen before, with other data.
            DecisionError: If x is not finite numbers in the decision's shape.
            StepSizeError: If the schedule has come to a step size that is not positive.
            ModelError: If the model is no proper distribution at x.
            DivergenceError: If the gradient or the new decision is not finite.
            StoreError: If the batch could not be stored. It then does not count, unless the message
                says that it may: then deliver it again with the same id.
        """
        key = None if id is None else as_name(id, BatchError, "id")
        rows = as_rows(batch, self._stream.event_shape)
        in_force = None if x is None else as_decision(x, self._stream.start.decision.shape)
        with self._database.lock:
            self._database.prepare_to_write()
            while True:
                known = None if key is None else self._store.find(key)
                if known is not None:
                    return self._answered_before(*known, rows, in_force)
                try:
                    new = self._past.after(self._now, rows, in_force)
                    alarm, entry = new.alarm, self._past.entry(new, key, rows, in_force)
                    renewed = new.fixed_since == new.stage
                    fixed = self._codec.save_fixed(new) if renewed else None
                    head = self._store.append(self._head, entry, self._codec.save(new), fixed)
                    break
                except (StaleStateError, PostgradError) as error:
                    if isinstance(error, StoreError) or self._store.is_current(self._head):
                        raise
                    self._load()  # another process was faster: take up its state, and again
            self._move(new, head, before=self._now)
            if alarm is not None and self._alarms is not None:
                self._alarms.append(alarm)
        if alarm is not None:
            warnings.warn(MisspecificationWarning(alarm), stacklevel=2)
        if new.warning is not None:
            warnings.warn(new.warning, stacklevel=2)
        return new.decision[()]

    def prepare(self, batch: Any, *, id: str, x: Any = None) -> None:  # noqa: A002
        """Computes, and compiles, the stage of a batch that will be observed: see `observe`.

        Inside a transaction, for which other processes wait, `observe` then finds it done. Several
        batches may be prepared, in their order. What is wrong with a batch `observe` will say.
        """
        with self._database.lock, suppress(PostgradError):
            rows = as_rows(batch, self._stream.event_shape)
            in_force = None if x is None else as_decision(x, self._stream.start.decision.shape)
            if self._store.find(as_name(id, BatchError, "id")) is None:
                self._past.prepare(self._now, rows, in_force)

    def history(self, last: int | None = None) -> Iterator[Record]:
        """What was observed and decided, from the first batch to the last, read as it is asked for.

        Args:
            last: Only so many of the latest batches.

        Raises:
            StoreError: At the first batch that is damaged, or if another process goes back in the
                stream meanwhile.
        """
        if last is not None and (isinstance(last, bool) or not isinstance(last, int) or last < 0):
            raise SettingError(f"last must be a whole number, got {last!r}")
        return self._past.told(self._as_of_now(lambda: self._past.latest(self.stage, last)))

    def record(self, id: str) -> Record | None:  # noqa: A002
        """What came of the batch of that id; None if there was none.

        Raises:
            StoreError: If it is damaged.
        """
        key = as_name(id, BatchError, "id")
        return self._as_of_now(lambda: self._past.record(key))

    def beliefs(self, stages: Iterable[int]) -> Iterator[Belief]:
        """What was believed after each of some stages, in order: computed again, batch by batch.

        Raises:
            StoreError: If a batch is damaged.
        """
        return self._past.told(self._past.beliefs(stages))

    def explain(self) -> Explanation:
        """The decision, what moved it and what is uncertain about it; `str()` puts it in words."""
        return self._as_of_now(self._explain)

    def _explain(self) -> Explanation:
        if self.stage > 0 and self._before is None:
            self._before = self._past.snapshot(self.stage - 1)
        record = next(self._past.records(self.stage, self.stage), None)
        return explain(self._stream, self._now, self._before, record, self.alarms)

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
                    head = self._store.go_back(self._head, saved, fixed_arrays)
                    break
                except StaleStateError:
                    self._load()
            self._move(now, head)
            self._alarms = None
            return self.decision

    def replay(self, since: int = 0) -> Replay:
        """Computes stages again from the stored batches, and compares to the last bit.

        Args:
            since: Stages up to this one may be taken from a checkpoint; 0 starts from the prior.
        """
        return self._as_of_now(lambda: self._past.replay(self._now, since))

    def verify(self) -> None:
        """Reads everything in the store and checks it; files above 16 MB are not when opened.

        Raises:
            StoreError: If anything is damaged or missing.
        """
        self._as_of_now(lambda: self._store.verify(self._store.load()))

    def close(self) -> None:
        """Lets go of the file, unless it is shared. What was observed is stored already."""
        if not self._shared:
            self._database.close()

    def __repr__(self) -> str:
        return f"Agent({in_short(self._now)}, path={self._database.path!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answered_before(
        self, stage: int, batch: Batch, rows: np.ndarray, x: np.ndarray | None
    ) -> np.ndarray:
        given = None if x is None else x.tobytes()
        if (batch.rows, batch.x) != (rows.tobytes(), given):
            raise DuplicateBatchError(
                f"batch {batch.id!r} was observed before, at stage {stage}, with other data"
            )
        if stage > self.stage:
            self._load()
        with self._database.reading():
            return self._codec.read_answer(batch.answer).decision[()]

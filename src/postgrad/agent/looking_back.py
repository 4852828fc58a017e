"""What an agent tells: what is known now, and what was."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from jaxtyping import PyTree

from postgrad.agent.changes.replaying import Past, Replaying
from postgrad.agent.explanation import explain, interval_now
from postgrad.agent.input_checks import as_name
from postgrad.agent.pooling.membership import Membership
from postgrad.agent.shared_parts import shared_parts
from postgrad.agent.state_codec import StateCodec
from postgrad.agent.stored_history import StoredHistory
from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.beliefs.belief import Belief
from postgrad.engine.snapshot import Snapshot
from postgrad.engine.stream import Stream
from postgrad.errors import BatchError, SettingError
from postgrad.monitoring.misspecification import Monitor
from postgrad.problem.problem import Problem
from postgrad.records.alarm import Alarm
from postgrad.records.explanation import Explanation
from postgrad.records.record import Record, Replay
from postgrad.records.streams.stream_events import CHANGED, StreamEvent
from postgrad.store import Database, StaleStateError, Store, StreamHead

Read = TypeVar("Read")


class LookingBack:
    """What does not change an agent. It is of use as a part of `Agent` only."""

    _database: Database
    _store: Store
    _stream: Stream
    _codec: StateCodec
    _past: StoredHistory
    _now: Snapshot
    _head: StreamHead
    _before: Snapshot | None
    _alarms: list[Alarm] | None
    _prior: Belief
    _alpha: float
    _options: dict[str, Any]
    _membership: Membership | None
    _context: PyTree

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
    def interval(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Where the best decision lies, with 95 % entry by entry; None where nothing tells."""
        return interval_now(self._now)

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

    def history(self, last: int | None = None, *, first: int = 1) -> Iterator[Record]:
        """What was observed and decided, from the first batch to the last, read as it is asked for.

        Args:
            last: Only so many of the latest batches.
            first: Only batches from this stage on.

        Raises:
            StoreError: At the first batch that is damaged, or if another process goes back in the
                stream meanwhile.
        """
        for name, value in (("last", last), ("first", first)):
            if value is not None and (type(value) is not int or value < 0):
                raise SettingError(f"{name} must be a whole number, got {value!r}")
        return self._past.told(self._as_of_now(lambda: self._past.latest(self.stage, last, first)))

    def record(self, id: str) -> Record | None:  # noqa: A002
        """What came of the batch of that id; None if there was none.

        Raises:
            StoreError: If it is damaged.
        """
        key = as_name(id, BatchError, "id")
        return self._as_of_now(lambda: self._past.record(key))

    def beliefs(self, stages: Iterable[int]) -> Iterator[Belief]:
        """What was believed after each of some stages, in order: learned again, batch by batch.

        Raises:
            StoreError: If a batch is damaged.
        """
        return self._past.told(self._past.beliefs(stages))

    def explain(self, *, shares: bool = False) -> Explanation:
        """The decision, what moved it and what is uncertain about it; `str()` puts it in words.

        Args:
            shares: Whether to compute how much of the last move was learning, and how much the
                search that went on. It takes a search.
        """
        return self._as_of_now(lambda: self._explain(shares))

    def _explain(self, shares: bool) -> Explanation:
        if self.stage > 0 and self._before is None:
            self._before = self._past.snapshot(self.stage - 1)
        record = next(self._past.records(self.stage, self.stage), None)
        events = self._past.events.all
        parts = self._stream, self._now, self._before, record, self.alarms, events
        return explain(*parts, shares=shares)

    @property
    def events(self) -> tuple[StreamEvent, ...]:
        """What happened besides batches: other versions, corrections, changes.

        Raises:
            StoreError: If it is damaged.
        """
        return self._as_of_now(lambda: self._past.events.all)

    def replay(self, since: int = 0, earlier: Sequence[Problem] = ()) -> Replay:
        """Computes stages again from the stored batches, and compares to the last bit.

        The result says which stages were computed by other versions of postgrad, JAX, jaxlib or on
        another processor, and which cannot be computed again.

        Args:
            since: Stages up to this one may be taken from a checkpoint; 0 starts from the prior.
            earlier: The problems before it was changed, if it was: the last one is the one that was
                changed last.
        """

        def pasts() -> list[Past]:
            log = self._past.events
            numbers = [number for number, one in log.in_force if one.kind == CHANGED]
            return [
                self._past_of(problem, number)
                for problem, number in zip(reversed(earlier), reversed(numbers), strict=False)
            ][::-1]

        return self._as_of_now(
            lambda: Replaying(Past(self._past, self._codec), pasts(), self._store).replay(
                self._now, since
            )
        )

    def population_version(self, stage: int | None = None) -> int | None:
        """Which version of its population a stage used: how many batches of members it knew.

        Args:
            stage: The stage; the latest, if not given.

        Returns:
            The version; None without a pool, or if there was no such stage.

        Raises:
            StoreError: If it is damaged.
        """
        if self._membership is None:
            return None
        with self._database.lock:
            return self._membership.version(self.stage if stage is None else stage)

    def verify(self) -> None:
        """Reads everything in the store and checks it; files above 16 MB are not when opened.

        Raises:
            StoreError: If anything is damaged or missing.
        """
        self._as_of_now(lambda: self._store.verify(self._store.load()))
        if self._membership is not None:
            self._as_of_now(self._membership.verify)

    def _as_of_now(self, read: Callable[[], Read]) -> Read:
        """What is read of the past; if another process has gone back in it, anew from there."""
        with self._database.lock:
            while True:
                with suppress(StaleStateError):
                    found = read()
                    if self._store.is_past(self._head):
                        return found
                self._load()

    def _past_of(self, problem: Problem, until: int) -> Past:
        """What computes the stages of an earlier problem, up to the event that changed it."""
        x = np.asarray(self._past.events.changed(until).details["x"], float)
        policy = BayesianSGD(problem, **self._options)
        x = x.reshape(self._now.decision.shape)
        parts = shared_parts(policy, self._prior, x, self._alpha, self._context)
        history = StoredHistory(parts.stream, parts.codec, self._store, until, self._membership)
        history.take_up(self._head)
        return Past(history, parts.codec)

    def _load(self) -> None:
        raise NotImplementedError

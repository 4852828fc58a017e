"""One stream on the host: stage by stage, each from a snapshot to the next, changing nothing."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, Info, State
from postgrad.algorithm.descents import Doubt
from postgrad.beliefs import Belief
from postgrad.beliefs.belief import first
from postgrad.beliefs.grid import live_points
from postgrad.beliefs.kept_likelihood import room, with_room
from postgrad.engine.packing import Packed
from postgrad.engine.padding import padded
from postgrad.engine.programs import Descending, Learning, programs, split
from postgrad.engine.stage import DescendVerdict, LearnVerdict, read
from postgrad.errors import DivergenceError, ImpossibleDataError, StepSizeError, SupportError
from postgrad.monitoring import assumptions
from postgrad.monitoring.assumptions import AssumptionFailedError
from postgrad.monitoring.misspecification import Alarm, Monitor
from postgrad.monitoring.progress_warnings import Stall
from postgrad.problem.problem import kind_of


class Report(NamedTuple):
    """What a stage reports.

    Attributes:
        learn: A `LearnReport`, packed; of padding too.
        descend: A `DescendReport`, packed.
        rows: How many rows the batch had.
    """

    learn: Packed
    descend: Packed
    rows: int


class Snapshot(NamedTuple):
    """Everything that is known between two batches.

    Attributes:
        stage: How many batches were observed.
        decision: The decision in force.
        belief: pi_t.
        search: The rest of the algorithm's state, packed: the iterate, what the descent remembers.
        test: The test of whether batches come as foreseen, packed.
        report: What the last stage reported; None before the first.
        answer: What the verdicts of the last stage say is kept with the batch, as bytes.
        alarm: The alarm that the last stage raised, if any.
        stall: Counts stages without progress.
        warning: What the last stage gave reason to warn of, if anything.
        next_look: The stage at which to look at all points of large grids again.
        room: How many rows fit into the data that the belief keeps.
        fixed_since: The stage at which arrays that stages do not change were last replaced; 0 if
            they are those of the beginning.
        without: Assumptions that are not made any more, as bits.
    """

    stage: int
    decision: np.ndarray
    belief: Belief
    search: Packed
    test: Packed
    report: Report | None
    answer: bytes
    alarm: Alarm | None
    stall: Stall
    warning: UserWarning | None
    next_look: int
    room: int
    fixed_since: int
    without: int

    @property
    def state(self) -> State:
        """What the algorithm carries from stage to stage."""
        return dataclasses.replace(self.search.tree_of_arrays(), belief=self.belief)

    @property
    def monitor(self) -> Monitor:
        """The test of whether batches come as foreseen."""
        return self.test.tree_of_arrays()

    @property
    def info(self) -> Info | None:
        """What the last stage told about itself; None before the first."""
        if self.report is None:
            return None
        foreseen, surprise = self.report.learn.tree_of_arrays().learned
        descended = self.report.descend.tree_of_arrays().descended
        return Info(foreseen[: self.report.rows], surprise, *descended)


class Stream:
    """Computes the stages of one stream.

    Attributes:
        policy: Whose stages these are.
        event_shape: The shape of one observation.
        start: The snapshot before the first batch.
    """

    def __init__(self, policy: BayesianSGD, belief: Belief, x: Any, alpha: Any):
        """Tries all parts on each other; see `BayesianSGD.init` and `Monitor`."""
        self.policy = policy
        state = self._state = policy.init(belief, x)
        theta = first(belief.examples())
        likelihood = policy.problem.likelihood
        self.event_shape = policy.problem.event_shape(state.x, theta)
        self._data_depend = kind_of(likelihood, state.x, theta).depends_on_decision
        self._uses_mixture = policy.gradient.uses_mixture
        self._numbers, plan = split(policy)
        self._programs = programs(plan)
        self._test = Packed.of(Monitor(self.event_shape, alpha=alpha), np.concatenate)
        self.start = self.begin(0)

    def begin(self, without: int) -> Snapshot:
        """The snapshot before the first batch, some assumptions (bits) not made: see `after`.

        Raises:
            ModelError: If the belief has learned before, and can no longer do without.
        """
        state = assumptions.without(self._state, self.policy.problem.likelihood, without)
        return Snapshot(
            stage=0,
            decision=np.asarray(state.decision),
            belief=state.belief,
            search=Packed.of(dataclasses.replace(state, belief=None), np.concatenate),
            test=self._test,
            report=None,
            answer=b"",
            alarm=None,
            stall=Stall(),
            warning=None,
            next_look=live_points.patience(state.belief),
            room=room(state.belief),
            fixed_since=0,
            without=without,
        )

    def after(
        self, before: Snapshot, rows: Float[np.ndarray, "D ..."], x: np.ndarray | None = None
    ) -> Snapshot:
        """One stage.

        Args:
            before: Where to start from; it is not changed.
            rows: The batch.
            x: The decision in force, if not the last one issued.

        Raises:
            SupportError, ImpossibleDataError, ModelError: If the batch cannot have happened.
            StepSizeError: If the schedule has come to a step size that is not positive.
            DivergenceError: If the gradient or the new decision is not finite.
            AssumptionFailedError: If an assumption does not hold here. Then all batches so far must
                be learned again, from a beginning without it: see `begin`.
        """
        batch, weight = padded(rows)
        belief, free, fixed_since = before.belief, before.room, before.fixed_since
        if free < len(batch):
            belief = with_room(belief, len(batch))
            free = room(belief)
        learning = self._learn(before, belief, batch, weight, x)
        learn = read(LearnVerdict, learning.report.first())
        self._check_assumed(before, learn)
        if not (learn.possible and learn.proper):
            self._refuse(before, rows, x)
        if not learn.negligible:  # then all points are computed
            belief, fixed_since = live_points.unfocused(before.belief), before.stage + 1
            learning = self._learn(before, belief, batch, weight, x)
            learn = read(LearnVerdict, learning.report.first())
        search, told = self._descend(before, learning.belief, learning.draws, len(rows))
        descend = read(DescendVerdict, told.first())
        self._check_assumed(before, descend)
        if not (descend.positive_step and descend.finite):
            self._stop(before, descend, told)
        stall, warning = before.stall.after(Doubt(int(descend.doubt)), *self._taught(descend))
        belief, stage, next_look = learning.belief, before.stage + 1, before.next_look
        if stage >= next_look:
            belief = live_points.focused(belief)
            next_look, fixed_since = stage + live_points.patience(belief), stage
        return Snapshot(
            stage=stage,
            decision=self._decision(descend),
            belief=belief,
            search=search,
            test=learning.monitor,
            report=Report(learning.report, told, len(rows)),
            answer=descend.answer.tobytes() + learn.answer.tobytes(),
            alarm=learning.monitor.tree_of_arrays().alarm() if learn.alarmed else None,
            stall=stall,
            warning=warning,
            next_look=next_look,
            room=free - len(rows),
            fixed_since=fixed_since,
            without=before.without,
        )

    def without_data(self, before: Snapshot) -> np.ndarray | None:
        """Where the descent goes on to without a batch; None if that is not finite."""
        draws = self._programs.draw(self._numbers, before.belief, before.search)
        _, report = self._descend(before, before.belief, draws, 0)
        decision = self._decision(read(DescendVerdict, report.first()))
        return decision if np.isfinite(decision).all() else None

    def _learn(
        self,
        before: Snapshot,
        belief: Belief,
        batch: np.ndarray,
        weight: np.ndarray,
        x: np.ndarray | None,
    ) -> Learning:
        return self._programs.learn(
            self._numbers, belief, before.search, before.test, batch, weight, x
        )

    def _descend(self, before: Snapshot, belief: Belief, draws: Draws, rows: int) -> Descending:
        mixture = belief if self._uses_mixture else None
        return self._programs.descend(self._numbers, draws, mixture, before.search, float(rows))

    def _decision(self, verdict: DescendVerdict) -> np.ndarray:
        shape = self.start.decision.shape
        return np.ndarray(shape, float, verdict.answer)

    def _taught(self, verdict: DescendVerdict) -> tuple[bool, float, float]:
        """What the data were good for: see `Teaching`; always the same if x does not matter."""
        if not self._data_depend:
            return False, 0.0, 0.0
        return bool(verdict.stands), verdict.value, verdict.usual

    def _check_assumed(self, before: Snapshot, verdict: LearnVerdict | DescendVerdict) -> None:
        if verdict.failed:
            raise AssumptionFailedError(before.without | int(verdict.failed))

    def _stop(self, before: Snapshot, verdict: DescendVerdict, told: Packed) -> None:
        if not verdict.positive_step:
            raise StepSizeError(f"the step size at stage {before.stage + 1} must be positive")
        gradient = np.asarray(told.tree_of_arrays().descended.course.gradient)
        raise DivergenceError(
            f"the step from x = {before.decision[()]} is not finite: the gradient was "
            f"{gradient.tolist()}; use smaller steps or a bounded feasible set"
        )

    def _refuse(self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None) -> None:
        """Finds out what is wrong with a batch that cannot have happened, and says so."""
        problem, thetas = self.policy.problem, before.belief.examples()
        place = jnp.asarray(before.decision if x is None else x)
        problem.check_models(place, thetas)
        for number, row in enumerate(rows):
            y = jnp.asarray(row)
            inside = jax.vmap(lambda theta, y=y: problem.likelihood(place, theta).support(y))(
                thetas
            )
            if not np.any(inside):
                raise SupportError(
                    f"row {number} of the batch, {row}, lies outside the model's support "
                    f"for every theta, at x = {np.asarray(place)}"
                )
        raise ImpossibleDataError(
            f"no theta in the belief's support explains the batch {rows.tolist()} "
            f"at x = {np.asarray(place)}: each has density zero"
        )

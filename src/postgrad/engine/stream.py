"""One stream on the host: stage by stage, each from a snapshot to the next, changing nothing."""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, State
from postgrad.algorithm.descents.descent import Doubt
from postgrad.algorithm.outputs import Issued
from postgrad.beliefs.belief import Belief, first
from postgrad.beliefs.grid import live_points
from postgrad.beliefs.kept_likelihood import room, with_room
from postgrad.engine.compiling import quietly
from postgrad.engine.impossible import refuse
from postgrad.engine.no_report import no_descend_report, no_learn_report
from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.packing import Packed
from postgrad.engine.padding import padded
from postgrad.engine.policy_in_contexts import PolicyInContexts
from postgrad.engine.programs import Descending, Learning, bare, programs
from postgrad.engine.questions.ruled import has_rules
from postgrad.engine.questions.solving import Solving
from postgrad.engine.snapshot import Report, Snapshot
from postgrad.engine.stage import DescendVerdict, LearnVerdict, read
from postgrad.errors import DivergenceError, StepSizeError
from postgrad.monitoring import assumptions
from postgrad.monitoring.assumptions import AssumptionFailedError, check_fits
from postgrad.monitoring.misspecification import Monitor
from postgrad.monitoring.progress_warnings import Stall
from postgrad.numerics.validate import on_device
from postgrad.problem.outcomes import check_outcomes
from postgrad.problem.problem import kind_of


class _Learned(NamedTuple):
    """A stage of which the descent is still missing.

    Attributes:
        snapshot: The snapshot, with the decision and the search of the one before.
        learned: pi_t as it was learned: large grids look at all points afterwards.
        report: A `LearnReport`, packed.
    """

    snapshot: Snapshot
    learned: Belief
    report: Packed


class Stream(Solving):
    """Computes the stages of one stream.

    In a problem with contexts a stage learns, and does not descend: nothing is assumed about the
    context of the next decision. Each decision is sought for its own context: see `solve`.

    Attributes:
        policy: Whose stages these are; with contexts, in the example.
        contexts: The policy in any context.
        event_shape: The shape of one observation.
        start: The snapshot before the first batch.
    """

    def __init__(
        self, policy: BayesianSGD, belief: Belief, x: Any, alpha: Any, context: PyTree = None
    ):
        """Tries all parts on each other; see `BayesianSGD.init` and `Monitor`.

        Raises:
            ContextError: If the context is none, or the problem takes none.
        """
        self.contexts = PolicyInContexts(policy, context)
        self.policy = policy = self.contexts.policy
        with quietly():
            state = self._state = bare(policy).init(belief, x)
            check_outcomes(policy.problem, state.x, belief.examples())
        theta = first(belief.examples())
        likelihood = policy.problem.likelihood
        self.event_shape = policy.problem.event_shape(state.x, theta)
        self._data_depend = kind_of(likelihood, state.x, theta).depends_on_decision
        self._uses_mixture = policy.gradient.uses_mixture
        self._numbers = self.contexts.numbers
        self._programs = programs(self.contexts.plan)
        self._test = Packed.of(Monitor(self.event_shape, alpha=alpha), np.concatenate)
        # Searches that know nothing but the first decision, by the assumptions not made.
        self._fresh: dict[int, Packed] = {}
        self.start = self.begin(0)

    def begin(self, without: int) -> Snapshot:
        """The snapshot before the first batch, some assumptions (bits) not made: see `after`.

        Raises:
            ModelError: If the belief has learned before, and can no longer do without.
        """
        state = self._beginning(without)
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
            time=math.nan,
        )

    def _beginning(self, without: int) -> State:
        return assumptions.without(self._state, self.policy.problem.likelihood, without)

    def after(
        self,
        before: Snapshot,
        rows: Float[np.ndarray, "D ..."],
        x: np.ndarray | None = None,
        on: Occasion = USUAL,
    ) -> Snapshot:
        """One stage.

        Args:
            before: Where to start from; it is not changed.
            rows: The batch.
            x: The decision in force, if not the last one issued.
            on: The occasion on which the batch arose.

        Raises:
            SupportError, ImpossibleDataError, ModelError: If the batch cannot have happened.
            StepSizeError: If the schedule has come to a step size that is not positive.
            DivergenceError: If the gradient or the new decision is not finite.
            AssumptionFailedError: If an assumption does not hold here. Then all batches so far must
                be learned again, from a beginning without it: see `begin`.
        """
        if self.contexts.example is not None:
            return self._answering(self.relearned(before, rows, x, on))
        if has_rules(self.policy.problem):
            return self._stage_under_rules(before, self.relearned(before, rows, x, on))
        new, draws = self._learned(before, rows, x, on)
        search, told = self._descend(before, new.learned, draws, len(rows))
        descend = read(DescendVerdict, told.first())
        self._check_assumed(before, descend)
        if not (descend.positive_step and descend.finite):
            self._stop(before, descend, told)
        stall, warning = before.stall.after(Doubt(int(descend.doubt)), *self._taught(descend))
        return new.snapshot._replace(
            decision=self._decision(descend),
            search=search,
            report=Report(new.report, told, len(rows)),
            answer=descend.answer.tobytes() + new.snapshot.answer,
            stall=stall,
            warning=warning,
        )

    def _answering(self, snapshot: Snapshot) -> Snapshot:
        """With an answer that names the decision in force, about which nothing new is known."""
        unknown = np.full(2 * snapshot.decision.size, np.nan)
        decided = np.ravel(snapshot.decision).tobytes() + unknown.tobytes()
        return snapshot._replace(answer=decided + snapshot.answer)

    def relearned(
        self,
        before: Snapshot,
        rows: Float[np.ndarray, "D ..."],
        x: np.ndarray | None,
        on: Occasion = USUAL,
    ) -> Snapshot:
        """One stage without its descent: what is believed, and the test, from the batch.

        The random numbers are those of `after`. The decision and the search are those of `before`,
        but for the number of the stage: see `anew`. Of an empty batch, nothing is learned.

        Args:
            before: Where to start from; it is not changed.
            rows: The batch.
            x: The decision in force.
            on: The occasion on which the batch arose.

        Raises:
            SupportError, ImpossibleDataError, ModelError, AssumptionFailedError: As for `after`.
        """
        stage = before.stage + 1
        search, report = _numbered(before.search, stage), before.report
        if report is None:
            learn = no_learn_report(self.event_shape, 0)
            report = Report(learn, no_descend_report(before.decision), 0)
        if len(rows) == 0:
            later = before if on == USUAL else self._advanced(before, on)
            return later._replace(
                stage=stage, search=search, report=report, alarm=None, warning=None
            )
        new, _ = self._learned(before, rows, x, on)
        report = report._replace(learn=new.report, rows=len(rows))
        return new.snapshot._replace(search=search, report=report)

    def anew(self, snapshot: Snapshot, decision: np.ndarray) -> Snapshot:
        """The snapshot with a search that knows nothing but the decision that it starts from."""
        return snapshot._replace(
            decision=np.asarray(decision),
            search=self._search_at(snapshot, snapshot.stage, decision),
            stall=Stall(),
            warning=None,
        )

    def sought(self, snapshot: Snapshot) -> Snapshot:
        """The decision sought anew, from that of the snapshot, under what it believes.

        With contexts there is nothing to seek: each decision is sought for its own context.

        A search looks at the whole feasible set, as in a first stage; steps of other kinds are
        those of the snapshot's stage. The random numbers follow from (seed, stage).

        Raises:
            StepSizeError, DivergenceError, AssumptionFailedError: As for `after`.
        """
        if snapshot.report is None or self.contexts.example is not None:
            return snapshot
        number = 1 if self.policy.descent.fixes_draws else snapshot.stage
        rows = max(snapshot.report.rows, 1)
        before = snapshot._replace(
            stage=number - 1, search=self._search_at(snapshot, number - 1, snapshot.decision)
        )
        draws, _ = self._programs.draw(self._numbers, before.belief, before.search, None)
        search, told = self._descend(before, before.belief, draws, rows)
        descend = read(DescendVerdict, told.first())
        self._check_assumed(before, descend)
        if not (descend.positive_step and descend.finite):
            self._stop(before, descend, told)
        state = dataclasses.replace(search.tree_of_arrays(), stage=_number(snapshot.stage + 1))
        found = snapshot._replace(
            decision=self._decision(descend),
            search=Packed.of(state, np.concatenate),
            report=snapshot.report._replace(descend=told),
            stall=Stall(),
            warning=None,
        )
        return self._under_rules(snapshot.decision, found)

    def _search_at(self, snapshot: Snapshot, stage: int, decision: np.ndarray) -> Packed:
        """A search that knows nothing but where it starts from, after so many stages."""
        state, x = self._beginning(snapshot.without), jnp.asarray(decision)
        output = self.policy.output
        fresh = dataclasses.replace(
            state,
            belief=None,
            stage=_number(stage + 1),
            x=x,
            progress=self.policy.descent.init(x, first(state.belief.examples()), state.additive),
            output=Issued(output, output.init(x)),
            whole=None if state.whole is None else x,
        )
        return Packed.of(fresh, np.concatenate)

    def _learned(
        self, before: Snapshot, rows: np.ndarray, x: np.ndarray | None, on: Occasion
    ) -> tuple["_Learned", Draws]:
        """Bayes' rule; what the descent finds is still missing from the snapshot."""
        numbers = self.contexts.numbers_on(on)
        batch, weight = padded(rows)
        belief, free, fixed_since = before.belief, before.room, before.fixed_since
        if free < len(batch):
            belief = with_room(belief, len(batch))
            free = room(belief)
        learning = self._learn(numbers, before, belief, batch, weight, x, on)
        learn = read(LearnVerdict, learning.report.first())
        self._check_assumed(before, learn)
        if not (learn.possible and learn.proper):
            place = jnp.asarray(before.decision if x is None else x)
            refuse(self.contexts.problem_on(on), place, before.belief.examples(), rows)
        if not learn.negligible:  # then all points are computed
            belief, fixed_since = live_points.unfocused(before.belief), before.stage + 1
            learning = self._learn(numbers, before, belief, batch, weight, x, on)
            learn = read(LearnVerdict, learning.report.first())
        belief, stage, next_look = learning.belief, before.stage + 1, before.next_look
        if stage >= next_look:
            belief = live_points.focused(belief)
            next_look, fixed_since = stage + live_points.patience(belief), stage
        snapshot = before._replace(
            stage=stage,
            belief=belief,
            test=learning.monitor,
            answer=learn.answer.tobytes(),
            alarm=learning.monitor.tree_of_arrays().alarm() if learn.alarmed else None,
            warning=None,
            next_look=next_look,
            room=free - len(rows),
            fixed_since=fixed_since,
            time=_latest(before.time, on.time),
        )
        return _Learned(snapshot, learning.belief, learning.report), learning.draws

    def without_data(self, before: Snapshot) -> np.ndarray | None:
        """Where the descent goes on to without a batch; None if that is not finite."""
        draws, _ = self._programs.draw(self._numbers, before.belief, before.search, None)
        _, report = self._descend(before, before.belief, draws, 0)
        decision = self._decision(read(DescendVerdict, report.first()))
        return decision if np.isfinite(decision).all() else None

    def _learn(
        self,
        numbers: list[jax.Array],
        before: Snapshot,
        belief: Belief,
        batch: np.ndarray,
        weight: np.ndarray,
        x: np.ndarray | None,
        on: Occasion,
    ) -> Learning:
        # Where there are no contexts and no dates, one unit of time is part of the program.
        elapsed = None if on == USUAL else np.float64(1.0 if on.elapsed is None else on.elapsed)
        with quietly():
            return self._programs.learn(
                numbers, belief, before.search, before.test, batch, weight, x, elapsed
            )

    def _advanced(self, before: Snapshot, on: Occasion) -> Snapshot:
        """After the time of a batch of which nothing is learned."""
        elapsed = np.float64(1.0 if on.elapsed is None else on.elapsed)
        belief = _advance(before.belief, elapsed)
        return before._replace(belief=belief, time=_latest(before.time, on.time))

    def _descend(self, before: Snapshot, belief: Belief, draws: Draws, rows: int) -> Descending:
        mixture = belief if self._uses_mixture else None
        with quietly():
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
            check_fits(int(verdict.failed), before.belief)
            raise AssumptionFailedError(before.without | int(verdict.failed))

    def _stop(self, before: Snapshot, verdict: DescendVerdict, told: Packed) -> None:
        if not verdict.positive_step:
            raise StepSizeError(f"the step size at stage {before.stage + 1} must be positive")
        gradient = np.asarray(told.tree_of_arrays().descended.course.gradient)
        raise DivergenceError(
            f"the step from x = {before.decision[()]} is not finite: the gradient was "
            f"{gradient.tolist()}; use smaller steps or a bounded feasible set"
        )


def _numbered(search: Packed, stage: int) -> Packed:
    """A packed search that has come to another stage; the number is the first of its words."""
    words = np.array(search.words)
    words[0] = stage + 1
    return Packed(on_device(words), search.layout)


@eqx.filter_jit
def _advance(belief: Belief, elapsed: Any) -> Belief:
    return belief.advance(elapsed)


def _latest(time: float, other: float | None) -> float:
    """The later of two dates, each of which may not be known."""
    return time if other is None else float(np.fmax(time, other))


def _number(stage: int) -> jax.Array:
    """The number of a stage, as states keep it."""
    return on_device(np.int64(stage))

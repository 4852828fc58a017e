"""Bayesian stochastic gradient descent: one stage of the paper, on one screen.

Algorithms 2.1 and 2.2 of Liu, Lin and Zhou are one function here, `BayesianSGD.step`; 2.1 is 2.2
with a model that ignores x. Other parts make it other methods:

==============================  ==========================================================
Algorithm 2.1                   belief `Grid` (or any other), gradient `Pathwise`
Algorithm 2.2                   belief `Grid`, gradient `MixtureScore`
known-parameter benchmark       belief `Known`
MLE method                      belief `MaximumLikelihood`
repeated gradient descent       gradient `Partial`
==============================  ==========================================================
"""

import dataclasses
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jax import random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.as_descent import as_descent
from postgrad.algorithm.descents.descent import Course, Descent, Plan, Stage
from postgrad.algorithm.gradients.automatic import Automatic
from postgrad.algorithm.gradients.gradient import Gradient
from postgrad.algorithm.outputs import Issued, Last, Move, Output
from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.algorithm.risks.mean import Mean
from postgrad.algorithm.risks.risk import Risk
from postgrad.algorithm.sample_sizes import sample_sizes, usual_descent
from postgrad.algorithm.sampled_objective import SampledObjective, has_tails
from postgrad.algorithm.separable_cost import adds_at, adds_over_coordinates, adds_over_decisions
from postgrad.algorithm.stage_results import Descended, Learned
from postgrad.algorithm.surprise import Surprise, surprise
from postgrad.algorithm.whole_numbers.whole_decision import whole_decision
from postgrad.beliefs.belief import Belief, check_belief, first
from postgrad.beliefs.statistics_in_force import statistics_hold
from postgrad.errors import BatchError, SettingError
from postgrad.numerics.lattice_keys import purpose
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_count, as_key, as_number, is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.own_identity import as_of_now
from postgrad.problem.problem import Decision, Problem

# What keys of a stage are for, far from the numbers that descents use.
_OUTPUT, _BELIEF, _SURPRISE, _TRIAL = 1, 2**32 - 1, 2**32 - 2, 2**32 - 3
# Assumptions, as bits: see `State.only_marginals`, `statistics_hold` and `Belief.fits`.
ADDS, SUFFICE, FITS = 1, 2, 4


class State(eqx.Module):
    """Everything that is carried from stage to stage. No random key: that derives from the stage.

    Attributes:
        stage: t, the number of the stage to come: 1 before the first batch.
        belief: pi_{t-1}; None while a descent is computed that does not read it.
        x: x_t, the iterate of the descent, which works in the relaxation of the feasible set.
        progress: What the descent remembers.
        output: What is issued, given the iterates so far: the rule and what it remembers.
        only_marginals: Whether the cost adds over the coordinates of xi: see `marginals`.
        additive: Whether the cost adds over the coordinates of x: see `adds_over_decisions`.
        tails: Whether xi is drawn far out as well: see `has_tails`.
        failed: Which assumptions did not hold at some stage so far, as bits; zero if all did.
        whole: The decision that is issued, where entries of it are whole numbers or the like; None
            where the feasible set is convex.
    """

    stage: Int[Array, ""]
    belief: Any
    x: Decision
    progress: PyTree
    output: Issued
    only_marginals: bool = eqx.field(static=True)
    additive: bool = eqx.field(static=True)
    tails: bool = eqx.field(static=True)
    failed: Int[Array, ""]
    whole: Decision | None = None

    @property
    def decision(self) -> Decision:
        """What is issued and in force: x_t, unless the output or the feasible set has another."""
        return self.output.decision(self.x) if self.whole is None else self.whole


class Draws(NamedTuple):
    """What a descent takes from the belief. Its shapes do not depend on how the belief is kept.

    Attributes:
        thetas: theta ~ pi_t.
        size: N, how many observations the belief counts.
        mixture: pi_t itself, for gradients that read its mixture density; None for the others.
        wide: Thetas for the mean cost, and how much each counts: see `Descent.sample_wide`.
    """

    thetas: PyTree
    size: Float[Array, ""]
    mixture: Belief | None
    wide: tuple[PyTree, Float[Array, " m"]] | None


class Info(eqx.Module):
    """What a stage tells about itself: see `Learned` and `Descended`."""

    log_predictive: Float[Array, " D"]
    surprise: Surprise
    course: Course
    outlook: Outlook


class BayesianSGD(Policy):
    """The paper's algorithm, its parts chosen by the user.

    With nothing chosen it issues the decision that the posterior deserves, the minimiser of the
    posterior-averaged cost, to within what matters: see `Search`. `presets.paper()` are the options
    of the algorithm as the paper prints it.

    Attributes:
        problem: Cost, model and feasible set.
        gradient: The estimator of the gradient of the Bayesian average.
        descent: What is done with it.
        risk: How costs under different theta are weighed; the paper takes their mean.
        output: What is issued: the last iterate, an average or the rate theorem's z_T.
        iterations: K, gradient steps a stage.
        samples: Draws that each gradient averages over: of theta, and of xi for each of these.
        key: The seed. Stage t uses what follows from (key, t) and nothing else.
    """

    problem: Problem
    gradient: Gradient
    descent: Descent
    risk: Risk
    output: Output
    iterations: int = eqx.field(static=True)
    samples: tuple[int, int] = eqx.field(static=True)
    key: Array

    def __init__(
        self,
        problem: Problem,
        gradient: Gradient | None = None,
        *,
        steps: Any = None,
        risk: Risk | None = None,
        output: Output | None = None,
        iterations: int | None = None,
        samples: int | tuple[int, int] | None = None,
        seed: int | Array = 0,
    ):
        """Choose the parts.

        Args:
            problem: Cost, model and feasible set.
            gradient: Pathwise where the model allows it, a sum over all values or the score
                elsewhere, if not given.
            steps: A descent such as `Search()` (the default); a number, a schedule t -> a_t or an
                optax optimiser for plain projected steps.
            risk: `Mean()`, if not given.
            output: `Last()` (if not given), `Average()`, `RandomIterate()` or `Perturbed(...)`.
            iterations: K; 6 for a search and 1 for others, if not given.
            samples: Draws for each gradient, or a pair: of theta, and of xi for each of these.
                4096 = 256 x 16 for a search and 1 for others, if not given. With powers of two the
                draws are evenly spread; with fewer than 32 the default is `Newton()`.
            seed: A number or a JAX key.

        Raises:
            StepSizeError: If the first step size is not positive.
            SettingError: If a count is not a positive whole number, or a part is none.
        """
        self.problem = as_of_now(problem)
        self.gradient = Automatic() if gradient is None else gradient
        self.descent = usual_descent(samples) if steps is None else as_descent(steps)
        self.risk = Mean() if risk is None else risk
        self.output = Last() if output is None else output
        for name, kind, example in (
            ("gradient", Gradient, "Pathwise()"),
            ("risk", Risk, "CVaR(0.9)"),
            ("output", Output, "Average()"),
        ):
            if not isinstance(part := getattr(self, name), kind):
                raise SettingError(f"{name} must be one such as {example}, got {part!r}")
        if iterations is None:
            iterations = self.descent.usual_iterations
        self.iterations = as_count(iterations, SettingError, "iterations")
        self.samples = sample_sizes(samples, self.descent)
        if not isinstance(self.risk, Mean) and not self.descent.fixes_draws:
            raise SettingError(
                f"{self.risk} needs several draws of xi for each of several thetas, which a search "
                f"has; leave `steps` out"
            )
        self.key = as_key(seed, SettingError)

    def at(self, context: PyTree) -> "BayesianSGD":
        """The algorithm in a context: that of `problem.at(context)`."""
        return replaced(self, problem=self.problem.at(context))

    def init(self, belief: Belief | None, x: Any) -> State:
        """The state before the first stage, after trying all parts on each other.

        Args:
            belief: pi_0.
            x: x_1, the initial decision. Its shape is the shape of all decisions.

        Raises:
            DecisionError: If x is not finite numbers inside the feasible set.
            PriorError: If belief is none.
            ModelError, CostError, GradientError: If the parts do not fit.
        """
        if self.problem.constraints or self.problem.change is not None:
            raise SettingError("constraints and change are rules of agents: use pg.Agent")
        belief = check_belief(belief)
        self.problem.check_context()
        x = initial_decision(self.problem, x)
        thetas = belief.examples()
        theta = first(thetas)
        self.problem.check(x, thetas)
        problem = self.problem.relaxed
        belief = belief.bind(problem, x)
        tried = problem.in_trial_contexts(x, thetas)  # what is assumed must hold in all
        self.gradient.check(problem, x, theta)
        only_marginals = (
            self.descent.fixes_draws
            and self.gradient.along_paths
            and all(adds_over_coordinates(one, self.gradient, x, belief) for one in tried)
        )
        additive = (
            self.descent.fixes_draws
            and (isinstance(self.risk, Mean) or x.size == 1)
            and all(adds_over_decisions(one, self.gradient, x, thetas) for one in tried)
        )
        objective = SampledObjective(
            problem,
            self.gradient,
            self.risk,
            None,
            only_marginals=only_marginals,
            additive=additive,
        )
        return State(
            stage=first_stage(),
            belief=belief,
            x=x,
            progress=self.descent.init(x, theta, additive),
            output=Issued(self.output, self.output.init(x)),
            only_marginals=only_marginals,
            additive=additive,
            tails=self.descent.fixes_draws
            and isinstance(self.risk, Mean)  # others weigh thetas by costs of a few draws each
            and has_tails(objective, x, theta),
            failed=on_device(np.int64(0)),
            whole=None if self.problem.feasible.values() is None else x,
        )

    def step(
        self,
        state: State,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
        elapsed: Any = 1.0,
    ) -> tuple[State, Info]:
        """One stage: learn, descend, decide.

        Args:
            state: The state after stage t - 1.
            batch: y_{t,1}, ..., y_{t,D} along the leading axis.
            weight: How much each observation counts; all once, if not given.
            x: The decision in force when the batch arose; the last one issued, if not given.
            elapsed: How many units of time have passed since the last batch; see `Belief.advance`.

        Raises:
            BatchError: If the batch has no rows.
            SettingError: If the elapsed time is not a number, zero or more.
        """
        if np.shape(batch)[:1] in ((), (0,)):
            raise BatchError(f"a batch has its rows along the leading axis, got {np.shape(batch)}")
        seen = Batch(state.decision if x is None else x, batch, weight)
        state, learned = self.learn(state, seen, elapsed)
        state, descended = self.descend(state, seen.size)
        return state, Info(*learned, *descended)

    def learn(self, state: State, batch: Batch, elapsed: Any = 1.0) -> tuple[State, Learned]:
        """Learn: pi_t from pi_{t-1}, the time passed and the batch, and how that was foreseen.

        Args:
            state: The state after stage t - 1.
            batch: The batch of stage t.
            elapsed: How many units of time have passed since the last batch.
        """
        before = self._advanced(state, elapsed)
        new, log_predictive = self._learned(before, batch)
        # by mixing, which compiles to far less
        key = purpose(purpose(self.key, state.stage), _SURPRISE)
        foreseen = surprise(before.belief, self.problem.likelihood, *batch, key)
        return new, Learned(log_predictive, foreseen)

    def update(
        self, state: State, batch: Batch, elapsed: Any = 1.0
    ) -> tuple[State, Float[Array, " D"]]:
        """`learn` without the surprise: pi_t, and log f_hat(y_j; x_t) before it."""
        return self._learned(self._advanced(state, elapsed), batch)

    def _advanced(self, state: State, elapsed: Any) -> State:
        """The state when a batch comes, after the time that has passed without data."""
        if is_concrete(elapsed):
            expected = "a time, zero or more"
            as_number(elapsed, SettingError, "elapsed", expected, lambda time: time >= 0)
        return dataclasses.replace(state, belief=state.belief.advance(elapsed))

    def _learned(self, state: State, batch: Batch) -> tuple[State, Float[Array, " D"]]:
        """The belief after the batch, and log f_hat(y_j; x_t) before it."""
        likelihood, before = self.problem.likelihood, state.belief
        key = self._key(state.stage, _BELIEF)
        belief, log_predictive = before.predict_and_update(likelihood, batch, key)
        failed = state.failed | SUFFICE * ~statistics_hold(before, likelihood, batch.x)
        if self.problem.in_context:
            failed |= FITS * ~before.fits(likelihood, batch)
        return dataclasses.replace(state, belief=belief, failed=failed), log_predictive

    def descend(self, state: State, rows: Float[Array, ""]) -> tuple[State, Descended]:
        """Descend and decide: from x_t to x_{t+1}, given pi_t.

        Args:
            state: The state, with pi_t learned.
            rows: D, how many observations the stage brought.
        """
        return self.descend_on(self.draw(state), state, rows)

    def draw(self, state: State) -> Draws:
        """theta ~ pi_t, as many as the descent takes; the randomness is that of (key, t)."""
        belief = state.belief
        plan = self._plan(state)
        thetas = self.descent.sample_thetas(belief, plan)
        wide = self.descent.sample_wide(belief, plan) if self.risk.is_mean else None
        mixture = belief if self.gradient.uses_mixture else None
        return Draws(thetas, belief.effective_size, mixture, wide)

    def descend_on(
        self, draws: Draws, state: State, rows: Float[Array, ""]
    ) -> tuple[State, Descended]:
        """`descend`, given what it takes from the belief; `state.belief` is passed on unread."""
        problem, t, x, progress = self.problem.relaxed, state.stage, state.x, state.progress
        if problem.in_context:  # in whose feasible set x_1 need not lie
            x = problem.feasible.project(x)
            progress = self.descent.beginning_at(x, progress)
        key_output = self._key(t, _OUTPUT)

        # Descend: K projected steps, theta from the posterior, xi from the model at theta.
        objective = SampledObjective(
            problem,
            self.gradient,
            self.risk,
            draws.mixture,
            only_marginals=state.only_marginals,
            additive=state.additive,
            tails=state.tails,
        )
        stage = Stage(self._plan(state), objective, draws.thetas, rows, draws.size, draws.wide)
        x_next, progress, course, ahead = self.descent.descend(stage, x, progress)

        # Decide: issue the last iterate, or what the output makes of the iterates.
        a_t = self.descent.step_size(t)
        output = state.output.follow(Move(x, x_next, a_t, key_output, problem.feasible))

        whole = state.whole
        if whole is not None:  # entries are whole numbers or the like: choose these by value
            on = stage, self.descent, self.problem.feasible
            around = output.decision(x_next)
            whole, course, ahead = whole_decision(*on, around, self.output.varies, course, ahead)

        failed = state.failed | self._failed(draws, state, x_next)
        new = dataclasses.replace(
            state, stage=t + 1, x=x_next, progress=progress, output=output, failed=failed,
            whole=whole,
        )  # fmt: skip
        return new, Descended(course, ahead)

    def _failed(self, draws: Draws, state: State, x: Decision) -> Int[Array, ""] | int:
        """Which assumptions that the descent made do not hold where it ended, as bits."""
        failed: Array | int = 0
        if state.only_marginals:
            key = purpose(purpose(self.key, state.stage), _TRIAL)
            failed |= ADDS * ~adds_at(self.problem, x, draws.thetas, key)
        if draws.mixture is not None:
            failed |= SUFFICE * ~statistics_hold(draws.mixture, self.problem.likelihood, x)
        return failed

    def _plan(self, state: State) -> Plan:
        key = random.fold_in(self.key, state.stage)
        return Plan(state.stage, key, self.iterations, self.samples)

    def _key(self, t: Int[Array, ""], number: int) -> Array:
        """A key for one part of stage t, apart from those that descents derive from (key, t)."""
        return random.fold_in(random.fold_in(self.key, t), np.uint32(number))

"""One live decision: observe a batch, ask for the decision."""

import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Float

from postgrad.algorithm import BayesianSGD, Info, State
from postgrad.beliefs import Belief, focus
from postgrad.beliefs.evidence import room, with_room
from postgrad.checks import as_array, as_numbers
from postgrad.density import log_density
from postgrad.errors import (
    BatchError,
    DecisionError,
    DivergenceError,
    DuplicateBatchError,
    ImpossibleDataError,
    SettingError,
    StepSizeError,
    SupportError,
)
from postgrad.monitor import Alarm, MisspecificationWarning, Monitor
from postgrad.problem import Decision, Problem, kind_of
from postgrad.remember import once_per_shape
from postgrad.stall import Stall, teaching


class Agent:
    """Keeps one decision good while batches arrive, and says when they do not look like the model.

    Every `observe` is one stage of `BayesianSGD`. Bad input raises a typed error from
    `postgrad.errors` before anything changes: a batch counts entirely or not at all.

    Batches of any size share a few compiled programs (sizes are padded to powers of two), so only
    the first batch of a new size class is slow.
    """

    def __init__(
        self,
        problem: Problem,
        belief: Belief,
        x: Any,
        *,
        alpha: float = 1e-3,
        budget_ms: float | None = None,
        **options: Any,
    ):
        """Start from a prior and an initial decision.

        Args:
            problem: Cost, model and feasible set.
            belief: pi_0.
            x: x_1, the decision in force until the first batch.
            alpha: The level of alarms: see `Monitor`.
            budget_ms: How long a stage may take. K is then as large as fits, found by timing two
                values of it here and now; `iterations` tells what came out.
            **options: As for `BayesianSGD`: gradient, steps, risk, output, iterations, samples,
                seed.

        Raises:
            SettingError: If both budget_ms and iterations are given, or the budget is not positive.
        """
        if budget_ms is not None:
            options["iterations"] = _affordable(problem, belief, x, budget_ms, options)
        self._algorithm = BayesianSGD(problem, **options)
        state = self._algorithm.init(belief, x)
        theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
        self._event_shape = problem.event_shape(state.x, theta)
        self._ids: set[str] = set()
        self._numbers = jax.tree.leaves(eqx.filter(self._algorithm, eqx.is_array))
        monitor = Monitor(self._event_shape, alpha=alpha)
        self._watch, self._watch_tree = jax.tree.flatten(monitor)
        self._go_on_from(state)
        self._focuses, self._look = focus.can_focus(state), focus.patience(state)
        self._decision = np.asarray(state.decision)
        self._info: Info | None = None
        self._count = 0
        self._alarms: list[Alarm] = []
        self._stall = Stall()

    def _go_on_from(self, state: State) -> None:
        """Takes up a state, whose arrays may be larger than those of the last."""
        # Between batches the state is a list of arrays: taking trees apart and putting them
        # together again would cost more than the stage itself.
        self._leaves, self._tree = jax.tree.flatten(state)
        self._stage = _program(self._algorithm, state)
        self._room = room(state)

    @property
    def decision(self) -> np.ndarray:
        """The decision in force, in the shape of the initial x."""
        return self._decision[()]

    @property
    def state(self) -> State:
        """What the algorithm carries from stage to stage."""
        return jax.tree.unflatten(self._tree, self._leaves)

    @property
    def belief(self) -> Belief:
        """The current posterior."""
        return self.state.belief

    @property
    def iterations(self) -> int:
        """K."""
        return self._algorithm.iterations

    @property
    def stage(self) -> int:
        """How many batches have been observed."""
        return int(self.state.stage) - 1

    @property
    def info(self) -> Info | None:
        """What the last stage told about itself; None before the first."""
        if self._info is None:
            return None
        foreseen = self._info.log_predictive[: self._count]  # without the padding
        return eqx.tree_at(lambda info: info.log_predictive, self._info, foreseen)

    @property
    def monitor(self) -> Monitor:
        """The test of whether batches come as foreseen."""
        return jax.tree.unflatten(self._watch_tree, self._watch)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What was noticed so far: data that do not look like the model."""
        return tuple(self._alarms)

    def observe(self, batch: Any, *, id: str | None = None, x: Any = None) -> np.ndarray:  # noqa: A002
        """Bayes' rule, then K projected steps.

        Args:
            batch: One observation or several along the leading axis.
            id: A name for the batch. A name seen before is an error, so that a batch which is
                delivered twice is not counted twice.
            x: The decision in force when the batch arose; the last one issued, if not given. It
                may lie outside the feasible set, as the past may.

        Returns:
            The new decision.

        Warns:
            MisspecificationWarning: If the data do not look like the model. The batch counts.
            ConvergenceWarning: If the descent does not settle, many stages in a row.
            LockInWarning: If the decision has come to where data teach nothing more.

        Raises:
            BatchError: If the batch is empty, not finite numbers or of the wrong shape.
            SupportError: If an observation lies outside the model's support.
            ImpossibleDataError: If no theta explains the batch.
            DuplicateBatchError: If the id was seen before.
            DecisionError: If x is not finite numbers in the decision's shape.
            StepSizeError: If the schedule has come to a step size that is not positive.
            ModelError: If the model is no proper distribution at x.
            DivergenceError: If the gradient or the new decision is not finite.
        """
        if id is not None and not isinstance(id, str):
            raise BatchError(f"id must be a string, got {id!r}")
        if id is not None and id in self._ids:
            raise DuplicateBatchError(f"batch {id!r} was observed before")
        rows = self._rows(batch)
        in_force = None if x is None else self._in_force(x)
        padded, weight = _pad(rows)
        if self._room < len(padded):
            self._go_on_from(with_room(self.state, len(padded)))
        leaves, watch, info, decision, verdict = self._stage(
            self._numbers, self._leaves, self._watch, padded, weight, in_force
        )
        possible, proper, ascending, finite, sounds, *signs = np.asarray(verdict)
        if not (possible and proper):
            self._refuse(rows, self.state.decision if in_force is None else in_force)
        if self._focuses and not focus.is_sound(jax.tree.unflatten(self._tree, leaves)):
            whole = jax.tree.leaves(focus.unfocused(self.state))  # the same, all of it computed
            leaves, watch, info, decision, verdict = self._stage(
                self._numbers, whole, self._watch, padded, weight, in_force
            )
            _, _, ascending, finite, sounds, *signs = np.asarray(verdict)
        if ascending:
            raise StepSizeError(f"the step size at stage {self.stage + 1} must be positive")
        if not finite:
            raise DivergenceError(
                f"the step from x = {self.decision} is not finite: the gradient was "
                f"{info.course.gradient.tolist()}; use smaller steps or a bounded feasible set"
            )
        self._leaves, self._info, self._decision = leaves, info, np.asarray(decision)
        self._watch, self._count = watch, len(rows)
        self._room -= len(rows)
        if id is not None:
            self._ids.add(id)
        if self._focuses and self.stage >= self._look:
            state = focus.focused(self.state)
            self._leaves, self._look = jax.tree.leaves(state), self.stage + focus.patience(state)
        alarm = self.monitor.alarm() if sounds else None
        if alarm is not None:
            self._alarms.append(alarm)
            warnings.warn(MisspecificationWarning(alarm), stacklevel=2)
        trouble = self._stall.after(*signs)
        if trouble is not None:
            warnings.warn(trouble, stacklevel=2)
        return self.decision

    def _rows(self, batch: Any) -> Float[np.ndarray, "D ..."]:
        rows = as_numbers(batch, BatchError, "batch")
        if rows.shape == self._event_shape:
            rows = rows[None]
        if rows.shape[1:] != self._event_shape or rows.ndim != 1 + len(self._event_shape):
            raise BatchError(
                f"batch must have shape (D, {', '.join(map(str, self._event_shape))}), "
                f"got {rows.shape}"
            )
        if rows.shape[0] == 0:
            raise BatchError("batch must have at least one observation, got none")
        return rows

    def _in_force(self, x: Any) -> Decision:
        numbers = as_numbers(x, DecisionError, "x")
        if numbers.shape != self._decision.shape:
            raise DecisionError(f"x must have shape {self._decision.shape}, got {numbers.shape}")
        return jnp.asarray(numbers)

    def _refuse(self, rows: np.ndarray, x: Decision) -> None:
        """Find out what is wrong with a batch that cannot have happened, and say so."""
        self._algorithm.problem.check_models(x, self.belief.examples())
        likelihood = self._algorithm.problem.likelihood
        for number, row in enumerate(rows):
            y = jnp.asarray(row)
            inside = jax.vmap(lambda theta, y=y: likelihood(x, theta).support(y))(
                self.belief.examples()
            )
            if not np.any(inside):
                raise SupportError(
                    f"row {number} of the batch, {row}, lies outside the model's support "
                    f"for every theta, at x = {np.asarray(x)}"
                )
        raise ImpossibleDataError(
            f"no theta in the belief's support explains the batch {rows.tolist()} "
            f"at x = {np.asarray(x)}: each has density zero"
        )


@once_per_shape
def _program(algorithm: BayesianSGD, state: State) -> Callable[..., Any]:
    """A stage as a function of lists of arrays, shared by all agents that differ in numbers only.

    Besides the new state, the monitor, the info and the decision it returns a verdict: whether the
    batch is possible, the posterior proper, the step size not positive, the step finite, an
    alarm raised, the descent settled, and `Teaching` where the decision changes the data.
    """
    numbers, rest = eqx.partition(algorithm, eqx.is_array)
    number_tree, state_tree = jax.tree.structure(numbers), jax.tree.structure(state)
    watch_tree = jax.tree.structure(Monitor())
    theta = jax.tree.map(lambda leaf: leaf[0], state.belief.examples())
    depends = kind_of(algorithm.problem.likelihood, state.x, theta).depends_on_decision

    @jax.jit
    def stage(
        numbers: list[Array],
        leaves: list[Array],
        watch: list[Array],
        batch: Array,
        weight: Array,
        x: Decision | None,
    ) -> tuple[list[Array], list[Array], Info, Decision, Array]:
        algorithm = eqx.combine(jax.tree.unflatten(number_tree, numbers), rest)
        state = jax.tree.unflatten(state_tree, leaves)
        x = state.decision if x is None else x
        new, info = algorithm.step(state, batch, weight=weight, x=x)

        def explained(y: Array) -> Array:
            log_f = jax.vmap(lambda theta: log_density(algorithm.problem.likelihood(x, theta), y))
            return jnp.any(log_f(state.belief.examples()) > -jnp.inf)

        before, after = jax.tree.leaves(state.belief), jax.tree.leaves(new.belief)
        learned = [leaf for old, leaf in zip(before, after, strict=True) if leaf is not old]
        learned = [leaf for leaf in learned if jnp.issubdtype(leaf.dtype, jnp.inexact)]
        # An infinite gradient is caught before a bounded set hides it and momentum keeps it.
        moved = [new.x, new.decision, info.course.gradient]
        moved += jax.tree.leaves(eqx.filter(new.progress, eqx.is_inexact_array))
        monitor = jax.tree.unflatten(watch_tree, watch).update(info.surprise)
        taught = teaching(info, new.x - state.x, new.belief.effective_size, jnp.sum(weight))
        verdict = jnp.asarray(
            [
                jnp.all(jax.vmap(explained)(batch) | (info.log_predictive > -jnp.inf)),
                ~jnp.any(jnp.asarray([jnp.any(jnp.isnan(leaf)) for leaf in learned])),
                algorithm.descent.step_size(state.stage) <= 0,
                jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in moved])),
                monitor.sounds,
                ~(info.course.settled == 0),  # NaN where the descent cannot tell
                *(taught if depends else (False, 0.0, 0.0)),
            ],
            dtype=float,
        )
        return jax.tree.leaves(new), jax.tree.leaves(monitor), info, new.decision, verdict

    return stage


def _pad(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded to a power of two with copies of the first, and their weights 1 or 0."""
    count = rows.shape[0]
    size = 1 << (count - 1).bit_length()
    weight = (np.arange(size) < count).astype(np.float64)
    return np.concatenate([rows, np.repeat(rows[:1], size - count, axis=0)]), weight


# The two values of K that are timed, how often, and the most that is ever taken.
_FEW, _MANY, _TIMINGS, _MOST = 1, 9, 7, 200


def _affordable(
    problem: Problem, belief: Belief, x: Any, budget_ms: float, options: dict[str, Any]
) -> int:
    """The largest K whose stage takes no more than the budget, but one at least."""
    if "iterations" in options:
        raise SettingError("budget_ms and iterations both say what K is; give one of them")
    budget = as_array(budget_ms, SettingError, "budget_ms")
    if budget.shape != () or not float(budget) > 0:
        raise SettingError(f"budget_ms must be a positive number, got {budget_ms!r}")
    few, many = (_stage_ms(problem, belief, x, options | {"iterations": k}) for k in (_FEW, _MANY))
    each = max((many - few) / (_MANY - _FEW), 1e-6)
    return int(np.clip(_FEW + (float(budget) - few) / each, 1, _MOST))


def _stage_ms(problem: Problem, belief: Belief, x: Any, options: dict[str, Any]) -> float:
    """How long `observe` takes for one observation."""
    agent = Agent(problem, belief, x, **options)
    theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
    batch = problem.likelihood(jnp.asarray(agent.decision), theta).sample(random.key(0), (1,))
    times = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same batch again and again is no world of anybody's
        for _ in range(1 + _TIMINGS):
            began = time.perf_counter()
            agent.observe(np.asarray(batch))
            times.append(time.perf_counter() - began)
    return 1e3 * statistics.median(times[1:])

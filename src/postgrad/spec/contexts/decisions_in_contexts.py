"""The decisions of a table's days in their contexts: each day decides, then learns.

A stage of a stream is one day: first it learns from the demand that has become known, with the
context of the day on which it arose; then it decides for its own context, by a search of its own
under what is believed, as `Agent.decide` does. Nothing of the decision is kept.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.regression.predictive import predictive_quantile
from postgrad.beliefs.regression.regression import Regression
from postgrad.engine import bulk
from postgrad.engine.compiling import compiled_well
from postgrad.engine.stage import is_possible, solve
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import as_context
from postgrad.problem.feasible.box import Box
from postgrad.problem.problem import Problem
from postgrad.spec.backtest_streams import (
    DailyDecisions,
    batches_of_days,
    check_in_force,
    check_possible,
    stacked_problems,
)
from postgrad.spec.contexts.days import ContextOfDays
from postgrad.spec.demand_table import DemandTable


class Days(NamedTuple):
    """What a stage of a stream reads.

    Attributes:
        numbers: The arrays of the stream's problem; the same in all stages.
        batch: The observations that have become known.
        weight: 1 for each of them, 0 where there are fewer.
        in_force: The decision under which they arose; None if the data do not depend on it.
        learned_in: The context in which they arose.
        elapsed: The time from the latest batch before them.
        learns: Whether there are any.
        decided_in: The context to decide for.
        ahead: The time from the latest batch to the day of the decision.
    """

    numbers: Problem | tuple[()]
    batch: Float[ArrayLike, "n D ..."]
    weight: Float[ArrayLike, "n D"]
    in_force: Float[ArrayLike, "n ..."] | None
    learned_in: PyTree
    elapsed: Float[ArrayLike, " n"]
    learns: Bool[ArrayLike, " n"]
    decided_in: PyTree
    ahead: Float[ArrayLike, " n"]


class DayStage(eqx.Module):
    """One stage of one stream.

    Attributes:
        policy: Whose problem is replaced by the stream's own.
        rest: What the problems of all streams have in common: functions, names.
        by_quantile: Whether the best decision is a quantile in closed form: see `is_quantile`.
    """

    policy: BayesianSGD
    rest: Problem
    by_quantile: bool = eqx.field(static=True)

    def __call__(self, own: Days, state: State, t: Array) -> tuple[State, PyTree]:
        """The state after learning; the decision, how uncertain it is, and if data are possible."""
        problem = eqx.combine(own.numbers, self.rest)
        policy = eqx.tree_at(lambda policy: policy.problem, self.policy, problem)
        now: Any = jax.tree.map(lambda leaf: leaf[t - 1], own._replace(numbers=()))

        # Learn what has become known, after the time that has passed.
        before = replaced(state, stage=t)
        in_force = state.x if now.in_force is None else now.in_force
        there = policy.at(now.learned_in)
        learned, foreseen = there.update(
            before, Batch(in_force, now.batch, now.weight), now.elapsed
        )
        possible = is_possible(there, before, now.batch, in_force, foreseen) | ~now.learns
        keep = lambda new, old: jnp.where(now.learns, new, old)  # noqa: E731
        belief = jax.tree.map(keep, learned.belief, state.belief)
        failed = keep(learned.failed, state.failed)

        # Decide for the day's context, looking ahead to it, on a copy.
        here = policy.at(now.decided_in)
        if self.by_quantile:
            new = replaced(state, belief=belief, failed=failed)
            x = _quantile(here.problem, belief.advance(now.ahead))
            return new, (x, jnp.full_like(x, jnp.nan), possible)
        decided, told = solve(here, state, belief.advance(now.ahead), t - 1)
        new = replaced(state, belief=belief, failed=failed | decided.failed)
        return new, (decided.decision, told.outlook.epistemic, possible)


def decisions_in_contexts(
    problems: list[Problem],
    belief: Belief,
    start: np.ndarray,
    table: DemandTable,
    contexts: ContextOfDays,
    times: np.ndarray | None,
    options: dict[str, Any],
    progress: bulk.Progress,
) -> DailyDecisions:
    """Our decision on each day, for its context, from what was known by then.

    Args:
        problems: One for each item, or a single one for all items.
        belief: pi_0 of each.
        start: x_1 of each item, where each search begins.
        table: The data.
        contexts: The contexts of all days.
        times: The time of each day; None if a day is one unit of time.
        options: As for `BayesianSGD`.
        progress: Called with what is being done, and how much of it is done, of how much.

    Raises:
        BatchError: If the model excludes some of the data.
        SettingError: If settings do not fit.
    """
    progress("preparing", 0, 1)  # said at once: what follows traces and compiles for some seconds
    joint = len(problems) < len(start)
    units = start[None] if joint else start
    policy = BayesianSGD(problems[0], **options)
    z = jax.tree.map(lambda leaf: leaf[0, 0], contexts.context)
    example = policy.at(as_context(z))
    distinct = {x.tobytes(): x for x in units}
    begun = {name: example.init(belief, x) for name, x in distinct.items()}
    likelihood = example.problem.likelihood
    data_depend = check_in_force(likelihood, begun[units[0].tobytes()], table)
    weight, demand = batches_of_days(table, joint)
    with_data = np.asarray(weight.any(axis=2)) & contexts.known
    shape = (len(table.demand), len(problems), *units.shape[1:])
    in_force = None if table.in_force is None else table.in_force.reshape(shape)

    streams = [(u, g) for u in range(len(units)) for g in range(table.groups)]
    plans = [
        schedule(
            np.flatnonzero(table.group == g),
            np.flatnonzero(with_data[:, u] & (table.group == g)),
            table.delay,
            times,
        )
        for u, g in streams
    ]
    horizon = max(len(plan.learned) for plan in plans)
    plans = [
        Schedule(*(np.pad(part, (0, horizon - len(part)), constant_values=-1) for part in plan))
        for plan in plans
    ]
    learned, decided, elapsed, ahead = (np.stack(part) for part in zip(*plans, strict=True))
    unit = np.asarray([u for u, _ in streams])
    from_day, for_day = ((np.maximum(days, 0), unit[:, None]) for days in (learned, decided))
    numbers, rest = stacked_problems(problems, unit)
    own = Days(
        numbers,
        demand[from_day],
        weight[from_day].astype(float),
        None if in_force is None else in_force[from_day],
        jax.tree.map(lambda leaf: leaf[from_day], contexts.context),
        np.maximum(elapsed, 0.0),
        learned >= 0,
        jax.tree.map(lambda leaf: leaf[for_day], contexts.context),
        np.maximum(ahead, 0.0),
    )
    states = [begun[units[u].tobytes()] for u, _ in streams]
    by_quantile = not joint and is_quantile(policy, belief)
    stage = DayStage(policy, rest, by_quantile)
    _, told = bulk.run(
        stage, states, likelihood, own, horizon, horizon, progress,
        of_one_size=False, compiled=compiled_well,
    )  # fmt: skip
    decisions, spread = np.full((2, *shape), np.nan)
    for s, (u, _) in enumerate(streams):
        found, epistemic, possible = (np.asarray(part[s]) for part in told)
        learns, decides = learned[s] >= 0, decided[s] >= 0
        on = learned[s][learns]
        check_possible(table, on, np.full_like(on, u), possible[learns], joint)
        decisions[decided[s][decides], u] = found[decides]
        # Before the first batch there is nothing to tell, as without contexts.
        told_of = decides & (np.cumsum(learns) > 0)
        spread[decided[s][told_of], u] = epistemic[told_of]
    unknown = ~contexts.known
    decisions[unknown], spread[unknown] = np.nan, np.nan
    whole = table.demand.shape
    return DailyDecisions(decisions.reshape(whole), spread.reshape(whole), data_depend)


def is_quantile(policy: BayesianSGD, belief: Belief) -> bool:
    """Whether the best decision is a quantile of what is foreseen, which has a closed form.

    It is under a newsvendor's cost (one that states `service_level`), with a belief about the
    coefficients of a regression and bounds as the feasible set; the risk must be the mean.
    """
    problem, member = policy.problem, belief.beliefs if isinstance(belief, Mixture) else belief
    return (
        isinstance(member, Regression)
        and hasattr(problem.cost, "service_level")
        and isinstance(problem.feasible, Box)
        and policy.risk.is_mean
    )


def _quantile(problem: Problem, belief: Belief) -> Array:
    level = problem.cost.service_level  # type: ignore[attr-defined]
    return problem.feasible.project(predictive_quantile(belief, problem.model, level))


class Schedule(NamedTuple):
    """What a stream learns and decides in each of its stages.

    Attributes:
        learned: The day whose demand is learned from; -1 if there is none.
        decided: The day that is decided for; -1 if there is none.
        elapsed: The time from the latest batch before the one that is learned from.
        ahead: The time from the latest batch to the day that is decided for.
    """

    learned: np.ndarray
    decided: np.ndarray
    elapsed: np.ndarray
    ahead: np.ndarray


def schedule(
    days: np.ndarray, with_data: np.ndarray, delay: int, times: np.ndarray | None
) -> Schedule:
    """The stages of one stream.

    Args:
        days: The days to decide for, in order.
        with_data: Those of them with a demand.
        delay: So many days pass before a demand is known, beyond the next morning.
        times: The time of each day; None if a day is one unit of time.
    """
    clock = np.arange(with_data.max(initial=days.max()) + 1.0) if times is None else times
    # Without dates, the first batch comes one unit of time after the beginning.
    latest = np.nan if times is not None else -1.0
    stages: list[tuple[int, int]] = []
    due = list(with_data)
    for day in days:
        known = [b for b in due if b < day - delay]
        due = due[len(known) :]
        stages += [(int(b), -1) for b in known[:-1]]
        stages.append((int(known[-1]) if known else -1, int(day)))
    stages += [(int(b), -1) for b in due]
    elapsed, ahead = [], []
    for batch, day in stages:
        elapsed.append(_between(latest, clock[batch]) if batch >= 0 else 0.0)
        if batch >= 0:
            latest = float(np.fmax(latest, clock[batch]))
        ahead.append(_between(latest, clock[day]) if day >= 0 else 0.0)
    learned, decided = (np.asarray(column) for column in zip(*stages, strict=True))
    return Schedule(learned, decided, np.asarray(elapsed), np.asarray(ahead))


def _between(latest: float, time: float) -> float:
    return 0.0 if np.isnan(latest) else max(float(time) - latest, 0.0)

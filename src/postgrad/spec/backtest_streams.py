"""The decisions of every day of a table, from the engine: nothing is known before its time.

Each item is a stream of the engine; with groups of days (`split_by`), one stream for each item and
group. The engine computes the decision after each of a stream's batches. The decision of a day is
the one after the batches that were known before that day.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.beliefs.belief import Belief, first
from postgrad.engine import bulk
from postgrad.engine.compiling import compiled_well
from postgrad.engine.stage import is_possible
from postgrad.errors import BatchError, SettingError
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model, Problem, kind_of
from postgrad.spec import partial_pooling
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.partial_pooling import Pool
from postgrad.spec.reworded import reworded


class DailyDecisions(NamedTuple):
    """Our decisions.

    Attributes:
        decisions: Days by items.
        spread: The standard deviation of what is not known about each decision; NaN if not told.
        data_depend: Whether the model says that other decisions lead to other data.
    """

    decisions: np.ndarray
    spread: np.ndarray
    data_depend: bool


class _Stage(eqx.Module):
    """One stage of one stream, from its table of batches.

    Attributes:
        policy: Whose problem is replaced by the stream's own.
        rest: What the problems of all streams have in common: functions, names.
        pool: What the groups have in common; None if each group is a stream.
    """

    policy: BayesianSGD
    rest: Problem
    pool: Pool | None

    def __call__(self, own: "_Own", state: Any, t: Array) -> tuple[Any, PyTree]:
        problem = eqx.combine(own.numbers, self.rest)
        policy = eqx.tree_at(lambda policy: policy.problem, self.policy, problem)
        of_stages = own.batches, own.weight, own.in_force, own.group
        batch, weight, x, group = jax.tree.map(lambda leaf: leaf[t - 1], of_stages)
        before = state if self.pool is None else partial_pooling.at(state, group)
        in_force = before.decision if x is None else x
        if self.pool is None:
            # The stage's number is the same in all streams: draws that need no more are shared.
            counted = eqx.tree_at(lambda state: state.stage, state, t)
            # Nobody asks how surprising a batch was, which would be traced and compiled as well.
            seen = Batch(in_force, batch, weight)
            learned, log_predictive = policy.update(counted, seen)
            new, descended = policy.descend(learned, seen.size)
            outlook = descended.outlook
        else:
            new, info = partial_pooling.step(
                policy, self.pool, state, group, batch, in_force, weight
            )
            log_predictive, outlook = info.log_predictive, info.outlook
        possible = is_possible(policy, before, batch, in_force, log_predictive)
        return new, (new.decision, outlook.epistemic, possible)


class _Own(NamedTuple):
    """What differs from stream to stream, in its own stages.

    Attributes:
        numbers: The arrays of the stream's problem.
        batches: The observations of each stage.
        weight: 1 for each of them, 0 where there are fewer; None if each stage has one.
        in_force: The decision under which each arose; None if the data do not depend on it.
        group: The group of each.
    """

    numbers: Problem
    batches: Float[ArrayLike, "n D ..."]
    weight: Float[ArrayLike, "n D"] | None
    in_force: Float[ArrayLike, "n ..."] | None
    group: Int[ArrayLike, " n"]


def daily_decisions(
    problems: list[Problem],
    belief: Belief,
    start: np.ndarray,
    table: DemandTable,
    pool: Pool | None,
    options: dict[str, Any],
    progress: bulk.Progress,
) -> DailyDecisions:
    """Our decision on each day, from what was known by then.

    Args:
        problems: One for each item, or a single one for all items.
        belief: pi_0 of each.
        start: x_1 of each item.
        table: The data.
        pool: What the groups have in common.
        options: As for `BayesianSGD`.
        progress: Called with what is being done, and how much of it is done, of how much.

    Raises:
        BatchError: If the model excludes some of the data.
        SettingError: If settings do not fit.
    """
    progress("preparing", 0, 1)  # said at once: what follows traces and compiles for some seconds
    joint = len(problems) < len(start)
    policy = BayesianSGD(problems[0], **options)
    if pool is not None:
        pool.check(belief)
    units = start[None] if joint else start
    distinct = {x.tobytes(): x for x in units}
    begun = {name: policy.init(belief, x) for name, x in distinct.items()}
    likelihood = problems[0].likelihood
    data_depend = check_in_force(likelihood, begun[units[0].tobytes()], table)
    weight, demand = batches_of_days(table, joint)
    known = np.asarray(weight.any(axis=2))
    shape = (len(table.demand), len(problems), *units.shape[1:])
    in_force = None if table.in_force is None else table.in_force.reshape(shape)

    # One stream for each unit, or for each unit and group; its stages are the days it learns from.
    one_group = pool is not None or table.groups == 1
    streams = [(u, g) for u in range(len(units)) for g in range(1 if one_group else table.groups)]
    learned = [np.flatnonzero(known[:, u] & (one_group | (table.group == g))) for u, g in streams]
    horizon = max(1, *map(len, learned))
    index = np.stack([np.resize(days, horizon) for days in learned])
    unit = np.asarray([u for u, _ in streams])
    numbers, rest = stacked_problems(problems, unit)
    learned_from = index, unit[:, None]
    acted = None if in_force is None else in_force[learned_from]
    several = None if weight.shape[2] == 1 else weight[learned_from].astype(float)
    own = _Own(numbers, demand[learned_from], several, acted, table.group[index])
    states = [begun[units[u].tobytes()] for u, _ in streams]
    if pool is not None:
        states = [partial_pooling.stack(state, table.groups) for state in states]
    stage = _Stage(policy, rest, pool)
    _, told = bulk.run(
        stage, states, likelihood, own, horizon, horizon, progress,
        of_one_size=False, compiled=compiled_well,
    )  # fmt: skip
    decided, epistemic, possible = told

    decisions, spread = np.full((2, *shape), np.nan)
    for s, (u, g) in enumerate(streams):
        check_possible(table, learned[s], np.asarray(possible[s])[: len(learned[s])], u, joint)
        after = np.concatenate([np.asarray(states[s].decision)[None], decided[s]])
        days = np.flatnonzero(one_group | (table.group == g))
        # How many of the stream's batches are known when the decision of each day is issued, and
        # which was the last of the day's own group.
        count, group = np.searchsorted(learned[s], days - table.delay), table.group[days]
        decisions[days, u] = after[count] if pool is None else after[count, group]
        last = _last_of_group(table.group[learned[s]], table.groups)[count, group]
        spread[days[last >= 0], u] = epistemic[s][last[last >= 0]]
    whole = table.demand.shape
    return DailyDecisions(decisions.reshape(whole), spread.reshape(whole), data_depend)


def check_in_force(likelihood: Model, state: State, table: DemandTable) -> bool:
    """Whether the data depend on the decision.

    Raises:
        SettingError: If they do, and the table does not say under which decisions they arose.
    """
    theta = first(state.belief.examples())
    data_depend = kind_of(likelihood, state.x, theta).depends_on_decision
    if table.in_force is None and data_depend:
        such_as = "(the stock that limited sales, the price that was asked)"
        needed = f"in_force must say under which decisions they arose {such_as}"
        raise SettingError(f"the data depend on the decision: {needed}")
    return data_depend


def check_possible(
    table: DemandTable, learned: np.ndarray, possible: np.ndarray, unit: int, joint: bool
) -> None:
    """Check the days that a stream has learned from.

    Raises:
        BatchError: If the model excludes the demand of one of them.
    """
    if (wrong := learned[~possible]).size:
        day, item = wrong[0], slice(None) if joint else unit
        raise BatchError(
            f"the demand {table.rows[day, item].squeeze()} of day {day}, item "
            f"{'all' if joint else unit}, is impossible under the model"
        )


def _last_of_group(group: Int[np.ndarray, " n"], groups: int) -> Int[np.ndarray, "n+1 groups"]:
    """Of the first i batches, the index of the last one of each group; -1 if there is none."""
    at = np.where(group[:, None] == np.arange(groups), np.arange(len(group))[:, None], -1)
    return np.maximum.accumulate(np.concatenate([np.full((1, groups), -1), at]))


def batches_of_days(
    table: DemandTable, joint: bool
) -> tuple[Bool[np.ndarray, "days units D"], Float[np.ndarray, "days units D ..."]]:
    """The rows of each day and unit: which there are, and what they are.

    A row that is not there is as the first of its day. Days of which nothing is learned have a
    possible demand: the median of each item.
    """
    known = table.known_rows
    usual = np.ma.filled(np.ma.median(np.ma.masked_invalid(table.demand), axis=0), 0.0)
    first = np.take_along_axis(table.rows, known.argmax(axis=2)[..., None], axis=2)[..., 0]
    rows = np.where(known, table.rows, np.where(table.known, first, usual)[..., None])
    if not joint:
        return known, rows
    missing = np.argwhere(known.any(axis=1) & ~known.all(axis=1))
    if missing.size:
        day, row = missing[0]
        absent, items = int((~known[day, :, row]).sum()), known.shape[1]
        needed = "items that are decided together need all of them, or none"
        raise BatchError(f"day {day}: {absent} of {items} demands are missing; {needed}")
    return known.all(axis=1)[:, None], np.moveaxis(rows, 2, 1)[:, None]


def stacked_problems(problems: list[Problem], unit: np.ndarray) -> tuple[Problem, Problem]:
    """The numbers of each stream's problem along a leading axis, and the rest of all problems."""
    parts = [eqx.partition(problem, eqx.is_array) for problem in problems]
    numbers, rests = zip(*parts, strict=True)
    if not all(eqx.tree_equal(rest, rests[0]) for rest in rests):
        raise SettingError("the problems of the items may differ in numbers only")
    what = "the problems of the items have other shapes"
    with reworded(what, SettingError, ValueError, TypeError):
        return jax.tree.map(lambda *leaves: np.stack(leaves)[unit], *numbers), rests[0]

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
from postgrad.beliefs.pooling.pool import Pool
from postgrad.beliefs.pooling.population import Population
from postgrad.engine import bulk
from postgrad.engine.compiling import compiled_well
from postgrad.engine.stage import is_possible
from postgrad.errors import BatchError, SettingError
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model, Problem, kind_of
from postgrad.spec import partial_pooling
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.partial_pooling import Members
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
        population: What members have in common; None if each is a stream.
    """

    policy: BayesianSGD
    rest: Problem
    population: Population | None

    def __call__(self, own: "_Own", state: Any, t: Array) -> tuple[Any, PyTree]:
        of_stages = own.batches, own.weight, own.in_force, own.member
        batch, weight, x, member = jax.tree.map(lambda leaf: leaf[t - 1], of_stages)
        numbers = partial_pooling.at(own.numbers, member) if own.of_members else own.numbers
        problem = eqx.combine(numbers, self.rest)
        policy = eqx.tree_at(lambda policy: policy.problem, self.policy, problem)
        before = state if self.population is None else state[member]
        in_force = before.decision if x is None else x
        if self.population is None:
            # The stage's number is the same in all streams: draws that need no more are shared.
            counted = eqx.tree_at(lambda state: state.stage, state, t)
            # Nobody asks how surprising a batch was, which would be traced and compiled as well.
            seen = Batch(in_force, batch, weight)
            learned, log_predictive = policy.update(counted, seen)
            new, descended = policy.descend(learned, seen.size)
            decision, outlook = new.decision, descended.outlook
        else:
            new, told, info = partial_pooling.step(
                policy, self.population, state, member, batch, in_force, weight
            )
            decision, log_predictive, outlook = told.decision, info.log_predictive, info.outlook
        possible = is_possible(policy, before, batch, in_force, log_predictive)
        return new, (decision, outlook.epistemic, possible)


class _Own(eqx.Module):
    """What differs from stream to stream, in its own stages.

    Attributes:
        numbers: The arrays of the stream's problem; of each member's along a leading axis, if
            `of_members`.
        batches: The observations of each stage.
        weight: 1 for each of them, 0 where there are fewer; None if each stage has one.
        in_force: The decision under which each arose; None if the data do not depend on it.
        member: The member of each.
        of_members: Whether the members have problems of their own.
    """

    numbers: Problem
    batches: Float[ArrayLike, "n D ..."]
    weight: Float[ArrayLike, "n D"] | None
    in_force: Float[ArrayLike, "n ..."] | None
    member: Int[ArrayLike, " n"]
    of_members: bool = eqx.field(static=True)


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
        pool: How the groups of an item learn from each other; the items, if there are no groups.
        options: As for `BayesianSGD`.
        progress: Called with what is being done, and how much of it is done, of how much.

    Raises:
        BatchError: If the model excludes some of the data.
        SettingError: If settings do not fit.
    """
    progress("preparing", 0, 1)  # said at once: what follows traces and compiles for some seconds
    joint = len(problems) < len(start)
    policy = BayesianSGD(problems[0], **options)
    units = start[None] if joint else start
    distinct = {x.tobytes(): x for x in units}
    begun = {name: policy.init(belief, x) for name, x in distinct.items()}
    likelihood = problems[0].likelihood
    data_depend = check_in_force(likelihood, begun[units[0].tobytes()], table)
    weight, demand = batches_of_days(table, joint)
    known = np.asarray(weight.any(axis=2))
    shape = (len(table.demand), len(problems), *units.shape[1:])
    in_force = None if table.in_force is None else table.in_force.reshape(shape)

    # The stages of each stream: the days that it learns from, with the unit and the member of each.
    streams = _streams(known, table, pool)
    horizon = max(1, *(len(stream.day) for stream in streams))

    def filled(part: str) -> np.ndarray:
        return np.stack([np.resize(getattr(stream, part), horizon) for stream in streams])

    learned_from = filled("day"), filled("unit")
    numbers, rest = stacked_problems(problems, np.asarray([stream.problems for stream in streams]))
    acted = None if in_force is None else in_force[learned_from]
    several = None if weight.shape[2] == 1 else weight[learned_from].astype(float)
    of_members = pool is not None and len(streams[0].problems) > 1
    if not of_members:
        numbers = jax.tree.map(lambda leaf: leaf[:, 0], numbers)
    own = _Own(numbers, demand[learned_from], several, acted, filled("member"), of_members)
    states: list[Any] = [begun[units[stream.starts[0]].tobytes()] for stream in streams]
    population = None if pool is None else pool.population(states[0].belief)
    if population is not None:
        each = [[begun[units[u].tobytes()] for u in stream.starts] for stream in streams]
        states = [Members.begin(population, some) for some in each]
    stage = _Stage(policy, rest, population)
    _, told = bulk.run(
        stage, states, likelihood, own, horizon, horizon, progress,
        of_one_size=False, compiled=compiled_well,
    )  # fmt: skip
    decided, epistemic, possible = told

    decisions, spread = np.full((2, *shape), np.nan)
    for s, stream in enumerate(streams):
        check_possible(table, stream.day, stream.unit, np.asarray(possible[s]), joint)
        for days, u, member in stream.decides:
            own_stages = np.flatnonzero(stream.member == member)
            # How many of its batches are known when the decision of each day is issued.
            count = np.searchsorted(stream.day[own_stages], days - table.delay)
            seen, last = count > 0, own_stages[count[count > 0] - 1]
            decisions[days, u] = units[u]
            decisions[days[seen], u] = np.asarray(decided[s])[last]
            spread[days[seen], u] = np.asarray(epistemic[s])[last]
    whole = table.demand.shape
    return DailyDecisions(decisions.reshape(whole), spread.reshape(whole), data_depend)


class _Stages(NamedTuple):
    """The stages of one stream.

    Attributes:
        day: The day of each stage.
        unit: The unit of each.
        member: The member of each; 0 throughout, if there is one.
        problems: The units whose problems the members have; one, if all have the same.
        starts: The unit of each member.
        decides: Days that the stream decides, their unit and their member.
    """

    day: Int[np.ndarray, " n"]
    unit: Int[np.ndarray, " n"]
    member: Int[np.ndarray, " n"]
    problems: list[int]
    starts: list[int]
    decides: list[tuple[np.ndarray, int, int]]


def _streams(
    known: Bool[np.ndarray, "days units"], table: DemandTable, pool: Pool | None
) -> list[_Stages]:
    """The streams: units and groups; pooled, a unit with its groups, or all units."""
    every, units = np.arange(len(known)), range(known.shape[1])
    if pool is not None and table.groups == 1:  # in the order in which a live run learns
        day, unit = np.nonzero(known)
        decides = [(every, u, u) for u in units]
        return [_Stages(day, unit, unit, [*units], [*units], decides)]
    if pool is not None:
        learned = [np.flatnonzero(known[:, u]) for u in units]
        return [
            _Stages(
                day=learned[u],
                unit=np.full_like(learned[u], u),
                member=table.group[learned[u]],
                problems=[u],
                starts=[u] * table.groups,
                decides=[(every[table.group == g], u, g) for g in range(table.groups)],
            )
            for u in units
        ]
    found = []
    for u in units:
        for g in range(table.groups):
            day, days = np.flatnonzero(known[:, u] & (table.group == g)), every[table.group == g]
            none = np.zeros_like(day)
            found.append(_Stages(day, none + u, none, [u], [u], [(days, u, 0)]))
    return found


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
    table: DemandTable, day: np.ndarray, unit: np.ndarray, possible: np.ndarray, joint: bool
) -> None:
    """Check the days that a stream has learned from.

    Args:
        table: The data.
        day: The day of each stage.
        unit: The unit of each.
        possible: Whether the model allows what was learned from; there may be more at the end.
        joint: Whether the items are decided together.

    Raises:
        BatchError: If the model excludes the demand of one of them.
    """
    if (wrong := np.flatnonzero(~possible[: len(day)])).size:
        at, u = day[wrong[0]], unit[wrong[0]]
        raise BatchError(
            f"the demand {table.rows[at, slice(None) if joint else u].squeeze()} of day {at}, item "
            f"{'all' if joint else u}, is impossible under the model"
        )


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

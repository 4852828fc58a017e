"""What each way of deciding would have cost on dated demand, deciding only with what was known.

On every day the decision is issued first; then what has become known is learned.
"""

import csv
import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.pooling.pool import Pool
from postgrad.engine import bulk
from postgrad.errors import ContextError, SettingError
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Problem
from postgrad.spec.backtest_streams import daily_decisions
from postgrad.spec.contexts.days import context_of_days, times_of_days
from postgrad.spec.contexts.decisions_in_contexts import decisions_in_contexts
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.rules_of_thumb import RULES, RuleBacktest, UnderageOverage, rule_named
from postgrad.spec.tables.output_files import text_cell

_OURS, _HINDSIGHT = "postgrad", "hindsight"


@dataclasses.dataclass(frozen=True)
class Backtest:
    """What each way of deciding would have cost.

    Attributes:
        items: Their names.
        dates: The days, in order.
        groups: The group of each day (`split_by`); None if there are none.
        burn_in: How many of the first days are not scored.
        known: Which demands are known: days by items.
        demand: What was asked for, the mean where a day has several rows; NaN where it is not
            known.
        decisions: Of each way of deciding, days by items; NaN where it was not asked.
        costs: Of each way of deciding, days by items, zero where the demand is not known; days by
            one column where all items have one cost that does not add over them.
        spread: One standard deviation of what is not known about our decisions; NaN if not told.
        counterfactual: Whether the model says that other decisions would have led to other data.
            Then costs do not tell what the decisions would have cost.
        left_out: How many demands were not learned from, and not scored, as a value of their
            context was missing: by the name of the column.
    """

    items: tuple[str, ...]
    dates: tuple[str, ...]
    groups: tuple[str, ...] | None
    burn_in: int
    known: np.ndarray
    demand: np.ndarray
    decisions: Mapping[str, np.ndarray]
    costs: Mapping[str, np.ndarray]
    spread: np.ndarray
    counterfactual: bool
    left_out: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def scored(self) -> int:
        """How many days are scored."""
        return len(self.dates) - self.burn_in

    @property
    def _scored_costs(self) -> dict[str, np.ndarray]:
        return {name: costs[self.burn_in :] for name, costs in self.costs.items()}

    @property
    def total(self) -> dict[str, float]:
        """The cost of each way of deciding, over all scored days and items."""
        return {name: float(costs.sum()) for name, costs in self._scored_costs.items()}

    @property
    def by_item(self) -> dict[str, dict[str, float]]:
        """The same, item by item; of "all items", where the cost does not add over them."""
        joint = next(iter(self.costs.values())).shape[1] < len(self.items)
        return {
            item: {name: float(costs[:, i].sum()) for name, costs in self._scored_costs.items()}
            for i, item in enumerate(["all items"] if joint else self.items)
        }

    def cumulative(self) -> dict[str, np.ndarray]:
        """Cost so far, after each scored day."""
        return {name: costs.sum(axis=1).cumsum() for name, costs in self._scored_costs.items()}

    def table(self) -> str:
        """Items by ways of deciding, in plain text."""
        names = list(self.costs)
        rows = [(item, of_item) for item, of_item in self.by_item.items()]
        rows = [*rows, ("total", self.total)] if len(rows) > 1 else [("total", self.total)]
        width = max(len(row) for row, _ in rows)
        lines = [" " * width + "".join(f"{name:>14}" for name in names)]
        lines += [
            f"{row:<{width}}" + "".join(f"{costs[name]:>14,.2f}" for name in names)
            for row, costs in rows
        ]
        if self.counterfactual:
            lines.append(
                "The model says that decisions change the data. These costs are of the data that\n"
                "past decisions led to, and not what other decisions would have cost."
            )
        if self.left_out:
            columns = ", ".join(f"{name} ({count})" for name, count in self.left_out.items())
            lines.append(f"Left out, neither learned from nor scored, for want of: {columns}.")
        return "\n".join(lines)

    def to_csv(self) -> str:
        """Every scored decision with what it cost, one line each."""
        kinds = [f"{what} {name}" for name in self.costs for what in ("decision", "cost")]
        lines = [["date", "group", "item", "demand", *kinds, f"spread {_OURS}"]]
        for day in range(self.burn_in, len(self.dates)):
            group = "" if self.groups is None else self.groups[day]
            for i in np.flatnonzero(self.known[day]):
                numbers = [self.demand[day, i]]
                for name, costs in self.costs.items():
                    joint = costs.shape[1] < len(self.items)
                    numbers += [self.decisions[name][day, i], np.nan if joint else costs[day, i]]
                numbers.append(self.spread[day, i])
                cells = ["" if np.isnan(number) else repr(float(number)) for number in numbers]
                names = map(text_cell, (self.dates[day], group, self.items[i]))
                lines.append([*names, *cells])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        return text.getvalue()

    __str__ = table

    def __repr__(self) -> str:
        totals = ", ".join(f"{name} {cost:,.2f}" for name, cost in self.total.items())
        return f"Backtest({len(self.items)} items, {self.scored} scored days; cost: {totals})"


def backtest(
    problem: Problem | Sequence[Problem],
    belief: Belief,
    x: Any,
    demand: Any,
    *,
    items: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
    context: Any = None,
    split_by: Sequence[str] | None = None,
    pool: Pool | None = None,
    in_force: Any = None,
    burn_in: int = 0,
    delay: int = 0,
    rules: Sequence[str] | None = None,
    progress: bulk.Progress = lambda label, done, total: None,
    **options: Any,
) -> Backtest:
    """Decide on each day of a table of demand, and score the decisions.

    Args:
        problem: One problem for each item; they may differ in numbers only. Or a single one: then
            each item has that problem if its decision is a number, and all items are decided
            together if its decision is a vector.
        belief: pi_0, of one item, or of all where they are decided together.
        x: x_1, the decision before anything is known; a number, or one for each item.
        demand: Days by items, an array or a frame; NaN where a demand is not known. A single item
            may be a plain list. Days by items by rows, where days have several: one batch each.
        items: Their names; those of a frame's columns, if not given.
        dates: Names of the days, in order.
        context: z of each day, known before its decision: a PyTree of arrays such as a dictionary
            of columns, days along the leading axis. Where items are decided by themselves, arrays
            of days by items differ from item to item. Days with a NaN are left out, see
            `Backtest.left_out`. Time passes as `dates` say, in days, if all of them are dates such
            as 2026-01-31; else a day is one unit of time.
        split_by: The group of each day, such as its weekday: a decision and a belief for each
            group. Rules of thumb then learn from days of the same group.
        pool: How the groups of each item learn from each other, or without `split_by` the items;
            not at all, if not given.
        in_force: The decisions under which the data arose, days by items: needed where
            the data depend on the decision (sales that stock limits, demand that prices move).
        burn_in: So many days are learned from and not scored.
        delay: So many days pass before a demand becomes known, beyond the next morning.
        rules: Rules of thumb to compare with: see `spec.rules_of_thumb`. All of them, if not given
            and the cost is a newsvendor's; then hindsight is there, too.
        progress: Called with what is being done, and how much of it is done, of how much.
        **options: As for `BayesianSGD`.

    Raises:
        BatchError: If the demand is no table of numbers, or the model excludes some of it.
        SettingError: If settings do not fit it.
        ContextError: If the problem takes a context and none is given, or one of another length.
    """
    for name in rules or ():
        rule_named(name)  # said before the long computation, not after it
    table = DemandTable(demand, split_by, in_force, delay)
    days, width = table.demand.shape
    if not 0 <= burn_in < days:
        raise SettingError(f"burn_in must be less than the number of days, {days}, got {burn_in}")
    items = _names(table.columns if items is None else items, width, "item")
    dates = _names(dates, days, "day")
    if isinstance(problem, Problem):
        problem = [problem] * (1 if np.ndim(x) == 1 else width)
    elif len(problem) != width:
        raise SettingError(f"there are {width} items, but {len(problem)} problems")
    problems = list(problem)
    if np.ndim(x) > 0 and np.shape(x) != (width,):
        raise SettingError(f"x must have one entry for each of {width} items, got {x!r}")
    start = np.broadcast_to(np.asarray(x, float), (width,))
    if (context is not None) != problems[0].takes_context:
        needed = "takes a context: give context=" if context is None else "takes no context"
        raise ContextError(f"the problem {needed}")
    if context is None:
        contexts = None
        ours = daily_decisions(problems, belief, start, table, pool, options, progress)
    else:
        contexts = context_of_days(context, table.known, len(problems) < width)
        table.leave_out(~contexts.known)
        if pool is not None:
            raise SettingError(
                "days in contexts cannot be pooled in a backtest: leave `pool` out, or run agents"
            )
        times = times_of_days(dates)
        ours = decisions_in_contexts(
            problems, belief, start, table, contexts, times, options, progress
        )
    newsvendors: list[Any] = [p.cost for p in problems if isinstance(p.cost, UnderageOverage)]
    sets = [problem.feasible for problem in problems]
    newsvendors = newsvendors if all(isinstance(one, FeasibleSet) for one in sets) else []
    if rules is None:
        rules = tuple(RULES) if newsvendors else ()
    if rules and len(newsvendors) < len(problems):
        what = f"{problems[0].cost!r} in {sets[0]!r}"
        raise SettingError(f"rules of thumb need a newsvendor's cost in a feasible set, got {what}")
    thumb = RuleBacktest(table, start, newsvendors, sets)
    decisions = {_OURS: ours.decisions}
    for number, name in enumerate(rules):
        progress(f"comparing with {name}", number, len(rules))
        decisions[name] = thumb.orders(name, burn_in)
    if newsvendors:
        decisions[_HINDSIGHT] = thumb.hindsight(burn_in)
    return Backtest(
        items=items,
        dates=dates,
        groups=None if split_by is None else tuple(split_by),
        burn_in=burn_in,
        known=table.known,
        demand=table.demand,
        decisions=decisions,
        costs={
            name: table.costs(problems, chosen, contexts and contexts.context)
            for name, chosen in decisions.items()
        },
        spread=ours.spread,
        counterfactual=ours.data_depend,
        left_out={} if contexts is None else contexts.left_out,
    )


def _names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{what} {i + 1}" for i in range(count))
    if len(names) != count:
        raise SettingError(f"there must be one name for each of {count} {what}s, got {len(names)}")
    return tuple(map(str, names))

"""Would it have been better? A walk through dated demand, deciding only with what was known.

On every day the decision is issued first; then what has become known is learned. All items walk
side by side as one array program.
"""

import csv
import dataclasses
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.beliefs import Belief
from postgrad.errors import BatchError, SettingError
from postgrad.numerics.validate import as_count, as_matrix
from postgrad.problem.problem import Problem
from postgrad.spec import partial_pooling as contexts
from postgrad.spec.partial_pooling import Pool
from postgrad.spec.rules_of_thumb import RULES, Shop, rule
from postgrad.spec.rules_of_thumb import Cost as NewsvendorCost

_OURS, _HINDSIGHT = "postgrad", "hindsight"


@dataclasses.dataclass(frozen=True)
class Backtest:
    """What each way of deciding would have cost.

    Attributes:
        items: Their names.
        dates: The days, in order.
        contexts: The context of each day; None if there are none.
        burn_in: How many of the first days are not scored.
        known: Which demands are known: days by items.
        demand: What was asked for; NaN where it is not known.
        decisions: Of each way of deciding, days by items; NaN where it was not asked.
        costs: Likewise; zero where the demand is not known.
        spread: One standard deviation of what is not known about our decisions; NaN if not told.
        counterfactual: Whether the model says that other decisions would have led to other data.
            Then costs do not tell what the decisions would have cost.
    """

    items: tuple[str, ...]
    dates: tuple[str, ...]
    contexts: tuple[str, ...] | None
    burn_in: int
    known: np.ndarray
    demand: np.ndarray
    decisions: Mapping[str, np.ndarray]
    costs: Mapping[str, np.ndarray]
    spread: np.ndarray
    counterfactual: bool

    @property
    def scored(self) -> int:
        """How many days are scored."""
        return len(self.dates) - self.burn_in

    @property
    def total(self) -> dict[str, float]:
        """The cost of each way of deciding, over all scored days and items."""
        return {name: float(costs[self.burn_in :].sum()) for name, costs in self.costs.items()}

    @property
    def by_item(self) -> dict[str, dict[str, float]]:
        """The same, item by item."""
        return {
            item: {
                name: float(costs[self.burn_in :, i].sum()) for name, costs in self.costs.items()
            }
            for i, item in enumerate(self.items)
        }

    def cumulative(self) -> dict[str, np.ndarray]:
        """Cost so far, after each scored day."""
        return {
            name: np.cumsum(costs[self.burn_in :].sum(axis=1)) for name, costs in self.costs.items()
        }

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
                "The model says that decisions change the demand. These costs are of the demand\n"
                "that others' decisions led to, and not what ours would have cost."
            )
        return "\n".join(lines)

    def to_csv(self) -> str:
        """Every scored decision with what it cost, one line each."""
        names = list(self.costs)
        kinds = [f"{what} {name}" for name in names for what in ("decision", "cost")]
        lines = [["date", "context", "item", "demand", *kinds, f"spread {_OURS}"]]
        for day in range(self.burn_in, len(self.dates)):
            context = "" if self.contexts is None else self.contexts[day]
            for i in np.flatnonzero(self.known[day]):
                numbers = [
                    repr(float(table[name][day, i]))
                    for name in names
                    for table in (self.decisions, self.costs)
                ]
                demand, spread = repr(float(self.demand[day, i])), float(self.spread[day, i])
                lines.append([self.dates[day], context, self.items[i], demand, *numbers])
                lines[-1].append("" if np.isnan(spread) else repr(spread))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        return text.getvalue()

    def __str__(self) -> str:
        return self.table()


def backtest(
    problem: Problem | Sequence[Problem],
    belief: Belief,
    x: Any,
    demand: Any,
    *,
    items: Sequence[str] | None = None,
    dates: Sequence[str] | None = None,
    context: Sequence[str] | None = None,
    pool: Pool | None = None,
    in_force: Any = None,
    burn_in: int = 0,
    delay: int = 0,
    rivals: Sequence[str] | None = None,
    watch: Callable[[str, int, int], None] = lambda label, done, total: None,
    **options: Any,
) -> Backtest:
    """Walk through the demand of one or many items.

    Args:
        problem: One problem for each item; they may differ in numbers only. Or a single one: then
            each item has that problem if its decision is a number, and all items are decided
            together if its decision is a vector.
        belief: pi_0, of one item, or of all where they are decided together.
        x: x_1, the decision before anything is known; a number, or one for each item.
        demand: Days by items, an array or a frame; NaN where a demand is not known. A single item
            may be a plain list.
        items: Their names; those of a frame's columns, if not given.
        dates: Names of the days, in order.
        context: What is known of each day before it is decided, such as the weekday: a decision
            and a belief for each. Rivals then learn from days of the same context.
        pool: What the contexts have in common; nothing, if not given.
        in_force: The decisions under which the data arose, in the shape of `demand`: needed where
            the model depends on the decision, since the past does not answer to ours.
        burn_in: So many days are learned from and not scored.
        delay: So many days pass before a demand becomes known, beyond the next morning.
        rivals: Rules to compare with: see `rules`. All of them, if not given and the cost is a
            newsvendor's; then hindsight is there, too.
        watch: Told of progress.
        **options: As for `BayesianSGD`.

    Raises:
        BatchError: If the demand is no table of numbers, or the model excludes some of it.
        SettingError: If settings do not fit it.
    """
    for name in rivals or ():
        rule(name)  # said before the long walk, not after it
    watch("deciding", 0, 1)
    walk = _Walk(problem, belief, x, demand, context, pool, in_force, delay, options)
    days, width = walk.demand.shape
    if not 0 <= burn_in < days:
        raise SettingError(f"burn_in must be less than the number of days, {days}, got {burn_in}")
    decisions = {_OURS: walk.decisions}
    if rivals is None:
        rivals = tuple(RULES) if isinstance(walk.problems[0].cost, NewsvendorCost) else ()
    for number, name in enumerate(rivals):
        watch(f"comparing with {name}", number, len(rivals))
        decisions[name] = walk.shop().follow(name, burn_in)
    if isinstance(walk.problems[0].cost, NewsvendorCost):
        decisions[_HINDSIGHT] = walk.shop().hindsight(burn_in)
    if items is None and hasattr(demand, "__arrow_c_stream__"):
        items = as_matrix(demand)[1]
    return Backtest(
        items=_names(items, width, "item"),
        dates=_names(dates, days, "day"),
        contexts=None if context is None else tuple(context),
        burn_in=burn_in,
        known=walk.known,
        demand=walk.demand,
        decisions=decisions,
        costs={name: walk.costs(chosen) for name, chosen in decisions.items()},
        spread=walk.spread,
        counterfactual=walk.counterfactual,
    )


class _Walk:
    """One backtest at work."""

    def __init__(
        self,
        problem: Problem | Sequence[Problem],
        belief: Belief,
        x: Any,
        demand: Any,
        context: Sequence[str] | None,
        pool: Pool | None,
        in_force: Any,
        delay: int,
        options: dict[str, Any],
    ):
        self.demand, self.known = _table(demand)
        days, width = self.demand.shape
        self.delay = delay if delay == 0 else as_count(delay, SettingError, "delay")
        joint = isinstance(problem, Problem) and np.ndim(x) == 1
        each = [problem] if isinstance(problem, Problem) and joint else _one_each(problem, width)
        if np.ndim(x) > 0 and np.shape(x) != (width,):
            raise SettingError(f"x must have one entry for each of {width} items, got {x!r}")
        if joint and (self.known.any(axis=1) & ~self.known.all(axis=1)).any():
            raise BatchError("where items are decided together, all demands of a day or none")
        self.problems, self.joint = each, joint
        self.start = np.broadcast_to(np.asarray(x, float), (width,))
        self.labels, self.context = np.unique(
            [""] * days if context is None else list(context), return_inverse=True
        )
        if self.context.shape != (days,):
            raise SettingError(f"context must have one entry for each of {days} days")
        algorithm = BayesianSGD(each[0], **options)
        if pool is not None:
            pool.check(belief)
        first = algorithm.init(belief, x if joint else np.ravel(x)[0])
        starts = jnp.broadcast_to(jnp.asarray(x, float), (len(each), *first.x.shape))
        theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
        self.counterfactual = each[0].kind(first.x, theta).depends_on_decision
        if in_force is None and self.counterfactual:
            raise SettingError(
                "the model depends on the decision: in_force must say under which decisions the "
                "data arose"
            )
        begun = {x.tobytes(): algorithm.init(belief, x) for x in np.asarray(starts)}
        states = jax.tree.map(
            lambda *leaves: jnp.stack(leaves),
            *(contexts.stack(begun[x.tobytes()], len(self.labels)) for x in np.asarray(starts)),
        )
        decided, spread, possible = _program(
            algorithm, _stacked(each), states, pool, self._rows(in_force), self.delay
        )
        if not np.all(possible):
            day, item = np.argwhere(~np.asarray(possible))[0]
            raise BatchError(
                f"the demand {self.demand[day, item]} of day {day}, item {item}, is impossible "
                f"under the model"
            )
        self.decisions, self.spread = (
            np.asarray(v).reshape(days, width) for v in (decided, spread)
        )

    def _rows(self, in_force: Any) -> tuple[Array, Array, Array, Array | None]:
        """Demand, which of it is known, contexts and decisions in force, day by day."""
        shape = (self.demand.shape[0], len(self.problems), *self._event)
        y = np.where(self.known, self.demand, 0.0)
        if self.known.any():  # what is not known must not be impossible
            usual = np.nanmedian(np.where(self.known, self.demand, np.nan), axis=0)
            y = np.where(self.known, self.demand, np.nan_to_num(usual))
        known = self.known.reshape(len(y), len(self.problems), -1).all(axis=2)
        past = None
        if in_force is not None:
            past = jnp.asarray(self._past(in_force).reshape(shape))
        return jnp.asarray(y.reshape(shape)), jnp.asarray(known), jnp.asarray(self.context), past

    def _past(self, in_force: Any) -> np.ndarray:
        """The decisions in force; zero on days without demand, of which nothing is learned."""
        try:
            table = np.asarray(in_force, float)
        except (ValueError, TypeError) as problem:
            raise SettingError(f"in_force must be a table of numbers: {problem}") from problem
        if table.size != self.demand.size:
            raise SettingError(f"in_force must have the demand's shape {self.demand.shape}")
        table = table.reshape(self.demand.shape)
        missing = np.argwhere(self.known & ~np.isfinite(table))
        if missing.size:
            day, item = missing[0]
            raise BatchError(
                f"in_force must say under which decision the demand {self.demand[day, item]} of "
                f"day {day}, item {item}, arose, got {table[day, item]}"
            )
        return np.where(self.known, table, 0.0)

    @property
    def _event(self) -> tuple[int, ...]:
        return (self.demand.shape[1],) if self.joint else ()

    def shop(self) -> Shop:
        """What rules see of it.

        Raises:
            SettingError: If the cost is no newsvendor's.
        """
        costs = [problem.cost for problem in self.problems]
        newsvendors: list[Any] = [cost for cost in costs if isinstance(cost, NewsvendorCost)]
        if len(newsvendors) < len(costs):
            raise SettingError(f"rules know a newsvendor's cost, got {costs[0]!r}")
        return Shop(
            demand=self.demand,
            known=self.known,
            context=self.context,
            start=self.start,
            costs=newsvendors,
            feasible=[problem.feasible for problem in self.problems],
            delay=self.delay,
        )

    def costs(self, decisions: np.ndarray) -> np.ndarray:
        """Of each day and item; where items are decided together, by item if the cost can tell."""
        x, y = jnp.asarray(decisions), jnp.asarray(np.where(self.known, self.demand, 0.0))
        if self.joint:
            cost = self.problems[0].cost
            if isinstance(cost, ByItem):
                each = jax.vmap(cost.of_items)(x, y)
            else:  # then all of it is the first item's
                each = jnp.zeros_like(y).at[:, 0].set(jax.vmap(cost)(x, y))
        else:
            columns = [jax.vmap(p.cost)(x[:, i], y[:, i]) for i, p in enumerate(self.problems)]
            each = jnp.stack(columns, axis=1)
        return np.where(self.known, each, 0.0)


@runtime_checkable
class ByItem(Protocol):
    """A cost that is a sum over items."""

    def of_items(self, x: Array, xi: Array) -> Array:
        """The cost of each item."""


@eqx.filter_jit
def _program(
    algorithm: BayesianSGD,
    problems: Problem,
    states: State,
    pool: Pool | None,
    rows: tuple[Array, Array, Array, Array | None],
    delay: int,
) -> tuple[Float[Array, "days n ..."], Float[Array, "days n ..."], Array]:
    """The decisions of all days, what is uncertain about them, and whether data were possible."""
    demand, known, context, in_force = rows
    days = demand.shape[0]
    moving, fixed = eqx.partition(problems, eqx.is_array)

    def learn(numbers: Problem, states: State, y: Array, seen: Array, c: Array, x: Any) -> Any:
        its_own = eqx.tree_at(lambda a: a.problem, algorithm, eqx.combine(numbers, fixed))
        new, info = contexts.step(its_own, states, c, y[None], x=x, pool=pool)
        kept = jax.tree.map(lambda after, before: jnp.where(seen, after, before), new, states)
        return kept, info.outlook.epistemic, jnp.all(info.log_predictive > -jnp.inf) | ~seen

    def day(carry: tuple[State, Array], t: Array) -> Any:
        states, unsure = carry
        now = context[t]
        decision = jax.vmap(lambda s: contexts.at(s, now).decision)(states)
        spread = unsure[:, now]
        j = t - delay  # what becomes known before the next decision
        c = context[j]
        past = None if in_force is None else in_force[j]
        seen = known[j] & (j >= 0)
        axes = (0, 0, 0, 0, None, None if past is None else 0)
        states, news, fine = jax.vmap(learn, in_axes=axes)(moving, states, demand[j], seen, c, past)
        told = jnp.where(seen.reshape(-1, *(1,) * (news.ndim - 1)), news, unsure[:, c])
        return (states, unsure.at[:, c].set(told)), (decision, spread, fine)

    unsure = jnp.full_like(states.x, jnp.nan)
    _, (decisions, spreads, possible) = lax.scan(day, (states, unsure), jnp.arange(days))
    return decisions, spreads, possible


def _stacked(problems: list[Problem]) -> Problem:
    """Problems that differ in numbers only, along a leading axis."""
    parts = [eqx.partition(problem, eqx.is_array) for problem in problems]
    if any(not eqx.tree_equal(rest, parts[0][1]) for _, rest in parts):
        raise SettingError("the problems of the items may differ in numbers only")
    try:
        numbers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(part for part, _ in parts))
    except (ValueError, TypeError) as problem:
        raise SettingError(f"the problems of the items have other shapes: {problem}") from problem
    return eqx.combine(numbers, parts[0][1])


def _one_each(problem: Problem | Sequence[Problem], count: int) -> list[Problem]:
    problems = [problem] * count if isinstance(problem, Problem) else list(problem)
    if len(problems) != count:
        raise SettingError(f"there are {count} items, but {len(problems)} problems")
    return problems


def _table(demand: Any) -> tuple[np.ndarray, np.ndarray]:
    """Days by items, and which of it is known."""
    if hasattr(demand, "__arrow_c_stream__"):
        demand, _ = as_matrix(demand)
    try:
        table = np.asarray(demand, float)
    except (ValueError, TypeError) as problem:
        raise BatchError(f"demand must be a table of numbers: {problem}") from problem
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.size == 0:
        raise BatchError(f"demand must be days by items, got shape {table.shape}")
    if np.isinf(table).any():
        raise BatchError("demand must be finite, or NaN where it is not known")
    return table, ~np.isnan(table)


def _names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...]:
    if names is None:
        return tuple(f"{what} {i + 1}" for i in range(count))
    if len(names) != count:
        raise SettingError(f"there must be one name for each of {count} {what}s, got {len(names)}")
    return tuple(map(str, names))

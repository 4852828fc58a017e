"""Rules of thumb: orders set from past demand alone, to compare postgrad with in a backtest.

Every rule is a function of the demands known so far (one array for each item), the unit costs and
the feasible set, and returns an order for each item. The cost is a newsvendor's: `underage` b for
each unit short, `overage` h for each unit left over. Items with one budget are ordered together.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from scipy.special import ndtri

from postgrad.problem.feasible.budget import Budget
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.parts.rule_names import RULE_NAMES, rule_and_window

_HALVINGS = 100
# Savings, and counts of demands, that differ by less than this are equal.
_ROUNDING = 1e-9

Demands = Sequence[np.ndarray]


@runtime_checkable
class UnderageOverage(Protocol):
    """A newsvendor's cost.

    Attributes:
        underage: b, of each unit short; a number, or one for each item.
        overage: h, of each unit left over; a number, or one for each item.
    """

    underage: Any
    overage: Any


class HasBounds(Protocol):
    """What rules ask of a feasible set that is no `Budget`."""

    def bounds(self) -> tuple[Any, Any]:
        """The lowest and the highest order of each item."""


OrderRule = Callable[[Demands, UnderageOverage, HasBounds], np.ndarray]


def saa(past: Demands, cost: UnderageOverage, feasible: HasBounds) -> np.ndarray:
    """Sample-average approximation: the orders that would have cost least on all past demands.

    Without a budget, the empirical quantile b / (b + h) of each item. With a budget, a linear
    programme: the budget is spent on the units that save most per unit of budget, until none is
    left.
    """
    underage, overage = _unit_costs(cost, len(past))
    if not isinstance(feasible, Budget):
        # In floats, 0.8 of 5 demands may be a little more than 4: the guard keeps the fourth.
        guard = _ROUNDING / np.asarray([demand.size for demand in past])
        shares = np.maximum(underage / (underage + overage) - guard, 0.0)
        return np.asarray([_quantile(d, share) for d, share in zip(past, shares, strict=True)])
    limits = feasible.low, feasible.high, feasible.weights
    lower, upper, price = (np.broadcast_to(limit, len(past)) for limit in limits)
    pieces = []
    for i, demand in enumerate(past):
        ends = np.clip(np.sort(demand), lower[i], upper[i])
        slope = (underage[i] + overage[i]) * (np.arange(ends.size) / ends.size) - underage[i]
        pieces.append((-slope / price[i], np.diff(ends, prepend=lower[i]), np.full(ends.size, i)))
    gain, length, item = map(np.concatenate, zip(*pieces, strict=True))
    orders, left = lower.astype(float), float(feasible.total - np.sum(price * lower))
    best = np.argsort(-gain, kind="stable")
    best = best[gain[best] > _ROUNDING]
    # Units that save the same share what is left of the budget in proportion.
    for same in np.split(best, np.flatnonzero(-np.diff(gain[best]) > _ROUNDING) + 1):
        needed = float(np.sum(length[same] * price[item[same]]))
        share = 1.0 if needed <= left else left / needed
        np.add.at(orders, item[same], share * length[same])
        left -= share * needed
        if share < 1.0:
            break
    return orders


def normal(past: Demands, cost: UnderageOverage, feasible: HasBounds) -> np.ndarray:
    """The quantile b / (b + h) of a normal law with the mean and deviation of past demands.

    With a budget, the orders that minimise the expected cost under these laws: b is reduced by the
    price of the budget at which the orders just fit, found by bisection.
    """
    underage, overage = _unit_costs(cost, len(past))
    mean, deviation = np.asarray([_mean_and_deviation(demand) for demand in past]).T
    bounds = [np.asarray(side) for side in feasible.bounds()]

    def orders(price: np.ndarray | float) -> np.ndarray:
        share = (underage - price) / (underage + overage)
        order = mean + deviation * ndtri(_between(share, 1e-12, 1 - 1e-12))
        return _between(order, *bounds)

    if not isinstance(feasible, Budget):
        return orders(0.0)
    weights, total = np.asarray(feasible.weights), float(feasible.total)
    if np.sum(weights * orders(0.0)) <= total:
        return orders(0.0)
    low, high = 0.0, float(np.max(underage / weights))  # the price of one unit of budget
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = np.sum(weights * orders(middle * weights)) <= total
        low, high = (low, middle) if fits else (middle, high)
    # If past demands hardly vary, even the highest price does not make the orders fit.
    return _scaled_to_budget(orders(high * weights), feasible)


def last_value(past: Demands, cost: UnderageOverage, feasible: HasBounds) -> np.ndarray:
    """The last demand of each item, scaled down by one factor if the budget is exceeded."""
    del cost
    return _scaled_to_budget(np.asarray([demand[-1] for demand in past], float), feasible)


def _scaled_to_budget(orders: np.ndarray, feasible: HasBounds) -> np.ndarray:
    if not isinstance(feasible, Budget):
        return orders
    spent, total = float(np.sum(feasible.weights * orders)), float(feasible.total)
    return orders * total / spent if spent > total else orders


RULES: dict[str, OrderRule] = dict(zip(RULE_NAMES, (saa, normal, last_value), strict=True))


def rule_named(name: str) -> tuple[OrderRule, int | None]:
    """A rule, and how many of the last demands it uses (None: all); `saa-60` uses sixty.

    Raises:
        SettingError: If there is no rule of that name.
    """
    rule, window = rule_and_window(name)
    return RULES[rule], window


@dataclasses.dataclass(frozen=True)
class RuleBacktest:
    """The orders of rules of thumb, day by day, each from the demands known before that day.

    Attributes:
        table: The demands. Rules learn from days of the same group.
        start: The order of each item while none of its demands is known.
        costs: Of each item; a single one if all items are ordered together.
        feasible: Of each item; a single one if all items are ordered together.
    """

    table: DemandTable
    start: np.ndarray
    costs: Sequence[UnderageOverage]
    feasible: Sequence[FeasibleSet]

    def orders(self, name: str, burn_in: int) -> np.ndarray:
        """The orders of a rule, days by items; NaN on the first `burn_in` days."""
        (rule, window), group = rule_named(name), self.table.group
        orders = np.full(self.table.demand.shape, np.nan)
        for which in np.unique(group[burn_in:]):
            same = np.flatnonzero(group == which)
            days = same[same >= burn_in]
            known = np.searchsorted(same, days - self.table.delay)  # days of which demand is known
            orders[days] = self._orders(rule, same, known, window)
        return self._nearest_feasible(orders)

    def hindsight(self, burn_in: int) -> np.ndarray:
        """The constant orders, one for each group, that cost least on the days after `burn_in`."""
        orders = np.full(self.table.demand.shape, np.nan)
        for group in np.unique(self.table.group[burn_in:]):
            days = burn_in + np.flatnonzero(self.table.group[burn_in:] == group)
            orders[days] = self._orders(saa, days, np.asarray([len(days)]), None)
        return self._nearest_feasible(orders)

    def _together(self) -> list[np.ndarray]:
        """The items that are ordered together: each alone, or all."""
        return np.split(np.arange(len(self.start)), len(self.costs))

    def _nearest_feasible(self, orders: np.ndarray) -> np.ndarray:
        """The orders of each day, moved to the nearest point of the feasible set."""
        for items, feasible in zip(self._together(), self.feasible, strict=True):
            orders[:, items] = jax.vmap(feasible.project)(jnp.asarray(orders[:, items]))
        return orders

    def _orders(
        self, rule: OrderRule, days: np.ndarray, known: np.ndarray, window: int | None
    ) -> Float[np.ndarray, "orders items"]:
        """Orders of all items, each from the demands of the first so many of some days.

        Args:
            rule: The rule.
            days: Days of one group.
            known: How many of these days each order is based on.
            window: How many of the last demands the rule uses; None: all.
        """
        orders = np.tile(self.start, (len(known), 1))
        rows, is_known = self.table.rows[days], self.table.known_rows[days]
        demands = [rows[:, i][is_known[:, i]] for i in range(len(self.start))]
        counts = np.pad(np.cumsum(is_known.sum(axis=2), axis=0), ((1, 0), (0, 0)))[known]
        for items, cost, feasible in self._parts(counts.all(axis=0)):
            past = [demands[i] for i in items]
            for order, count in zip(orders, counts[:, items], strict=True):
                if count.all():
                    first = count * 0 if window is None else np.maximum(count - window, 0)
                    ends = zip(past, first.tolist(), count.tolist(), strict=True)
                    order[items] = rule([d[low:high] for d, low, high in ends], cost, feasible)
        return orders

    def _parts(self, always_known: Bool[np.ndarray, " items"]) -> list[tuple[np.ndarray, Any, Any]]:
        """Items whose orders one call of a rule computes, their costs and feasible set.

        Items that are ordered alone, without a budget, are computed side by side: rules treat each
        as they would treat it alone. Not those of which no demand is known at first.
        """
        parts: list[tuple[np.ndarray, Any, Any]] = []
        beside: list[tuple[np.ndarray, Any, _Bounds]] = []
        # Orders in lots are rounded afterwards, as all orders are moved to the feasible set.
        convex = [feasible.relaxation for feasible in self.feasible]
        for items, *part in zip(self._together(), self.costs, convex, strict=True):
            cost, feasible = map(_on_host, part)
            alone = isinstance(feasible, _Bounds) and np.ndim(feasible.low) == 0
            (beside if alone and always_known[items].all() else parts).append(
                (items, cost, feasible)
            )
        if beside:
            costs = [_unit_costs(cost, 1) for _, cost, _ in beside]
            prices = _UnitCosts(*map(np.concatenate, zip(*costs, strict=True)))
            ends = _Bounds(*map(np.asarray, zip(*(bounds for *_, bounds in beside), strict=True)))
            parts.append((np.concatenate([items for items, *_ in beside]), prices, ends))
        return parts


class _UnitCosts(NamedTuple):
    underage: np.ndarray
    overage: np.ndarray


class _Bounds(NamedTuple):
    low: np.ndarray
    high: np.ndarray

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        return self


def _on_host(part: Any) -> Any:
    """A cost or a set with NumPy's arrays, of a set that is no `Budget` its bounds alone.

    To copy a number from JAX, or to call a method of a Module, takes longer than most rules take.
    """
    part = jax.tree.map(lambda leaf: np.asarray(leaf) if eqx.is_array(leaf) else leaf, part)
    if isinstance(part, FeasibleSet) and not isinstance(part, Budget):
        return _Bounds(*map(np.asarray, part.bounds()))
    return part


def _quantile(demand: np.ndarray, share: float) -> float:
    """The smallest demand that a share does not exceed, as `np.quantile` has it, in less time."""
    return np.sort(demand)[max(math.ceil(demand.size * share - 1.0), 0)]


def _mean_and_deviation(demand: np.ndarray) -> tuple[float, float]:
    """As NumPy's, in less time for few numbers."""
    mean = demand.sum() / demand.size
    return mean, math.sqrt(np.square(demand - mean).sum() / demand.size)


def _between(values: np.ndarray, low: Any, high: Any) -> np.ndarray:
    """`np.clip`, whose checks take longer than a few numbers."""
    return np.minimum(np.maximum(values, low), high)


def _unit_costs(cost: UnderageOverage, items: int) -> list[np.ndarray]:
    return [np.zeros(items) + np.asarray(v) for v in (cost.underage, cost.overage)]

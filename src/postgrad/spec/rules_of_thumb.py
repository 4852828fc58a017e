"""Rules of thumb: orders set from past demand alone, to compare postgrad with in a backtest.

Every rule is a function of the demands known so far (one array for each item), the unit costs and
the feasible set, and returns an order for each item. The cost is a newsvendor's: `underage` b for
each unit short, `overage` h for each unit left over. Items with one budget are ordered together.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
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


OrderRule = Callable[[Demands, UnderageOverage, FeasibleSet], np.ndarray]


def saa(past: Demands, cost: UnderageOverage, feasible: FeasibleSet) -> np.ndarray:
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
        pairs = zip(past, shares, strict=True)
        return np.asarray([np.quantile(d, share, method="inverted_cdf") for d, share in pairs])
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


def normal(past: Demands, cost: UnderageOverage, feasible: FeasibleSet) -> np.ndarray:
    """The quantile b / (b + h) of a normal law with the mean and deviation of past demands.

    With a budget, the orders that minimise the expected cost under these laws: b is reduced by the
    price of the budget at which the orders just fit, found by bisection.
    """
    underage, overage = _unit_costs(cost, len(past))
    mean, deviation = (np.asarray([f(d) for d in past]) for f in (np.mean, np.std))
    bounds = [np.asarray(side) for side in feasible.bounds()]

    def orders(price: np.ndarray | float) -> np.ndarray:
        share = (underage - price) / (underage + overage)
        order = mean + deviation * ndtri(np.clip(share, 1e-12, 1 - 1e-12))
        return np.clip(order, *bounds)

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


def last_value(past: Demands, cost: UnderageOverage, feasible: FeasibleSet) -> np.ndarray:
    """The last demand of each item, scaled down by one factor if the budget is exceeded."""
    del cost
    return _scaled_to_budget(np.asarray([demand[-1] for demand in past], float), feasible)


def _scaled_to_budget(orders: np.ndarray, feasible: FeasibleSet) -> np.ndarray:
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
        for day in range(burn_in, len(orders)):
            same = group[: max(day - self.table.delay, 0)] == group[day]
            orders[day] = self._order(rule, np.flatnonzero(same), window)
        return self._nearest_feasible(orders)

    def hindsight(self, burn_in: int) -> np.ndarray:
        """The constant orders, one for each group, that cost least on the days after `burn_in`."""
        orders = np.full(self.table.demand.shape, np.nan)
        for group in np.unique(self.table.group[burn_in:]):
            days = burn_in + np.flatnonzero(self.table.group[burn_in:] == group)
            orders[days] = self._order(saa, days, None)
        return self._nearest_feasible(orders)

    def _together(self) -> list[np.ndarray]:
        """The items that are ordered together: each alone, or all."""
        return np.split(np.arange(len(self.start)), len(self.costs))

    def _nearest_feasible(self, orders: np.ndarray) -> np.ndarray:
        """The orders of each day, moved to the nearest point of the feasible set."""
        for items, feasible in zip(self._together(), self.feasible, strict=True):
            orders[:, items] = jax.vmap(feasible.project)(jnp.asarray(orders[:, items]))
        return orders

    def _order(self, rule: OrderRule, days: np.ndarray, window: int | None) -> np.ndarray:
        """The order of each item, from the demands of some days."""
        orders, rows, known = self.start.copy(), self.table.rows, self.table.known_rows
        for items, cost, feasible in zip(self._together(), self.costs, self.feasible, strict=True):
            past = [rows[days, i][known[days, i]] for i in items]
            if all(d.size for d in past):
                recent = [d[-(window or d.size) :] for d in past]
                orders[items] = rule(recent, cost, feasible)
        return orders


def _unit_costs(cost: UnderageOverage, items: int) -> list[np.ndarray]:
    return [np.broadcast_to(np.asarray(v), items) for v in (cost.underage, cost.overage)]

"""What is done today: rules that set an order from past demand, without a model of what is unknown.

Every rule is a function of the demands that are known, item by item, and returns an order for each
item. They take a newsvendor's cost: `underage` b for each unit short, `overage` h for each unit
left over. Where one budget binds all items they share it.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri

from postgrad.errors import SettingError
from postgrad.problem.feasible import Budget, FeasibleSet

_HALVINGS = 100
_ROUNDING = 1e-9  # of a share of the data

Past = Sequence[np.ndarray]


@runtime_checkable
class Cost(Protocol):
    """A newsvendor's cost."""

    @property
    def underage(self) -> Any:
        """B."""

    @property
    def overage(self) -> Any:
        """H."""


Rule = Callable[[Past, Cost, FeasibleSet], np.ndarray]


def saa(past: Past, cost: Cost, feasible: FeasibleSet) -> np.ndarray:
    """Sample-average approximation: the orders that would have been best on all of the past.

    For each item the empirical quantile b / (b + h). With a budget a linear programme, solved by
    spending on whatever unit saves most on average, per unit of budget, until nothing is left.
    """
    if not isinstance(feasible, Budget):
        share = cost.underage / (cost.underage + cost.overage)
        return np.asarray([_quantile(d, s) for d, s in zip(past, share, strict=True)])
    lower, upper, price = (
        np.broadcast_to(v, len(past)) for v in (feasible.low, feasible.high, feasible.weights)
    )
    gains, lengths, items = [], [], []
    for i, demand in enumerate(past):
        ends = np.clip(np.sort(demand), lower[i], upper[i])
        slope = -cost.underage[i] + (cost.underage[i] + cost.overage[i]) * (
            np.arange(ends.size) / ends.size
        )
        lengths.append(np.diff(ends, prepend=lower[i]))
        gains.append(-slope / price[i])
        items.append(np.full(ends.size, i))
    gain, length, item = (np.concatenate(part) for part in (gains, lengths, items))
    orders, left = lower.astype(float), float(feasible.total - np.sum(price * lower))
    order = np.argsort(-gain, kind="stable")
    order = order[gain[order] > _ROUNDING]
    # Units that save alike are bought alike: what is left is spread over all of them.
    for same in np.split(order, np.flatnonzero(-np.diff(gain[order]) > _ROUNDING) + 1):
        needed = float(np.sum(length[same] * price[item[same]]))
        share = 1.0 if needed <= left else left / needed
        np.add.at(orders, item[same], share * length[same])
        left -= share * needed
        if share < 1.0:
            break
    return orders


def normal(past: Past, cost: Cost, feasible: FeasibleSet) -> np.ndarray:
    """The quantile of a normal law with the mean and the standard deviation of the past."""
    mean = np.asarray([d.mean() for d in past])
    spread = np.asarray([d.std() for d in past])

    def orders(price: np.ndarray | float) -> np.ndarray:
        share = (cost.underage - price) / (cost.underage + cost.overage)
        order = mean + spread * ndtri(np.clip(share, 1e-12, 1 - 1e-12))
        if isinstance(feasible, Budget):
            return np.clip(order, feasible.low, feasible.high)
        return order

    if not isinstance(feasible, Budget):
        return orders(0.0)
    prices, total = np.asarray(feasible.weights), float(feasible.total)
    if np.sum(prices * orders(0.0)) <= total:
        return orders(0.0)
    low, high = 0.0, float(np.max(cost.underage / prices))  # of one unit of budget
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        fits = np.sum(prices * orders(middle * prices)) <= total
        low, high = (low, middle) if fits else (middle, high)
    # Where nearly nothing varies, no price of the budget is high enough.
    return _cut(orders(high * prices), feasible)


def last_value(past: Past, cost: Cost, feasible: FeasibleSet) -> np.ndarray:
    """As much as was asked for last; where that is too much for the budget, all cut alike."""
    del cost
    return _cut(np.asarray([demand[-1] for demand in past], float), feasible)


def _cut(orders: np.ndarray, feasible: FeasibleSet) -> np.ndarray:
    """Orders, all cut alike where they are more than the budget."""
    if not isinstance(feasible, Budget):
        return orders
    spent, total = float(np.sum(feasible.weights * orders)), float(feasible.total)
    return orders * total / spent if spent > total else orders


RULES: dict[str, Rule] = {"saa": saa, "normal": normal, "last-value": last_value}


def rule(name: str) -> tuple[Rule, int | None]:
    """A rule by its name, and of how many of the last demands; `saa-60` is that of sixty.

    Raises:
        SettingError: If there is no such rule.
    """
    if name in RULES:
        return RULES[name], None
    stem, _, window = name.rpartition("-")
    if stem in RULES and window.isascii() and window.isdigit() and int(window) > 0:
        return RULES[stem], int(window)
    known = ", ".join(RULES)
    raise SettingError(
        f"rivals must be among {known}, or one of these with a window as in saa-60, got {name!r}"
    )


@dataclasses.dataclass(frozen=True)
class Shop:
    """What rules get to see, day by day.

    Attributes:
        demand: Days by items.
        known: Where the demand is known.
        context: The number of each day's context; rules learn from days of the same.
        start: The orders where there is nothing to go by.
        costs: Of each item; a single one of all where they are decided together.
        feasible: Likewise.
        delay: So many days pass before a demand becomes known, beyond the next morning.
    """

    demand: np.ndarray
    known: np.ndarray
    context: np.ndarray
    start: np.ndarray
    costs: Sequence[Cost]
    feasible: Sequence[FeasibleSet]
    delay: int

    def follow(self, name: str, burn_in: int) -> np.ndarray:
        """The orders of a rule on every day but the first few."""
        decide, window = rule(name)
        orders = np.full(self.demand.shape, np.nan)
        for day in range(burn_in, len(self.demand)):
            past = self.context[: max(day - self.delay, 0)] == self.context[day]
            orders[day] = self._order(decide, np.flatnonzero(past), window)
        return self._nearest_feasible(orders)

    def hindsight(self, burn_in: int) -> np.ndarray:
        """The constant orders, one for each context, that were best on the days after the first."""
        orders = np.full(self.demand.shape, np.nan)
        for label in np.unique(self.context[burn_in:]):
            days = burn_in + np.flatnonzero(self.context[burn_in:] == label)
            orders[days] = self._order(saa, days, None)
        return self._nearest_feasible(orders)

    def _order(self, decide: Rule, days: np.ndarray, window: int | None) -> np.ndarray:
        orders = self.start.copy()
        for group, cost, feasible in zip(self._groups(), self.costs, self.feasible, strict=True):
            past = [self.demand[days[self.known[days, i]], i] for i in group]
            if all(d.size for d in past):
                recent = [d[-(window or d.size) :] for d in past]
                orders[group] = decide(recent, _arrays(cost), feasible)
        return orders

    def _groups(self) -> np.ndarray:
        """The items that are decided together, one group in each row."""
        return np.arange(self.demand.shape[1]).reshape(len(self.costs), -1)

    def _nearest_feasible(self, orders: np.ndarray) -> np.ndarray:
        """The orders of each day, moved to the nearest point of the feasible set."""
        for group, feasible in zip(self._groups(), self.feasible, strict=True):
            orders[:, group] = jax.vmap(feasible.project)(jnp.asarray(orders[:, group]))
        return orders


@dataclasses.dataclass(frozen=True)
class _Arrays:
    underage: np.ndarray
    overage: np.ndarray


def _arrays(cost: Cost) -> _Arrays:
    return _Arrays(*(np.atleast_1d(np.asarray(v)) for v in (cost.underage, cost.overage)))


def _quantile(demand: np.ndarray, share: float) -> float:
    """The smallest demand that at least a share of all do not exceed."""
    k = int(np.ceil(demand.size * share - _ROUNDING)) - 1
    return float(np.partition(demand, max(k, 0))[max(k, 0)])

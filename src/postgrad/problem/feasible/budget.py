"""A box whose entries share one budget."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float

from postgrad.errors import FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, as_number, is_concrete, on_device
from postgrad.problem.feasible.box import as_bounds, as_decision, as_metric
from postgrad.problem.feasible.feasible_set import FeasibleSet

# Up to so many entries it takes less time to look at all prices at once than to sort them.
_FEW = 24


class Budget(FeasibleSet):
    """X = {x : low <= x <= high, sum(weights * x) <= total}.

    Proj_X(x) = clip(x - lambda * weights, low, high), with the smallest lambda >= 0 that keeps the
    budget. lambda is the price of the budget: zero if the budget does not bind. In a metric, the
    price of entry i is lambda * weights_i / metric_i.

    Args:
        low: The lower bounds, a number or an array that broadcasts to weights; -inf for none.
        high: The upper bounds, likewise; inf for none.
        weights: What a unit of each entry costs, positive, in the shape of x.
        total: The budget, a number.

    Raises:
        FeasibleSetError: On NaN, on what is not numbers, where low > high, on weights that are not
            positive, on shapes that do not fit, and if sum(weights * low) > total.
    """

    low: Float[Array, "..."]
    high: Float[Array, "..."]
    weights: Float[Array, "..."]
    total: Float[Array, ""]

    def __init__(
        self,
        low: npt.ArrayLike,
        high: npt.ArrayLike,
        weights: npt.ArrayLike,
        total: npt.ArrayLike,
    ):
        bounds = as_bounds(low, high)
        self.weights = as_array(weights, FeasibleSetError, "weights")
        self.total = as_number(total, FeasibleSetError, "total")
        try:
            self.low, self.high = (jnp.broadcast_to(side, self.weights.shape) for side in bounds)
        except ValueError as problem:
            shapes = f"{bounds[0].shape} and {bounds[1].shape}"
            raise FeasibleSetError(
                f"low and high must fit the shape {self.weights.shape} of weights, got {shapes}"
            ) from problem
        if is_concrete(self.weights) and not np.all(np.asarray(self.weights) > 0):
            raise FeasibleSetError(f"weights must be positive, got {np.min(self.weights)}")
        if is_concrete(self.low, self.weights, self.total):
            least = np.asarray(self.weights) * np.asarray(self.low)
            # 0.1 + 0.1 + 0.1 > 0.3 in float64, which must not make the set empty.
            rounding = 4 * np.finfo(np.float64).eps * np.sum(np.abs(least))
            if least.sum() - rounding > self.total:
                raise FeasibleSetError(
                    f"sum(weights * low) must not exceed total, got {least.sum()} > {self.total}"
                )

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """clip(x - lambda * weights / metric, low, high)."""
        x = as_decision(x, self.weights.shape, exact=True)
        v, w, low, high = (jnp.ravel(each) for each in (x, self.weights, self.low, self.high))
        if metric is None:
            nearest = priced(v, w, w, low, high, self.total)
        else:
            pull = w / jnp.ravel(as_metric(metric, x))
            nearest = priced_twice(v, w, pull, low, high, self.total)
        # The budget must be kept exactly, in whatever order its terms are added.
        rounding = v.size * jnp.finfo(v.dtype).eps
        eps = rounding * jnp.sum(jnp.abs(w * nearest))
        # In a metric each entry gives its share, for their units may differ.
        shift = 2.0 * (eps / jnp.sum(w) if metric is None else rounding * jnp.abs(nearest))
        spare = jnp.where(jnp.sum(w * nearest) - self.total > -eps, shift, 0.0)
        nearest = jnp.maximum(nearest - spare, jnp.minimum(nearest, low))
        return nearest.reshape(x.shape).astype(x.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The budget in which these entries have no width."""
        low, high = (np.where(mask, values, np.asarray(side)) for side in (self.low, self.high))
        return replaced(self, low=on_device(low), high=on_device(high))

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest of low - x, x - high and sum(weights * x) - total, or zero."""
        x = as_decision(x, self.weights.shape, exact=True)
        outside = jnp.max(jnp.maximum(self.low - x, x - self.high), initial=0.0)
        return jnp.maximum(outside, jnp.sum(self.weights * x) - self.total)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """low, and what the budget buys of each entry while all others are low, but at most high.

        high_i  or  (total - sum_{k != i} weights_k low_k) / weights_i,  the smaller.
        """
        least = self.weights * self.low
        free = jnp.isinf(least)
        spent = jnp.sum(jnp.where(free, 0.0, least)) - jnp.where(free, 0.0, least)
        some_other_is_free = jnp.sum(free) > free
        affordable = jnp.where(some_other_is_free, jnp.inf, (self.total - spent) / self.weights)
        # Rounding must not put a bound below `low` where the budget buys nothing more.
        return self.low, jnp.maximum(jnp.minimum(self.high, affordable), self.low)

    def budgets(self, size: int) -> tuple[Float[Array, "1 {size}"], Float[Array, " 1"]]:
        """Its own."""
        return self.weights.reshape(1, size), self.total[None]

    def within(self, low: Float[Array, "..."], high: Float[Array, "..."]) -> "Budget":
        """The same budget for a smaller box."""
        return Budget(low, high, self.weights, self.total)


def priced(
    v: Float[Array, " n"],
    w: Float[Array, " n"],
    pull: Float[Array, " n"],
    low: Float[Array, " n"],
    high: Float[Array, " n"],
    total: Float[Array, ""],
    *,
    equal: bool = False,
) -> Float[Array, " n"]:
    """clip(v - lambda * pull, low, high), with the lambda that keeps the budget.

    Args:
        v: What is wanted.
        w: What a unit of each entry costs.
        pull: How far a unit of lambda moves each entry: w, or w / metric.
        low: The lower bounds.
        high: The upper bounds.
        total: The budget, which must lie between the sums of w * low and of w * high if `equal`.
        equal: Whether all of it must be spent: then lambda may be negative.
    """

    def bought(price: Array) -> Array:
        return jnp.clip(v - price * pull, low, high)

    def excess(each: Array) -> Array:
        return jnp.sum(w * each) - total

    # Entry i is at high up to the price leave[i], at low from arrive[i] on, and linear between,
    # so the excess is linear between neighbouring knots, and falls.
    leave, arrive = (v - high) / pull, (v - low) / pull
    knots = jnp.concatenate([jnp.zeros(1), leave, arrive])
    knots = jnp.maximum(knots, -jnp.inf if equal else 0.0)
    before, after = (_segment if v.size <= _FEW else _segment_by_bisection)(
        knots, lambda price: excess(bought(price))
    )

    # On that segment one linear equation gives the price, and a second one corrects the
    # decision: where v is far away, price * pull is large and its rounding would break the budget.
    # If no entry moves, the price is the last knot: infinite for infinite v, which gives NaN.
    moving = (leave <= before) & (arrive >= after)
    slope = jnp.sum(jnp.where(moving, w * pull, 0.0))
    bound = bought(before)
    bound = bought(jnp.minimum(before + excess(bound) / slope, after))
    rest = excess(bound) / slope
    bound = jnp.clip(jnp.where(moving, bound - rest * pull, bound), low, high)

    free = jnp.clip(v, low, high)
    return jnp.where(excess(free) == 0 if equal else excess(free) <= 0, free, bound)


def _segment(knots: Array, excess: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The knots between which the excess, which falls, becomes zero, by looking at all of them."""
    over = jax.vmap(excess)(knots) > 0
    before = jnp.max(jnp.where(over, knots, jnp.min(knots)))
    return before, jnp.min(jnp.where(over, jnp.max(knots), knots))


def _segment_by_bisection(knots: Array, excess: Callable[[Array], Array]) -> tuple[Array, Array]:
    """The same by looking at few, in sorted order."""
    knots = jnp.sort(knots)

    def halve(_: int, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        first, last = ends
        middle = (first + last) // 2
        over = excess(knots[middle]) > 0
        return jnp.where(over, middle, first), jnp.where(over, last, middle)

    ends = (jnp.asarray(0), jnp.asarray(knots.size - 1))
    first, last = jax.lax.fori_loop(0, knots.size.bit_length(), halve, ends)
    return knots[first], knots[last]


def priced_twice(v: Float[Array, " n"], *rest: Any, equal: bool = False) -> Float[Array, " n"]:
    """`priced`, and once more, which moves the point by rounding errors at its own scale only.

    Where entries move at very different speeds, rounding at the scale of v may mistake one segment
    for the next, and so miss the budget.
    """
    again = lambda _, point: priced(point, *rest, equal=equal)  # noqa: E731
    return jax.lax.fori_loop(0, 2, again, jnp.asarray(v, float))

"""Feasible sets of which some entries of the decision are given.

The given entries are numbers of the set, as its bounds are: one program serves all of them.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from postgrad.errors import DecisionError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.validate import as_numbers, on_device
from postgrad.problem.feasible.box import as_metric
from postgrad.problem.feasible.budget import priced_twice
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Values

# The most turns between two sets where no closed form is known, and how little the last one moves.
_TURNS, _STILL = 5000, 1e-12
# A decision may violate a set by so much, relative to its size.
_ROUNDING = 1e-7


class Given(FeasibleSet):
    """X with {x : x_i = v_i for some i}.

    The bounds are those of X, so that a search has a width to divide in each coordinate.

    Attributes:
        whole: X.
        rest: `whole.with_given(mask, values)`.
        mask: Which entries are given.
        entries: v; those that are not given do not matter.
    """

    whole: FeasibleSet
    rest: FeasibleSet
    mask: Bool[Array, "..."]
    entries: Float[Array, "..."]

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """The nearest point among those that have the given entries."""
        return _nearest(self, x, metric)

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """That of X, or how far a given entry is from its value."""
        return _violation(self, x)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Those of X."""
        return self.whole.bounds()

    @property
    def relaxation(self) -> FeasibleSet:
        """The same of the relaxation of X."""
        return _relaxed(self)

    def values(self) -> Values | None:
        """Those of X with the given entries."""
        return self.rest.values()

    def budgets(self, size: int) -> tuple[Float[Array, "b {size}"], Float[Array, " b"]]:
        """Those of X."""
        return self.whole.budgets(size)


class GivenApart(FeasibleSet):
    """The same of a set in which each entry may be chosen on its own.

    Attributes:
        whole: X.
        rest: `whole.with_given(mask, values)`.
        mask: Which entries are given.
        entries: v.
    """

    separates: ClassVar[bool] = True

    whole: FeasibleSet
    rest: FeasibleSet
    mask: Bool[Array, "..."]
    entries: Float[Array, "..."]

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """The nearest point among those that have the given entries."""
        return _nearest(self, x, metric)

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """That of X, or how far a given entry is from its value."""
        return _violation(self, x)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Those of X."""
        return self.whole.bounds()

    @property
    def relaxation(self) -> FeasibleSet:
        """The same of the relaxation of X."""
        return _relaxed(self)

    def values(self) -> Values | None:
        """Those of X with the given entries."""
        return self.rest.values()


class ExactSum(FeasibleSet):
    """{x : low <= x <= high, sum(x) = total}: a simplex of which entries are given.

    Attributes:
        low: The lower bounds, in the shape of x.
        high: The upper bounds.
        total: What the entries sum to.
    """

    low: Float[Array, "..."]
    high: Float[Array, "..."]
    total: Float[Array, ""]

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """clip(x - tau / metric, low, high), with tau such that the entries sum to the total."""
        one = jnp.ones(x.size)
        pull = one if metric is None else 1.0 / jnp.ravel(as_metric(metric, x))
        sides = jnp.ravel(self.low), jnp.ravel(self.high)
        p = priced_twice(jnp.ravel(x), one, pull, *sides, self.total, equal=True)
        return p.reshape(x.shape).astype(x.dtype)

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest of low - x, x - high and |sum(x) - total|."""
        outside = jnp.max(jnp.maximum(self.low - x, x - self.high), initial=0.0)
        return jnp.maximum(outside, jnp.abs(jnp.sum(x) - self.total))

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """(low, high)."""
        return self.low, self.high


class ByTurns(FeasibleSet):
    """The same of any set, by its projection alone: Dykstra's algorithm (1983).

        y  <-  Proj_X(z + p),    p  <-  z + p - y,    z  <-  y with the given entries.

    It converges to the nearest point of both, for most sets geometrically.

    Attributes:
        whole: X.
        mask: Which entries are given.
        entries: v.
    """

    whole: FeasibleSet
    mask: Bool[Array, "..."]
    entries: Float[Array, "..."]

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """After the last turn."""

        def turn(at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            z, p, _, left = at
            y = self.whole.project(z + p, metric)
            there = jnp.where(self.mask, self.entries, y)
            after = z + p - y
            moved = jnp.max(jnp.abs(there - z)) + jnp.max(jnp.abs(after - p))
            return there, after, moved, left - 1

        def goes_on(at: tuple[Array, Array, Array, Array]) -> Array:
            return (at[2] > _STILL * (1.0 + jnp.max(jnp.abs(at[0])))) & (at[3] > 0)

        start = jnp.where(self.mask, self.entries, x), jnp.zeros_like(x)
        counted = *start, jnp.asarray(jnp.inf), jnp.asarray(_TURNS)
        return jax.lax.while_loop(goes_on, turn, counted)[0]

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """That of X."""
        return self.whole.violation(x)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Those of X."""
        return self.whole.bounds()


def given(feasible: FeasibleSet, mask: np.ndarray, values: np.ndarray) -> FeasibleSet:
    """The set with some entries given; they are not checked: see `check_given`."""
    parts = feasible, feasible.with_given(mask, values), on_device(mask), on_device(values)
    return GivenApart(*parts) if feasible.separates else Given(*parts)


def as_given(fixed: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Which entries of a decision are given, and their values, from a dictionary by index.

    Raises:
        DecisionError: If an index is none of the decision's, or a value is not a finite number.
    """
    expected = "fixed must be values by index, as {2: 10.0}"
    if not isinstance(fixed, dict) or not fixed:
        raise DecisionError(f"{expected}, got {fixed!r}")
    mask, values = np.zeros(shape, bool), np.zeros(shape)
    for index, value in fixed.items():
        place = index if isinstance(index, tuple) else (index,)
        place = () if shape == () and place == (0,) else place
        whole = all(type(i) is int or isinstance(i, np.integer) for i in place)
        inside = whole and len(place) == len(shape)
        if not (inside and all(-n <= i < n for i, n in zip(place, shape, strict=True))):
            raise DecisionError(f"{expected}: a decision of shape {shape} has no entry {index!r}")
        number = as_numbers(value, DecisionError, f"fixed[{index!r}]")
        if number.shape != ():
            raise DecisionError(f"fixed[{index!r}] must be one number, got {value!r}")
        mask[place], values[place] = True, number
    return mask, values


def check_given(feasible: FeasibleSet, x: np.ndarray, fixed: Any) -> np.ndarray:
    """A feasible decision that has the given entries, near x.

    Args:
        feasible: The set with given entries.
        x: Any decision.
        fixed: The given entries, for messages.

    Raises:
        DecisionError: If there is none.
    """
    found, excess = (np.asarray(each) for each in _near(feasible, x))
    if not excess <= _ROUNDING * max(1.0, float(np.max(np.abs(found)))):
        how = "no other entries make up for that" if np.isnan(excess) else (
            f"the nearest decision that has them violates it by {float(excess):.4g}"
        )  # fmt: skip
        whole = feasible.whole if isinstance(feasible, Given | GivenApart) else feasible
        raise DecisionError(f"fixed = {fixed} does not fit into {whole}: {how}")
    return found


@compiled_at_once
def _near(feasible: FeasibleSet, x: Any) -> tuple[Array, Array]:
    found = feasible.project(jnp.asarray(x, float))
    return found, feasible.violation(found)


def _relaxed(self: Given | GivenApart) -> FeasibleSet:
    """Itself, if X is convex."""
    if self.whole.values() is None:
        return self
    whole, rest = self.whole.relaxation, self.rest.relaxation
    kind = GivenApart if whole.separates else Given
    return kind(whole, rest, self.mask, self.entries)


def _nearest(self: Given | GivenApart, x: Array, metric: Array | None) -> Array:
    there = jnp.where(self.mask, self.entries, x)
    return jnp.where(self.mask, self.entries, self.rest.project(there, metric))


def _violation(self: Given | GivenApart, x: Array) -> Array:
    off = jnp.max(jnp.where(self.mask, jnp.abs(x - self.entries), 0.0), initial=0.0)
    return jnp.maximum(self.whole.violation(x), off)

"""A lower and an upper bound for every entry."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Bool, Float

from postgrad.errors import DecisionError, FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, is_concrete, on_device
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Box(FeasibleSet):
    """X = {x : low <= x <= high}, entry by entry.

    Proj_X(x) = min(max(x, low), high)

    Args:
        low: The lower bounds, a number or an array that broadcasts to x; -inf where there is none.
        high: The upper bounds, likewise; inf where there is none.

    Raises:
        FeasibleSetError: On NaN, on what is not numbers, and where low > high.
    """

    separates: ClassVar[bool] = True

    low: Float[Array, "..."]
    high: Float[Array, "..."]

    def __init__(self, low: npt.ArrayLike, high: npt.ArrayLike):
        self.low, self.high = as_bounds(low, high)

    def project(
        self, x: Float[Array, "..."], metric: Float[Array, "..."] | None = None
    ) -> Float[Array, "..."]:
        """min(max(x, low), high), in every metric: the entries do not share anything."""
        x = as_decision(x, np.broadcast_shapes(self.low.shape, self.high.shape))
        return jnp.clip(x, self.low, self.high).astype(x.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The box in which these entries have no width."""
        low, high = (np.where(mask, values, np.asarray(side)) for side in (self.low, self.high))
        return replaced(self, low=on_device(low), high=on_device(high))

    def violation(self, x: Float[Array, "..."]) -> Float[Array, ""]:
        """The largest of low - x and x - high, or zero."""
        x = as_decision(x, np.broadcast_shapes(self.low.shape, self.high.shape))
        return jnp.max(jnp.maximum(self.low - x, x - self.high), initial=0.0)

    def bounds(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """(low, high)."""
        return self.low, self.high

    def within(self, low: Float[Array, "..."], high: Float[Array, "..."]) -> "Box":
        """The smaller box."""
        return Box(low, high)


def as_bounds(low: npt.ArrayLike, high: npt.ArrayLike) -> tuple[Array, Array]:
    """`low` and `high` as float64 arrays with low <= high; infinity means no bound on that side."""
    lows = as_array(low, FeasibleSetError, "low", infinite=-np.inf)
    highs = as_array(high, FeasibleSetError, "high", infinite=np.inf)
    try:
        shape = np.broadcast_shapes(lows.shape, highs.shape)
    except ValueError as problem:
        shapes = f"{lows.shape} and {highs.shape}"
        raise FeasibleSetError(f"low and high must fit one shape, got {shapes}") from problem
    if not is_concrete(lows, highs):
        return lows, highs
    below, above = (np.broadcast_to(np.asarray(side), shape) for side in (lows, highs))
    if np.any(below > above):
        where = tuple(np.argwhere(below > above)[0].tolist())
        place = f" at index {list(where)}" if where else ""
        raise FeasibleSetError(
            f"low must not exceed high, got low {below[where]} > high {above[where]}{place}"
        )
    return lows, highs


def as_decision(
    x: Float[Array, "..."], shape: tuple[int, ...], exact: bool = False
) -> Float[Array, "..."]:
    """`x` as an array of floats, provided that it fits a set of shape `shape`.

    That is: x has this very shape or, unless `exact`, one to which this shape broadcasts.
    """
    # A weak Python float: float32 stays float32, whole numbers become float64.
    x = jnp.asarray(x, dtype=jnp.result_type(x, 0.0))
    try:
        fits = np.broadcast_shapes(x.shape, shape) == x.shape
    except ValueError:
        fits = False
    if not fits or (exact and x.shape != shape):
        raise DecisionError(f"x must have the shape {shape} of its feasible set, got {x.shape}")
    return x


def as_metric(metric: Float[Array, "..."], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """`metric` in units of its largest entry, so that nothing overflows that is made of it."""
    metric = jnp.asarray(metric, float)
    if metric.shape != x.shape:
        raise DecisionError(f"metric must have the shape {x.shape} of x, got {metric.shape}")
    return jnp.maximum(metric / jnp.max(metric), 1e-30)

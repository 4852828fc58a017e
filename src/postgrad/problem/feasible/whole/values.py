"""Which values the entries of a decision may take: multiples of a lot size, zero or a minimum."""

from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

# Numbers that are nearer to a whole one, relative to their size, differ from it by rounding.
_ROUNDING = 1e-9
_NEARLY = 1e-3  # of a step: ends of intervals that are nearer to a value are meant to be that value


class Line(NamedTuple):
    """The values of each entry, by their positions: whole numbers, one after the other.

    The value at position p is p steps; the position before `first` is zero where that is a value of
    its own, below a minimum order.

    Attributes:
        step: How far values are apart: the lot size, or all there is where the entry is either zero
            or some number that a descent has found.
        first: The position of the first value that is a number of steps.
        last: The position of the largest value.
        zero: Whether zero is a value below `first`.
        whole: Whether the entry is chosen by its position; else it is any number.
    """

    step: Float[Array, "..."]
    first: Float[Array, "..."]
    last: Float[Array, "..."]
    zero: Bool[Array, "..."]
    whole: Bool[Array, "..."]

    @property
    def bottom(self) -> Float[Array, "..."]:
        """The position of the least value."""
        return self.first - self.zero

    def value(self, position: Float[Array, "..."]) -> Float[Array, "..."]:
        """The value at a position."""
        return jnp.where(self.zero & (position < self.first), 0.0, position * self.step)

    def position(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Where x lies: between two positions, where it lies between two values."""
        steps = snapped(x / jnp.where(self.step == 0.0, 1.0, self.step))
        below = self.first - 1.0 + steps / jnp.where(self.first == 0.0, 1.0, self.first)
        steps = jnp.where(self.zero & (steps < self.first), below, steps)
        return jnp.where(self.whole, jnp.clip(steps, self.bottom, self.last), self.first)


class Values(NamedTuple):
    """Which values the entries of x may take, entry by entry, as arrays that broadcast.

    Attributes:
        low: The least value, before rounding; -inf for none.
        high: The largest one, likewise.
        step: Values are multiples of it; 0 for any number.
        least: What is not zero is at least so much; 0 for no minimum.
        all_lots: Whether each entry has a lot size, so that none is just any number.
    """

    low: Float[Array, "..."]
    high: Float[Array, "..."]
    step: Float[Array, "..."]
    least: Float[Array, "..."]
    all_lots: bool = False

    @classmethod
    def any_within(cls, low: Float[Array, "..."], high: Float[Array, "..."]) -> "Values":
        """Any number between two bounds."""
        return cls(low, high, jnp.zeros(()), jnp.zeros(()))

    def spread(self, size: int) -> "Values":
        """The same for so many entries, as vectors."""
        numbers = self.low, self.high, self.step, self.least
        low, high, step, least = (jnp.broadcast_to(jnp.ravel(each), size) for each in numbers)
        return Values(low, high, step, least, self.all_lots)

    def line(self, x: Float[Array, "..."]) -> Line:
        """The positions of values; an entry without a lot size has the value x, or zero."""
        lots, minimum = self.step > 0.0, self.least > 0.0
        zero = minimum & (self.low <= 0.0) & (self.high >= 0.0)
        low = jnp.maximum(self.low, jnp.where(minimum, self.least, -jnp.inf))
        size = jnp.where(lots, self.step, 1.0)
        first, last = (
            jnp.where(lots, rounded(snapped(side / size)), 1.0)
            for side, rounded in ((low, jnp.ceil), (self.high, jnp.floor))
        )
        step = jnp.where(lots, self.step, jnp.clip(x, low, jnp.maximum(low, self.high)))
        last = jnp.where(~lots & (self.high < low), 0.0, last)
        last = jnp.where(zero, jnp.maximum(last, first - 1.0), last)
        return Line(step, first, last, zero, lots | minimum)

    def ends(self) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The least and the largest value of each entry."""
        low, high = self.line(self.low), self.line(self.high)
        least, most = low.value(low.bottom), high.value(high.last)
        any_number = ~low.whole
        return jnp.where(any_number, self.low, least), jnp.where(any_number, self.high, most)

    def none(self) -> Bool[Array, "..."]:
        """Where there is no value at all."""
        line = self.line(self.low)
        return line.last < line.bottom

    def around(
        self, low: Float[Array, "..."], high: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """The values between which numbers lie: the next one below, and the next one above.

        A number that is a thousandth of a step away from a value counts as that value: optima of
        single thetas are found by a few steps, and no nearer.
        """
        below, above = self.line(low), self.line(high)
        down = jnp.floor(below.position(low) + _NEARLY)
        up = jnp.ceil(above.position(high) - _NEARLY)
        return below.value(down), above.value(up)


def joined(each: Iterable[Values]) -> Values:
    """The values of several vectors, one after the other."""
    *numbers, all_lots = zip(*each, strict=True)
    low, high, step, least = (jnp.concatenate(parts) for parts in numbers)
    return Values(low, high, step, least, all(all_lots))


def snapped(numbers: Float[Array, "..."]) -> Float[Array, "..."]:
    """Numbers that are whole but for rounding, as whole ones: 0.6 / 0.2 is 2.9999999999999996."""
    whole = jnp.round(numbers)
    near = jnp.abs(numbers - whole) <= _ROUNDING * jnp.maximum(jnp.abs(numbers), 1.0)
    return jnp.where(near, whole, numbers)


def fits(
    x: Float[Array, "... d"], weights: Float[Array, "b d"], totals: Float[Array, " b"]
) -> Bool[Array, "..."]:
    """Whether x keeps all budgets, but for the rounding of sums."""
    spent, size = x @ weights.T, jnp.abs(x) @ jnp.abs(weights).T
    rounding = 8 * np.finfo(np.float64).eps * weights.shape[1]
    return jnp.all(spent - totals <= rounding * (size + jnp.abs(totals)), axis=-1)

"""Terms of columns and decisions: categorical, numeric, seasonal, and functions of one's own."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.errors import ModelError
from postgrad.models.terms import Term, not_negative, read_column
from postgrad.numerics.validate import as_count, as_positive


class Categorical(Term):
    """An effect of each level of a categorical column, such as the weekday.

    No level is a reference and the effects need not sum to zero: the prior, around zero, shrinks
    each to the overall level. A column's values are the levels' numbers, 0 to levels - 1; with
    `other=True` the number `levels` stands for levels that are not listed, which share an effect.
    """

    levels: int = eqx.field(static=True)
    column: str | None = eqx.field(static=True)
    scale: Float[Array, ""]
    walk: Float[Array, ""]

    def __init__(
        self,
        levels: int,
        column: str | None = None,
        *,
        scale: Any = 0.5,
        drift: Any = 0.0,
        other: bool = False,
    ):
        """Effects of so many levels of a column; the term's name, if no column is named.

        With scale = 0 there are no effects.
        """
        self.levels = as_count(levels, ModelError, "levels") + bool(other)
        self.column = column
        self.scale = not_negative(scale, "scale")
        self.walk = not_negative(drift, "drift")

    @property
    def drift(self) -> Array:
        """The standard deviation of each effect's random walk."""
        return self.walk

    @property
    def shape(self) -> tuple[int, ...]:
        """An effect for each level."""
        return (self.levels,)

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """One for the level in the column, zero for the others; NaN if there is no such level."""
        value = read_column(z, self.column or name)
        found = value == np.arange(self.levels)
        return jnp.where(jnp.any(found), found.astype(float), jnp.nan)


class Numeric(Term):
    """An effect that is proportional to a numeric column."""

    column: str | None = eqx.field(static=True)
    scale: Float[Array, ""]
    walk: Float[Array, ""]

    def __init__(self, column: str | None = None, *, scale: Any = 0.5, drift: Any = 0.0):
        """An effect of a column, the term's name if none is named; see `Term`.

        Args:
            column: The column, best scaled so that it varies by about one.
            scale: The prior standard deviation of the effect of a change by one.
            drift: The standard deviation of the effect's random walk in a unit of time.
        """
        self.column = column
        self.scale = as_positive(scale, ModelError, "scale")
        self.walk = not_negative(drift, "drift")

    @property
    def drift(self) -> Array:
        """The standard deviation of the effect's random walk."""
        return self.walk

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """The column's value."""
        return jnp.asarray(read_column(z, self.column or name), float)


class Harmonic(Term):
    """A smooth seasonal effect: waves in the share of the year that has gone by.

        sum_k  a_k cos(2 pi k s) + b_k sin(2 pi k s),      k = 1, ..., pairs

    All coefficients have the same prior, so it does not matter where in the year s = 0 is.
    """

    pairs: int = eqx.field(static=True)
    column: str = eqx.field(static=True)
    scale: Float[Array, ""]
    period: Float[Array, ""]

    def __init__(
        self, pairs: int = 2, column: str = "year_share", *, scale: Any = 0.1, period: Any = 1.0
    ):
        """So many pairs of waves, of a column in which `period` is a year.

        With scale = 0 there are no waves.
        """
        self.pairs = as_count(pairs, ModelError, "pairs")
        self.column = column
        self.scale = not_negative(scale, "scale")
        self.period = as_positive(period, ModelError, "period")

    @property
    def shape(self) -> tuple[int, ...]:
        """The cosines' coefficients, then the sines'."""
        return (2 * self.pairs,)

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """The waves."""
        angle = 2.0 * np.pi * jnp.arange(1, self.pairs + 1) * read_column(z, self.column)
        angle = angle / self.period
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])


class Feature(Term):
    """An effect that is proportional to a function of the decision and the context.

    For what the data owe to the decision, such as sales to a price:
    `Feature(lambda price, z: jnp.log(price / z["competitor"]))`.
    """

    function: Callable[[Any, PyTree], Any]
    size: int | None = eqx.field(static=True)
    scale: Float[Array, ""]
    walk: Float[Array, ""]

    def __init__(
        self,
        function: Callable[[Any, PyTree], Any],
        size: int | None = None,
        *,
        scale: Any = 0.5,
        drift: Any = 0.0,
    ):
        """An effect of `function(x, z)`, a number; or `size` effects of as many numbers."""
        if not callable(function):
            raise ModelError(f"function must be a function of (x, z), got {function!r}")
        self.function = function
        self.size = size if size is None else as_count(size, ModelError, "size")
        self.scale = as_positive(scale, ModelError, "scale")
        self.walk = not_negative(drift, "drift")

    @property
    def drift(self) -> Array:
        """The standard deviation of each effect's random walk."""
        return self.walk

    @property
    def shape(self) -> tuple[int, ...]:
        """One coefficient, or `size`."""
        return () if self.size is None else (self.size,)

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """The function's value."""
        value = jnp.asarray(self.function(x, z), float)
        if value.shape != self.shape:
            raise ModelError(
                f"the function of the term {name!r} must return shape {self.shape}, as `size` "
                f"says, got {value.shape}"
            )
        return value

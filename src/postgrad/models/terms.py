"""Terms of a linear predictor: what each reads from the context, its prior, how it moves."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.errors import ModelError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_count, as_number, as_positive, on_device

_NEVER = np.inf  # the half-life of what does not return


class Term(Module):
    """A summand of a linear predictor: a design vector times coefficients.

        eta  =  ...  +  design(x, z)' beta  +  ...,      beta ~ N(mean, scale^2 I) at the start

    In t units of time each coefficient moves: beta  <-  mean + k (beta - mean) + noise, with
    k = 2^(-t / half_life) and noise of variance scale^2 (1 - k^2) + t drift^2. Without drift and
    half-life the coefficient stays.

    Attributes:
        scale: The prior standard deviation of each coefficient, in units of eta.
        mean: The prior mean of each coefficient.
        drift: The standard deviation of a coefficient's random walk in a unit of time.
        half_life: The time in which a coefficient has come half the way back to its mean.
    """

    scale: eqx.AbstractVar[Float[Array, ""]]

    @property
    def mean(self) -> Array:
        """Zero, but for a level."""
        return on_device(np.float64(0.0))

    @property
    def drift(self) -> Array:
        """Zero: the coefficients stay."""
        return on_device(np.float64(0.0))

    @property
    def half_life(self) -> Array:
        """Infinite: the coefficients do not return."""
        return on_device(np.float64(_NEVER))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the coefficients: () for one number."""
        return ()

    @abc.abstractmethod
    def design(self, name: str, x: Any, z: PyTree) -> Float[Array, "..."]:
        """What the coefficients are multiplied by; `name` is the term's name in the predictor."""


class Level(Term):
    """An intercept.

    With a log link a level of N(0, 5^2) is as good as no prior for anything between e^-10 and
    e^10 a day.
    """

    level: Float[Array, ""]
    scale: Float[Array, ""]
    walk: Float[Array, ""]

    def __init__(self, mean: Any = 0.0, scale: Any = 5.0, drift: Any = 0.0):
        """A level around `mean`; see `Term`."""
        self.level = as_number(mean, ModelError, "mean")
        self.scale = as_positive(scale, ModelError, "scale")
        self.walk = _not_negative(drift, "drift")

    @property
    def mean(self) -> Array:
        """The prior mean."""
        return self.level

    @property
    def drift(self) -> Array:
        """The standard deviation of the random walk."""
        return self.walk

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """One."""
        return jnp.ones(())


class Deviation(Term):
    """A level that deviates and returns: an autoregressive process of order one.

    Its standard deviation is `scale` at all times, and its correlation over t units of time
    2^(-t / half_life). With scale = 0 there is no deviation.
    """

    scale: Float[Array, ""]
    returning: Float[Array, ""]

    def __init__(self, scale: Any = 0.1, half_life: Any = 14.0):
        """A deviation; see `Term`."""
        self.scale = _not_negative(scale, "scale")
        self.returning = as_positive(half_life, ModelError, "half_life")

    @property
    def half_life(self) -> Array:
        """The time in which half of the deviation is gone."""
        return self.returning

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """One."""
        return jnp.ones(())


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
        """Effects of so many levels of a column; the term's name, if no column is named."""
        self.levels = as_count(levels, ModelError, "levels") + bool(other)
        self.column = column
        self.scale = as_positive(scale, ModelError, "scale")
        self.walk = _not_negative(drift, "drift")

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
        self.walk = _not_negative(drift, "drift")

    @property
    def drift(self) -> Array:
        """The standard deviation of the effect's random walk."""
        return self.walk

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """The column's value."""
        return jnp.asarray(read_column(z, self.column or name), float)


class Harmonic(Term):
    """A smooth seasonal effect: sines and cosines of the share of the year that has gone by.

        sum_k  a_k cos(2 pi k s) + b_k sin(2 pi k s),      k = 1 .. pairs
    """

    pairs: int = eqx.field(static=True)
    column: str = eqx.field(static=True)
    scale: Float[Array, ""]

    def __init__(self, pairs: int = 2, column: str = "year_share", *, scale: Any = 0.1):
        """So many pairs of waves, of a column that counts periods (years, say)."""
        self.pairs = as_count(pairs, ModelError, "pairs")
        self.column = column
        self.scale = as_positive(scale, ModelError, "scale")

    @property
    def shape(self) -> tuple[int, ...]:
        """The cosines' coefficients, then the sines'."""
        return (2 * self.pairs,)

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """The waves."""
        angle = 2.0 * np.pi * jnp.arange(1, self.pairs + 1) * read_column(z, self.column)
        return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)])


class Trend(Term):
    """A steady change, of N(0, .1^2) a year unless said otherwise.

    Trend and season cannot be told apart within less than two years of data, and a wide prior of
    the trend takes a season for one.
    """

    column: str = eqx.field(static=True)
    origin: Float[Array, ""]
    unit: Float[Array, ""]
    scale: Float[Array, ""]

    def __init__(
        self, column: str = "day", *, origin: Any = 0.0, unit: Any = 365.25, scale: Any = 0.1
    ):
        """A trend in a column that counts days.

        Args:
            column: The column.
            origin: Its value where the trend is zero, best that of the first row.
            unit: How many of the column's units `scale` is about.
            scale: The prior standard deviation of the change in one `unit`.
        """
        self.column = column
        self.origin = as_number(origin, ModelError, "origin")
        self.unit = as_positive(unit, ModelError, "unit")
        self.scale = as_positive(scale, ModelError, "scale")

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """Units since the origin."""
        return (read_column(z, self.column) - self.origin) / self.unit


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
        self.walk = _not_negative(drift, "drift")

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


def read_column(z: PyTree, column: str) -> Any:
    """The value of a column of a context.

    Raises:
        ModelError: If the context has no such column.
    """
    if not isinstance(z, dict) or column not in z:
        there = sorted(z) if isinstance(z, dict) else z
        raise ModelError(
            f"the model reads the column {column!r} of the context, which has {there}: "
            f"give the column, or name another one in the term"
        )
    return z[column]


def _not_negative(value: Any, what: str) -> Array:
    return as_number(value, ModelError, what, "a number of at least 0", lambda number: number >= 0)

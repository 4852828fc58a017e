"""Terms of time alone: a level, a trend, a level that deviates and returns."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.errors import ModelError
from postgrad.models.terms import Term, not_negative, read_column
from postgrad.numerics.validate import as_number, as_positive


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
        self.walk = not_negative(drift, "drift")

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
        self.scale = not_negative(scale, "scale")
        self.returning = as_positive(half_life, ModelError, "half_life")

    @property
    def half_life(self) -> Array:
        """The time in which half of the deviation is gone."""
        return self.returning

    def design(self, name: str, x: Any, z: PyTree) -> Array:
        """One."""
        return jnp.ones(())


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

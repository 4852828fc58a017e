"""The contract of a regression model: a law of the data around a linear predictor."""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.distributions.density import log_density
from postgrad.errors import ModelError
from postgrad.models.predictor import Predictor
from postgrad.numerics.module import Module

Known = Mapping[str, Array]


class Curve(NamedTuple):
    """log f(y | eta) as a function of eta, at one eta.

    Attributes:
        value: log f.
        slope: Its derivative.
        bend: Minus its second derivative.
        safe_bend: The curvature that a step of Newton's method may rely on: positive, and not less
            than `bend` where log f is not concave.
    """

    value: Array
    slope: Array
    bend: Array
    safe_bend: Array


class RegressionModel(Module):
    """y ~ f(.; eta), with eta a linear predictor: f(y; x, theta, z) = f(y; eta(x, theta, z)).

    theta holds the coefficients of each term under its name, and the family's known numbers, such
    as the scale of a normal law, under theirs. A family of one's own is a subclass with a `law`.

    Attributes:
        predictor: eta, a function of (theta, z).
    """

    predictor: eqx.AbstractVar[Predictor]

    @property
    def known(self) -> tuple[str, ...]:
        """The names of the family's numbers that are not learned but known."""
        return ()

    @property
    def usual(self) -> "RegressionModel":
        """The model of the rows that are no outliers; itself, if it expects none."""
        return self

    @property
    def longest_step(self) -> float:
        """The longest step in eta that Newton's method may take, if eta is not that uncertain.

        In one unit of a logarithm or a logit the curvature changes by a factor of e. Infinite where
        the curvature is the same everywhere.
        """
        return 1.0

    def __check_init__(self) -> None:
        if not isinstance(self.predictor, Predictor):
            raise ModelError(f"predictor must be a Predictor(...), got {self.predictor!r}")
        taken = sorted(set(self.known) & set(self.predictor.terms))
        if taken:
            raise ModelError(
                f"no term may be called {taken[0]!r}: theta has {type(self).__name__}'s number "
                f"under that name"
            )

    def __call__(self, x: Any, theta: PyTree, z: PyTree) -> Any:
        """f(.; x, theta, z)."""
        return self.law(self.predictor(theta, z, x), theta)

    @abc.abstractmethod
    def law(self, eta: Float[Array, "..."], numbers: Known) -> Any:
        """f(.; eta), given a mapping that has the known numbers."""

    def averaged(self, mean: Array, variance: Array, numbers: Known) -> Any:
        """The law of y if eta ~ N(mean, variance), where there is a closed form; else None."""
        del mean, variance, numbers

    def outlier(self, eta: Array, numbers: Known) -> Any:
        """A much wider law around the same eta, of rows that have another cause.

        Raises:
            ModelError: If the family has none.
        """
        raise ModelError(f"{type(self).__name__} has no law of outliers: observe it as it is")

    def log_f(self, y: Array, eta: Array, numbers: Known) -> Array:
        """log f(y; eta)."""
        return log_density(self.law(eta, numbers), y)

    def curve(self, y: Array, eta: Array, numbers: Known) -> Curve:
        """log f and its derivatives at eta."""
        return curve_of(lambda at: self.log_f(y, at, numbers), eta)


def curve_of(log_f: Any, eta: Array) -> Curve:
    """A function of eta and its derivatives at eta."""

    def value_and_slope(at: Array) -> tuple[Array, Array]:
        return jax.jvp(log_f, (at,), (jnp.ones_like(at),))

    (value, slope), (_, second) = jax.jvp(value_and_slope, (eta,), (jnp.ones_like(eta),))
    return Curve(value, slope, -second, jnp.abs(second))


def exponential(eta: Array) -> Array:
    """e^eta, finite whatever eta."""
    return jnp.exp(jnp.clip(eta, -_LARGEST, _LARGEST))


_LARGEST = float(np.log(1e200))

"""Families in which the maximum-likelihood estimate has a closed form.

theta is a single number, or a dictionary of them, as each family says.
"""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.problem import Decision, Model


class Family(eqx.Module):
    """How theta enters the distribution of one observation, and how data determine it.

    The estimate is a function of two sums over the observations: of `statistics`, which take the
    decision into account where it shifts or scales the family, and of `exposure`.
    """

    distribution: ClassVar[str]
    form: ClassVar[str]

    @abc.abstractmethod
    def examples(self) -> PyTree:
        """A few admissible values of theta along a leading axis."""

    @abc.abstractmethod
    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """The mean and variance the family implies at (x, theta), to check a model against."""

    @abc.abstractmethod
    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Float[Array, "..."]:
        """T(y) of one observation."""

    @abc.abstractmethod
    def exposure(self, likelihood: Model, x: Decision) -> Float[Array, ""]:
        """The observation's share in the denominator."""

    @abc.abstractmethod
    def estimate(self, statistics: Float[Array, "..."], exposure: Float[Array, ""]) -> PyTree:
        """theta_hat, given the two sums."""


class NormalMean(Family):
    """y ~ Normal(theta + g(x), v(x)), v known: the mean of y - g(x), weighted by 1/v(x)."""

    distribution: ClassVar[str] = "Normal"
    form: ClassVar[str] = "mean theta + g(x) and a variance that does not depend on theta"

    def examples(self) -> PyTree:
        """Spread over the line."""
        return jnp.asarray([-2.0, 0.5, 3.0])

    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """Theta + g(x) and v(x), with g and v read off at theta = 0."""
        base = likelihood(x, jnp.zeros(()))
        return theta + base.mean, base.variance

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Array:
        """(y - g(x)) / v(x)."""
        base = likelihood(x, jnp.zeros(()))
        return (y - base.mean) / base.variance

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1 / v(x)."""
        return 1.0 / likelihood(x, jnp.zeros(())).variance

    def estimate(self, statistics: Array, exposure: Array) -> PyTree:
        """The weighted mean."""
        return statistics / exposure


class NormalMeanScale(Family):
    """y ~ Normal(theta["mean"] + g(x), theta["scale"]): the mean and spread of y - g(x).

    One observation has no spread: the scale is then held at 1e-3, as no maximum exists.
    """

    distribution: ClassVar[str] = "Normal"
    form: ClassVar[str] = 'mean theta["mean"] + g(x) and scale theta["scale"]'

    def examples(self) -> PyTree:
        """Spread over the half-plane."""
        return {"mean": jnp.asarray([-2.0, 0.5, 3.0]), "scale": jnp.asarray([0.5, 1.0, 2.0])}

    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """theta["mean"] + g(x) and theta["scale"]^2, with g read off at mean zero."""
        return theta["mean"] + self._shift(likelihood, x), theta["scale"] ** 2

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Array:
        """(r, r^2) with r = y - g(x)."""
        r = y - self._shift(likelihood, x)
        return jnp.stack([r, r**2])

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1."""
        del likelihood, x
        return jnp.asarray(1.0)

    def estimate(self, statistics: Array, exposure: Array) -> PyTree:
        """The mean and the standard deviation."""
        mean, square = statistics / exposure
        return {"mean": mean, "scale": jnp.sqrt(jnp.maximum(square - mean**2, 1e-6))}

    def _shift(self, likelihood: Model, x: Decision) -> Array:
        return likelihood(x, {"mean": jnp.zeros(()), "scale": jnp.ones(())}).mean


class ExponentialMean(Family):
    """y ~ Exponential with mean theta s(x): the mean of y / s(x)."""

    distribution: ClassVar[str] = "Exponential"
    form: ClassVar[str] = "mean theta * s(x)"

    def examples(self) -> PyTree:
        """Spread over the half-line."""
        return jnp.asarray([0.5, 1.0, 3.0])

    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """Theta s(x) and its square, with s read off at theta = 1."""
        mean = theta * likelihood(x, jnp.ones(())).mean
        return mean, mean**2

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Array:
        """Y / s(x)."""
        return y / likelihood(x, jnp.ones(())).mean

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1."""
        del likelihood, x
        return jnp.asarray(1.0)

    def estimate(self, statistics: Array, exposure: Array) -> PyTree:
        """The mean."""
        return statistics / exposure


class PoissonRate(Family):
    """y ~ Poisson with rate theta s(x): sum y / sum s(x)."""

    distribution: ClassVar[str] = "Poisson"
    form: ClassVar[str] = "rate theta * s(x)"

    def examples(self) -> PyTree:
        """Spread over the half-line."""
        return jnp.asarray([0.5, 1.0, 3.0])

    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """Theta s(x) twice, with s read off at theta = 1."""
        mean = theta * likelihood(x, jnp.ones(())).mean
        return mean, mean

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Array:
        """The count."""
        del likelihood, x
        return y

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """s(x)."""
        return likelihood(x, jnp.ones(())).mean

    def estimate(self, statistics: Array, exposure: Array) -> PyTree:
        """The rate per unit of exposure."""
        return statistics / exposure


class BernoulliProbability(Family):
    """y ~ Bernoulli(theta): the share of ones."""

    distribution: ClassVar[str] = "BernoulliProbs"
    form: ClassVar[str] = "probability theta"

    def examples(self) -> PyTree:
        """Spread over the interval."""
        return jnp.asarray([0.1, 0.5, 0.8])

    def moments(self, likelihood: Model, x: Decision, theta: PyTree) -> tuple[Array, Array]:
        """Theta and theta (1 - theta)."""
        del likelihood, x
        return theta, theta * (1 - theta)

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> Array:
        """Zero or one."""
        del likelihood, x
        return y

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1."""
        del likelihood, x
        return jnp.asarray(1.0)

    def estimate(self, statistics: Array, exposure: Array) -> PyTree:
        """The share."""
        return statistics / exposure

"""Families in which the maximum-likelihood estimate has a closed form."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.problem import Decision, Model


class Family(eqx.Module):
    """How theta enters the distribution of one observation, and how data determine it.

    The estimate is a function of two sums over the observations: of `statistics` (which may take
    the decision into account, through a shift or a scale of the family) and of `exposure`.
    """

    distribution: ClassVar[str]
    form: ClassVar[str]

    @abc.abstractmethod
    def examples(self) -> PyTree:
        """A few admissible values of theta along a leading axis."""

    @abc.abstractmethod
    def mean(self, likelihood: Model, x: Decision, theta: PyTree) -> Array:
        """The mean that the family implies at (x, theta), to be checked against the model."""

    @abc.abstractmethod
    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """T(y) of one observation."""

    @abc.abstractmethod
    def exposure(self, likelihood: Model, x: Decision) -> Float[Array, ""]:
        """The observation's share in the denominator: 1 unless the family is scaled."""

    @abc.abstractmethod
    def estimate(self, statistics: PyTree, exposure: Float[Array, ""]) -> PyTree:
        """theta_hat, given the two sums."""


class NormalMean(Family):
    """y ~ Normal(theta + g(x), known scale): theta_hat is the mean of y - g(x)."""

    distribution: ClassVar[str] = "Normal"
    form: ClassVar[str] = "mean theta + g(x)"

    def examples(self) -> PyTree:
        """Spread over the line."""
        return jnp.asarray([-2.0, 0.5, 3.0])

    def mean(self, likelihood: Model, x: Decision, theta: PyTree) -> Array:
        """Theta + g(x), with g(x) read off at theta = 0."""
        return theta + likelihood(x, jnp.zeros(())).mean

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """Y - g(x)."""
        return y - likelihood(x, jnp.zeros(())).mean

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1."""
        del likelihood, x
        return jnp.asarray(1.0)

    def estimate(self, statistics: PyTree, exposure: Array) -> PyTree:
        """The mean."""
        return statistics / exposure


class ExponentialMean(Family):
    """y ~ Exponential with mean theta s(x): theta_hat is the mean of y / s(x)."""

    distribution: ClassVar[str] = "Exponential"
    form: ClassVar[str] = "mean theta * s(x)"

    def examples(self) -> PyTree:
        """Spread over the half-line."""
        return jnp.asarray([0.5, 1.0, 3.0])

    def mean(self, likelihood: Model, x: Decision, theta: PyTree) -> Array:
        """Theta * s(x), with s(x) read off at theta = 1."""
        return theta * likelihood(x, jnp.ones(())).mean

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """Y / s(x)."""
        return y / likelihood(x, jnp.ones(())).mean

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """1."""
        del likelihood, x
        return jnp.asarray(1.0)

    def estimate(self, statistics: PyTree, exposure: Array) -> PyTree:
        """The mean."""
        return statistics / exposure


class PoissonRate(Family):
    """y ~ Poisson with rate theta s(x): theta_hat is sum y / sum s(x)."""

    distribution: ClassVar[str] = "Poisson"
    form: ClassVar[str] = "rate theta * s(x)"

    def examples(self) -> PyTree:
        """Spread over the half-line."""
        return jnp.asarray([0.5, 1.0, 3.0])

    def mean(self, likelihood: Model, x: Decision, theta: PyTree) -> Array:
        """Theta * s(x), with s(x) read off at theta = 1."""
        return theta * likelihood(x, jnp.ones(())).mean

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """The count."""
        del likelihood, x
        return y

    def exposure(self, likelihood: Model, x: Decision) -> Array:
        """s(x)."""
        return likelihood(x, jnp.ones(())).mean

    def estimate(self, statistics: PyTree, exposure: Array) -> PyTree:
        """The rate per unit of exposure."""
        return statistics / exposure

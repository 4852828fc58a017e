"""Families of laws around a linear predictor."""

import math
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array

from postgrad.distributions import counts
from postgrad.models.predictor import Predictor
from postgrad.models.regression_model import Known, RegressionModel, exponential

# Of rows that are outliers: how much wider the law of a normal y is, and how uneven that of a
# count, whose standard deviation is then 1.4 times the mean.
_WIDER, _UNEVEN = 10.0, 0.5


class Normal(RegressionModel):
    """y ~ N(eta, scale^2)."""

    predictor: Predictor

    @property
    def known(self) -> tuple[str, ...]:
        """The scale."""
        return ("scale",)

    @property
    def longest_step(self) -> float:
        """As long as need be."""
        return math.inf

    def law(self, eta: Array, numbers: Known) -> Any:
        """N(eta, scale^2)."""
        return dist.Normal(eta, numbers["scale"], validate_args=False)

    def averaged(self, mean: Array, variance: Array, numbers: Known) -> Any:
        """N(m, scale^2 + v)."""
        return self.law(mean, {"scale": jnp.sqrt(numbers["scale"] ** 2 + variance)})

    def outlier(self, eta: Array, numbers: Known) -> Any:
        """Ten times as wide."""
        return self.law(eta, {"scale": _WIDER * numbers["scale"]})


class LogNormal(RegressionModel):
    """log y ~ N(eta, scale^2): effects multiply the median."""

    predictor: Predictor

    @property
    def known(self) -> tuple[str, ...]:
        """The scale."""
        return ("scale",)

    @property
    def longest_step(self) -> float:
        """As long as need be."""
        return math.inf

    def law(self, eta: Array, numbers: Known) -> Any:
        """Lognormal, with the median e^eta."""
        return dist.LogNormal(eta, numbers["scale"], validate_args=False)

    def averaged(self, mean: Array, variance: Array, numbers: Known) -> Any:
        """Log y ~ N(m, scale^2 + v)."""
        return self.law(mean, {"scale": jnp.sqrt(numbers["scale"] ** 2 + variance)})

    def outlier(self, eta: Array, numbers: Known) -> Any:
        """Ten times as wide, and at least as wide as a factor of e."""
        return self.law(eta, {"scale": jnp.maximum(_WIDER * numbers["scale"], 1.0)})


class Poisson(RegressionModel):
    """y ~ Poisson(e^eta): counts as even as chance makes them, effects multiply the mean."""

    predictor: Predictor

    def law(self, eta: Array, numbers: Known) -> Any:
        """Poisson, with the mean e^eta."""
        del numbers
        return counts.Poisson(exponential(eta), validate_args=False)

    def outlier(self, eta: Array, numbers: Known) -> Any:
        """Negative binomial, with a standard deviation of 1.4 times the mean."""
        del numbers
        return _negative_binomial(eta, jnp.full_like(eta, _UNEVEN))


class NegativeBinomial(RegressionModel):
    """Counts with mean m = e^eta and variance m + m^2 / concentration; effects multiply the mean.

    A large concentration is Poisson's law.
    """

    predictor: Predictor

    @property
    def known(self) -> tuple[str, ...]:
        """The concentration."""
        return ("concentration",)

    def law(self, eta: Array, numbers: Known) -> Any:
        """Negative binomial, with the mean e^eta."""
        return _negative_binomial(eta, numbers["concentration"])

    def outlier(self, eta: Array, numbers: Known) -> Any:
        """Negative binomial, with a standard deviation of 1.4 times the mean."""
        return _negative_binomial(eta, jnp.full_like(numbers["concentration"], _UNEVEN))


class Bernoulli(RegressionModel):
    """y is 1 with probability 1 / (1 + e^-eta), else 0: logistic regression."""

    predictor: Predictor

    def law(self, eta: Array, numbers: Known) -> Any:
        """Bernoulli, with the logit eta."""
        del numbers
        return dist.BernoulliLogits(eta, validate_args=False)


def _negative_binomial(eta: Array, concentration: Array) -> Any:
    return counts.NegativeBinomial(exponential(eta), concentration, validate_args=False)

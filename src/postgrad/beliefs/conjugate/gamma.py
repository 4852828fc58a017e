"""Rates, and means and scales of waiting times."""

import functools
from typing import Any, ClassVar

import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import (
    Conjugate,
    along_axis,
    difference_of_normalisers,
    hyperparameters,
    unknown,
)
from postgrad.numerics import gamma_draws as draws
from postgrad.problem.problem import Decision, Model, coordinates


@functools.singledispatch
def events(member: Any, y: Array) -> tuple[Array, Array]:
    """How many events an observation counts, and the exposure that they took at theta = 1."""
    return unknown(member)


@events.register
def _(member: dist.Poisson, y: Array) -> tuple[Array, Array]:
    return y, member.rate * jnp.ones_like(y)


@events.register
def _(member: dist.Exponential, y: Array) -> tuple[Array, Array]:
    return jnp.ones_like(y), y * member.rate


@events.register
def _(member: dist.Gamma, y: Array) -> tuple[Array, Array]:
    return member.concentration * jnp.ones_like(y), y * member.rate


class CountsEvents(Conjugate):
    """A gamma law of theta or of 1 / theta: data add events to a, and their exposure to b."""

    read: ClassVar[Any] = staticmethod(events)

    def __init__(self, concentration: Any, rate: Any, *, forget: Any):
        prior = hyperparameters({"concentration": concentration, "rate": rate})
        super().__init__(prior, prior, forget)

    @property
    def concentration(self) -> Float[Array, "..."]:
        """a_t."""
        return self.prior["concentration"] + self.data.value["concentration"]

    @property
    def rate(self) -> Float[Array, "..."]:
        """b_t."""
        return self.prior["rate"] + self.data.value["rate"]

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """What an observation adds to a and b."""
        one = jnp.ones_like(self.prior["rate"])
        count, exposure = events(coordinates(likelihood(x, one)), y)
        return {"concentration": count, "rate": exposure}

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Negative binomial for Poisson data, Lomax for exponential, beta prime for gamma data."""
        a, b, one = self.concentration, self.rate, jnp.ones_like(self.rate)
        count, exposure = events(coordinates(model(x, one)), y)
        # The log-normaliser is log Gamma(a) - a log b.
        gained = gammaln(a + count) - gammaln(a) - count * jnp.log(b + exposure)
        gained = jnp.sum(gained - a * jnp.log1p(exposure / b))
        return difference_of_normalisers(self, model, x, y, one, gained)

    def _draw(self, key: Array, shape: tuple[int, ...]) -> Array:
        """From Gamma(a_t, 1)."""
        return draws.gamma(key, jnp.broadcast_to(self.concentration, shape + self.rate.shape))


class Gamma(CountsEvents):
    """theta ~ Gamma(a, b), a rate: of events, or of the waiting for them.

    ============================  =========  ===========
    data                          added to a  added to b
    ============================  =========  ===========
    Poisson(theta s(x))           y           s
    Exponential(theta s(x))       1           y s
    Gamma(k(x), theta s(x))       k           y s
    ============================  =========  ===========

    theta may be an array, for data with independent coordinates.
    """

    form: ClassVar[str] = (
        "theta in Poisson(theta s(x)), Exponential(theta s(x)) or Gamma(k(x), theta s(x))"
    )

    def __init__(self, concentration: Any, rate: Any, *, forget: Any = None):
        """A prior with mean a / b.

        Args:
            concentration: a.
            rate: b.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        super().__init__(concentration, rate, forget=forget)

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """Events times log theta, less exposure times theta."""
        return jnp.sum(statistics["concentration"] * jnp.log(theta) - statistics["rate"] * theta)

    def estimate(self) -> PyTree:
        """Events per exposure."""
        return self.data.value["concentration"] / self.data.value["rate"]

    def mean(self) -> PyTree:
        """a_t / b_t."""
        return self.concentration / self.rate

    def spread(self) -> PyTree:
        """sqrt(a_t) / b_t."""
        return jnp.sqrt(self.concentration) / self.rate

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Gamma draws."""
        return self._draw(key, shape) / self.rate

    def examples(self) -> PyTree:
        """Around the prior's mean."""
        return _around(self.prior["concentration"] / self.prior["rate"])


class InverseGamma(CountsEvents):
    """theta ~ InverseGamma(a, b), a mean or a scale of waiting times.

    ==============================  ===========  ===========
    data                            added to a   added to b
    ==============================  ===========  ===========
    Exponential(s(x) / theta)       1            y s
    Gamma(k(x), s(x) / theta)       k            y s
    Poisson(s(x) / theta)           y            s
    ==============================  ===========  ===========

    theta may be an array, for data with independent coordinates.
    """

    form: ClassVar[str] = (
        "theta in Exponential(s(x) / theta), Gamma(k(x), s(x) / theta) or Poisson(s(x) / theta)"
    )

    def __init__(self, concentration: Any, rate: Any, *, forget: Any = None):
        """A prior with mean b / (a - 1), if a > 1.

        Args:
            concentration: a.
            rate: b.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        super().__init__(concentration, rate, forget=forget)

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """-(events log theta + exposure / theta)."""
        return -jnp.sum(statistics["concentration"] * jnp.log(theta) + statistics["rate"] / theta)

    def estimate(self) -> PyTree:
        """Exposure per event."""
        return self.data.value["rate"] / self.data.value["concentration"]

    def mean(self) -> PyTree:
        """b_t / (a_t - 1), if a_t > 1."""
        return self.rate / jnp.where(self.concentration > 1, self.concentration - 1.0, jnp.nan)

    def spread(self) -> PyTree:
        """b_t / ((a_t - 1) sqrt(a_t - 2)); infinite up to a_t = 2."""
        return self.mean() / jnp.sqrt(jnp.maximum(self.concentration - 2.0, 0.0))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Reciprocals of gamma draws."""
        return self.rate / self._draw(key, shape)

    def examples(self) -> PyTree:
        """Around the prior's harmonic mean."""
        return _around(self.prior["rate"] / self.prior["concentration"])


def _around(middle: Array) -> Array:
    return middle * along_axis([1.0, 0.4, 0.8, 1.5, 2.5], middle)

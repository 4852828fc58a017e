"""Rates, and means and scales of waiting times."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import (
    Conjugate,
    difference_of_normalisers,
    hyperparameters,
)
from postgrad.beliefs.forgetting import Memory
from postgrad.numerics import gamma_draws as draws
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.problem.problem import Decision, Model, coordinates


class Gamma(Conjugate):
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

    prior: dict[str, Array] = fixed()
    data: Sum
    memory: Memory
    form: ClassVar[str] = (
        "theta in Poisson(theta s(x)), Exponential(theta s(x)) or Gamma(k(x), theta s(x))"
    )
    families: ClassVar[tuple[str, ...]] = ("Poisson", "Exponential", "Gamma")

    def __init__(self, concentration: Any, rate: Any, *, forget: Any = None):
        """A prior with mean a / b.

        Args:
            concentration: a.
            rate: b.
            forget: What remains of the evidence after one more batch; everything, if not given.
        """
        self.prior = hyperparameters(
            ("concentration", "rate"), concentration=concentration, rate=rate
        )
        self.data = Sum.zeros_like(self.prior)
        self.memory = Memory(forget)

    @property
    def concentration(self) -> Float[Array, "..."]:
        """a_t."""
        return self.prior["concentration"] + self.data.value["concentration"]

    @property
    def rate(self) -> Float[Array, "..."]:
        """b_t."""
        return self.prior["rate"] + self.data.value["rate"]

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """What is added to a and b."""
        events, exposure = _events(likelihood(x, jnp.ones_like(self.prior["concentration"])), y)
        return {"concentration": events, "rate": exposure}

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """Events times log theta, less exposure times theta."""
        return jnp.sum(statistics["concentration"] * jnp.log(theta) - statistics["rate"] * theta)

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Negative binomial for Poisson data, Lomax for exponential, beta prime for gamma data."""
        return _log_predictive(self, model, x, y, self.concentration, self.rate)

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
        """A gamma draw."""
        full = jnp.broadcast_to(self.concentration, shape + self.prior["concentration"].shape)
        return draws.gamma(key, full) / self.rate

    def examples(self) -> PyTree:
        """Around the prior's mean."""
        return _around(self.prior["concentration"] / self.prior["rate"])


class InverseGamma(Conjugate):
    """theta ~ InverseGamma(a, b), a mean or a scale of waiting times.

    ==============================  ===========  ===========
    data                            added to a   added to b
    ==============================  ===========  ===========
    Exponential(s(x) / theta)       1            y s
    Gamma(k(x), s(x) / theta)       k            y s
    ==============================  ===========  ===========

    theta may be an array, for data with independent coordinates.
    """

    prior: dict[str, Array] = fixed()
    data: Sum
    memory: Memory
    form: ClassVar[str] = "theta in Exponential(s(x) / theta) or Gamma(k(x), s(x) / theta)"
    families: ClassVar[tuple[str, ...]] = ("Exponential", "Gamma")

    def __init__(self, concentration: Any, rate: Any, *, forget: Any = None):
        """A prior with mean b / (a - 1), if a > 1.

        Args:
            concentration: a.
            rate: b.
            forget: What remains of the evidence after one more batch; everything, if not given.
        """
        self.prior = hyperparameters(
            ("concentration", "rate"), concentration=concentration, rate=rate
        )
        self.data = Sum.zeros_like(self.prior)
        self.memory = Memory(forget)

    @property
    def concentration(self) -> Float[Array, "..."]:
        """a_t."""
        return self.prior["concentration"] + self.data.value["concentration"]

    @property
    def rate(self) -> Float[Array, "..."]:
        """b_t."""
        return self.prior["rate"] + self.data.value["rate"]

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """What is added to a and b."""
        events, exposure = _events(likelihood(x, jnp.ones_like(self.prior["concentration"])), y)
        return {"concentration": events, "rate": exposure}

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """-(events log theta + exposure / theta)."""
        return -jnp.sum(statistics["concentration"] * jnp.log(theta) + statistics["rate"] / theta)

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Lomax for exponential data, beta prime for gamma data."""
        return _log_predictive(self, model, x, y, self.concentration, self.rate)

    def estimate(self) -> PyTree:
        """Exposure per event."""
        return self.data.value["rate"] / self.data.value["concentration"]

    def mean(self) -> PyTree:
        """b_t / (a_t - 1), if a_t > 1."""
        return self.rate / jnp.where(self.concentration > 1, self.concentration - 1.0, jnp.nan)

    def spread(self) -> PyTree:
        """b_t / ((a_t - 1) sqrt(a_t - 2)), if a_t > 2; else infinite."""
        return self.mean() / jnp.sqrt(jnp.maximum(self.concentration - 2.0, 0.0))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """The reciprocal of a gamma draw."""
        full = jnp.broadcast_to(self.concentration, shape + self.prior["concentration"].shape)
        return self.rate / draws.gamma(key, full)

    def examples(self) -> PyTree:
        """Around the prior's harmonic mean."""
        return _around(self.prior["rate"] / self.prior["concentration"])


def _events(member: Any, y: Array) -> tuple[Array, Array]:
    """How many events an observation counts, and how long they took, per unit of theta."""
    each = coordinates(member)
    name, one = type(each).__name__, jnp.ones_like(y)
    if name == "Poisson":
        return y, each.rate * one
    return (each.concentration if name == "Gamma" else 1.0) * one, y * each.rate


def _log_predictive(
    belief: Gamma | InverseGamma, model: Model, x: Decision, y: Array, a: Array, b: Array
) -> Array:
    """With A = log Gamma(a) - a log b."""
    one = jnp.ones_like(a)
    events, exposure = _events(model(x, one), y)
    gained = gammaln(a + events) - gammaln(a) - events * jnp.log(b + exposure)
    gained = gained - a * jnp.log1p(exposure / b)
    return difference_of_normalisers(belief, model, x, y, one, jnp.sum(gained))


def _around(middle: Array) -> Array:
    factors = jnp.asarray([1.0, 0.4, 0.8, 1.5, 2.5])
    return middle * factors.reshape(-1, *(1,) * middle.ndim)

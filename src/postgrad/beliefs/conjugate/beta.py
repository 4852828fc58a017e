"""Probabilities."""

import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import betaln
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import (
    Conjugate,
    along_axis,
    difference_of_normalisers,
    hyperparameters,
    unknown,
)
from postgrad.numerics.gamma_draws import log_gamma
from postgrad.problem.problem import Decision, Model, coordinates

# The probability at which a model is read.
_SOME = 0.25

Outcomes = tuple[Array, Array, Array]


@functools.singledispatch
def outcomes(member: Any, y: Array) -> Outcomes:
    """Successes and failures in an observation, and the probability of a success."""
    return unknown(member)


@outcomes.register(dist.BernoulliProbs)
@outcomes.register(dist.BernoulliLogits)
def _(member: Any, y: Array) -> Outcomes:
    return y, 1.0 - y, member.probs


@outcomes.register(dist.BinomialProbs)
@outcomes.register(dist.BinomialLogits)
def _(member: Any, y: Array) -> Outcomes:
    return y, member.total_count - y, member.probs


@outcomes.register(dist.GeometricProbs)
@outcomes.register(dist.GeometricLogits)
def _(member: Any, y: Array) -> Outcomes:
    return jnp.ones_like(y), y, member.probs


@outcomes.register(dist.GammaPoisson)  # numpyro's negative binomial laws are subclasses
def _(member: Any, y: Array) -> Outcomes:
    return y, member.concentration, 1.0 / (1.0 + member.rate)


class Beta(Conjugate):
    """theta ~ Beta(a, b), a probability.

    ==============================  ===========  ===========
    data                            added to a   added to b
    ==============================  ===========  ===========
    Bernoulli(theta)                y            1 - y
    Binomial(n(x), theta)           y            n - y
    Geometric(theta)                1            y
    NegativeBinomial(r(x), theta)   y            r
    ==============================  ===========  ===========

    The last is numpyro's: y successes, of probability theta, before r failures. Models in
    1 - theta are read too, and swap the two columns. theta may be an array, for data with
    independent coordinates.
    """

    form: ClassVar[str] = (
        "theta in Bernoulli(theta), Binomial(n(x), theta), Geometric(theta) or "
        "NegativeBinomial(r(x), theta)"
    )
    read: ClassVar[Any] = staticmethod(outcomes)

    def __init__(self, concentration1: Any, concentration0: Any, *, forget: Any = None):
        """A prior with mean a / (a + b).

        Args:
            concentration1: a.
            concentration0: b.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        positive = {"concentration1": concentration1, "concentration0": concentration0}
        prior = hyperparameters(positive)
        super().__init__(prior, prior, forget)

    @property
    def concentration1(self) -> Float[Array, "..."]:
        """a_t."""
        return self.prior["concentration1"] + self.data.value["concentration1"]

    @property
    def concentration0(self) -> Float[Array, "..."]:
        """b_t."""
        return self.prior["concentration0"] + self.data.value["concentration0"]

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """What an observation adds to a and b."""
        theta = jnp.full_like(self.prior["concentration1"], _SOME)
        successes, failures, probability = outcomes(coordinates(likelihood(x, theta)), y)
        straight = probability < 0.5  # theta, and not 1 - theta
        return {
            "concentration1": jnp.where(straight, successes, failures),
            "concentration0": jnp.where(straight, failures, successes),
        }

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """Successes times log theta plus failures times log(1 - theta)."""
        failed = statistics["concentration0"] * jnp.log1p(-theta)
        return jnp.sum(statistics["concentration1"] * jnp.log(theta) + failed)

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Beta-binomial and the like."""
        a, b = self.concentration1, self.concentration0
        seen = self.statistics(model, x, y)
        gained = betaln(a + seen["concentration1"], b + seen["concentration0"]) - betaln(a, b)
        some = jnp.full_like(a, _SOME)
        return difference_of_normalisers(self, model, x, y, some, jnp.sum(gained))

    def estimate(self) -> PyTree:
        """The share of successes."""
        seen = self.data.value
        return seen["concentration1"] / (seen["concentration1"] + seen["concentration0"])

    def mean(self) -> PyTree:
        """a_t / (a_t + b_t)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    def spread(self) -> PyTree:
        """sqrt(m (1 - m) / (a_t + b_t + 1)) with m the mean."""
        m, total = self.mean(), self.concentration1 + self.concentration0
        return jnp.sqrt(m * (1.0 - m) / (total + 1.0))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """From the logarithms of two gamma draws, either of which may be tiny."""
        both = jnp.stack([self.concentration1, self.concentration0])
        full = jnp.broadcast_to(both, shape + both.shape)
        a, b = jnp.moveaxis(log_gamma(key, full), len(shape), 0)
        return jax.nn.sigmoid(a - b)

    def examples(self) -> PyTree:
        """Spread over the interval."""
        like = self.prior["concentration1"]
        return along_axis([0.5, 0.1, 0.3, 0.7, 0.9], like) * jnp.ones_like(like)

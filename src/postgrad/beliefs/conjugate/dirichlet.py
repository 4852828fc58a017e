"""Probabilities of several outcomes."""

import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.conjugate import (
    Conjugate,
    difference_of_normalisers,
    hyperparameters,
    unknown,
)
from postgrad.errors import PriorError
from postgrad.numerics.gamma_draws import log_gamma
from postgrad.problem.problem import Decision, Model


@functools.singledispatch
def counts(member: Any, y: Array) -> Float[Array, " k"]:
    """How often an observation has each outcome."""
    return unknown(member)


@counts.register(dist.CategoricalProbs)
@counts.register(dist.CategoricalLogits)
def _(member: Any, y: Array) -> Float[Array, " k"]:
    return jax.nn.one_hot(jnp.asarray(y, int), member.probs.shape[-1], dtype=float)


@counts.register(dist.MultinomialProbs)
@counts.register(dist.MultinomialLogits)
def _(member: Any, y: Array) -> Float[Array, " k"]:
    return y


class Dirichlet(Conjugate):
    """theta ~ Dirichlet(a_1, ..., a_k), the probabilities of k outcomes.

    Each outcome that is seen, in Categorical(theta) or Multinomial(n(x), theta), adds one to its a.
    """

    form: ClassVar[str] = "theta in Categorical(theta) or Multinomial(n(x), theta)"
    read: ClassVar[Any] = staticmethod(counts)

    def __init__(self, concentration: Any, *, forget: Any = None):
        """A prior with mean a / sum a.

        Args:
            concentration: a, one positive number for each of two or more outcomes.
            forget: What remains of the evidence after one unit of time; everything, if not given.
        """
        prior = hyperparameters({"concentration": concentration})["concentration"]
        if prior.ndim != 1 or prior.size < 2:
            raise PriorError(
                f"concentration must have one entry for each of two or more outcomes, got "
                f"shape {prior.shape}"
            )
        super().__init__(prior, prior, forget)

    @property
    def concentration(self) -> Float[Array, " k"]:
        """a_t."""
        return self.prior + self.data.value

    def statistics(self, likelihood: Model, x: Decision, y: Array) -> PyTree:
        """How often each outcome was seen."""
        return counts(likelihood(x, self._even), y)

    def log_kernel(self, theta: PyTree, statistics: PyTree) -> Array:
        """Counts times log theta."""
        return jnp.sum(statistics * jnp.log(theta))

    def log_predictive(self, model: Model, x: Decision, y: Array) -> Array:
        """Dirichlet-multinomial."""
        a, seen = self.concentration, self.statistics(model, x, y)
        gained = jnp.sum(gammaln(a + seen) - gammaln(a))
        gained -= gammaln(jnp.sum(a + seen)) - gammaln(jnp.sum(a))
        return difference_of_normalisers(self, model, x, y, self._even, gained)

    def estimate(self) -> PyTree:
        """The shares."""
        return self.data.value / jnp.sum(self.data.value)

    def mean(self) -> PyTree:
        """a_t / sum a_t."""
        return self.concentration / jnp.sum(self.concentration)

    def spread(self) -> PyTree:
        """sqrt(m (1 - m) / (sum a_t + 1)) with m the mean."""
        m = self.mean()
        return jnp.sqrt(m * (1.0 - m) / (jnp.sum(self.concentration) + 1.0))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Gamma draws over their sum, from their logarithms: all may be tiny."""
        full = jnp.broadcast_to(self.concentration, shape + self.prior.shape)
        return jax.nn.softmax(log_gamma(key, full))

    def examples(self) -> PyTree:
        """The even one, and some others."""
        k = self.prior.size
        tilts = np.outer([0.0, 1.0, -1.0, 2.0], np.linspace(-1.0, 1.0, k))
        return jax.nn.softmax(jnp.asarray(tilts))

    @property
    def _even(self) -> Float[Array, " k"]:
        return jnp.full_like(self.prior, 1.0 / self.prior.size)

"""A normal population of normal beliefs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.pooling import normal_members
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.numerics.small_matrices import cholesky, positive_inverse, solve_upper


class GaussianPopulation(Population):
    """A member is like the others, with a normal law: theta_i ~ N(mu, S).

    In units of the prior, z = L'(theta - m_0) with P_0 = L L', what is lent is the N(m, S + V) of
    `law_of_another`. The statistics are those of z.

    Attributes:
        strength: How many members the prior of S is worth.
        prior_loc: m_0.
        prior_precision: P_0.
    """

    strength: Float[Array, ""]
    prior_loc: PyTree = fixed()
    prior_precision: Float[Array, "d d"] = fixed()

    @property
    def size(self) -> int:
        """z, z z' and the number of members."""
        return normal_members.size_of(self.prior_precision.shape[0])

    @property
    def _origin(self) -> Float[Array, " d"]:
        return ravel_pytree(self.prior_loc)[0]

    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """E z and E z z', from mean and covariance."""
        lower = cholesky(self.prior_precision)
        mean = lower.T @ (ravel_pytree(belief.loc)[0] - self._origin)
        covariance = lower.T @ belief.covariance_matrix @ lower
        second = covariance + jnp.outer(mean, mean)
        return normal_members.statistics(mean, second)

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The evidence around the new mean, with the new precision."""
        lower = cholesky(self.prior_precision)
        mean, covariance = normal_members.law_of_another(others, self.strength)
        alone = others[-1] < 0.5
        moved = self._origin + jnp.where(alone, 0.0, solve_upper(lower, mean))
        narrow = lower @ positive_inverse(covariance) @ lower.T
        precision = jnp.where(alone, self.prior_precision, (narrow + narrow.T) / 2)
        known, shift = belief.evidence.value
        shift = shift + known @ (ravel_pytree(belief.prior_loc)[0] - moved)
        evidence = Sum((known, shift), (jnp.zeros_like(known), jnp.zeros_like(shift)))
        loc = ravel_pytree(self.prior_loc)[1](moved)
        return eqx.tree_at(
            lambda b: (b.prior_loc, b.prior_precision, b.evidence),
            belief,
            (loc, precision, evidence),
        )

    def prior_of(self, belief: Any) -> tuple[Array, ...]:
        """Mean and precision."""
        return ravel_pytree(belief.prior_loc)[0], belief.prior_precision


@population_of.register
def _gaussian(belief: Gaussian, strength: Array) -> Population:
    return GaussianPopulation(strength, belief.prior_loc, belief.prior_precision)

"""A normal population of normal beliefs."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.numerics.small_matrices import cholesky, positive_inverse, solve_upper

# The share of the prior's variance that lies between members, before there are any, and how many
# rounds of the fixed point below are made: the error of a round is that before over (strength + C).
_BETWEEN, _ROUNDS = 0.1, 24


class GaussianPopulation(Population):
    """theta_i ~ N(mu, S), mu ~ N(m_0, .9 P_0^-1), S learned from the members.

    In units of the prior, z = L'(theta - m_0) with P_0 = L L', the prior is z ~ N(0, I), and

        mu  ~  N(0, .9 I),     z_i  ~  N(mu, S),     S  =  .1 I  before there are members.

    The statistics are z and z z'. With the sums a = sum E z_j, B = sum E z_j z_j' over the C other
    members, mu has the posterior N(m, V) and S is its mode under a prior worth `strength` members:

        V  =  (I / .9 + C S^-1)^-1,     m  =  V S^-1 a,
        S  =  (.1 strength I + B - a m' - m a' + C (m m' + V)) / (strength + C)

    What is lent is z_i ~ N(m, S + V). V keeps it wide as long as there are few members: with one
    other member S is about what it was, with none N(m, S + V) is the prior.

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
        d = self.prior_precision.shape[0]
        return d + d * d + 1

    @property
    def _origin(self) -> Float[Array, " d"]:
        return ravel_pytree(self.prior_loc)[0]

    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """E z and E z z', from mean and covariance."""
        lower = cholesky(self.prior_precision)
        mean = lower.T @ (ravel_pytree(belief.loc)[0] - self._origin)
        covariance = lower.T @ belief.covariance_matrix @ lower
        second = covariance + jnp.outer(mean, mean)
        return jnp.concatenate([mean, second.ravel(), jnp.ones(1)])

    def law(self, others: Float[Array, " m"]) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
        """m and S + V."""
        d = self._origin.size
        one, a, count = jnp.eye(d), others[:d], jnp.round(others[-1])
        second = others[d:-1].reshape(d, d)

        def common(between: Array) -> tuple[Array, Array]:
            inverse = positive_inverse(between)
            spread = positive_inverse(one / (1.0 - _BETWEEN) + count * inverse)
            return spread @ (inverse @ a), spread

        def improve(_: Array, between: Array) -> Array:
            mean, spread = common(between)
            cross = jnp.outer(a, mean)
            scatter = second - cross - cross.T + count * (jnp.outer(mean, mean) + spread)
            new = (_BETWEEN * self.strength * one + scatter) / (self.strength + count)
            return (new + new.T) / 2

        between = lax.fori_loop(0, _ROUNDS, improve, _BETWEEN * one)
        mean, spread = common(between)
        return mean, between + spread

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The evidence around the new mean, with the new precision."""
        lower = cholesky(self.prior_precision)
        mean, covariance = self.law(others)
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

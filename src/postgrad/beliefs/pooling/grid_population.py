"""A population on a grid: any law of its points."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.errors import PriorError
from postgrad.numerics.fixed import fixed


class GridPopulation(Population):
    """G ~ DirichletProcess(strength, prior) on the points of a grid.

        G_{-i}(theta)  =  (strength prior(theta) + sum_{j != i} pi_j(theta)) / (strength + C_{-i})

    The statistics are the indicators of the points: T_i is the posterior of member i.

    Attributes:
        strength: How many members the prior is worth.
        points: theta_1, ..., theta_n.
        log_prior: The logarithm of the prior's weights, as the belief has it.
    """

    strength: Float[Array, ""]
    points: PyTree = fixed()
    log_prior: Float[Array, " n"] = fixed()

    @property
    def size(self) -> int:
        """One for each point, and the number of members."""
        return self.log_prior.shape[0] + 1

    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """The posterior."""
        return jnp.append(jax.nn.softmax(belief.weights.values), 1.0)

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The weights with G in place of the prior."""
        scale = logsumexp(self.log_prior)
        prior = self.strength * jnp.exp(self.log_prior - scale)
        # Differences of rounded sums may lie below zero by the last digit.
        law = (prior + jnp.maximum(others[:-1], 0.0)) / (self.strength + others[-1])
        # In the prior's own scale; without others it is the prior to the last bit.
        new = jnp.where(others[-1] > 0.5, jnp.log(law) + scale, self.log_prior)
        old = self.prior_of(belief)[0]
        possible = old > -jnp.inf
        gained = jnp.where(possible, belief.weights.values - jnp.where(possible, old, 0.0), 0.0)
        values = gained + new
        weights = LogWeights(values - jnp.max(values), new)
        return eqx.tree_at(lambda b: b.weights, belief, weights)

    def prior_of(self, belief: Any) -> tuple[Array, ...]:
        """The logarithms of the prior's weights."""
        return (belief.weights.prior,)


@population_of.register
def _grid(belief: Grid, strength: Array) -> Population:
    weights = belief.weights
    if not isinstance(weights, LogWeights) or weights.prior is None:
        instead = "make the grid with forget=1.0 (in a specification: forget = 1)"
        raise PriorError(f"a grid that is pooled keeps its prior: {instead}")
    return GridPopulation(strength, belief.points, weights.prior)

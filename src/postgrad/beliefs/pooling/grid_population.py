"""A population of beliefs on a grid."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import as_rows
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.pooling import normal_members
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.errors import PriorError
from postgrad.numerics.fixed import fixed
from postgrad.numerics.small_matrices import cholesky, solve_lower


class GridPopulation(Population):
    """A member is like the others, with a normal law over the grid, or like nobody: the prior.

        G_{-i}(theta)  =  (strength prior(theta) + C N(z(theta); m, S + V)) / (strength + C)

    with the law of `law_of_another`, normalised over the points. z(theta) numbers the levels of
    each parameter in their order, in units of the prior's spread, so that levels may be spaced as
    they like. The statistics are those of z.

    Attributes:
        strength: How many members the prior is worth.
        points: theta_1, ..., theta_n.
        places: z of each point.
        log_prior: The logarithm of the prior's weights, as the belief has it.
    """

    strength: Float[Array, ""]
    points: PyTree = fixed()
    places: Float[Array, "n d"] = fixed()
    log_prior: Float[Array, " n"] = fixed()

    @classmethod
    def on(cls, points: PyTree, log_prior: Float[Array, " n"], strength: Array) -> "GridPopulation":
        """The population on the points of a grid."""
        share = np.exp(np.asarray(log_prior) - np.asarray(logsumexp(log_prior)))
        columns = [np.unique(column, return_inverse=True)[1] for column in as_rows(points).T]
        numbers = np.stack(columns, axis=1).astype(float)
        numbers -= share @ numbers
        spread = np.sqrt(share @ numbers**2)
        places = jnp.asarray(numbers / np.where(spread > 0, spread, 1.0))
        return cls(strength, points, places, log_prior)

    @property
    def size(self) -> int:
        """z, z z' and the number of members."""
        return normal_members.size_of(self.places.shape[1])

    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """E z and E z z', over the points."""
        share = jax.nn.softmax(belief.weights.values)
        weighted = share[:, None] * self.places
        return normal_members.statistics(jnp.sum(weighted, axis=0), weighted.T @ self.places)

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The weights with G in place of the prior."""
        mean, covariance = normal_members.law_of_another(others, self.strength)
        z = solve_lower(cholesky(covariance), (self.places - mean).T)
        possible = self.log_prior > -jnp.inf
        near = jnp.where(possible, -0.5 * jnp.sum(z**2, axis=0), -jnp.inf)
        count, top = others[-1], logsumexp(self.log_prior)
        shares = jnp.stack([jnp.log(self.strength), jnp.log(jnp.maximum(count, 1e-300))])
        parts = jnp.stack([self.log_prior - top, near - logsumexp(near)])
        law = logsumexp(parts + shares[:, None], axis=0) - jnp.log(self.strength + count)
        # In the prior's own scale; without others it is the prior to the last bit.
        new = jnp.where(count > 0.5, law + top, self.log_prior)
        old = self.prior_of(belief)[0]
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
    return GridPopulation.on(belief.points, weights.prior, strength)

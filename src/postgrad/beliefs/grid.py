"""A posterior over finitely many values of theta."""

import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief, as_points, as_theta, log_likelihood, select
from postgrad.checks import as_array, is_concrete
from postgrad.density import log_density
from postgrad.errors import PriorError
from postgrad.problem import Decision, Model, Problem

# Up to this many points a running sum is a small matrix product and a search is a comparison with
# all points: more arithmetic than needed, but it vectorises over runs.
_SMALL = 128


class Grid(Belief):
    """The exact posterior on Theta = {theta_1, ..., theta_n}.

        pi_t(theta_i)  =  pi_{t-1}(theta_i) prod_j f(y_{t,j}; x_t, theta_i) / normaliser

    (eqs. independent-posterior and dependent-posterior of the paper.) The state is log pi_t in
    float64 up to a constant, with the largest at zero: products of densities underflow after a
    few dozen batches, sums of their logarithms do not.

    Attributes:
        points: theta_1, ..., theta_n along the leading axis of each leaf of a PyTree.
        log_weights: log pi_t up to a constant; the largest is zero.
    """

    points: PyTree
    log_weights: Float[Array, " n"]

    def __init__(self, points: PyTree, prior: Any = None):
        """A grid with a prior.

        Args:
            points: theta_1, ..., theta_n along the leading axis.
            prior: pi_0 up to a constant; uniform if not given.

        Raises:
            PriorError: If the points are not finite numbers, or the prior no distribution on them.
        """
        self.points = as_points(points)
        size = jax.tree.leaves(self.points)[0].shape[0]
        weights = jnp.ones(size) if prior is None else as_array(prior, PriorError, "prior")
        if weights.shape != (size,):
            raise PriorError(
                f"prior must have one weight for each of {size} points, got shape {weights.shape}"
            )
        if is_concrete(weights):
            if (lowest := float(weights.min())) < 0:
                raise PriorError(f"prior must not be negative, got {lowest}")
            if not float(weights.max()) > 0:
                raise PriorError("prior must have positive weight somewhere, got all zeros")
        self.log_weights = jnp.log(weights) - jnp.log(weights.max())

    @property
    def probabilities(self) -> Float[Array, " n"]:
        """pi_t(theta_i)."""
        return jax.nn.softmax(self.log_weights)

    def probability(self, theta: PyTree) -> Float[Array, ""]:
        """pi_t(theta), zero if theta is not on the grid (to twelve digits)."""
        equal = jax.tree.map(
            lambda p, value: jnp.all(
                jnp.isclose(p, value, rtol=1e-12, atol=1e-12), axis=tuple(range(1, p.ndim))
            ),
            self.points,
            as_theta(theta),
        )
        here = jnp.all(jnp.stack(jax.tree.leaves(equal)), axis=0)
        return jnp.sum(jnp.where(here, self.probabilities, 0.0))

    def update(
        self, likelihood: Model, x: Decision, batch: Array, weight: Array | None = None
    ) -> Self:
        """Bayes' rule."""
        log_f = jax.vmap(lambda theta: log_likelihood(likelihood, x, theta, batch, weight))
        log_weights = self.log_weights + log_f(self.points)
        return eqx.tree_at(lambda grid: grid.log_weights, self, log_weights - jnp.max(log_weights))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Draws by inversion: the first point whose cumulated probability exceeds u."""
        cumulated = _cumulate(jnp.exp(self.log_weights))
        u = random.uniform(key, (math.prod(shape),)) * cumulated[-1]
        if cumulated.size <= _SMALL:
            index = jnp.sum(cumulated[:, None] <= u, axis=0, dtype=jnp.int32)
        else:
            index = jnp.searchsorted(cumulated, u, side="right")
        return select(self.points, index.reshape(shape), jnp.full(shape, cumulated[-1] > 0))

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log sum_i pi_t(theta_i) f(xi; x, theta_i)."""
        log_f = jax.vmap(lambda theta: log_density(model(x, theta), xi))(self.points)
        return logsumexp(self.log_weights + log_f) - logsumexp(self.log_weights)

    def examples(self) -> PyTree:
        """All points."""
        return self.points

    def check(self, problem: Problem, x: Decision) -> None:
        """Any model will do."""


def _cumulate(mass: Float[Array, " n"]) -> Float[Array, " n"]:
    n = mass.shape[0]
    return jnp.tril(jnp.ones((n, n))) @ mass if n <= _SMALL else jnp.cumsum(mass)

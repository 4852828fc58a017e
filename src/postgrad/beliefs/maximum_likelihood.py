"""The plug-in estimate on a grid: the paper's MLE method."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief, as_points, log_likelihood
from postgrad.density import log_density
from postgrad.problem import Decision, Model


class MaximumLikelihood(Belief):
    """A point mass at theta_hat_t = argmax_i sum_{s <= t} log f(y_s; x_s, theta_i).

    Ties, and the time before the first batch, go to the first of the best points.

    Attributes:
        points: theta_1, ..., theta_n along the leading axis of each leaf.
        log_likelihood: The log-likelihood of each point up to a constant; the largest is zero.
    """

    points: PyTree
    log_likelihood: Float[Array, " n"]

    def __init__(self, points: PyTree):
        self.points = as_points(points)
        self.log_likelihood = jnp.zeros(jax.tree.leaves(self.points)[0].shape[0])

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        # The largest is zero. `argmax` would do, but does not vectorise over runs.
        n = self.log_likelihood.size
        best = jnp.min(jnp.where(self.log_likelihood >= 0, jnp.arange(n), n - 1))
        return jax.tree.map(lambda leaf: leaf[best], self.points)

    def update(
        self, likelihood: Model, x: Decision, batch: Array, weight: Array | None = None
    ) -> Self:
        """Adds the batch's log-likelihood."""
        log_f = jax.vmap(lambda theta: log_likelihood(likelihood, x, theta, batch, weight))
        total = self.log_likelihood + log_f(self.points)
        return eqx.tree_at(lambda self: self.log_likelihood, self, total - jnp.max(total))

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """theta_hat_t, every time."""
        del key
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), self.theta)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log f(xi; x, theta_hat_t)."""
        return log_density(model(x, self.theta), xi)

    def examples(self) -> PyTree:
        """All points."""
        return self.points

    def check(self, likelihood: Model, x: Decision) -> None:
        """Any model will do."""

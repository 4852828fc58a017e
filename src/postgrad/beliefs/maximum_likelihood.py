"""The plug-in estimate on a grid: the paper's MLE method."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import as_points, log_likelihood, select
from postgrad.beliefs.point_mass import PointMass
from postgrad.problem import Decision, Model, Problem


class MaximumLikelihood(PointMass):
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
        """theta_hat_t; NaN if no point explains the data."""
        # The largest is zero. `argmax` would do, but does not vectorise over runs.
        n = self.log_likelihood.size
        best = jnp.min(jnp.where(self.log_likelihood >= 0, jnp.arange(n), n))
        return select(self.points, best, best < n)

    def update(
        self, likelihood: Model, x: Decision, batch: Array, weight: Array | None = None
    ) -> Self:
        """Adds the batch's log-likelihood."""
        log_f = jax.vmap(lambda theta: log_likelihood(likelihood, x, theta, batch, weight))
        total = self.log_likelihood + log_f(self.points)
        return eqx.tree_at(lambda self: self.log_likelihood, self, total - jnp.max(total))

    def examples(self) -> PyTree:
        """All points."""
        return self.points

    def check(self, problem: Problem, x: Decision) -> None:
        """Any model will do."""

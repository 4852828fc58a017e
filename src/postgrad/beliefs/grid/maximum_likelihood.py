"""The plug-in estimate on a grid: the paper's MLE method."""

from typing import Any, Self

import equinox as eqx
from jaxtyping import Array, PyTree

from postgrad.beliefs.belief import select
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.point_mass import PointMass
from postgrad.problem.problem import Decision, Model, Problem


class MaximumLikelihood(PointMass):
    """A point mass at theta_hat_t = argmax_i sum_{s <= t} log f(y_s; x_s, theta_i).

    This is the mode of the posterior under a uniform prior. Ties, and the time before the first
    batch, go to the first of the best points.

    Attributes:
        grid: The points, and their likelihoods as the posterior of a uniform prior.
    """

    grid: Grid

    def __init__(self, points: PyTree, *, forget: Any = None):
        self.grid = Grid(points, forget=forget)

    @property
    def theta(self) -> PyTree:
        """theta_hat_t; NaN if no point explains the data."""
        return select(self.grid.points, *self.grid.weights.mode())

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Array,
        weight: Array | None = None,
        key: Array | None = None,
    ) -> Self:
        """Adds the batch's log-likelihood."""
        del key
        grid = self.grid.update(likelihood, x, batch, weight)
        return eqx.tree_at(lambda self: self.grid, self, grid)

    @property
    def effective_size(self) -> Array:
        """That of the grid."""
        return self.grid.effective_size

    def examples(self) -> PyTree:
        """All points."""
        return self.grid.examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """As the grid does."""
        return eqx.tree_at(lambda self: self.grid, self, self.grid.bind(problem, x))

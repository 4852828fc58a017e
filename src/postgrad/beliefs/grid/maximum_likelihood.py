"""The plug-in estimate on a grid: the paper's MLE method."""

from typing import Any

from jaxtyping import PyTree

from postgrad.beliefs.belief import select
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.point_mass import Estimate


class MaximumLikelihood(Estimate):
    """A point mass at theta_hat_t = argmax_i sum_{s <= t} log f(y_s; x_s, theta_i).

    This is the mode of the posterior under a uniform prior. Among equally likely points, and before
    the first batch, it is the first.

    Attributes:
        belief: The points, and their likelihoods as the posterior of a uniform prior.
    """

    belief: Grid

    def __init__(self, points: PyTree, *, forget: Any = None):
        """No data yet; see `Grid`."""
        self.belief = Grid(points, forget=forget)

    @property
    def theta(self) -> PyTree:
        """theta_hat_t; NaN if no point explains the data."""
        return select(self.belief.points, *self.belief.weights.mode())

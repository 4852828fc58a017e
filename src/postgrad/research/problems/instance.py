"""A problem with its true parameter, its optimum and a prior."""

from collections.abc import Callable

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.grid.grid import Grid
from postgrad.problem.problem import Decision, Problem


class Instance(eqx.Module):
    """A ready-made problem with its truth, for experiments.

    Attributes:
        problem: Cost, model and feasible set.
        theta: theta_c, the true parameter.
        x_star: The optimal decision under theta_c.
        x: x_1, the initial decision.
        expected_cost: x -> H(x) = E_{xi ~ f(.; x, theta_c)} h(x, xi), in closed form or by a
            quadrature without random numbers: smooth, and any JAX transformation applies.
        points: Theta, the support of a finite prior, along the leading axis.
        prior: pi_0; None for the uniform distribution on `points`.
        batch_size: D, how many observations a stage brings.
    """

    problem: Problem
    theta: PyTree
    x_star: Float[Array, "..."]
    x: Decision
    expected_cost: Callable[[Decision], Float[Array, ""]]
    points: PyTree
    prior: Belief | None = None
    batch_size: int = eqx.field(static=True, default=1)

    @property
    def belief(self) -> Belief:
        """pi_0: the prior, or the uniform distribution on the points."""
        return Grid(self.points) if self.prior is None else self.prior

    def regret(self, x: Decision) -> Float[Array, ""]:
        """H(x) - H(x*): what deciding x costs beyond the best decision, on average."""
        return self.expected_cost(x) - self.expected_cost(self.x_star)

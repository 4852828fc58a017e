"""A problem together with what only its author knows."""

import equinox as eqx
from jaxtyping import Array, Float, PyTree

from postgrad.problem import Decision, Problem


class Instance(eqx.Module):
    """A ready-made problem with its truth, for experiments.

    Attributes:
        problem: Cost, model and feasible set.
        theta: theta_c, the true parameter.
        x_star: The optimal decision under theta_c.
        x: x_1, the initial decision.
        points: Theta, the support of the prior, along the leading axis.
    """

    problem: Problem
    theta: PyTree
    x_star: Float[Array, "..."]
    x: Decision
    points: PyTree

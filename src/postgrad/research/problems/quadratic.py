"""The four quadratic test problems of the paper (Liu, Lin and Zhou), section 4.1.

A quadratic of the decision, to which a random number adds a cost:

    h(x, xi)  =  |x - a|^2 + xi b(x),    xi ~ N(theta, 4^2) or exponential of mean theta

and, in the decision-dependent cases, of mean x + theta or (x_1 - x_2)^2 + theta. Here everything
is known in closed form, so that all errors are the algorithm's.

The paper states no feasible set for them, but its theory needs a compact one, and without it a
decision-dependent run in a few hundred overflows: they come on the box [-20, 20].
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array

from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Problem
from postgrad.research.problems.instance import Instance

BOX = Box(-20.0, 20.0)
_SIGMA = 4.0


# postgrad validates parameters and data itself, so numpyro need not do it again.
def _normal(mean: Array) -> dist.Distribution:
    return dist.Normal(mean, _SIGMA, validate_args=False)


def _exponential(mean: Array) -> dist.Distribution:
    return dist.Exponential(1.0 / mean, validate_args=False)


# Costs and models are functions of the module, so that all instances share compiled programs.
def _univariate_cost(x: Array, xi: Array) -> Array:
    return (x - 5.0) ** 2 + 0.5 * xi * x


def _distance(x: Array) -> Array:
    return (x[0] - 1.0) ** 2 + (x[1] - 2.0) ** 2


def _scaled_cost(x: Array, xi: Array) -> Array:
    return _distance(x) + xi * (x[0] + x[1])


def _added_cost(x: Array, xi: Array) -> Array:
    return _distance(x) + xi


def _fixed_normal(x: Array, theta: Array) -> dist.Distribution:
    return _normal(theta)


def _shifted_normal(x: Array, theta: Array) -> dist.Distribution:
    return _normal(x + theta)


def _fixed_exponential(x: Array, theta: Array) -> dist.Distribution:
    return _exponential(theta)


def _shifted_exponential(x: Array, theta: Array) -> dist.Distribution:
    return _exponential((x[0] - x[1]) ** 2 + theta)


def _instance(problem: Problem, theta: float, x_star: Any, x: Any, points: int) -> Instance:
    """With theta_c among 1, ..., points. As h is affine in xi, E h(x, xi) = h(x, E xi)."""
    theta_c = jnp.asarray(theta)
    return Instance(
        problem=problem,
        theta=theta_c,
        x_star=jnp.asarray(x_star),
        x=jnp.asarray(x),
        expected_cost=lambda x: problem.cost(x, problem.model(x, theta_c).mean),
        points=jnp.arange(1.0, points + 1.0),
    )


def univariate_independent(feasible: FeasibleSet = BOX) -> Instance:
    """H = (x - 5)^2 + xi x / 2 with xi ~ N(theta, 4^2), so H = x^2 - 5.5 x + 25 at theta_c = 9."""
    problem = Problem(_univariate_cost, _fixed_normal, feasible)
    return _instance(problem, theta=9.0, x_star=2.75, x=0.0, points=20)


def multivariate_independent(feasible: FeasibleSet = BOX) -> Instance:
    """H = (x_1 - 1)^2 + (x_2 - 2)^2 + xi (x_1 + x_2) with xi exponential of mean theta_c = 4."""
    problem = Problem(_scaled_cost, _fixed_exponential, feasible)
    return _instance(problem, theta=4.0, x_star=[-1.0, 0.0], x=[5.0, 5.0], points=20)


def univariate_dependent(feasible: FeasibleSet = BOX) -> Instance:
    """H as in one dimension above with xi ~ N(x + theta, 4^2): H = 1.5 x^2 - 8 x + 25, theta_c = 4.

    The performatively stable point, where descent blind to the dependence ends, is 3.2.
    """
    problem = Problem(_univariate_cost, _shifted_normal, feasible)
    return _instance(problem, theta=4.0, x_star=8.0 / 3.0, x=0.0, points=30)


def multivariate_dependent(feasible: FeasibleSet = BOX) -> Instance:
    """H = (x_1 - 1)^2 + (x_2 - 2)^2 + xi with xi exponential of mean (x_1 - x_2)^2 + theta."""
    problem = Problem(_added_cost, _shifted_exponential, feasible)
    return _instance(problem, theta=4.0, x_star=[4 / 3, 5 / 3], x=[5.0, 5.0], points=20)


TESTBED: dict[str, Callable[[], Instance]] = {
    "quadratic-1d-independent": univariate_independent,
    "quadratic-2d-independent": multivariate_independent,
    "quadratic-1d-dependent": univariate_dependent,
    "quadratic-2d-dependent": multivariate_dependent,
}

"""A newsvendor with several items and one budget.

    h(x, xi)  =  c'x - p' min(x, xi) - s' max(0, x - xi),    c'x <= 20,    xi_i ~ Exp(1 / theta_i)

(Hadley and Whitin, 1963.) Without the budget each item would be ordered up to a quantile of its
demand; these orders cost 36, and the budget is 20. With lambda the multiplier of the budget,

    x*_i  =  theta_i log((p_i - s_i) / (c_i - s_i + lambda c_i)),    lambda = 0.4224...

In the testbed for a constraint that binds: x* is on the boundary of the feasible set, and what is
learnt about one item changes the orders of all.
"""

import functools
from collections.abc import Callable

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array

from postgrad.beliefs.conjugate.gamma import InverseGamma
from postgrad.beliefs.grid.product_grid import product_grid
from postgrad.problem.feasible.budget import Budget
from postgrad.problem.problem import Problem
from postgrad.research.problems import expected_excess
from postgrad.research.problems.instance import Instance
from postgrad.research.problems.newsvendor import Newsvendor

_COST, _PRICE, _SALVAGE = [2.0, 3.0, 1.0, 4.0], [6.0, 7.0, 4.0, 9.0], [1.0, 1.0, 0.0, 2.0]
_BUDGET = 20.0


def _demand(x: Array, theta: Array) -> dist.Distribution:
    del x
    return dist.Exponential(1.0 / theta, validate_args=False).to_event(1)


def newsvendor() -> Instance:
    """Four items, demand exponential of means theta_c = (2, 4, 1, 3).

    The prior of each mean is inverse gamma, with mean 3 and standard deviation 3. At a mean of 3
    for all items the best order would be (2.75, 1.62, 2.94, 1.68).
    """
    cost = Newsvendor(*jnp.asarray([_COST, _PRICE, _SALVAGE]))
    theta = jnp.asarray([2.0, 4.0, 1.0, 3.0])
    excess = functools.partial(expected_excess.exponential, theta)
    return Instance(
        problem=Problem(cost, _demand, Budget(0.0, 10.0, _COST, _BUDGET)),
        theta=theta,
        x_star=jnp.asarray([1.9940717565568, 2.4311989028700, 1.0339285662005, 1.9210828030189]),
        x=jnp.full(4, 1.0),
        expected_cost=lambda x: cost.expected(x, theta, excess),
        points=product_grid([[1.0, 2.0, 3.0, 4.0, 5.0]] * 4),
        prior=InverseGamma(jnp.full(4, 3.0), jnp.full(4, 6.0)),
    )


TESTBED: dict[str, Callable[[], Instance]] = {"newsvendor-budget": newsvendor}

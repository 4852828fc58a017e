"""The paper's multi-item newsvendor, section 4.2: three newspapers, correlated normal demand.

The unknowns are the means, variances and correlations of demand, five values for each of the nine:
5^9 = 1,953,125 points of Theta. In the decision-dependent case stock on show sells stock: mean
demand is theta_mu + alpha x^beta.

x^beta has an infinite slope at 0, which the paper's feasible set contains: a run that touches 0 is
thrown to a corner, from where it takes thousands of stages to return. The dependent problem hence
comes on [1, 100]^3, unless `LITERAL_BOX` is asked for.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs import product
from postgrad.feasible import Box, FeasibleSet
from postgrad.problem import Problem
from postgrad.problems.instance import Instance

BOX = Box(jnp.ones(3), jnp.full(3, 100.0))
LITERAL_BOX = Box(jnp.zeros(3), jnp.full(3, 100.0))

_ALPHA, _BETA = 1.0, 0.5


class Newsvendor(eqx.Module):
    """The cost of ordering x when demand is xi, summed over items.

        h(x, xi)  =  c'x  -  p' min(x, max(0, xi))  -  s' max(0, x - xi)

    Its derivative is c - p where x <= xi, and c - s where x > xi.

    Attributes:
        cost: c, what a unit costs.
        price: p, what it sells for.
        salvage: s, what an unsold one is worth.
    """

    cost: Float[Array, "..."]
    price: Float[Array, "..."]
    salvage: Float[Array, "..."]

    def __call__(self, x: Float[Array, "..."], xi: Float[Array, "..."]) -> Float[Array, ""]:
        """h(x, xi)."""
        # Selected rather than min and max, whose derivatives are halved where x equals xi.
        sold = jnp.where(x <= xi, x, jnp.maximum(xi, 0.0))
        left = jnp.where(x <= xi, 0.0, x - xi)
        return jnp.sum(self.cost * x - self.price * sold - self.salvage * left)


def _demand(mean: Array, theta: PyTree) -> dist.Distribution:
    """Three correlated normal demands; correlations in the order (1,2), (1,3), (2,3)."""
    a, b, c = theta["correlation"]
    # The Cholesky factor of the correlation matrix, spelled out: a call to LAPACK for each of two
    # million matrices would take longer than everything else.
    second = jnp.sqrt(1.0 - a**2)
    lower = (c - a * b) / second
    third = jnp.sqrt(1.0 - b**2 - lower**2)
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)
    factor = jnp.stack([one, zero, zero, a, second, zero, b, lower, third]).reshape(3, 3)
    spread = jnp.sqrt(theta["variance"])
    return dist.MultivariateNormal(mean, scale_tril=spread[:, None] * factor, validate_args=False)


def _instance(problem: Problem, x_star: list[float]) -> Instance:
    levels = {
        "mean": [[5.0, 10.0, 15.0, 20.0, 25.0]] * 3,
        "variance": [[1.0, 3.0, 6.0, 9.0, 12.0]] * 3,
        "correlation": [[0.1, 0.2, 0.3, 0.4, 0.5]] * 3,
    }
    return Instance(
        problem=problem,
        theta=jax.tree.map(
            jnp.asarray,
            {
                "mean": [10.0, 15.0, 20.0],
                "variance": [3.0, 6.0, 9.0],
                "correlation": [0.1, 0.3, 0.5],
            },
            is_leaf=lambda node: isinstance(node, list),
        ),
        x_star=jnp.asarray(x_star),
        x=jnp.full(3, 15.0),
        points=product(levels),
    )


def _cost() -> Newsvendor:
    return Newsvendor(*jnp.asarray([[2.0, 4.0, 6.0], [4.0, 6.0, 8.0], [1.0, 2.0, 3.0]]))


def independent(feasible: FeasibleSet = LITERAL_BOX) -> Instance:
    """Demand is normal, whatever is ordered: x*_i is the quantile (p - c) / (p - s)."""
    problem = Problem(_cost(), lambda x, theta: _demand(theta["mean"], theta), feasible)
    return _instance(problem, [10.746042, 15.0, 19.239959])


def dependent(feasible: FeasibleSet = BOX) -> Instance:
    """Mean demand is theta_mu + alpha x^beta with alpha = 1, beta = 1/2."""
    problem = Problem(
        cost=_cost(),
        model=lambda x, theta: _demand(theta["mean"] + _ALPHA * x**_BETA, theta),
        feasible=feasible,
    )
    return _instance(problem, [15.142456, 19.844497, 24.537968])

"""The newsvendor with normal demand: the paper's three newspapers, section 4.2, and one alone.

Order x at cost c, sell min(x, demand) at price p, salvage the rest at s: the oldest problem of
deciding under uncertainty (Arrow, Harris and Marschak, 1951), whose cost has a kink where the
order meets demand. In the paper (Liu, Lin and Zhou) the demands of three items are correlated.
The unknowns are their means, variances and correlations, five values for each of the nine:
5^9 = 1,953,125 points of Theta. In the decision-dependent cases stock on show sells stock: mean
demand is theta_mu + alpha x^beta.

x^beta has an infinite slope at 0, which the paper's feasible set contains: a gradient step from
near 0 ends in a corner, from where a run takes thousands of stages to return. The dependent problem
hence is on [1, 100]^3 by default; `LITERAL_BOX` is the paper's.

`univariate_dependent` has one item and one unknown: the data depend on the decision, but there are
not two million points.
"""

import functools
from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.conjugate.normal import Normal
from postgrad.beliefs.grid.product_grid import product_grid
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Model, Problem
from postgrad.research.problems import expected_excess
from postgrad.research.problems.instance import Instance

BOX = Box(np.ones(3), np.full(3, 100.0))
LITERAL_BOX = Box(np.zeros(3), np.full(3, 100.0))
UNIVARIATE_BOX = Box(1.0, 100.0)

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
        # `where` rather than minimum and maximum, whose derivatives are halved where x equals xi.
        sold = jnp.where(x <= xi, x, jnp.maximum(xi, 0.0))
        left = jnp.where(x <= xi, 0.0, x - xi)
        return jnp.sum(self.cost * x - self.price * sold - self.salvage * left)

    @property
    def underage(self) -> Float[Array, "..."]:
        """p - c, what a unit short would have earned."""
        return self.price - self.cost

    @property
    def overage(self) -> Float[Array, "..."]:
        """c - s, what a unit left over loses."""
        return self.cost - self.salvage

    @property
    def service_level(self) -> Float[Array, "..."]:
        """b / (b + h), the probability that the best order meets the demand: its quantile."""
        return self.underage / (self.underage + self.overage)

    def expected(self, x: Array, mean: Array, excess: Callable[[Array], Array]) -> Array:
        """E h(x, xi) for x >= 0, given E xi and level -> E max(xi - level, 0).

        Sold are min(x, max(0, xi)) = max(0, xi) - max(0, xi - x), also where demand is negative.
        """
        sold = excess(jnp.zeros_like(x)) - excess(x)
        left = x - mean + excess(x)
        return jnp.sum(self.cost * x - self.price * sold - self.salvage * left)


class Mismatch(eqx.Module):
    """What it costs that stock and demand do not match, summed over items.

        h(x, xi)  =  b' max(0, xi - x)  +  h' max(0, x - xi)

    A newsvendor's cost up to a term that no decision changes, with b = p - c and h = c - s.

    Attributes:
        underage: b, for each unit short.
        overage: h, for each unit left over.
    """

    underage: Float[Array, "..."]
    overage: Float[Array, "..."]

    def __call__(self, x: Float[Array, "..."], xi: Float[Array, "..."]) -> Float[Array, ""]:
        """h(x, xi)."""
        gap = x - xi
        return jnp.sum(jnp.where(gap <= 0.0, -self.underage * gap, self.overage * gap))

    @property
    def service_level(self) -> Float[Array, "..."]:
        """b / (b + h), the probability that the best order meets the demand: its quantile."""
        return self.underage / (self.underage + self.overage)


def _demand(mean: Array, theta: PyTree) -> dist.Distribution:
    """Three correlated normal demands; correlations in the order (1,2), (1,3), (2,3)."""
    a, b, c = theta["correlation"]
    # The Cholesky factor of the correlation matrix in closed form: LAPACK called for each of two
    # million matrices would take longer than everything else.
    second = jnp.sqrt(1.0 - a**2)
    lower = (c - a * b) / second
    third = jnp.sqrt(1.0 - b**2 - lower**2)
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)
    factor = jnp.stack([one, zero, zero, a, second, zero, b, lower, third]).reshape(3, 3)
    spread = jnp.sqrt(theta["variance"])
    return dist.MultivariateNormal(mean, scale_tril=spread[:, None] * factor, validate_args=False)


def _normal_cost(cost: Newsvendor, x: Array, mean: Array, scale: Array | float) -> Array:
    """E h under normal demands; a sum over items, so that correlations do not matter."""
    excess = functools.partial(expected_excess.normal, mean, jnp.asarray(scale))
    return cost.expected(x, mean, excess)


# Models are functions of the module, so that all instances share compiled programs.
def _independent_demand(x: Array, theta: PyTree) -> dist.Distribution:
    return _demand(_indifferent(x, theta["mean"]), theta)


def _dependent_demand(x: Array, theta: PyTree) -> dist.Distribution:
    return _demand(_attracted(x, theta["mean"]), theta)


def _instance(
    model: Model,
    mean: Callable[[Array, Array], Array],
    feasible: FeasibleSet,
    x_star: list[float],
) -> Instance:
    """The paper's numbers, where `mean` is the mean demand as a function of (x, theta_mu)."""
    levels = {
        "mean": [[5.0, 10.0, 15.0, 20.0, 25.0]] * 3,
        "variance": [[1.0, 3.0, 6.0, 9.0, 12.0]] * 3,
        "correlation": [[0.1, 0.2, 0.3, 0.4, 0.5]] * 3,
    }
    theta = {
        "mean": jnp.asarray([10.0, 15.0, 20.0]),
        "variance": jnp.asarray([3.0, 6.0, 9.0]),
        "correlation": jnp.asarray([0.1, 0.3, 0.5]),
    }
    scale = jnp.sqrt(theta["variance"])
    cost = Newsvendor(*jnp.asarray([[2.0, 4.0, 6.0], [4.0, 6.0, 8.0], [1.0, 2.0, 3.0]]))
    return Instance(
        problem=Problem(cost, model, feasible),
        theta=theta,
        x_star=jnp.asarray(x_star),
        x=jnp.full(3, 15.0),
        expected_cost=lambda x: _normal_cost(cost, x, mean(x, theta["mean"]), scale),
        points=product_grid(levels),
        batch_size=2,
    )


def independent(feasible: FeasibleSet = LITERAL_BOX) -> Instance:
    """Demand is normal, whatever is ordered: x*_i is the quantile (p - c) / (p - s)."""
    x_star = [10.746042, 15.0, 19.239959]
    return _instance(_independent_demand, _indifferent, feasible, x_star)


def dependent(feasible: FeasibleSet = BOX) -> Instance:
    """Mean demand is theta_mu + alpha x^beta with alpha = 1, beta = 1/2."""
    x_star = [15.142456, 19.844497, 24.537968]
    return _instance(_dependent_demand, _attracted, feasible, x_star)


def _indifferent(x: Array, mean: Array) -> Array:
    return mean


def _attracted(x: Array, mean: Array) -> Array:
    return mean + _ALPHA * x**_BETA


def univariate_dependent(feasible: FeasibleSet = UNIVARIATE_BOX) -> Instance:
    """Demand N(theta + x^(1/2), 3^2) for one item, theta_c = 10.

    The prior N(15, 5^2) is conjugate. Were theta its mean, 21.6 would be the best order.
    """
    cost = Newsvendor(*jnp.asarray([2.0, 4.0, 1.0]))
    theta, scale = jnp.asarray(10.0), 3.0

    def demand(x: Array, theta: Array) -> dist.Distribution:
        return dist.Normal(_attracted(x, theta), scale, validate_args=False)

    return Instance(
        problem=Problem(cost, demand, feasible),
        theta=theta,
        x_star=jnp.asarray(16.151242463315),
        x=jnp.asarray(10.0),
        expected_cost=lambda x: _normal_cost(cost, x, _attracted(x, theta), scale),
        points=jnp.arange(1.0, 31.0),
        prior=Normal(15.0, 5.0),
    )


TESTBED: dict[str, Callable[[], Instance]] = {
    "newsvendor-independent": independent,
    "newsvendor-dependent": dependent,
    "newsvendor-1d-dependent": univariate_dependent,
}

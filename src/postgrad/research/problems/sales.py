"""A newsvendor who sees sales, not demand: demand beyond the stock is not recorded.

Demand is lognormal with an unknown median. With the critical ratio 1/3 most days sell out, and an
algorithm that treats sales as demand orders less and less.

    h(x, xi)  =  c x - p min(x, xi),    log xi ~ N(log theta, 1/4),    seen: min(x, xi)

How much is learnt depends on the decision: only days with stock left show demand (Harpaz, Lee and
Winkler, 1982; Braden and Freimer, 1991). The data are min(x, xi), not xi.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array

from postgrad.distributions.censored import Censored
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Problem
from postgrad.research.problems import expected_excess
from postgrad.research.problems.instance import Instance
from postgrad.research.problems.newsvendor import Newsvendor

BOX = Box(1.0, 100.0)
_SIGMA = 0.5
_COST, _PRICE = 2.0, 3.0


class Mistaken(Censored):
    """Draws are censored, but the density is that of the uncensored base distribution."""

    @property
    def support(self) -> dist.constraints.Constraint:
        """The base's."""
        return self.base_dist.support

    def log_prob(self, value: Array) -> Array:
        """The base's log-density, also at the censoring limit."""
        return self.base_dist.log_prob(value)


def _demand(x: Array, theta: Array) -> dist.Distribution:
    del x
    return dist.LogNormal(jnp.log(theta), _SIGMA, validate_args=False)


def _instance(seen: type[Censored], feasible: FeasibleSet) -> Instance:
    cost = Newsvendor(*jnp.asarray([_COST, _PRICE, 0.0]))
    theta = jnp.asarray(20.0)
    mean = theta * jnp.exp(0.5 * _SIGMA**2)

    def above(level: Array) -> Array:
        # At level 0 the excess is the mean. `where` evaluates both branches, so that the branch
        # not taken must have a derivative, too.
        positive = jnp.where(level > 0, level, 1.0)
        excess = expected_excess.lognormal(theta, jnp.asarray(_SIGMA), positive)
        return jnp.where(level > 0, excess, mean)

    return Instance(
        problem=Problem(cost, _demand, feasible, lambda x, theta: seen(_demand(x, theta), upper=x)),
        theta=theta,
        x_star=jnp.asarray(16.124964),
        x=jnp.asarray(10.0),
        expected_cost=lambda x: cost.expected(x, mean, above),
        points=jnp.arange(1.0, 61.0),
    )


def censored(feasible: FeasibleSet = BOX) -> Instance:
    """Demand of median theta_c = 20, seen up to the order: x* is its quantile (p - c) / p."""
    return _instance(Censored, feasible)


def ignored(feasible: FeasibleSet = BOX) -> Instance:
    """The same, with a likelihood that treats sales as demand."""
    return _instance(Mistaken, feasible)


# Not `ignored`: no algorithm can solve it.
TESTBED: dict[str, Callable[[], Instance]] = {"newsvendor-censored": censored}

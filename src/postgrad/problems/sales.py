"""A newsvendor who sees sales, not demand: what is asked for when all is sold leaves no trace.

Demand is lognormal with an unknown median. With the critical ratio 1/3 most days sell out, and who
takes sales for demand orders less and less.
"""

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array

from postgrad.censored import Censored
from postgrad.feasible import Box, FeasibleSet
from postgrad.problem import Model, Problem
from postgrad.problems.instance import Instance
from postgrad.problems.newsvendor import Newsvendor

BOX = Box(1.0, 100.0)
_SIGMA = 0.5
_COST, _PRICE = 2.0, 3.0


class Mistaken(Censored):
    """Censored numbers, taken for what they are not: drawn as such, but with the base's density."""

    @property
    def support(self) -> dist.constraints.Constraint:
        """The base's."""
        return self.base_dist.support

    def log_prob(self, value: Array) -> Array:
        """As if the number had been seen whole."""
        return self.base_dist.log_prob(value)


def _demand(x: Array, theta: Array) -> dist.Distribution:
    del x
    return dist.LogNormal(jnp.log(theta), _SIGMA, validate_args=False)


def _censored(x: Array, theta: Array) -> dist.Distribution:
    return Censored(_demand(x, theta), upper=x)


def _mistaken(x: Array, theta: Array) -> dist.Distribution:
    return Mistaken(_demand(x, theta), upper=x)


def _instance(observation: Model, feasible: FeasibleSet) -> Instance:
    cost = Newsvendor(*jnp.asarray([_COST, _PRICE, 0.0]))
    return Instance(
        problem=Problem(cost, _demand, feasible, observation),
        theta=jnp.asarray(20.0),
        x_star=jnp.asarray(16.124964),
        x=jnp.asarray(10.0),
        points=jnp.arange(1.0, 61.0),
    )


def censored(feasible: FeasibleSet = BOX) -> Instance:
    """Demand of median theta_c = 20, seen up to the order: x* is its quantile (p - c) / p."""
    return _instance(_censored, feasible)


def ignored(feasible: FeasibleSet = BOX) -> Instance:
    """The same, by a newsvendor who takes sales for demand."""
    return _instance(_mistaken, feasible)

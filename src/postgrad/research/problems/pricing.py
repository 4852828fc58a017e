"""A monopolist who learns how demand depends on the price.

    h(x, xi)  =  -(x - c) xi,    x the price, c the unit cost, xi the demand at that price

with demand that is linear in the price, or customers who buy with a logistic probability. Both the
level and the slope of demand are unknown.

In the testbed because the decision is what is learnt from: data at one price tell the demand there
and not its slope, so an algorithm whose price settles too early may never find out (den Boer and
Zwart, 2014; Keskin and Zeevi, 2014). In the logistic case draws are yes or no: they have no
derivative in the price, so the gradient takes a score, or a sum over both outcomes.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.gaussian.gaussian import Gaussian
from postgrad.beliefs.grid.product_grid import product_grid
from postgrad.problem.feasible.box import Box
from postgrad.problem.problem import Problem
from postgrad.research.problems.instance import Instance

_SCALE = 3.0


class Revenue(eqx.Module):
    """h(x, xi) = -(x - c)' xi, for a price x and a demand xi at that price.

    Attributes:
        unit_cost: c.
    """

    unit_cost: Float[Array, "..."]

    def __call__(self, x: Float[Array, "..."], xi: Float[Array, "..."]) -> Float[Array, ""]:
        """h(x, xi), and H(x) if xi is the mean demand."""
        return -jnp.sum((x - self.unit_cost) * xi)


def _line(x: Array, theta: PyTree) -> Array:
    return theta["base"] - theta["slope"] * x


def linear() -> Instance:
    """Demand N(a - b x, 3^2) with (a, b) = (24, 2) and c = 2, so x* = (a / b + c) / 2 = 7.

    Linear in theta, so a normal belief is exact. At its prior mean (20, 2.5) the best price is 5.
    """
    cost = Revenue(jnp.asarray(2.0))
    theta = {"base": jnp.asarray(24.0), "slope": jnp.asarray(2.0)}
    levels = {"base": jnp.arange(10.0, 39.0, 2.0), "slope": jnp.arange(1.0, 4.25, 0.25)}
    return Instance(
        problem=Problem(
            cost=cost,
            model=lambda x, theta: dist.Normal(_line(x, theta), _SCALE, validate_args=False),
            feasible=Box(2.0, 11.0),
        ),
        theta=theta,
        x_star=jnp.asarray(7.0),
        x=jnp.asarray(3.0),
        expected_cost=lambda x: cost(x, _line(x, theta)),
        points=product_grid(levels),
        prior=Gaussian({"base": 20.0, "slope": 2.5}, {"base": 5.0, "slope": 0.5}),
    )


def logit() -> Instance:
    """A visitor buys with probability 1 / (1 + exp(b x - a)), (a, b) = (4, 1.25) and c = 1.

    Ten visitors a stage; h is the loss for one of them. With Lambert's W, which solves
    W exp(W) = y,

        x*  =  c + (1 + W(exp(a - b c - 1))) / b  =  2.926...

    The normal belief is Laplace's approximation. At its prior mean (2, 1) the best price is 2.57.
    """
    cost = Revenue(jnp.asarray(1.0))
    theta = {"base": jnp.asarray(4.0), "slope": jnp.asarray(1.25)}
    levels = {"base": jnp.arange(0.0, 8.5, 0.5), "slope": jnp.arange(0.25, 2.75, 0.25)}
    return Instance(
        problem=Problem(
            cost=cost,
            model=lambda x, theta: dist.Bernoulli(logits=_line(x, theta), validate_args=False),
            feasible=Box(1.0, 6.0),
        ),
        theta=theta,
        x_star=jnp.asarray(2.926320359012433),
        x=jnp.asarray(1.5),
        expected_cost=lambda x: cost(x, jax.nn.sigmoid(_line(x, theta))),
        points=product_grid(levels),
        prior=Gaussian({"base": 2.0, "slope": 1.0}, {"base": 1.5, "slope": 0.3}),
        batch_size=10,
    )


TESTBED: dict[str, Callable[[], Instance]] = {"pricing-linear": linear, "pricing-logit": logit}

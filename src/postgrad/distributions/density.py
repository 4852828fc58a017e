"""Densities f(xi; x, theta), as distributions with numpyro's protocol give them."""

import functools
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jaxtyping import Array, Bool, Float


def log_density(distribution: dist.Distribution, value: Array) -> Float[Array, "..."]:
    """log f(value), which is -inf outside the support.

    numpyro evaluates a density's formula wherever it is asked to: `Exponential(1.0).log_prob(-1.0)`
    is 1.0. A posterior fed with that would be confidently wrong, so the support is checked here.
    The formula is evaluated at a feasible stand-in outside the support, which keeps NaN out of
    the gradient of the branch not taken.
    """
    safe, inside = settle(distribution, value)
    # Added, not selected: if the support is the same for all theta, it is computed once per value.
    return log_formula(distribution, safe) + jnp.where(inside, 0.0, -jnp.inf)


@functools.singledispatch
def log_formula(distribution: dist.Distribution, value: Array) -> Float[Array, "..."]:
    """log f(value) inside the support; outside it, whatever the formula says."""
    return distribution.log_prob(value)


@log_formula.register(dist.discrete.CategoricalProbs)
@log_formula.register(dist.discrete.CategoricalLogits)
def _(distribution: Any, value: Array) -> Float[Array, "..."]:
    return distribution.log_prob(jnp.asarray(value, int))  # the value is used as an index


def settle(distribution: dist.Distribution, value: Array) -> tuple[Array, Bool[Array, "..."]]:
    """Values inside the support, feasible stand-ins for the others, and which are which."""
    support = distribution.support
    inside = support(value)
    event = (1,) * support.event_dim
    stand_in = lax.stop_gradient(support.feasible_like(value))
    safe = jnp.where(jnp.reshape(inside, inside.shape + event), value, stand_in)
    missing = len(distribution.event_shape) - support.event_dim
    if missing > 0:  # the support constrains each coordinate, the event is all of them
        inside = jnp.all(inside, axis=tuple(range(-missing, 0)))
    return safe, inside

"""Densities f(xi; x, theta), as distributions with numpyro's protocol give them."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import gammaln
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


@log_formula.register(dist.discrete.BernoulliLogits)
def _(distribution: Any, value: Array) -> Float[Array, "..."]:
    # numpyro's formula has a kink at a logit of zero: first and second derivatives there differ
    # with the order in which they are taken, and many a prior mean is zero.
    return jax.nn.log_sigmoid((2.0 * value - 1.0) * distribution.logits)


@log_formula.register(dist.discrete.BinomialLogits)
def _(distribution: Any, value: Array) -> Float[Array, "..."]:
    yes, no = value, distribution.total_count - value
    x = distribution.logits
    ways = gammaln(distribution.total_count + 1.0) - gammaln(yes + 1.0) - gammaln(no + 1.0)
    # Not zero times minus infinity, where a logit is infinite.
    both = jnp.where(yes > 0, yes * jax.nn.log_sigmoid(x), 0.0)
    return ways + both + jnp.where(no > 0, no * jax.nn.log_sigmoid(-x), 0.0)


@log_formula.register(dist.Independent)
def _(distribution: Any, value: Array) -> Float[Array, "..."]:
    base = distribution.base_dist
    if log_formula.dispatch(type(base)) is log_formula.dispatch(object):
        return distribution.log_prob(value)
    axes = tuple(range(-distribution.reinterpreted_batch_ndims, 0))
    return jnp.sum(log_formula(base, value), axis=axes)


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

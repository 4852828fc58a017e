"""Tail probabilities of distributions, as logarithms: P(xi >= at) and P(xi <= at)."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import log_ndtr, xlog1py
from jaxtyping import Array

from postgrad.numerics.incomplete_gamma_beta import (
    Tails,
    log_incomplete_beta,
    log_incomplete_gamma,
    log_one_minus_exp,
)

# Numbers this close to a limit, relative to its size, are at the limit.
ROUNDING = 1e-12


@functools.singledispatch
def log_tails(base: Any, at: Array) -> Tails:
    """(log P(xi >= at), log P(xi <= at)), from the cdf unless the family has its own formula."""
    if base.support.is_discrete:
        first, last = _whole_limits(at)
        return _log(1.0 - base.cdf(first - 1.0)), _log(base.cdf(last))
    cdf = base.cdf(at)
    return _log(1.0 - cdf), _log(cdf)


def knows_tails(base: Any) -> bool:
    """Whether `log_tails` has a formula for the family, or the family has a `cdf`."""
    closed_form = log_tails.dispatch(type(base)) is not log_tails.dispatch(object)
    return closed_form or getattr(type(base), "cdf", None) not in (None, dist.Distribution.cdf)


@log_tails.register
def _(base: dist.Normal, at: Array) -> Tails:
    z = (at - base.loc) / base.scale
    return log_ndtr(-z), log_ndtr(z)


@log_tails.register
def _(base: dist.LogNormal, at: Array) -> Tails:
    return _positive(lambda at: log_tails(dist.Normal(base.loc, base.scale), jnp.log(at)), at)


@log_tails.register
def _(base: dist.Logistic, at: Array) -> Tails:
    z = (at - base.loc) / base.scale
    return jax.nn.log_sigmoid(-z), jax.nn.log_sigmoid(z)


@log_tails.register
def _(base: dist.Exponential, at: Array) -> Tails:
    return _positive(lambda at: _with_complement(-base.rate * at), at)


@log_tails.register
def _(base: dist.Weibull, at: Array) -> Tails:
    return _positive(lambda at: _with_complement(-((at / base.scale) ** base.concentration)), at)


@log_tails.register
def _(base: dist.Gamma, at: Array) -> Tails:
    return _positive(lambda at: log_incomplete_gamma(base.concentration, base.rate * at)[::-1], at)


@log_tails.register(dist.discrete.GeometricProbs)
@log_tails.register(dist.discrete.GeometricLogits)
def _(base: Any, at: Array) -> Tails:
    # P(xi >= k) = (1 - p)^k
    return _whole(lambda k: _with_complement(xlog1py(k, -base.probs)), at)


@log_tails.register
def _(base: dist.Poisson, at: Array) -> Tails:
    # P(xi >= k) = P(Gamma(k) <= rate)
    return _whole(lambda k: log_incomplete_gamma(k, base.rate), at)


@log_tails.register
def _(base: dist.GammaPoisson, at: Array) -> Tails:
    # P(xi >= k) = P(Beta(k, concentration) <= 1 / (1 + rate))
    return _whole(lambda k: log_incomplete_beta(k, base.concentration, base.rate), at)


def _with_complement(log_p: Array) -> Tails:
    """(log p, log(1 - p))."""
    return log_p, log_one_minus_exp(log_p)


def _positive(tails: Callable[[Array], Tails], at: Array) -> Tails:
    """The tails of xi > 0, given those at positive limits: P(xi >= at) = 1 if at <= 0."""
    at_least, at_most = tails(jnp.where(at > 0, at, 1.0))
    return jnp.where(at > 0, at_least, 0.0), jnp.where(at > 0, at_most, -jnp.inf)


def _whole(tails: Callable[[Array], Tails], at: Array) -> Tails:
    """The tails of whole xi >= 0, given (log P(xi >= k), log P(xi < k)) for whole k > 0."""
    first, last = _whole_limits(at)
    at_least = tails(jnp.where(first > 0, first, 1.0))[0]
    at_most = tails(jnp.where(last >= 0, last + 1.0, 1.0))[1]
    return jnp.where(first > 0, at_least, 0.0), jnp.where(last >= 0, at_most, -jnp.inf)


def _whole_limits(at: Array) -> tuple[Array, Array]:
    """The least whole number >= at and the largest <= at; rounding errors of `at` aside."""
    slack = ROUNDING * jnp.abs(at)
    return jnp.ceil(at - slack), jnp.floor(at + slack)


def _log(p: Array) -> Array:
    """log p; at zero -inf, with a derivative of zero instead of NaN."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)

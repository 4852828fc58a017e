"""The incomplete gamma and beta functions as logarithms, accurate however small, with derivatives.

JAX's own `gammainc` and `betainc` underflow to zero.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

# A series or a fraction ends when no entry changes by more than this, relative to its size, or
# after so many terms. A hundred terms are many, unless parameters are huge.
_PRECISION, _TERMS = 1e-15, 1_000_000

Tails = tuple[Float[Array, "..."], Float[Array, "..."]]


def log_incomplete_gamma(a: Array, z: Array) -> Tails:
    """(log P(G <= z), log P(G > z)) for G ~ Gamma(a, 1) and z > 0.

    The smaller of the two by a series or a continued fraction times exp(log_front), which is never
    formed: so there is no underflow.
    """
    a, z = jnp.broadcast_arrays(jnp.asarray(a, float), jnp.asarray(z, float))
    low = z < a + 1.0
    log_front = a * jnp.log(z) - z - gammaln(a)
    below = log_front - jnp.log(a * _gamma_series(a, jnp.where(low, z, 0.5 * a)))
    above = log_front - jnp.log(_gamma_fraction(a, jnp.where(low, a + 2.0, z)))
    smaller = jnp.where(low, below, above)
    larger = log_one_minus_exp(smaller)
    return jnp.where(low, smaller, larger), jnp.where(low, larger, smaller)


def log_incomplete_beta(a: Array, b: Array, odds: Array) -> Tails:
    """(log P(B <= x), log P(B > x)) for B ~ Beta(a, b) and x = 1 / (1 + odds).

    The smaller of the two by a continued fraction. Odds rather than x, since 1 - x would have no
    digits where x is almost 1.
    """
    a, b, odds = jnp.broadcast_arrays(*(jnp.asarray(v, float) for v in (a, b, odds)))
    return beta_tails(a, b, odds, b * jnp.log(odds) - (a + b) * jnp.log1p(odds) - log_beta(a, b))


def log_beta(a: Array, b: Array) -> Array:
    """The logarithm of the beta function. JAX's own is off by 1e-6."""
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def beta_tails(a: Array, b: Array, odds: Array, log_front: Array) -> Tails:
    """The same given log_front, the logarithm of the density of log odds."""
    x, rest = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    low = x < (a + 1.0) / (a + b + 2.0)
    near, far, part = (jnp.where(low, *pair) for pair in ((a, b), (b, a), (x, rest)))
    smaller = log_front - jnp.log(near * _beta_fraction(near, far, part))
    larger = log_one_minus_exp(smaller)
    return jnp.where(low, smaller, larger), jnp.where(low, larger, smaller)


def log_one_minus_exp(log_p: Array) -> Array:
    """log(1 - p) from log p <= 0, with all digits near both ends."""
    safe = jnp.where(log_p < 0, log_p, -1.0)
    near_one = safe > -0.6931471805599453
    small = jnp.where(near_one, safe, -1.0)
    value = jnp.where(near_one, jnp.log(-jnp.expm1(small)), jnp.log1p(-jnp.exp(safe)))
    return jnp.where(log_p < 0, value, -jnp.inf)


class _Loop(NamedTuple):
    """An iteration: start(*arguments), then carry = step(n, carry, *arguments) for n = 1, 2, ...

    All arguments have one shape, and each entry is iterated by itself. The loop goes on until all
    `answers(carry)` have converged; the last of them is the result.
    """

    start: Callable[..., Any]
    step: Callable[..., Any]
    answers: Callable[[Any], tuple[Array, ...]]


@functools.cache
def _limit(loop: _Loop) -> Callable[..., Array]:
    """The limit as a function of its arguments, with all its derivatives.

    JAX differentiates a while loop in forward mode only, and would end it when the value has
    converged, whether the derivative has or not. Hence each derivative is a loop of its own.
    """

    @jax.custom_jvp
    @jax.jit
    def limit(*arguments: Array) -> Array:
        def once(state: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
            n, carry, _ = state
            new = loop.step(n, carry, *arguments)
            now, old = jnp.stack(loop.answers(new)), jnp.stack(loop.answers(carry))
            smallest = _PRECISION * jnp.sum(jnp.abs(now), axis=0)
            return n + 1.0, new, (n < _TERMS) & jnp.any(jnp.abs(now - old) > smallest)

        start = (jnp.ones(()), loop.start(*arguments), jnp.asarray(True))
        _, last, _ = lax.while_loop(lambda state: state[2], once, start)
        return loop.answers(last)[-1]

    def rule(arguments: Any, tangents: Any) -> tuple[Array, Array]:
        slope = jnp.zeros_like(arguments[0])
        for place, tangent in enumerate(tangents):
            if not isinstance(tangent, SymbolicZero):
                slope += _limit(_derivative(loop, place))(*arguments) * tangent
        return limit(*arguments), slope

    limit.defjvp(rule, symbolic_zeros=True)
    return limit


@functools.cache
def _derivative(loop: _Loop, place: int) -> _Loop:
    """The loop of the value and of its derivative in the argument at `place`, side by side."""

    def units(arguments: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(jnp.full_like(v, i == place) for i, v in enumerate(arguments))

    def start(*arguments: Array) -> Any:
        return jax.jvp(loop.start, arguments, units(arguments))

    def step(n: Array, carry: Any, *arguments: Array) -> Any:
        value, slope = carry
        return jax.jvp(
            lambda value, *arguments: loop.step(n, value, *arguments),
            (value, *arguments),
            (slope, *units(arguments)),
        )

    return _Loop(start, step, lambda carry: (*loop.answers(carry[0]), *loop.answers(carry[1])))


def _fraction(top: Callable[..., Array], bottom: Callable[..., Array]) -> Callable[..., Array]:
    """b_0 + a_1/(b_1 + a_2/(b_2 + ...)), given a_n and b_n (Lentz, 1976)."""

    def start(*arguments: Array) -> Any:
        first = bottom(jnp.zeros(()), *arguments)
        return first, first, jnp.zeros_like(first)

    def step(n: Array, carry: Any, *arguments: Array) -> Any:
        value, c, d = carry
        a, b = top(n, *arguments), bottom(n, *arguments)
        c, d = b + a / c, 1.0 / (b + a * d)
        return value * c * d, c, d

    return _limit(_Loop(start, step, lambda carry: carry[:1]))


def _beta_top(n: Array, a: Array, b: Array, x: Array) -> Array:
    m = jnp.floor(0.5 * n)
    even = m * (b - m) / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
    odd = -(a + m) * (a + b + m) / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
    return x * jnp.where(n == 2.0 * m, even, odd)


# Equations 8.7.1, 8.9.2 and 8.17.22 of the Digital Library of Mathematical Functions. Euler: the
# series 1 + r_1 + r_1 r_2 + ... is 1 / (1 - r_1 / (1 + r_1 - r_2 / (1 + r_2 - ...))).
_gamma_series = _fraction(lambda n, a, z: -z / (a + n), lambda n, a, z: 1.0 + z * (n > 0) / (a + n))
_gamma_fraction = _fraction(lambda n, a, z: n * (a - n), lambda n, a, z: z + 1.0 - a + 2.0 * n)
_beta_fraction = _fraction(_beta_top, lambda n, a, b, x: jnp.ones_like(x))

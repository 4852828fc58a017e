"""What is seen of a number when only its part below (or above) a limit is: sales, not demand."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax
from jax.custom_derivatives import SymbolicZero
from jax.scipy.special import gammaln, log_ndtr, xlog1py
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints

from postgrad.errors import ModelError
from postgrad.numerics.module import shown
from postgrad.numerics.validate import as_array, is_concrete

# Data this close to a limit, relative to its size, are at the limit.
_ROUNDING = 1e-12
# When a series or a fraction is done. A hundred terms are many, unless parameters are huge.
_PRECISION, _TERMS = 1e-15, 1_000_000


class Censored(dist.Distribution):
    """The distribution of min(xi, upper), of max(xi, lower), or of both, for xi ~ base.

        log f(y)  =  log f_base(y)            below the limit,
                     log P(xi >= upper)       at the limit: that much was there, perhaps more,

    and accordingly at a lower limit. As the observation of a problem, with the decision as the
    limit, it is sales = min(demand, stock):

        model = lambda x, theta: dist.Normal(theta, 3.0)
        observation = lambda x, theta: pg.distributions.Censored(dist.Normal(theta, 3.0), upper=x)

    The limit may be any number, also where xi is a whole one: a stock of 7.3 sells 7.3 to a demand
    of 8, and P(xi >= 7.3) is P(xi >= 8). A shop that sells whole units only has upper=jnp.floor(x).

    Data equal the limit if they do so to twelve digits. Data above it are outside the support.

    Tail probabilities are accurate as logarithms, however small, for normal, lognormal,
    exponential, Weibull, gamma, logistic, Poisson, geometric and negative binomial numbers. Of
    others, 1 - cdf is taken, which has no digits left beyond some 36 nats.

    Attributes:
        base_dist: The distribution of xi, single numbers.
        upper: The most that is seen.
        lower: The least that is seen.
    """

    pytree_data_fields = ("base_dist", "upper", "lower")

    def __init__(
        self, base: Any, upper: Any = None, lower: Any = None, *, validate_args: bool | None = None
    ):
        """Censor a distribution.

        Args:
            base: Any distribution of numpyro's with a `cdf`, and those named above.
            upper: The upper limit; none, if not given.
            lower: The lower limit; none, if not given.
            validate_args: As for all distributions of numpyro's.

        Raises:
            ModelError: If there is no limit, the limits are not finite or not in order, or the
                base is no distribution of single numbers whose tails are known.
        """
        if upper is None and lower is None:
            raise ModelError("Censored needs a limit: upper, lower or both")
        if getattr(base, "event_shape", None) != ():
            raise ModelError(
                f"Censored needs a distribution of single numbers, got {shown(base)}; of several "
                f"independent ones, Censored(..., upper=x).to_event(1) is the whole"
            )
        self.base_dist = base
        self.upper = None if upper is None else as_array(upper, ModelError, "upper")
        self.lower = None if lower is None else as_array(lower, ModelError, "lower")
        limits = [limit for limit in (self.lower, self.upper) if limit is not None]
        if len(limits) == 2 and is_concrete(limits) and not jnp.all(limits[0] < limits[1]):
            raise ModelError(f"lower must be below upper, got {lower} and {upper}")
        if not _knows_tails(base):
            raise ModelError(
                f"Censored needs the tails of its base, but {type(base).__name__} has no cdf"
            )
        shape = jnp.broadcast_shapes(base.batch_shape, *(jnp.shape(limit) for limit in limits))
        super().__init__(shape, (), validate_args=validate_args)

    __repr__ = shown

    @property
    def has_rsample(self) -> bool:
        """As the base: a minimum is differentiable but for one point."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> constraints.Constraint:
        """The limits, and what the base has between them."""
        return _Seen(self.base_dist.support, self.upper, self.lower)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """min(xi, upper), max(xi, lower)."""
        xi = self.base_dist.expand(self.batch_shape).sample(key, sample_shape)
        if self.lower is not None:
            xi = jnp.maximum(xi, self.lower)
        return xi if self.upper is None else jnp.minimum(xi, self.upper)

    def log_prob(self, value: Array) -> Array:
        """The density between the limits, the probability at them."""
        value = jnp.asarray(value, float)
        at_upper, at_lower = _at_limits(value, self.upper, self.lower)
        # The density is asked for where it is used, and elsewhere at some number that it has:
        # NaN in a branch that is not taken would still be NaN in the gradient.
        elsewhere = lax.stop_gradient(self.base_dist.support.feasible_like(value))
        seen = jnp.where(at_upper | at_lower, elsewhere, value)
        log_f = self.base_dist.log_prob(seen)
        if self.upper is not None:  # of the limit, not of the value: one number for all data
            log_f = jnp.where(at_upper, log_tails(self.base_dist, self.upper)[0], log_f)
        if self.lower is not None:
            log_f = jnp.where(at_lower, log_tails(self.base_dist, self.lower)[1], log_f)
        return log_f


class _Seen(constraints.Constraint):
    """The support of a censored distribution."""

    def __init__(self, base: constraints.Constraint, upper: Array | None, lower: Array | None):
        self.base, self.upper, self.lower = base, upper, lower

    @property
    def is_discrete(self) -> bool:
        return self.base.is_discrete

    def __call__(self, x: Array) -> Bool[Array, "..."]:
        x = jnp.asarray(x, float)
        at_upper, at_lower = _at_limits(x, self.upper, self.lower)
        inside = at_upper | at_lower | self.base(x)
        if self.upper is not None:
            inside &= x <= self.upper + _ROUNDING * jnp.abs(self.upper)
        if self.lower is not None:
            inside &= x >= self.lower - _ROUNDING * jnp.abs(self.lower)
        return inside

    def feasible_like(self, prototype: Array) -> Array:
        limit = self.lower if self.upper is None else self.upper
        return jnp.broadcast_to(jnp.asarray(limit), jnp.shape(prototype))

    def tree_flatten(self) -> Any:
        return (self.base, self.upper, self.lower), (("base", "upper", "lower"), {})


def _at_limits(
    value: Array, upper: Array | None, lower: Array | None
) -> tuple[Bool[Array, "..."], Bool[Array, "..."]]:
    """Whether a value is at the upper limit or beyond, and whether at the lower one."""
    never = jnp.zeros(jnp.shape(value), bool)
    at_upper = never if upper is None else value >= upper - _ROUNDING * jnp.abs(upper)
    at_lower = never if lower is None else value <= lower + _ROUNDING * jnp.abs(lower)
    return at_upper, at_lower


Tails = tuple[Float[Array, "..."], Float[Array, "..."]]


@functools.singledispatch
def log_tails(base: Any, at: Array) -> Tails:
    """(log P(xi >= at), log P(xi <= at)); from the cdf, where we know no better."""
    if base.support.is_discrete:
        first, last = _whole_limits(at)
        return _log(1.0 - base.cdf(first - 1.0)), _log(base.cdf(last))
    cdf = base.cdf(at)
    return _log(1.0 - cdf), _log(cdf)


def _knows_tails(base: Any) -> bool:
    closed_form = log_tails.dispatch(type(base)) is not log_tails.dispatch(object)
    return closed_form or getattr(type(base), "cdf", None) not in (None, dist.Distribution.cdf)


@log_tails.register
def _(base: dist.Normal, at: Array) -> Tails:
    z = (at - base.loc) / base.scale
    return log_ndtr(-z), log_ndtr(z)


@log_tails.register
def _(base: dist.LogNormal, at: Array) -> Tails:
    z = (jnp.log(jnp.where(at > 0, at, 1.0)) - base.loc) / base.scale
    return _if_positive(at, (log_ndtr(-z), log_ndtr(z)))


@log_tails.register
def _(base: dist.Logistic, at: Array) -> Tails:
    z = (at - base.loc) / base.scale
    return jax.nn.log_sigmoid(-z), jax.nn.log_sigmoid(z)


@log_tails.register
def _(base: dist.Exponential, at: Array) -> Tails:
    t = base.rate * jnp.where(at > 0, at, 1.0)
    return _if_positive(at, (-t, _log_one_minus_exp(-t)))


@log_tails.register
def _(base: dist.Weibull, at: Array) -> Tails:
    t = (jnp.where(at > 0, at, 1.0) / base.scale) ** base.concentration
    return _if_positive(at, (-t, _log_one_minus_exp(-t)))


@log_tails.register
def _(base: dist.Gamma, at: Array) -> Tails:
    below, above = log_incomplete_gamma(base.concentration, base.rate * jnp.where(at > 0, at, 1.0))
    return _if_positive(at, (above, below))


@log_tails.register(dist.discrete.GeometricProbs)
@log_tails.register(dist.discrete.GeometricLogits)
def _(base: Any, at: Array) -> Tails:
    # P(xi >= k) = (1 - p)^k
    return _whole(
        lambda k: (xlog1py(k, -base.probs), _log_one_minus_exp(xlog1py(k, -base.probs))), at
    )


@log_tails.register
def _(base: dist.Poisson, at: Array) -> Tails:
    # P(xi >= k) = P(Gamma(k) <= rate)
    return _whole(lambda k: log_incomplete_gamma(k, base.rate), at)


@log_tails.register
def _(base: dist.GammaPoisson, at: Array) -> Tails:
    # P(xi >= k) = P(Beta(k, concentration) <= 1 / (1 + rate))
    def tails(k: Array) -> Tails:
        return log_incomplete_beta(k, base.concentration, base.rate)

    return _whole(tails, at)


def _whole(tails: Callable[[Array], Tails], at: Array) -> Tails:
    """For whole xi >= 0, given (log P(xi >= k), log P(xi < k)) for whole k > 0."""
    first, last = _whole_limits(at)
    at_least = tails(jnp.where(first > 0, first, 1.0))[0]
    at_most = tails(jnp.where(last >= 0, last + 1.0, 1.0))[1]
    return jnp.where(first > 0, at_least, 0.0), jnp.where(last >= 0, at_most, -jnp.inf)


def _whole_limits(at: Array) -> tuple[Array, Array]:
    """The first whole number from a limit on, and the last one up to it, but for rounding."""
    slack = _ROUNDING * jnp.abs(at)
    return jnp.ceil(at - slack), jnp.floor(at + slack)


def _if_positive(at: Array, tails: Tails) -> Tails:
    """For xi > 0: everything is above a limit that is not."""
    return jnp.where(at > 0, tails[0], 0.0), jnp.where(at > 0, tails[1], -jnp.inf)


def _log(p: Array) -> Array:
    """Log p, -inf at zero, and no NaN in its derivative there."""
    return jnp.where(p > 0, jnp.log(jnp.where(p > 0, p, 1.0)), -jnp.inf)


def _log_one_minus_exp(log_p: Array) -> Array:
    """log(1 - p) from log p <= 0, with all digits near both ends."""
    safe = jnp.where(log_p < 0, log_p, -1.0)
    near_one = safe > -0.6931471805599453
    small = jnp.where(near_one, safe, -1.0)
    value = jnp.where(near_one, jnp.log(-jnp.expm1(small)), jnp.log1p(-jnp.exp(safe)))
    return jnp.where(log_p < 0, value, -jnp.inf)


def log_incomplete_gamma(a: Array, z: Array) -> Tails:
    """(log P(G <= z), log P(G > z)) for G ~ Gamma(a, 1) and z > 0.

    The smaller of the two by a series or a continued fraction, which know no underflow.
    """
    a, z = jnp.broadcast_arrays(jnp.asarray(a, float), jnp.asarray(z, float))
    low = z < a + 1.0
    log_front = a * jnp.log(z) - z - gammaln(a)
    below = log_front + jnp.log(_gamma_series(a, jnp.where(low, z, 0.5 * a)) / a)
    above = log_front - jnp.log(_gamma_fraction(a, jnp.where(low, a + 2.0, z)))
    return (
        jnp.where(low, below, _log_one_minus_exp(jnp.where(low, -1.0, above))),
        jnp.where(low, _log_one_minus_exp(jnp.where(low, below, -1.0)), above),
    )


def log_incomplete_beta(a: Array, b: Array, odds: Array) -> Tails:
    """(log P(B <= x), log P(B > x)) for B ~ Beta(a, b) and x = 1 / (1 + odds).

    As above. Odds rather than x, since 1 - x would have no digits where x is almost 1.
    """
    a, b, odds = jnp.broadcast_arrays(*(jnp.asarray(v, float) for v in (a, b, odds)))
    x, rest = 1.0 / (1.0 + odds), odds / (1.0 + odds)
    low = x < (a + 1.0) / (a + b + 2.0)
    log_beta = gammaln(a) + gammaln(b) - gammaln(a + b)  # JAX's betaln is off by 1e-6
    log_front = b * jnp.log(odds) - (a + b) * jnp.log1p(odds) - log_beta
    inner = 0.5 * (a + 1.0) / (a + b + 2.0)
    other = 0.5 * (b + 1.0) / (a + b + 2.0)
    below = log_front - jnp.log(a * _beta_fraction(a, b, jnp.where(low, x, inner)))
    above = log_front - jnp.log(b * _beta_fraction(b, a, jnp.where(low, other, rest)))
    return (
        jnp.where(low, below, _log_one_minus_exp(jnp.where(low, -1.0, above))),
        jnp.where(low, _log_one_minus_exp(jnp.where(low, below, -1.0)), above),
    )


class _Loop(NamedTuple):
    """A limit: start(*arguments), then carry = step(n, carry, *arguments) for n = 1, 2, ...

    Entry by entry, with arguments of one shape. The last of `answers(carry)` is what converges.
    """

    start: Callable[..., Any]
    step: Callable[..., Any]
    answers: Callable[[Any], tuple[Array, ...]]


@functools.cache
def _limit(loop: _Loop) -> Callable[..., Array]:
    """The limit as a function of its arguments, with all its derivatives.

    JAX differentiates a loop that ends when it is done forwards only, and ends it when the value
    has converged, whether the derivative has or not. Hence each derivative is a loop of its own.
    """

    @jax.custom_jvp
    @jax.jit
    def limit(*arguments: Array) -> Array:
        def unfinished(state: tuple[Array, Any, Array]) -> Array:
            n, _, moved = state
            return moved & (n < _TERMS)

        def once(state: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
            n, carry, _ = state
            new = loop.step(n, carry, *arguments)
            pairs = list(zip(loop.answers(new), loop.answers(carry), strict=True))
            size = sum((jnp.abs(now) for now, _ in pairs), jnp.zeros(()))
            moved = [jnp.any(jnp.abs(now - old) > _PRECISION * size) for now, old in pairs]
            return n + 1.0, new, jnp.any(jnp.stack(moved))

        start = (jnp.ones(()), loop.start(*arguments), jnp.asarray(True))
        return loop.answers(lax.while_loop(unfinished, once, start)[1])[-1]

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
    """The loop, and that of its derivative in one argument, side by side."""

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


def _series(ratio: Callable[..., Array]) -> Callable[..., Array]:
    """1 + r_1 + r_1 r_2 + r_1 r_2 r_3 + ..., given r_n."""

    def start(*arguments: Array) -> Any:
        one = jnp.ones_like(arguments[0])
        return one, one

    def step(n: Array, carry: Any, *arguments: Array) -> Any:
        total, term = carry
        term = term * ratio(n, *arguments)
        return total + term, term

    return _limit(_Loop(start, step, lambda carry: carry[:1]))


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


# Equations 8.7.1, 8.9.2 and 8.17.22 of the Digital Library of Mathematical Functions.
_gamma_series = _series(lambda n, a, z: z / (a + n))
_gamma_fraction = _fraction(lambda n, a, z: n * (a - n), lambda n, a, z: z + 1.0 - a + 2.0 * n)
_beta_fraction = _fraction(_beta_top, lambda n, a, b, x: jnp.ones_like(x))

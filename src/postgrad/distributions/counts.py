"""Counts whose draws can be spread evenly: Poisson, binomial and negative binomial by inversion.

JAX draws Poisson numbers with a generator of its own and by rejection. An evenly spread set of
uniform numbers (`numerics.lattice_keys`) stays evenly spread only through a monotone map: here a
draw is the quantile of a uniform number.
"""

import functools
import math
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import scipy.special
from jax import lax, random
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, Int

from postgrad.distributions.log_gamma import log_gamma
from postgrad.distributions.quantiles import skewed_quantile
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.module import shown

# Below this rate probabilities are added up from zero, above it the quantile is expanded.
_SMALL = 10.0
# P(N > 48) is below the spacing of floating-point numbers at that rate.
_MOST = 48
# Up to this count the probabilities of a negative binomial are added up.
_ADDED = 24
# How many values of a count are summed over.
_VALUES = 24
# Below this rate logarithms of factorials come from a table, above it from so many powers.
_TABLED, _POWERS = 4000.0, 12
_LOG_FACTORIALS = scipy.special.gammaln(np.arange(1.0, 4609.0))


def _one_if(true: Bool[Array, "..."]) -> Int[Array, "..."]:
    """1 or 0; `jnp.where` would be a function call for each of many terms, and slow to trace.

    Whole numbers as wide as floats: to add these up takes 0.6 times as long as to add up floats.
    """
    return lax.convert_element_type(true, int)


@jax.jit
def poisson_quantile(u: Float[Array, "..."], rate: Float[Array, "..."]) -> Float[Array, "..."]:
    """The smallest k with P(N <= k) > u for N ~ Poisson(rate).

    For small rates the number of k with P(N <= k) <= u: always the same number of steps, which
    XLA compiles into one pass over the draws. For large ones the expansion of Giles (ACM TOMS,
    Algorithm 955, 2016) in w = Phi^-1(u),

        rate + w sqrt(rate) + (2 + w^2)/6 - (2 w + w^3)/(72 sqrt(rate))
             + (-16 + 7 w^2 + 3 w^4)/(810 rate),

    whose error is of order rate^(-3/2): at a rate of 10 one draw in a few thousand is off by one.
    """
    small = jnp.where(rate < _SMALL, rate, 0.0)
    # Rounding may keep the sum of all probabilities below a u that is one but for its last bits.
    highest = jnp.minimum(u, 1.0 - 1e-15)
    mass = total = jnp.exp(-small)
    summed = _one_if(total <= highest)
    for k in range(1, _MOST):
        mass = mass * small * (1.0 / k)
        total = total + mass
        summed = summed + _one_if(total <= highest)
    root, w = jnp.sqrt(rate), ndtri(jnp.maximum(u, 2.0**-60))
    expanded = rate + w * root + (2.0 + w**2) / 6.0 - (2.0 * w + w**3) / (72.0 * root)
    expanded = expanded + (-16.0 + 7.0 * w**2 + 3.0 * w**4) / (810.0 * rate)
    return jnp.where(rate < _SMALL, summed.astype(float), jnp.maximum(jnp.floor(expanded), 0.0))


@jax.jit
def negative_binomial_quantile(
    u: Float[Array, "..."], mean: Float[Array, "..."], concentration: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The smallest k with P(N <= k) > u; NaN for concentrations below about 0.001.

    Up to 24 probabilities are added up from zero, in one pass over the draws. Above, P(N <= k) is
    that of a Gamma number, scaled and moved, to be at most k + 1/2; it has the mean, the variance
    (less 1/12, for sums instead of integrals) and the skewness of the count, and its quantiles are
    moved by the difference of the kurtoses e as Cornish and Fisher's expansion says,

        k + 1/2  =  mean + sd (z + e / (1 + skewness^2) (w^3 - 3 w) / 24),    w = Phi^-1(u),

    less for large skewness, where that is no expansion. P(N <= k) is right to 5e-5.
    """
    m, a = mean, concentration
    highest = jnp.minimum(u, 1.0 - 1e-15)  # as for Poisson counts
    odds = m / (a + m)
    mass = total = jnp.exp(-a * jnp.log1p(m / a))
    summed = _one_if(total <= highest)
    for k in range(1, _ADDED + 1):
        mass = mass * ((a + (k - 1)) * (odds * (1.0 / k)))
        total = total + mass
        summed = summed + _one_if(total <= highest)
    # Variance / mean is r; the cumulants of higher order are m r times these.
    r = 1.0 + m / a
    variance = jnp.maximum(m * r - 1.0 / 12.0, 0.1)
    third, fourth = 2.0 * r - 1.0, 6.0 * r * (r - 1.0) + 1.0
    skew = m * r * third / variance**1.5
    excess = (m * r * fourth + 1.0 / 120.0) / variance**2 - 1.5 * skew**2
    w = computed_once(ndtri(jnp.clip(u, 2.0**-60, 1.0 - 2.0**-53)), u)
    z = skewed_quantile(w, skew) + excess / (1.0 + skew**2) * (w**3 - 3.0 * w) / 24.0
    expanded = jnp.maximum(jnp.ceil(m + jnp.sqrt(variance) * z - 0.5), _ADDED + 1.0)
    return jnp.where(total > highest, summed.astype(float), expanded)


def binomial_quantile(
    u: Float[Array, "..."], n: Float[Array, "..."], p: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The smallest k with P(N <= k) > u for N ~ Binomial(n, p).

    Probabilities and cumulants are those of a negative binomial whose concentration is -n. Where p
    is above 1/2, failures are counted, whose skewness is not negative.
    """
    rare = jnp.minimum(p, 1.0 - p)
    k = negative_binomial_quantile(jnp.where(p > 0.5, 1.0 - u, u), n * rare, -n)
    k = jnp.minimum(k, n)
    return jnp.where(p > 0.5, n - k, k)


def some_counts(
    rate: Float[Array, ""], u: Float[Array, ""]
) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
    """Every s-th value of a Poisson count, and s times its probability.

        sum_j p_j g(k_j)  =  E g(N)   in the mean over a uniform u, which decides where to begin

    (systematic sampling). Up to a rate of about 5, where no count above 22 matters, s is 1 and the
    sum is exact. With larger rates s is about half a standard deviation; of a smooth g the sum is
    then wrong by 2e-5 at most, and by far less from a rate of 10 on. What is left out, beyond 5.5
    standard deviations, has a probability of 1e-8. Derivatives are those of the probabilities.

    Args:
        rate: The mean.
        u: A number in [0, 1).
    """
    centre = lax.stop_gradient(rate)
    width = 5.5 * jnp.sqrt(centre)
    low, high = jnp.maximum(centre - width, 0.0), centre + width + 5.0
    stride = jnp.ceil((high - low + 1.0) / (_VALUES - 1))
    # Multiples of s plus an offset, so that values stay the same when the rate changes somewhat.
    first = jnp.floor(low / stride) * stride + jnp.floor(u * stride)
    k = first + stride * jnp.arange(_VALUES)
    safe = jnp.where(rate > 0.0, rate, rate + 1e-300)
    fixed = lax.stop_gradient(safe)
    log_p = jnp.where(fixed < _TABLED, _log_by_table(k, fixed), _log_by_series(k, fixed))
    # The derivative of log p(k) in the rate is k / rate - 1; the added terms are zero.
    return k, stride * jnp.exp(log_p + k * (jnp.log(safe) - jnp.log(fixed)) - (safe - fixed))


def _log_by_table(k: Float[Array, " n"], rate: Float[Array, ""]) -> Float[Array, " n"]:
    """k log(rate) - rate - log k!, of counts up to 4607."""
    log_factorial = jnp.asarray(_LOG_FACTORIALS)[jnp.minimum(k, 4607.0).astype(jnp.int32)]
    return k * jnp.log(rate) - rate - log_factorial


def _log_by_series(k: Float[Array, " n"], rate: Float[Array, ""]) -> Float[Array, " n"]:
    """The same for large rates r and counts near them, by Stirling's series and t = (k - r) / r.

        -r ((1 + t) log(1 + t) - t)  -  log(1 + t) / 2  -  1 / (12 r (1 + t))  -  log(2 pi r) / 2

    The first three terms are one sum of powers of t, whose coefficients are those of the rate.
    """
    t = jnp.clip((k - rate) * (1.0 / rate), -0.1, 0.1)
    beyond = 1.0 / (12.0 * rate)
    total = jnp.zeros_like(k)
    for j in range(_POWERS, 1, -1):
        total = t * (total + (-1) ** j * (rate / (j * (j - 1)) - 0.5 / j + beyond))
    total = t * (total + 0.5 - beyond)
    return -total - beyond - 0.5 * jnp.log(2.0 * math.pi * rate)


@functools.singledispatch
def probabilities(law: Any, values: Float[Array, " n"]) -> Float[Array, " n"]:
    """P(xi = v) of each of some values inside the support."""
    return jnp.exp(jax.vmap(law.log_prob)(values))


@probabilities.register(dist.discrete.BinomialProbs)
@probabilities.register(dist.discrete.BinomialLogits)
def _(law: Any, values: Array) -> Array:
    # numpyro's formula guards every value against p = 0 and p = 1, for twice the time.
    with jax.ensure_compile_time_eval():  # constants, where n is one
        n = jnp.asarray(law.total_count, float)
        choices = log_gamma(n + 1.0) - log_gamma(values + 1.0) - log_gamma(n - values + 1.0)
    p = jnp.asarray(law.probs, float)
    q = lax.optimization_barrier(1.0 - p)  # else XLA makes 1 - p of (1 - p) + 1e-300
    log_p, log_q = (jnp.log(jnp.where(share > 0, share, share + 1e-300)) for share in (p, q))
    return jnp.exp(choices + values * log_p + (n - values) * log_q)


def uniform(law: Any, key: Array, sample_shape: tuple[int, ...]) -> Float[Array, "..."]:
    """A uniform number for each draw of a distribution.

    Streams with the same key share these numbers, if XLA does not compute them with each draw.
    """
    shape = (*sample_shape, *law.batch_shape)
    return cast(Array, computed_once(random.uniform(key, shape, float), key))


class Poisson(dist.Poisson):
    """Counts of mean `rate`, drawn by inversion."""

    __repr__ = shown

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        u = uniform(self, key, sample_shape)
        return poisson_quantile(u, jnp.broadcast_to(jnp.asarray(self.rate, float), u.shape))


class NegativeBinomial(dist.NegativeBinomial2):
    """Counts of mean m and concentration a: Poisson with a rate that is Gamma(a, a / m).

        P(k)  =  Gamma(k + a) / (Gamma(a) k!)  (a / (a + m))^a  (m / (a + m))^k

    The variance is m + m^2 / a: demand that is more uneven than Poisson's. numpyro's own, drawn by
    inversion.
    """

    __repr__ = shown

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        u = uniform(self, key, sample_shape)
        a = jnp.broadcast_to(jnp.asarray(self.concentration, float), u.shape)
        return negative_binomial_quantile(u, a / self.rate, a)

    def log_prob(self, value: Any) -> Array:
        """log P(k). numpyro's uses `betaln`, which is accurate to six digits only."""
        k, a = jnp.asarray(value, float), jnp.asarray(self.concentration, float)
        binomial = log_gamma(k + a) - log_gamma(a) - log_gamma(k + 1.0)
        return binomial - a * jnp.log1p(1.0 / self.rate) - k * jnp.log1p(self.rate)


def log_normal(median: Any, spread: Any, shift: float = 0.0) -> dist.Distribution:
    """The distribution of y with log(y + shift) ~ N(log(median + shift), spread^2).

    With a shift of one y may be zero: demand of a few units on most days and hundreds on some.
    """
    normal = dist.Normal(jnp.log(median + shift), spread, validate_args=False)
    back = dist.transforms.AffineTransform(-shift, 1.0, domain=dist.constraints.positive)
    steps = [dist.transforms.ExpTransform(), back]
    return dist.TransformedDistribution(normal, steps, validate_args=False)

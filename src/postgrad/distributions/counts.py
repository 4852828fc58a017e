"""Counts whose draws can be spread evenly: Poisson and negative binomial by inversion.

JAX draws Poisson numbers with a generator of its own and by rejection. An evenly spread set of
uniform numbers (`numerics.lattice_keys`) stays evenly spread only through a monotone map: here a
draw is the quantile of a uniform number.
"""

from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jax import lax, random
from jax.scipy.special import gammaln, ndtri
from jaxtyping import Array, Float

from postgrad.numerics.gamma_draws import gamma
from postgrad.numerics.module import shown

# Below this rate probabilities are added up from zero, above it the quantile is expanded.
_SMALL = 10.0


def poisson_quantile(u: Float[Array, "..."], rate: Float[Array, "..."]) -> Float[Array, "..."]:
    """The smallest k with P(N <= k) > u for N ~ Poisson(rate).

    Small rates by summation. For large ones the expansion of Giles (ACM TOMS, Algorithm 955, 2016)
    in w = Phi^-1(u),

        rate + w sqrt(rate) + (2 + w^2)/6 - (2 w + w^3)/(72 sqrt(rate))
             + (-16 + 7 w^2 + 3 w^4)/(810 rate),

    whose error is of order rate^(-3/2): at a rate of 10 one draw in a few thousand is off by one.
    """
    small = jnp.minimum(rate, _SMALL)

    def add(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        k, mass, total, found = carry
        k = k + 1.0
        mass = mass * small / k
        reached = total + mass
        # Rounding may keep the sum below a u near one: stop when adding mass changes nothing.
        found = jnp.where((found < 0) & ((reached > u) | (reached == total)), k, found)
        return k, mass, reached, found

    zero = jnp.exp(-small)
    start = (jnp.zeros(()), zero, zero, jnp.where((zero > u) | jnp.isnan(zero), 0.0, -1.0))
    *_, summed = lax.while_loop(lambda carry: jnp.any((carry[3] < 0) & (carry[2] <= u)), add, start)
    root, w = jnp.sqrt(rate), ndtri(u)
    expanded = rate + w * root + (2.0 + w**2) / 6.0 - (2.0 * w + w**3) / (72.0 * root)
    expanded = expanded + (-16.0 + 7.0 * w**2 + 3.0 * w**4) / (810.0 * rate)
    return jnp.where(rate < _SMALL, summed, jnp.maximum(jnp.floor(expanded), 0.0))


class Poisson(dist.Poisson):
    """Counts of mean `rate`, drawn by inversion."""

    __repr__ = shown

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        shape = (*sample_shape, *self.batch_shape)
        rate = jnp.broadcast_to(jnp.asarray(self.rate, float), shape)
        return poisson_quantile(random.uniform(key, shape, float), rate)


class NegativeBinomial(dist.NegativeBinomial2):
    """Counts of mean m and concentration a: Poisson with a rate that is Gamma(a, a / m).

        P(k)  =  Gamma(k + a) / (Gamma(a) k!)  (a / (a + m))^a  (m / (a + m))^k

    The variance is m + m^2 / a: demand that is more uneven than Poisson's. numpyro's own, drawn by
    inversion.
    """

    __repr__ = shown

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """A Gamma rate, then the Poisson quantile of a uniform number."""
        shape = (*sample_shape, *self.batch_shape)
        key_rate, key_count = random.split(key)
        rate = gamma(key_rate, jnp.broadcast_to(self.concentration, shape)) / self.rate
        return poisson_quantile(random.uniform(key_count, shape, float), rate)

    def log_prob(self, value: Any) -> Array:
        """log P(k). numpyro's uses `betaln`, which is accurate to six digits only."""
        k, a = jnp.asarray(value, float), jnp.asarray(self.concentration, float)
        binomial = gammaln(k + a) - gammaln(a) - gammaln(k + 1.0)
        return binomial - a * jnp.log1p(1.0 / self.rate) - k * jnp.log1p(self.rate)


def by_inversion(law: Any) -> Any:
    """The same distribution, drawn by inversion where numpyro's own draws by rejection."""
    if type(law) is dist.Poisson and not law.is_sparse:
        return Poisson(law.rate, validate_args=False)
    return law


def log_normal(median: Any, spread: Any, shift: float = 0.0) -> dist.Distribution:
    """The distribution of y with log(y + shift) ~ N(log(median + shift), spread^2).

    With a shift of one y may be zero: demand of a few units on most days and hundreds on some.
    """
    normal = dist.Normal(jnp.log(median + shift), spread, validate_args=False)
    back = dist.transforms.AffineTransform(-shift, 1.0, domain=dist.constraints.positive)
    steps = [dist.transforms.ExpTransform(), back]
    return dist.TransformedDistribution(normal, steps, validate_args=False)

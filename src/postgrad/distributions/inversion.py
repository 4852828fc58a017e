"""Distributions drawn by inversion: a draw is the quantile of one uniform number.

numpyro draws Gamma, beta, Student-t, Poisson and binomial numbers by rejection, and mixtures from
several random numbers. A set of uniform numbers that is spread evenly, or densely in the tails
(`numerics.lattice_keys`, `numerics.tails`), stays so through quantiles only.
"""

import copy
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float
from numpyro.distributions.discrete import BinomialLogits, BinomialProbs, ZeroInflatedProbs
from numpyro.distributions.distribution import ExpandedDistribution, MaskedDistribution

from postgrad.distributions.counts import NegativeBinomial, Poisson, binomial_quantile, uniform
from postgrad.distributions.quantiles import beta_quantile, gamma_quantile, student_quantile
from postgrad.numerics.draw_barrier import normal_once
from postgrad.numerics.lattice_keys import table_keys

# Distributions that draw from another one, and change what it draws.
_AROUND = (
    dist.Independent,
    ExpandedDistribution,
    MaskedDistribution,
    dist.TransformedDistribution,
)


class Normal(dist.Normal):
    """numpyro's, with the same draws."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """loc + scale z, where all runs of a simulation that share their keys share z."""
        shape = self.shape(sample_shape)
        return self.loc + normal_once(key, shape) * self.scale


class Gamma(dist.Gamma):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        return gamma_quantile(uniform(self, key, sample_shape), self.concentration) / self.rate


class Beta(dist.Beta):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        u = uniform(self, key, sample_shape)
        return beta_quantile(u, self.concentration1, self.concentration0)


class StudentT(dist.StudentT):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        t = student_quantile(uniform(self, key, sample_shape), jnp.asarray(self.df, float))
        return self.loc + self.scale * t


class Binomial(BinomialProbs):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Quantiles of uniform numbers."""
        u = uniform(self, key, sample_shape)
        n, p = (jnp.asarray(each, float) for each in (self.total_count, self.probs))
        return binomial_quantile(u, jnp.broadcast_to(n, u.shape), jnp.broadcast_to(p, u.shape))


class ZeroInflated(ZeroInflatedProbs):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Zero if u is below the probability of an extra zero, else a quantile of the others."""
        u = uniform(self, key, sample_shape)
        rest = jnp.maximum(u - self.gate, 0.0) / jnp.maximum(1.0 - self.gate, 1e-300)
        return jnp.where(u < self.gate, 0.0, self.base_dist.sample(key_of(rest), sample_shape))


class Mixture(dist.MixtureSameFamily):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """A quantile of the component that u chooses.

        For u below 1/2 a component is drawn below its median, else above. On either half of [0, 1]
        each component has a stretch as long as it is likely, in the order of where their tails end;
        where u lies on it decides the quantile. So the tails of u are those of the mixture.
        """
        u = uniform(self, key, sample_shape)[..., None]
        likely, above = self.mixing_distribution.probs, u >= 0.5
        mean, far = self.component_mean, 3.0 * jnp.sqrt(self.component_variance)
        begins = jnp.where(above, _begins(mean + far, likely), _begins(mean - far, likely))
        along = 2.0 * u - above
        rest = jnp.clip((along - begins) / jnp.maximum(likely, 1e-300), 0.0, 1.0)
        key = key_of(0.5 * (rest + above))
        drawn = self.component_distribution.sample(key, sample_shape)
        chosen = jnp.argmax(jnp.where((begins <= along) & (likely > 0.0), begins, -1.0), axis=-1)
        return jnp.take_along_axis(drawn, chosen[..., None], axis=-1)[..., 0]


# Distributions that draw each number from one uniform number.
_BY_ONE = (
    Gamma, Beta, StudentT, Poisson, NegativeBinomial, Binomial, Normal, dist.Exponential,
    dist.Uniform, dist.Laplace, dist.Logistic, dist.Gumbel, dist.HalfNormal, dist.Weibull,
)  # fmt: skip


def by_inversion(law: Any) -> Any:
    """The same distribution, drawn by inversion where numpyro's own draws by rejection.

    Who draws is the class that `sample` belongs to: numpyro's Chi2 draws as Gamma does, and so does
    a class of a user's that is derived from Gamma and has no `sample` of its own.
    """
    if isinstance(law, _AROUND):
        base = by_inversion(law.base_dist)
        if base is law.base_dist:
            return law
        new = copy.copy(law)
        new.base_dist = base
        return new
    match type(law).sample:
        case dist.Normal.sample:
            return Normal(law.loc, law.scale, validate_args=False)
        case dist.Gamma.sample:
            return Gamma(law.concentration, law.rate, validate_args=False)
        case dist.Beta.sample:
            return Beta(law.concentration1, law.concentration0, validate_args=False)
        case dist.StudentT.sample:
            return StudentT(law.df, law.loc, law.scale, validate_args=False)
        case dist.Poisson.sample if not law.is_sparse:
            return Poisson(law.rate, validate_args=False)
        case dist.GammaPoisson.sample:
            mean = law.concentration / law.rate
            return NegativeBinomial(mean, law.concentration, validate_args=False)
        case BinomialProbs.sample | BinomialLogits.sample:
            return Binomial(law.probs, law.total_count, validate_args=False)
        case ZeroInflatedProbs.sample if _by_one(base := by_inversion(law.base_dist)):
            return ZeroInflated(base, law.gate, validate_args=False)
        case dist.MixtureSameFamily.sample if isinstance(law, dist.MixtureSameFamily):
            parts, mixing = by_inversion(law.component_distribution), law.mixing_distribution
            each_of_one = parts.batch_shape == (*law.batch_shape, law.mixture_size)
            if each_of_one and not parts.event_shape and _by_one(parts):
                return Mixture(mixing, parts, validate_args=False)
    return law


def _by_one(law: Any) -> bool:
    """Whether each number is drawn from one uniform number."""
    while isinstance(law, _AROUND):
        law = law.base_dist
    return not law.event_shape and any(type(law).sample is each.sample for each in _BY_ONE)


def are_drawn_apart(law: Any) -> bool:
    """Whether each coordinate of a vector is drawn from one uniform number of its own."""
    if not isinstance(law, dist.Independent) or law.base_dist.event_shape:
        return False
    return isinstance(law.base_dist, ZeroInflated | Mixture) or _by_one(law.base_dist)


def _begins(end: Float[Array, "... k"], likely: Float[Array, "... k"]) -> Float[Array, "... k"]:
    """How likely the components are, together, that come before each in the order of `end`."""
    end = jnp.where(jnp.isnan(end), jnp.inf, end)[..., None, :]
    other = jnp.swapaxes(end, -1, -2)
    number = np.arange(end.shape[-1])
    before = (end < other) | ((end == other) & (number < number[:, None]))
    return jnp.sum(before * likely[..., None, :], axis=-1)


def key_of(u: Float[Array, "..."]) -> Array:
    """A key that draws these numbers."""
    bits = jnp.minimum(u * 2.0**64, 2.0**64 - 2048.0).astype(np.uint64)  # the last float below
    return table_keys(bits.ravel())

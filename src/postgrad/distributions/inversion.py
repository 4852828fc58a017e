"""Distributions drawn by inversion: a draw is the quantile of one uniform number.

numpyro draws Gamma, beta, Student-t and Poisson numbers by rejection, from any number of random
numbers. A set of uniform numbers that is spread evenly, or densely in the tails
(`numerics.lattice_keys`, `numerics.tails`), stays so through quantiles only.
"""

import copy
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array
from numpyro.distributions.distribution import ExpandedDistribution, MaskedDistribution

from postgrad.distributions.counts import NegativeBinomial, Poisson, poisson_quantile, uniform
from postgrad.distributions.quantiles import beta_quantile, gamma_quantile, student_quantile

# Distributions that draw from another one, and change what it draws.
_AROUND = (
    dist.Independent,
    ExpandedDistribution,
    MaskedDistribution,
    dist.TransformedDistribution,
)


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


class ZeroInflatedPoisson(dist.ZeroInflatedPoisson):
    """numpyro's, drawn by inversion."""

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Zero if u is below the probability of an extra zero, else a Poisson quantile."""
        u = uniform(self, key, sample_shape)
        rest = jnp.maximum(u - self.gate, 0.0) / jnp.maximum(1.0 - self.gate, 1e-300)
        rate = jnp.broadcast_to(jnp.asarray(self.rate, float), u.shape)
        return jnp.where(u < self.gate, 0.0, poisson_quantile(jnp.minimum(rest, 1.0), rate))


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
        case dist.ZeroInflatedPoisson.sample if isinstance(law, dist.ZeroInflatedPoisson):
            return ZeroInflatedPoisson(law.gate, law.rate, validate_args=False)
    return law

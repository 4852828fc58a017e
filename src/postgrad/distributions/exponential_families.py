"""Exponential families: distributions whose log-density is linear in a few statistics of the data.

    log f(y)  =  phi . T(y)  +  log b(y)

with natural parameters phi, statistics T and a base measure b. The members of a family differ in
phi alone, so the sums of T over the data are all that a posterior needs to know of them.
"""

import abc
import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax.scipy.special import gammaln, xlogy
from jaxtyping import Array, Float

from postgrad.numerics.small_matrices import cholesky, gram, solve_lower

_LOG_2_PI = float(np.log(2.0 * np.pi))


class ExponentialFamily(eqx.Module):
    """A family. The first statistic is 1, whose sum is the number of data."""

    @abc.abstractmethod
    def natural(self, member: Any) -> Float[Array, " m"]:
        """phi of a member, a distribution with numpyro's protocol."""

    @abc.abstractmethod
    def statistics(self, y: Array) -> Float[Array, " m"]:
        """T(y) of one observation."""

    @abc.abstractmethod
    def log_base(self, y: Array) -> Float[Array, ""]:
        """log b(y) of one observation."""

    @abc.abstractmethod
    def supremum(self, total: Float[Array, " m"]) -> Float[Array, ""]:
        """sup_phi phi . S over all members: no parameter can explain the data better.

        S is a sum of statistics with positive weights. Infinite if the likelihood is unbounded (a
        normal law and one observation), and if the supremum has no closed form.
        """


@functools.singledispatch
def family_of(member: Any) -> ExponentialFamily | None:
    """The family of a distribution with numpyro's protocol; None for classes not registered.

    `family_of.register` adds a class of distributions; `coordinate_family.register` one of single
    numbers, which then serves arrays of independent ones, too.

    Normal families are centred at the member's mean: the squares of numbers far from zero would
    leave few digits for their spread.
    """
    each = coordinate_family(member.base_dist if isinstance(member, dist.Independent) else member)
    return None if each is None else Coordinates(each, member.event_shape)


@family_of.register
def _(member: dist.MultivariateNormal) -> ExponentialFamily:
    return MultivariateNormal(member.mean)


@functools.singledispatch
def coordinate_family(member: Any) -> "Univariate | None":
    """The family of single numbers to which a distribution belongs; None if not registered."""
    del member
    return None


def may_have_family(kind: type, coordinate: type) -> bool:
    """Whether `family_of` knows a class of distributions, or that of their coordinates.

    Nothing is computed, unlike by `family_of`, which asks a distribution for its mean.
    """
    pairs = (family_of, kind), (coordinate_family, coordinate)
    return any(table.dispatch(one) is not table.dispatch(object) for table, one in pairs)


class MultivariateNormal(ExponentialFamily):
    """T(y) = (1, r, r_i r_j for i <= j) with r = y - origin."""

    origin: Float[Array, " d"]

    def natural(self, member: Any) -> Array:
        """With precision P, mean m: (-(m'Pm + log|P^-1| + d log 2 pi)/2, Pm, -P_ii/2, -P_ij)."""
        d = self.origin.shape[0]
        precision = gram(solve_lower(member.scale_tril, jnp.eye(d)))
        mean = member.mean - self.origin
        slope = jnp.sum(precision * mean, axis=-1)
        log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(member.scale_tril)))
        constant = -0.5 * (jnp.sum(mean * slope) + log_det + d * _LOG_2_PI)
        i, j = np.triu_indices(d)
        squares = np.where(i == j, -0.5, -1.0) * precision[i, j]
        return jnp.concatenate([constant[None], slope, squares])

    def statistics(self, y: Array) -> Array:
        """Count, sums and cross products."""
        r = y - self.origin
        i, j = np.triu_indices(r.shape[0])
        return jnp.concatenate([jnp.ones(1), r, r[i] * r[j]])

    def log_base(self, y: Array) -> Array:
        """Zero."""
        return jnp.zeros(y.shape[:-1])

    def supremum(self, total: Array) -> Array:
        """-n/2 (log|C| + d + d log 2 pi) at the sample covariance C."""
        d = self.origin.shape[0]
        n, mean, squares = total[0], total[1 : d + 1] / total[0], total[d + 1 :] / total[0]
        i, j = np.triu_indices(d)
        place = np.zeros((d, d), int)
        place[i, j] = place[j, i] = np.arange(len(i))
        lower = cholesky(squares[place] - mean[:, None] * mean)
        log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(lower)))
        # NaN if C is not positive definite: then the likelihood is unbounded.
        return -0.5 * n * (jnp.where(jnp.isnan(log_det), -jnp.inf, log_det) + d * (1.0 + _LOG_2_PI))


class Univariate(eqx.Module):
    """The parts of a family of single numbers; statistics along the first axis."""

    @abc.abstractmethod
    def natural(self, member: Any) -> tuple[Array, ...]:
        """The entries of phi."""

    @abc.abstractmethod
    def supremum(self, *totals: Array) -> Array:
        """sup_phi phi . S."""

    def statistics(self, y: Array) -> tuple[Array, ...]:
        """The entries of T(y): (1, y), unless the family has others."""
        return jnp.ones_like(y), y

    def log_base(self, y: Array) -> Array:
        """log b(y): zero, unless the family has another base measure."""
        return jnp.zeros_like(y)


class Coordinates(ExponentialFamily):
    """One number, or an array of independent ones: the statistics of each, side by side."""

    each: Univariate
    shape: tuple[int, ...] = eqx.field(static=True)

    def natural(self, member: Any) -> Array:
        """The natural parameters of each coordinate."""
        return self._flat(self.each.natural(member.base_dist if self.shape else member))

    def statistics(self, y: Array) -> Array:
        """The statistics of each coordinate."""
        return self._flat(self.each.statistics(jnp.asarray(y, float)))

    def log_base(self, y: Array) -> Array:
        """The sum over coordinates."""
        return jnp.sum(self.each.log_base(jnp.asarray(y, float)))

    def supremum(self, total: Array) -> Array:
        """The sum over coordinates."""
        return jnp.sum(self.each.supremum(*total.reshape(-1, *self.shape)))

    def _flat(self, entries: tuple[Array, ...]) -> Array:
        return jnp.concatenate([jnp.broadcast_to(e, self.shape).ravel() for e in entries])


class Normal(Univariate):
    """T(y) = (1, r, r^2) with r = y - origin; for lognormal laws r = log y - origin, b(y) = 1/y."""

    origin: Float[Array, "..."]
    of_logarithm: bool = eqx.field(static=True)

    def natural(self, member: Any) -> tuple[Array, ...]:
        """With mean m, variance v: (-(m^2/v + log 2 pi v)/2, m/v, -1/(2v))."""
        mean, variance = member.loc - self.origin, member.scale**2
        constant = -0.5 * (mean**2 / variance + jnp.log(variance) + _LOG_2_PI)
        return constant, mean / variance, -0.5 / variance

    def statistics(self, y: Array) -> tuple[Array, ...]:
        """Count, sum, squares."""
        r = (jnp.log(y) if self.of_logarithm else y) - self.origin
        return jnp.ones_like(r), r, r**2

    def log_base(self, y: Array) -> Array:
        """Zero; -log y for lognormal laws."""
        return -jnp.log(y) if self.of_logarithm else jnp.zeros_like(y)

    def supremum(self, *totals: Array) -> Array:
        """-n/2 (log v + 1 + log 2 pi) at the sample variance v."""
        n, sums, squares = totals
        variance = jnp.maximum(squares / n - (sums / n) ** 2, 0.0)
        return -0.5 * n * (jnp.log(variance) + 1.0 + _LOG_2_PI)


class Exponential(Univariate):
    """T(y) = (1, y), phi = (log rate, -rate)."""

    def natural(self, member: Any) -> tuple[Array, ...]:
        """(log rate, -rate)."""
        return jnp.log(member.rate), -member.rate

    def supremum(self, *totals: Array) -> Array:
        """-n (log mean + 1)."""
        n, sums = totals
        return -n * (jnp.log(sums / n) + 1.0)


class Gamma(Univariate):
    """T(y) = (1, log y, y), phi = (a log b - log Gamma(a), a - 1, -b) with shape a and rate b."""

    def natural(self, member: Any) -> tuple[Array, ...]:
        """(a log b - log Gamma(a), a - 1, -b)."""
        a, b = member.concentration, member.rate
        return a * jnp.log(b) - gammaln(a), a - 1.0, -b

    def statistics(self, y: Array) -> tuple[Array, ...]:
        """Count, sum of logarithms, sum."""
        return jnp.ones_like(y), jnp.log(y), y

    def supremum(self, *totals: Array) -> Array:
        """Infinite: the estimate of a shape has no closed form."""
        return jnp.full_like(totals[0], jnp.inf)


class Poisson(Univariate):
    """T(y) = (1, y), phi = (-rate, log rate), log b(y) = -log y!."""

    def natural(self, member: Any) -> tuple[Array, ...]:
        """(-rate, log rate)."""
        return -member.rate, jnp.log(member.rate)

    def log_base(self, y: Array) -> Array:
        """-log y!."""
        return -gammaln(y + 1.0)

    def supremum(self, *totals: Array) -> Array:
        """sum log mean - sum."""
        n, sums = totals
        return xlogy(sums, sums / n) - sums


class Bernoulli(Univariate):
    """T(y) = (1, y), phi = (log(1 - p), log(p / (1 - p)))."""

    def natural(self, member: Any) -> tuple[Array, ...]:
        """(log(1 - p), log(p / (1 - p)))."""
        p = member.probs
        return jnp.log1p(-p), jnp.log(p) - jnp.log1p(-p)

    def supremum(self, *totals: Array) -> Array:
        """-n times the entropy of the share."""
        n, sums = totals
        return xlogy(sums, sums / n) + xlogy(n - sums, 1.0 - sums / n)


@coordinate_family.register
def _(member: dist.Normal | dist.LogNormal) -> Univariate:
    origin = jnp.broadcast_to(member.loc, member.batch_shape)
    return Normal(origin, isinstance(member, dist.LogNormal))


coordinate_family.register(dist.Exponential, lambda _: Exponential())
coordinate_family.register(dist.Gamma, lambda _: Gamma())
coordinate_family.register(dist.Poisson, lambda _: Poisson())
for _class in (dist.BernoulliProbs, dist.BernoulliLogits):
    coordinate_family.register(_class, lambda _: Bernoulli())

"""Exponential families: densities linear in statistics, and the largest of all likelihoods."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights
from postgrad.distributions.exponential_families import (
    Univariate,
    coordinate_family,
    family_of,
)

COVARIANCE = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 3.0]])
MEMBERS = [
    dist.Normal(3.0, 2.0),
    dist.LogNormal(1.0, 0.5),
    dist.Exponential(0.4),
    dist.Gamma(2.5, 0.7),
    dist.Poisson(3.5),
    dist.Bernoulli(0.3),
    dist.Bernoulli(logits=0.7),
    dist.Normal(jnp.asarray([1.0, -4.0]), 2.0).to_event(1),
    dist.Poisson(jnp.asarray([[1.0, 4.0], [2.0, 3.0]])).to_event(2),
    dist.MultivariateNormal(np.array([1.0, -2.0, 30.0]), COVARIANCE, validate_args=False),
]
ALL = pytest.mark.parametrize("member", MEMBERS, ids=lambda m: f"{type(m).__name__}{m.event_shape}")


def other(member, factor):
    """Another member of the same family."""
    if isinstance(member, dist.Independent):
        base = other(member.base_dist, factor)
        return base.to_event(len(member.event_shape))
    if isinstance(member, dist.MultivariateNormal):
        return dist.MultivariateNormal(member.mean + factor - 1.0, COVARIANCE * factor)
    names = type(member).arg_constraints
    given = {name: getattr(member, name) * factor for name in names if name in vars(member)}
    if isinstance(member, dist.LogNormal):
        given = {"loc": member.loc + factor - 1.0, "scale": member.scale * factor}
    return type(member)(**given)


@jax.jit
def densities(law, key):
    """The statistics of data of a law, and their log-density: linear in them, and as it is."""
    family, y = family_of(law), law.sample(key, (50,))
    statistics = jax.vmap(family.statistics)(y)
    linear = statistics @ family.natural(law) + jax.vmap(family.log_base)(y)
    return statistics, linear, law.log_prob(y)


@ALL
def test_density_is_linear_in_the_statistics(member):
    for law in (member, other(member, 1.3), other(member, 0.7)):
        statistics, linear, exact = densities(law, random.key(1))
        np.testing.assert_allclose(linear, exact, rtol=1e-11, atol=1e-11)
        assert (statistics[:, 0] == 1).all()


@jax.jit
def totals(law, key, weight):
    """Sums of the statistics of weighted data of a law, and the largest of all likelihoods."""
    family = family_of(law)
    total = weight * jnp.sum(jax.vmap(family.statistics)(law.sample(key, (40,))), axis=0)
    return total, family.supremum(total)


natural = jax.jit(lambda law: family_of(law).natural(law))


@ALL
def test_no_member_exceeds_the_supremum(member):
    """And the best one comes close, where there is a closed form."""
    laws = [natural(other(member, factor)) for factor in np.linspace(0.8, 1.25, 21)]
    for weight in (1.0, 0.2):
        total, top = totals(member, random.key(2), weight)
        values = np.array(laws) @ np.asarray(total)
        assert (values <= top + 1e-9).all()
        if isinstance(member, dist.Gamma):
            assert top == np.inf
        else:
            assert values.max() > top - 12.0 * weight


@jax.jit
def supremum(member, ys):
    """The largest of all likelihoods of the data, and what their base measure adds to it."""
    family = family_of(member)
    total = jnp.sum(jax.vmap(family.statistics)(ys), axis=0)
    return family.supremum(total), jnp.sum(jax.vmap(family.log_base)(ys))


log_likelihood = jax.jit(lambda law, ys: jnp.sum(law.log_prob(ys)))


def test_supremum_is_the_likelihood_of_the_fitted_member():
    y = np.random.default_rng(0).multivariate_normal(np.zeros(3), COVARIANCE, 30)
    fitted = dist.MultivariateNormal(y.mean(axis=0), np.cov(y.T, bias=True))
    assert supremum(MEMBERS[-1], y)[0] == pytest.approx(float(log_likelihood(fitted, y)), rel=1e-10)
    counts = np.array([2.0, 0.0, 5.0])
    best = log_likelihood(dist.Poisson(counts.mean()), counts)
    assert sum(supremum(dist.Poisson(1.0), counts)) == pytest.approx(float(best), rel=1e-12)


def test_too_few_data_have_no_supremum():
    y = np.random.default_rng(0).normal(size=(2, 3))
    assert supremum(MEMBERS[-1], y)[0] > 30.0
    assert supremum(dist.Normal(0.0, 1.0), np.array([3.0]))[0] == np.inf


@pytest.mark.parametrize(
    "law",
    [
        dist.StudentT(4.0),
        dist.Uniform(0.0, 1.0),
        dist.Independent(dist.StudentT(jnp.ones(2)), 1),
        dist.TruncatedNormal(0.0, 1.0, low=0.0),
        dist.Dirichlet(jnp.ones(3)),
    ],
)
def test_what_is_no_family_we_know(law):
    assert family_of(law) is None


class Rayleigh(dist.Distribution):
    """f(y) = y / s^2 exp(-y^2 / (2 s^2)), a law that numpyro does not have."""

    arg_constraints: ClassVar = {"scale": dist.constraints.positive}
    support = dist.constraints.positive

    def __init__(self, scale):
        self.scale = scale
        super().__init__(jnp.shape(scale), ())

    def sample(self, key, sample_shape=()):
        shape = sample_shape + self.batch_shape
        return self.scale * jnp.sqrt(2.0 * random.exponential(key, shape))

    def log_prob(self, value):
        return jnp.log(value / self.scale**2) - 0.5 * (value / self.scale) ** 2


class RayleighFamily(Univariate):
    """T(y) = (1, y^2), phi = (-2 log s, -1 / (2 s^2)), b(y) = y."""

    def natural(self, member):
        return -2.0 * jnp.log(member.scale), -0.5 / member.scale**2

    def statistics(self, y):
        return jnp.ones_like(y), y**2

    def log_base(self, y):
        return jnp.log(y)

    def supremum(self, *totals):
        return totals[0] * (jnp.log(2.0 * totals[0] / totals[1]) - 1.0)


@pytest.fixture
def rayleigh():
    """As somebody's own package registers a family."""
    assert family_of(Rayleigh(2.0)) is None
    coordinate_family.register(Rayleigh, lambda _: RayleighFamily())
    yield
    coordinate_family.register(Rayleigh, lambda _: None)


@pytest.mark.usefixtures("rayleigh")
def test_a_registered_family_is_used():
    test_density_is_linear_in_the_statistics(Rayleigh(2.0))
    test_no_member_exceeds_the_supremum(Rayleigh(jnp.asarray([2.0, 3.0])).to_event(1))
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2, lambda x, theta: Rayleigh(theta), pg.feasible.Box(0.0, 9.0)
    )
    x, points = jnp.asarray(1.0), jnp.linspace(0.5, 5.0, 5000)
    plain, batch = pg.beliefs.Grid(points), jnp.asarray([2.0, 3.5])
    bound = plain.bind(problem, x)
    assert isinstance(bound.weights, SufficientWeights)
    update = eqx.filter_jit(lambda belief: belief.update(problem.model, x, batch).mean())
    learned = [update(belief) for belief in (plain, bound)]
    assert float(learned[1]) == pytest.approx(float(learned[0]), rel=1e-9)

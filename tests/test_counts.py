"""Counts: the laws of their draws, and how evenly these can be spread."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad.distributions.counts import Poisson, log_normal, poisson_quantile
from postgrad.numerics.lattice_keys import lattice_keys


@pytest.mark.parametrize("rate", [0.01, 0.5, 3.0, 9.9, 10.1, 30.0, 1e3, 1e5])
def test_quantiles_are_those_of_scipy(rate):
    u = (np.arange(20_001) + 0.5) / 20_001
    ours = np.asarray(jax.jit(poisson_quantile)(jnp.asarray(u), jnp.full(u.shape, rate)))
    wrong = ours != stats.poisson.ppf(u, rate)
    assert wrong.mean() <= (0.0 if rate < 10 else 5e-4)
    assert np.abs(ours - stats.poisson.ppf(u, rate)).max() <= 1


def test_a_rate_that_is_no_number_does_not_wait_for_ever():
    """A posterior that is none has no rate; the test is that this returns."""
    assert poisson_quantile(jnp.asarray(0.5), jnp.asarray(jnp.nan)).shape == ()


LAWS = {
    "negative binomial": (
        pg.distributions.NegativeBinomial(7.0, 2.5),
        stats.nbinom(2.5, 2.5 / 9.5),
    ),
    "tiny": (pg.distributions.NegativeBinomial(0.2, 0.3), stats.nbinom(0.3, 0.3 / 0.5)),
    "large": (pg.distributions.NegativeBinomial(300.0, 40.0), stats.nbinom(40.0, 40.0 / 340.0)),
    "poisson": (Poisson(4.0), stats.poisson(4.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_law(name):
    ours, theirs = LAWS[name]
    n = 200_000
    draws = np.asarray(jax.jit(lambda key: ours.sample(key, (n,)))(random.key(0)))
    edges = np.unique(theirs.ppf(np.linspace(0.02, 0.98, 25)))
    shares = np.diff(np.concatenate([[0.0], theirs.cdf(edges), [1.0]]))
    counts = np.diff(np.concatenate([[0], [(draws <= edge).sum() for edge in edges], [n]]))
    assert stats.chisquare(counts, n * shares).pvalue > 1e-4
    k = np.arange(20.0)
    np.testing.assert_allclose(ours.log_prob(k), theirs.logpmf(k), rtol=1e-9)


def test_draws_can_be_spread_evenly():
    """The mean of 4,096 draws on a lattice is far better than that of independent ones."""
    law = pg.distributions.NegativeBinomial(40.0, 5.0)
    keys = [lattice_keys(random.key(i), (4096,)) for i in range(20)]
    draw = jax.jit(lambda keys: jnp.mean(jax.vmap(lambda key: law.sample(key))(keys)))
    errors = [float(draw(key)) - 40.0 for key in keys]
    independent = float(jnp.sqrt(law.variance / 4096))
    assert np.sqrt(np.mean(np.square(errors))) < 0.5 * independent


def test_log_normal_has_room_for_zero():
    law = log_normal(20.0, 0.8, 1.0)
    y = np.asarray([0.0, 5.0, 300.0])
    expected = stats.norm.logpdf(np.log(y + 1), np.log(21), 0.8) - np.log(y + 1)
    np.testing.assert_allclose(law.log_prob(y), expected, rtol=1e-12)
    assert bool(law.support(0.0))
    assert isinstance(law, dist.Distribution)

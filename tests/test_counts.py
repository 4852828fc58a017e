"""Counts: the laws of their draws, and how evenly these can be spread."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad.distributions.counts import (
    Poisson,
    binomial_quantile,
    log_normal,
    negative_binomial_quantile,
    poisson_quantile,
    probabilities,
    some_counts,
)
from postgrad.numerics.lattice_keys import lattice_keys

RATES = [1e-4, 0.01, 0.05, 0.5, 3.0, 9.9, 10.1, 30.0, 50.0, 1e3, 1e4, 1e5, 1e6]


# Compiled once for all cases: whatever differs is an argument, and all counts are as many.
_poisson = jax.jit(poisson_quantile)
_negative_binomial = jax.jit(negative_binomial_quantile)
_some_counts = jax.jit(some_counts)
_slope_of_mean = jax.jit(jax.grad(lambda rate, u: jnp.sum(jnp.multiply(*some_counts(rate, u)))))


def spaced(low, high, count=200):
    """Whole numbers from low to high; where there are fewer, the last one again and again."""
    k = np.unique(np.linspace(low, high, count).round())
    return np.pad(k, (0, count - k.size), "edge")


@pytest.mark.parametrize("rate", RATES)
def test_quantiles_are_those_of_scipy(rate):
    u = (np.arange(20_001) + 0.5) / 20_001
    ours, theirs = np.asarray(_poisson(u, np.full(u.shape, rate))), stats.poisson.ppf(u, rate)
    assert (ours != theirs).mean() <= (0.0 if rate < 10 else 5e-4)
    assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("rate", RATES)
def test_draws_have_the_probabilities_of_the_law(rate):
    """The length of the u that give k, found by bisection of [0, 1), is P(N = k)."""
    k = spaced(*stats.poisson.ppf([1e-9, 1 - 1e-9], rate))
    left, right = np.zeros(k.shape), np.ones(k.shape)
    for _ in range(53):
        middle = 0.5 * (left + right)
        below = np.asarray(_poisson(middle, np.full(k.shape, rate))) <= k
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    np.testing.assert_allclose(right, stats.poisson.cdf(k, rate), atol=1e-12 if rate < 10 else 2e-4)


@pytest.mark.parametrize("p", [0.0, 1e-4, 0.02, 0.3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("n", [1, 3, 60, 400, 2000, 100_000])
def test_binomial_quantiles_are_those_of_scipy(n, p):
    """u lies between P(N < k) and P(N <= k), to 2e-5; far out in the tails k may be off by one."""
    far = 10.0 ** -np.linspace(1, 8, 100)
    u = np.concatenate([(np.arange(5001) + 0.5) / 5001, far, 1 - far])
    full = [jnp.full(u.shape, float(each)) for each in (n, p)]
    k, law = np.asarray(jax.jit(binomial_quantile)(jnp.asarray(u), *full)), stats.binom(n, p)
    assert np.all((law.cdf(k - 1) - 2e-5 <= u) & (u <= law.cdf(k) + 2e-5))
    assert np.abs(k - law.ppf(u)).max() <= 1


@pytest.mark.parametrize("concentration", [0.1, 1.0, 8.0, 300.0, 1e6])
@pytest.mark.parametrize("mean", [0.01, 1.0, 10.0, 25.0, 60.0, 1e3, 1e5])
def test_negative_binomial_draws_have_the_probabilities_of_the_law(mean, concentration):
    """As above. Up to 24 they are exact; above, far out in the tails, right to some percent."""
    exact = stats.nbinom(concentration, concentration / (concentration + mean))
    k = spaced(*exact.ppf([1e-6, 1 - 1e-6]))
    left, right = np.zeros(k.shape), np.ones(k.shape)
    for _ in range(53):
        middle = 0.5 * (left + right)
        below = np.asarray(_negative_binomial(middle, mean, concentration)) <= k
        left, right = np.where(below, middle, left), np.where(below, right, middle)
    at_most, above = exact.cdf(k), exact.sf(k)
    np.testing.assert_allclose(right, at_most, atol=5e-5)
    # SciPy's own has ten digits where the concentration is large.
    np.testing.assert_allclose(right[k <= 24], at_most[k <= 24], atol=1e-9)
    np.testing.assert_allclose(np.minimum(right, 1 - right), np.minimum(at_most, above), rtol=0.15)


def test_negative_binomial_quantiles_are_the_same_however_draws_are_stacked():
    """Numbers of u are computed once for all streams and thetas: see `skewed_quantile`."""
    rng = np.random.default_rng(3)
    u = rng.uniform(size=(4, 16))
    u[0, :8], u[0, 8:] = 10.0 ** -np.arange(1.0, 9.0), 1 - 10.0 ** -np.arange(1.0, 9.0)
    mean, concentration = np.exp(rng.uniform([-5, -4], [9, 9], (30, 4, 2))).transpose(2, 0, 1)
    each = jax.vmap(negative_binomial_quantile, (0, None, None))
    streams = jax.jit(jax.vmap(jax.vmap(each), (None, 0, 0)))
    together = np.asarray(streams(u, mean, concentration))
    full = np.broadcast_arrays(u, mean[..., None], concentration[..., None])
    alone = _negative_binomial(*map(np.ravel, full))
    np.testing.assert_array_equal(together.ravel(), alone)
    assert together.dtype == float
    a, m = full[2], full[1]
    below, at = (stats.nbinom.cdf(together - k, a, a / (a + m)) for k in (1, 0))
    assert np.all((below - 5e-5 <= full[0]) & (full[0] <= at + 5e-5))


def test_negative_binomial_quantiles_at_the_ends():
    ends = jnp.asarray([0.0, 1.0 - 2.0**-53])
    for mean in (0.0, 1e-3, 5.0, 1e4):
        drawn = np.asarray(_negative_binomial(ends, mean, 2.0))
        assert np.isfinite(drawn).all()
        assert (drawn >= 0).all()
    assert _negative_binomial(0.99, 0.0, 2.0) == 0.0
    assert np.isnan(_negative_binomial(0.99, jnp.nan, 2.0))
    assert np.isnan(_negative_binomial(0.9999, 5.0, 1e-4))  # no table goes so far


@pytest.mark.parametrize("u", [0.0, 1.0 - 2.0**-53])
def test_the_ends_of_the_unit_interval_are_counts(u):
    rates = np.asarray([0.0, *RATES])
    drawn = np.asarray(_poisson(np.full(rates.shape, u), rates))
    assert np.isfinite(drawn).all()
    assert (drawn >= 0).all()
    assert (drawn[:6] <= 48).all()


def test_a_rate_that_is_no_number_does_not_wait_for_ever():
    """A posterior that is none has no rate; the test is that this returns."""
    assert _poisson(0.5, np.nan).shape == ()


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


@pytest.mark.parametrize("u", [0.0, 0.4, 0.99])
@pytest.mark.parametrize("rate", [*RATES, 799.0, 801.0])
def test_a_sum_over_some_counts_is_nearly_the_whole(rate, u):
    k, p = map(np.asarray, _some_counts(rate, u))
    stride = k[1] - k[0]
    assert stride == max(1.0, stride)
    exact = stride * stats.poisson.pmf(k, rate)
    np.testing.assert_allclose(p, exact, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(p.sum(), 1.0, rtol=3e-5 if 5 < rate < 10 else 1e-6)
    np.testing.assert_allclose((p * (k - rate) ** 2).sum(), rate, rtol=1e-3)
    assert stride == 1.0 or rate > 5.0
    assert float(_slope_of_mean(rate, u)) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("p", [0.0, 1e-12, 0.3, 1.0 - 1e-12, 1.0])
def test_probabilities_of_counts_out_of_n(p):
    k = np.arange(51.0)
    found, slope = _out_of_50(p)
    np.testing.assert_allclose(found, stats.binom.pmf(k, 50, p), atol=1e-12)
    assert float(slope) == pytest.approx(50.0, rel=1e-9)


@jax.jit
def _out_of_50(p):
    """The probabilities of 0, ..., 50, and the slope of their mean."""
    k = jnp.arange(51.0)
    slope = jax.grad(lambda p: jnp.sum(k * probabilities(dist.Binomial(50, p), k)))
    return probabilities(dist.Binomial(50, p), k), slope(p)


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

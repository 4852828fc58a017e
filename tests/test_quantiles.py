"""Quantiles of continuous distributions, and the distributions that are drawn by them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import scipy.special as special
from jax import random
from rooms import ATTACK
from scipy import stats
from scipy.interpolate import make_interp_spline

import postgrad as pg
from postgrad.distributions.inversion import by_inversion
from postgrad.distributions.quantiles import (
    _Axis,
    beta_quantile,
    gamma_quantile,
    skewed_quantile,
    student_quantile,
)
from postgrad.numerics.incomplete_gamma_beta import log_incomplete_beta, log_incomplete_gamma
from postgrad.numerics.lattice_keys import lattice_keys, table_keys

rng = np.random.default_rng(0)
U = special.expit(rng.uniform(-20.7, 20.7, 4000))  # 1e-9 to 1 - 1e-9, tails as often as the rest
LOW = U < 0.5


@pytest.mark.parametrize("degree", [2, 3, 5])
def test_splines_are_those_of_scipy(degree):
    axis = _Axis(-9.2, 8.4, 40, degree)
    values = np.random.default_rng(1).normal(size=(len(axis.sites()), 3))
    knots = -9.2 + 17.6 / 40 * np.arange(-degree, 41 + degree)
    theirs = make_interp_spline(axis.sites(), values, k=degree, t=knots).c
    np.testing.assert_allclose(axis.coefficients(values), theirs, rtol=1e-12)


def spread(low, high):
    return np.exp(rng.uniform(np.log(low), np.log(high), U.size))


def smaller_tail(below, above):
    """How far the smaller of P(X <= x) and P(X > x) is from that of u, relative to its size."""
    return np.where(LOW, np.expm1(below - np.log(U)), np.expm1(above - np.log1p(-U)))


def test_skewed_quantiles_are_those_of_a_gamma_number():
    w, log_a = np.random.default_rng(2).uniform([-6.0, -3.0], [6.0, 13.8], (4000, 2)).T
    a = np.exp(log_a)
    low = special.gammaincinv(a, special.ndtr(w))
    x = np.where(w < 0, low, special.gammainccinv(a, special.ndtr(-w)))
    z = np.asarray(skewed_quantile(jnp.asarray(w), 2.0 / np.sqrt(a)))
    np.testing.assert_allclose(z, (x - a) / np.sqrt(a), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(skewed_quantile(jnp.asarray(w), 0.0), w, atol=1e-6)


@pytest.mark.parametrize(
    ("least", "most", "precision"),
    [
        (1e-3, 0.05, 1e-8),
        (0.05, 1.0, 1e-8),
        (1.0, 30.0, 5e-8),
        (30.0, 1e4, 5e-8),
        pytest.param(1e4, 1e6, 1e-7, marks=pytest.mark.slow),
    ],
)
def test_gamma_quantiles_have_the_probabilities_of_the_law(least, most, precision):
    a = spread(least, most)
    x = np.asarray(jax.jit(gamma_quantile)(U, a))
    seen = x > 1e-290
    error = smaller_tail(*jax.jit(log_incomplete_gamma)(a, np.maximum(x, 1e-290)))
    assert np.abs(error[seen]).max() < precision
    exact = np.where(LOW, special.gammaincinv(a, U), special.gammainccinv(a, 1.0 - U))
    assert not exact[~seen].max(initial=0.0) > 1e-280


@pytest.mark.parametrize("a", [0.05, 0.5, 3.0, 100.0, 1e4])
def test_gamma_quantiles_are_those_of_scipy(a):
    exact = np.where(LOW, special.gammaincinv(a, U), special.gammainccinv(a, 1.0 - U))
    np.testing.assert_allclose(jax.jit(gamma_quantile)(U, a), exact, rtol=5e-9)


@pytest.mark.parametrize("a", [9e-4, 1e-4, 1e-6])
def test_tiny_shapes_are_right_to_a_hundredth_of_their_tail(a):
    above = a * np.exp(np.linspace(-10.0, 2.5, 50))
    u = 1.0 - above
    x = np.asarray(jax.jit(gamma_quantile)(u, a))
    np.testing.assert_allclose(special.gammaincc(a, x), 1.0 - u, rtol=0.01)


@pytest.mark.parametrize(("least", "most"), [(0.1, 1.0), (1.0, 30.0), (30.0, 1e4), (1e4, 1e12)])
def test_student_quantiles_have_the_probabilities_of_the_law(least, most):
    df = spread(least, most)
    t = np.asarray(jax.jit(student_quantile)(U, df))
    mirror = special.stdtr(df, -np.abs(t)) / np.where(LOW, U, 1.0 - U) - 1.0
    assert np.abs(mirror).max() < 2e-7
    assert np.all((t < 0) == LOW)
    assert np.isnan(jax.jit(student_quantile)(0.3, 0.05))


@pytest.mark.parametrize(
    ("least", "most"), [(0.05, 1.0), (1.0, 30.0), pytest.param(30.0, 1e4, marks=pytest.mark.slow)]
)
def test_beta_quantiles_have_the_probabilities_of_the_law(least, most):
    a, b = spread(least, most), spread(least, most)
    x = np.asarray(jax.jit(beta_quantile)(U, a, b))
    seen = (x > 1e-290) & (x < 1.0 - 1e-5)  # 1 - x has few digits where x is almost 1
    inside = np.where(seen, x, 0.5)
    error = smaller_tail(*jax.jit(log_incomplete_beta)(a, b, (1.0 - inside) / inside))
    assert np.abs(error[seen]).max() < 1e-9
    exact = np.where(LOW, special.betaincinv(a, b, U), special.betainccinv(a, b, 1.0 - U))
    np.testing.assert_allclose(x, exact, rtol=1e-9, atol=1e-290)


def test_quantiles_move_with_their_parameters_as_differences_say():
    u = np.asarray([1e-6, 0.01, 0.3, 0.8, 0.999])

    @functools.cache
    def slopes(quantile, count):
        each = jax.grad(quantile, tuple(range(1, 1 + count)))
        return jax.jit(jax.vmap(each, (0, *(None,) * count)))

    def difference(exact, parameters, place):
        step = np.zeros(len(parameters))
        step[place] = 1e-4 * parameters[place]
        up, down = (exact(*(np.asarray(parameters) + sign * step)) for sign in (1, -1))
        return (up - down) / (2.0 * step[place])

    cases = [
        (gamma_quantile, lambda a: stats.gamma.ppf(u, a), (0.3,)),
        (gamma_quantile, lambda a: stats.gamma.ppf(u, a), (40.0,)),
        (student_quantile, lambda df: stats.t.ppf(u, df), (2.5,)),
        (beta_quantile, lambda a, b: stats.beta.ppf(u, a, b), (0.7, 3.0)),
        (beta_quantile, lambda a, b: stats.beta.ppf(u, a, b), (20.0, 5.0)),
    ]
    for quantile, exact, parameters in cases:
        for place, slope in enumerate(slopes(quantile, len(parameters))(u, *parameters)):
            np.testing.assert_allclose(slope, difference(exact, parameters, place), rtol=2e-5)


@pytest.mark.parametrize("quantile", [gamma_quantile, student_quantile])
def test_the_ends_of_the_unit_interval_have_quantiles(quantile):
    found = np.asarray(
        jax.jit(quantile)(np.asarray([0.0, 1.0, 0.5]), np.asarray([2.0, 2.0, np.nan]))
    )
    assert np.all(np.isfinite(found[:2]))
    assert np.isnan(found[2])


def test_a_beta_that_is_none_does_not_wait_for_ever():
    quantile = jax.jit(beta_quantile)
    assert np.isnan(quantile(0.5, np.nan, 2.0))
    assert np.all(np.isfinite(quantile(np.asarray([0.0, 1.0]), 2.0, 3.0)))


double = dist.transforms.AffineTransform(10.0, 2.0)
LAWS = {
    "Gamma": (dist.Gamma(2.0, 0.1), stats.gamma(2.0, scale=10.0)),
    "Chi2": (dist.Chi2(5.0), stats.chi2(5.0)),
    "InverseGamma": (dist.InverseGamma(3.0, 20.0), stats.invgamma(3.0, scale=20.0)),
    "Beta": (dist.Beta(2.0, 5.0), stats.beta(2.0, 5.0)),
    "BetaProportion": (dist.BetaProportion(0.3, 10.0), stats.beta(3.0, 7.0)),
    "StudentT": (dist.StudentT(4.0, 100.0, 10.0), stats.t(4.0, 100.0, 10.0)),
    "a Gamma that is scaled and moved": (
        dist.TransformedDistribution(dist.Gamma(2.0, 0.1), double),
        stats.gamma(2.0, 10.0, scale=20.0),
    ),
    "one entry": (dist.Gamma(2.0, 0.1).expand([1]).to_event(1), stats.gamma(2.0, scale=10.0)),
    "Poisson": (dist.Poisson(40.0), stats.poisson(40.0)),
}


@pytest.mark.parametrize("name", LAWS)
def test_a_draw_of_a_distribution_is_the_quantile_of_its_number(name):
    law, exact = LAWS[name]
    u = np.asarray([1e-7, 0.02, 0.37, 0.9, 0.99999])
    inverted = by_inversion(law)
    keys = table_keys(jnp.asarray((u * 2.0**64).astype(np.uint64))[:, None])
    draws = np.asarray(jax.jit(jax.vmap(inverted.sample))(keys)).reshape(-1)
    backward = name == "InverseGamma"
    np.testing.assert_allclose(draws, exact.ppf(1.0 - u if backward else u), rtol=1e-7)
    assert inverted.event_shape == law.event_shape
    value = exact.ppf(0.3) * np.ones(law.event_shape)
    found, expected = jax.jit(lambda y: (inverted.log_prob(y), law.log_prob(y)))(value)
    assert float(found) == pytest.approx(float(expected))


def test_extra_zeros_are_the_lowest_quantiles():
    law = by_inversion(dist.ZeroInflatedPoisson(0.3, 5.0))
    u = np.asarray([0.1, 0.29, 0.31, 0.6, 0.999])
    keys = table_keys(jnp.asarray((u * 2.0**64).astype(np.uint64))[:, None])
    rest = stats.poisson(5.0).ppf(np.maximum(u - 0.3, 0.0) / 0.7)
    draws = jax.jit(jax.vmap(law.sample))(keys)
    np.testing.assert_array_equal(draws, np.maximum(rest, 0.0))


def _from(law, u):
    keys = table_keys(jnp.asarray((u * 2.0**64).astype(np.uint64))[:, None])
    return np.asarray(jax.jit(jax.vmap(by_inversion(law).sample))(keys))


@pytest.mark.parametrize("shares", [[0.97, 0.03, 0.0], [0.2, 0.5, 0.3], [0.0, 0.0, 1.0]])
def test_mixtures_are_drawn_from_one_number(shares):
    """Evenly spread numbers give the mixture; its far tails are those of the widest component."""
    means, scales = np.array([50.0, 50.0, 20.0]), np.array([3.0, 20.0, 1.0])
    law = dist.MixtureSameFamily(dist.Categorical(jnp.asarray(shares)), dist.Normal(means, scales))
    draws = _from(law, (np.arange(2**14) + 0.5) / 2**14)
    at = np.linspace(-20.0, 120.0, 200)
    exact = stats.norm.cdf(at[:, None], means, scales) @ shares
    np.testing.assert_allclose((draws[:, None] <= at).mean(axis=0), exact, atol=3e-4)
    ends, widest = np.array([1e-8, 1 - 1e-8]), np.argmax(scales * (np.asarray(shares) > 0))
    inner = [1e-8 / shares[widest], 1 - 1e-8 / shares[widest]]
    expected = stats.norm.ppf(inner, means[widest], scales[widest])
    np.testing.assert_allclose(_from(law, ends), expected, rtol=1e-6)


def test_a_mixture_for_each_item():
    rates = jnp.asarray([[8.0, 150.0], [2.0, 30.0], [1.0, 5.0]])
    law = dist.MixtureSameFamily(
        dist.Categorical(jnp.asarray([0.9, 0.1])), dist.Poisson(rates)
    ).to_event(1)
    draws = np.asarray(jax.jit(lambda key: by_inversion(law).sample(key, (40_000,)))(random.key(0)))
    np.testing.assert_allclose(draws.mean(axis=0), [22.2, 4.8, 1.4], rtol=0.03)
    with pytest.raises(NotImplementedError):
        law.sample(table_keys(jnp.zeros(3, np.uint64)))


@pytest.mark.parametrize("law", [dist.NegativeBinomial2(7.0, 2.5), dist.GammaPoisson(2.5, 2.5 / 7)])
def test_negative_binomial_counts_of_numpyro_can_be_spread_evenly(law):
    keys = lattice_keys(random.key(1), (2048,))
    draws = jax.jit(jax.vmap(by_inversion(law).sample))(keys)
    assert float(draws.mean()) == pytest.approx(7.0, abs=0.05)
    with pytest.raises(NotImplementedError):
        jax.jit(jax.vmap(law.sample))(keys)


def test_a_law_of_a_user_with_draws_of_its_own_keeps_them():
    class Doubled(dist.Gamma):
        def sample(self, key, sample_shape=()):
            return 2.0 * super().sample(key, sample_shape)

    law = Doubled(2.0, 1.0)
    assert by_inversion(law) is law
    wrapped = law.expand([3]).to_event(1)
    assert by_inversion(wrapped) is wrapped
    inverted = dist.Laplace(jnp.zeros(2), 1.0).to_event(1)
    assert by_inversion(inverted) is inverted


def test_normal_draws_are_those_of_numpyro():
    law = dist.Normal(jnp.asarray([1.0, -20.0]), jnp.asarray([0.5, 3.0])).to_event(1)
    for key in (random.key(3), lattice_keys(random.key(3), (4,))[2]):
        draws = by_inversion(law).sample(key, (5,))
        np.testing.assert_array_equal(draws, law.sample(key, (5,)))


@ATTACK
def test_an_order_for_one_day_in_a_thousand_of_gamma_demand():
    """Independent draws were off by a third of a standard deviation, without a word."""
    ratio, demand = 0.999, stats.gamma(0.5, scale=200.0)

    def cost(order, demand):
        short = jnp.maximum(demand - order, 0.0)
        return ratio * short + (1.0 - ratio) * jnp.maximum(order - demand, 0.0)

    problem = pg.Problem(
        cost, lambda x, mean: dist.Gamma(0.5, 0.5 / mean), feasible=pg.feasible.Box(0.0, 2000.0)
    )
    agent = pg.Agent(problem, pg.beliefs.Known(100.0), x=50.0)
    for _ in range(5):
        agent.observe([80.0, 90.0])
    assert abs(float(agent.decision) - demand.ppf(ratio)) < 0.05 * demand.std()

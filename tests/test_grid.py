"""Grids and the estimates made from them, by brute force; maximum likelihood without a grid."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from belief_models import exponential, mean_and_scale, noisier, normal, poisson, uniform
from jax import random
from scipy import stats
from test_beliefs import POINTS, PRIOR, batches, learn

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.problem.batch import Batch


def test_grid_is_bayes_rule_by_brute_force():
    """Products of densities, normalised, with no logarithm anywhere."""
    data = [(0.5, [3.0, 4.5]), (1.5, [2.0])]
    theta = np.arange(1.0, 13.0)
    weights = np.linspace(1.0, 2.0, 12)
    for x, batch in data:
        for y in batch:
            weights = weights * stats.norm.pdf(y, theta + 0.5 * x, 2.0)
    belief = pg.beliefs.Grid(theta, PRIOR)
    for x, batch in data:
        belief = eqx.filter_jit(belief.update)(normal, jnp.asarray(x), jnp.asarray(batch))
    np.testing.assert_allclose(belief.probabilities, weights / weights.sum(), rtol=1e-12)
    assert belief.probability(4.0) == pytest.approx(weights[3] / weights.sum(), rel=1e-12)
    assert belief.probability(4.5) == 0.0


def test_grid_does_not_underflow_or_drift():
    """A million observations in 1,000 batches: as if in one."""
    data = np.random.default_rng(0).normal(5.0, 2.0, (1000, 1000))
    update = jax.jit(lambda belief, batch: belief.update(normal, jnp.zeros(()), batch))
    belief = pg.beliefs.Grid(jnp.linspace(4.98, 5.02, 9))
    for batch in data:
        belief = update(belief, batch)
    n, mean = data.size, data.mean()
    exact = -0.5 * n * (mean - np.asarray(belief.points)) ** 2 / 4.0
    np.testing.assert_allclose(belief.log_weights, exact - exact.max(), atol=1e-6)


TOO_WIDE = 1.0 / 1.02**2  # the power of a posterior whose spread is two per cent too large


@pytest.fixture(scope="module")
def ranks(replications=200_000, batch=5):
    """Rank of the true theta in its posterior, over draws from prior and model (randomised).

    By the power to which the posterior is raised.
    """
    points = jnp.linspace(-3.0, 3.0, 61)
    prior = jnp.exp(-0.5 * points**2)
    grid = pg.beliefs.Grid(points, prior)

    def one(key):
        k1, k2, k3 = random.split(key, 3)
        theta = grid.sample(k1)
        y = dist.Normal(theta, 2.0).sample(k2, (batch,))
        posterior = grid.update(lambda x, theta: dist.Normal(theta, 2.0), jnp.zeros(()), y)
        u = random.uniform(k3)

        def rank(power):
            p = jax.nn.softmax(power * posterior.log_weights)
            below = jnp.sum(jnp.where(points < theta, p, 0.0))
            here = jnp.sum(jnp.where(points == theta, p, 0.0))
            return below + u * here

        return rank(1.0), rank(TOO_WIDE)

    keys = random.split(random.key(0), replications)
    return dict(zip((1.0, TOO_WIDE), map(np.asarray, jax.jit(jax.vmap(one))(keys)), strict=True))


def chi2_p(ranks, bins=20):
    return stats.chisquare(np.histogram(ranks, bins, (0.0, 1.0))[0]).pvalue


@pytest.mark.slow
def test_grid_is_calibrated(ranks):
    assert chi2_p(ranks[1.0]) > 1e-3


@pytest.mark.slow
def test_calibration_notices_a_spread_two_per_cent_too_large(ranks):
    assert chi2_p(ranks[TOO_WIDE]) < 1e-3


def test_grid_samples_have_its_probabilities():
    for n in (12, 300):  # both ways of cumulating
        grid = pg.beliefs.Grid(np.arange(float(n)), np.append(np.zeros(3), np.arange(1.0, n - 2)))
        draws = np.asarray(eqx.filter_jit(grid.sample)(random.key(0), (200_000,))).astype(int)
        assert draws.min() >= 3  # no weight, no draw
        expected = np.asarray(grid.probabilities)[3:] * len(draws)
        assert stats.chisquare(np.bincount(draws, minlength=n)[3:], expected).pvalue > 1e-3


def test_free_estimates_are_the_grid_estimates_in_the_limit():
    fine = jnp.linspace(0.2, 12.0, 100_001)
    for belief, model in (
        (pg.beliefs.Normal(0.0, 1.0), normal),
        (pg.beliefs.Normal(0.0, 1.0), noisier),
        (pg.beliefs.InverseGamma(3.0, 3.0), exponential),
        (pg.beliefs.Gamma(1.0, 1.0), poisson),
    ):
        free, grid = pg.beliefs.FreeMaximumLikelihood(belief), pg.beliefs.MaximumLikelihood(fine)
        data = (
            batches(grid, model, size=20)
            if model is not poisson
            else batches(pg.beliefs.Grid(jnp.asarray([1.0, 4.0])), model, size=20)
        )
        data = [(x, batch + 1.0) for x, batch in data]
        free, grid = learn(free, model, data), learn(grid, model, data)
        assert free.theta == pytest.approx(float(grid.theta), abs=2e-4)


def test_posterior_that_is_none_is_not_taken_for_one():
    for belief in (pg.beliefs.Grid(POINTS), pg.beliefs.MaximumLikelihood(POINTS)):
        lost = eqx.filter_jit(belief.update)(uniform, jnp.asarray(0.0), jnp.asarray([99.0]))
        assert np.isnan(eqx.filter_jit(lost.sample)(random.key(0), (3,))).all()


@pytest.mark.parametrize(
    ("points", "prior"),
    [
        ([], None),
        ([1.0, np.nan], None),
        ([1.0, np.inf], None),
        ([True, False], None),
        (["a", "b"], None),
        (1.0, None),
        ({"a": np.ones(2), "b": np.ones(3)}, None),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [1.0, -1.0]),
        ([1.0, 2.0], [0.0, 0.0]),
        ([1.0, 2.0], [1.0, np.nan]),
    ],
)
def test_bad_grids_are_refused(points, prior):
    with pytest.raises(errors.PriorError):
        pg.beliefs.Grid(points, prior)


NORMALS = pg.beliefs.NormalInverseGamma(0.0, 1.0, 1.0, 1.0)


def test_free_mean_and_scale_are_those_of_the_sample():
    data = [(jnp.asarray(x), jnp.asarray(y)) for x, y in ((0.0, [1.0, 4.0]), (2.0, [5.0]))]
    belief = learn(pg.beliefs.FreeMaximumLikelihood(NORMALS), mean_and_scale, data)
    assert belief.theta["mean"] == pytest.approx(np.mean([1.0, 4.0, 3.0]))
    assert belief.theta["scale"] == pytest.approx(np.std([1.0, 4.0, 3.0]))


@pytest.mark.parametrize("n", [129, 1000, 1920])
def test_a_draw_is_the_first_point_at_which_the_running_sum_exceeds_u(n):
    """Of many points, by NumPy; each draw from weights of its own, and points without weight."""
    rng = np.random.default_rng(n)
    mass = np.exp(rng.normal(0.0, 5.0, (3, n))) * (rng.uniform(size=(3, n)) < 0.6)
    mass[:, -20:] = mass[:, :20] = 0.0
    with np.errstate(divide="ignore"):
        values = np.log(mass) - np.log(mass.max(axis=1, keepdims=True))
    u = np.concatenate([rng.uniform(size=500), [0.0, 2.0**-60, 1.0 - 2.0**-53]])
    which = rng.integers(0, 3, u.size)
    running = np.cumsum(np.exp(values), axis=1)
    expected = [
        np.searchsorted(running[r], v * running[r, -1], "right")
        for r, v in zip(which, u, strict=True)
    ]
    for row in range(3):
        index, valid = eqx.filter_jit(LogWeights(jnp.asarray(values[row])).pick)(u)
        assert valid
        assert (mass[row, np.asarray(index)] > 0).all()
        np.testing.assert_array_equal(
            np.asarray(index)[which == row], np.asarray(expected)[which == row]
        )
    index, valid = eqx.filter_jit(LogWeights(jnp.asarray(values)).pick_among)(which, u)
    np.testing.assert_array_equal(index, expected)
    assert valid.all()
    values[1] = np.nan
    _, valid = eqx.filter_jit(LogWeights(jnp.asarray(values)).pick_among)(which, u)
    np.testing.assert_array_equal(valid, which != 1)


def test_an_empty_batch_teaches_nothing():
    """Densities of no rows must not be asked for."""
    before = pg.beliefs.Grid([1.0, 2.0, 3.0])
    nothing = Batch(jnp.zeros(()), jnp.zeros(0), jnp.zeros(0))
    after, foreseen = eqx.filter_jit(before.predict_and_update)(normal, nothing)
    assert foreseen.shape == (0,)
    np.testing.assert_allclose(after.probabilities, before.probabilities, rtol=1e-12)

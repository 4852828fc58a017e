"""Budgets of a few draws a stage: every step is taken, and stages average over draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg

SCALE = 3.0


def demand(x, theta):
    return dist.Normal(theta, SCALE, validate_args=False)


def cost(x, xi):
    return (x - xi) ** 2


def problem(low=-1e9, high=1e9):
    return pg.Problem(cost, demand, pg.feasible.Box(low, high))


@eqx.filter_jit
def stage(algorithm, state, batch):
    """One program for all problems of a shape. What a test does not read is not computed."""
    state, info = algorithm.step(state, batch)
    return state, info.course.gain


@eqx.filter_jit
def stages(algorithm, state, batches):
    """All stages in one program."""
    return jax.lax.scan(lambda at, y: (algorithm.step(at, y)[0], None), state, batches)[0]


def data(mean, scale, count, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(mean, scale, (count, 2)))


@pytest.mark.parametrize(
    ("samples", "descent"),
    [
        (None, pg.descents.Search),
        (32, pg.descents.Search),
        ((8, 4), pg.descents.Search),
        (31, pg.descents.Newton),
        ((4, 4), pg.descents.Newton),
        (1, pg.descents.Newton),
    ],
)
def test_few_draws_do_not_compare_places(samples, descent):
    assert type(pg.BayesianSGD(problem(), samples=samples).descent) is descent


@pytest.mark.parametrize("samples", [1, 16])
@pytest.mark.parametrize("start", [0.0, 1e3])
def test_mean_over_stages_is_the_optimum(samples, start):
    """Draws of 200 stages, as if they were one: within 4.5 standard errors of the posterior mean.

    With gains of 1.6 / t, late stages count for more than early ones: a mean of draws with weights
    proportional to t^0.6 has (1.6)^2 / 2.2 = 1.2 times the variance of a plain mean.
    """
    algorithm = pg.BayesianSGD(problem(), samples=samples)
    state = algorithm.init(pg.beliefs.Normal(20.0, SCALE), start)
    state = stages(algorithm, state, data(20.0, SCALE, 200))
    error = np.sqrt(1.2 / (200 * samples)) * np.hypot(SCALE, float(state.belief.scale))
    assert abs(float(state.x) - float(state.belief.loc)) < 4.5 * error


@pytest.mark.parametrize("iterations", [1, 6])
def test_kinks_do_not_send_decisions_away(iterations):
    """Beside all draws a cost has no curvature: steps must not follow one that was seen there.

    16 draws a stage put each median within .9 of where it is, four standard errors; averaged over
    stages, nearer. Steps that followed such curvatures ended 7 and 43 away.
    """
    medians = pg.Problem(
        lambda x, xi: jnp.sum(jnp.abs(x - xi)),
        lambda x, theta: dist.Normal(theta, SCALE, validate_args=False).to_event(1),
        pg.feasible.Box(jnp.zeros(3), 100.0),
    )
    theta = jnp.asarray([11.0, 15.0, 19.0])
    algorithm = pg.BayesianSGD(medians, samples=16, iterations=iterations)
    start = jnp.full(3, 15.0)
    runs = pg.simulate(algorithm, pg.beliefs.Known(theta), start, theta, runs=8, horizon=100)
    assert np.abs(runs.decisions[:, 60:] - theta).max() < 0.9


def test_bound_that_binds():
    algorithm = pg.BayesianSGD(problem(low=-1.0, high=3.0), samples=16)
    state = algorithm.init(pg.beliefs.Normal(9.0, 1.0), 0.0)
    state = stages(algorithm, state, data(9.0, 1.0, 30))
    assert 3.0 - 0.01 < float(state.x) <= 3.0  # the gain of each stage leaves some of the way


def test_draws_of_one_number_are_so_many_thetas():
    """One theta with many xi would leave the belief out of a stage."""
    assert pg.BayesianSGD(problem(), samples=16).samples == (16, 1)
    assert pg.BayesianSGD(problem(), samples=512).samples == (256, 2)


def test_one_draw_a_stage_gains_as_the_golden_ratio():
    """gain = (P + Q) / (P + Q + R), with Q = R / (N (N - 1)): times t it tends to 1.618."""
    algorithm = pg.BayesianSGD(problem(), samples=1, iterations=1)
    state, gains = algorithm.init(pg.beliefs.Normal(0.0, 1.0), 0.0), []
    for batch in data(0.0, 1.0, 60)[:, :1]:
        state, gain = stage(algorithm, state, batch)
        gains.append(float(gain))
    assert gains[0] == 1.0
    products = np.arange(1, 61) * np.asarray(gains)
    np.testing.assert_allclose(products[30:], (1 + 5**0.5) / 2, atol=0.08)

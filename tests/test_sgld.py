"""Langevin steps: out of the worse valley, and to a known stationary law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad import errors
from postgrad.algorithm.descents import Plan, Stage
from postgrad.algorithm.sampled_objective import SampledObjective


class Cost(eqx.Module):
    """bowl x^2 / 2 + wells ((x^2 - 1)^2 + 0.3 x), and a little noise.

    The valleys are at -1.035 and 0.960, the worse one 0.6 above the other and 0.72 below the ridge.
    """

    bowl: jax.Array
    wells: jax.Array

    def __call__(self, x, xi):
        return 0.5 * self.bowl * x**2 + self.wells * ((x**2 - 1.0) ** 2 + 0.3 * x) + 1e-3 * x * xi


def noise(x, theta):
    return dist.Normal(theta, 1.0, validate_args=False)


def walk(steps, *, bowl=0.0, wells=0.0, x=0.9, runs=400, horizon=2000):
    cost = Cost(jnp.asarray(bowl), jnp.asarray(wells))
    algorithm = pg.BayesianSGD(pg.Problem(cost, noise, pg.feasible.Box(-3.0, 3.0)), steps=steps)
    return pg.simulate(
        algorithm, pg.beliefs.Known(0.0), x, 0.0, runs=runs, horizon=horizon
    ).decisions


def test_gets_out_of_the_worse_valley():
    """At T = 0.25 the better valley weighs exp(0.6 / 0.25) = 11 times as much."""
    plain = walk(0.03, wells=1.0)
    assert np.all(plain[:, -1] > 0.5)  # where it began
    warm = walk(pg.descents.SGLD(0.03, 0.25), wells=1.0)
    assert np.mean(warm[:, -1] < 0.0) > 0.8
    assert np.mean(warm[:, 20] < 0.0) < 0.2  # it took its time


def test_settles_when_it_cools():
    """T_t = T / t: nothing but the valley's bottom is left, up to a spread of sqrt(T_t / 8.9)."""
    found = walk(pg.descents.SGLD(0.03, 0.25, cooling=1.0), wells=1.0)[:, -1]
    bottom = np.where(found < 0, -1.0353, 0.9602)
    assert np.sqrt(np.mean(np.square(found - bottom))) < 0.01


def test_at_no_temperature_it_is_plain_descent():
    """Bit for bit as each step is written; to rounding where compilers order sums as they like."""
    cost = Cost(jnp.asarray(2.0), jnp.asarray(1.0))
    problem = pg.Problem(cost, noise, pg.feasible.Box(-3.0, 3.0))
    land = SampledObjective(problem, pg.gradients.Pathwise(), pg.risks.Mean(), None, False)
    stage = Stage(
        plan=Plan(number=jnp.asarray(3), key=random.key(1), iterations=1, samples=(1, 1)),
        objective=land,
        thetas=jnp.zeros((1, 1)),
        rows=jnp.ones(()),
        size=jnp.ones(()),
    )
    cold, plain = (
        steps.descend(stage, jnp.asarray(0.1), ())[0]
        for steps in (pg.descents.SGLD(0.3, 0.0), pg.descents.SGD(0.3))
    )
    assert cold == plain
    assert plain != 0.1
    options = {"wells": 1.0, "x": 0.1, "runs": 20, "horizon": 40}
    np.testing.assert_allclose(
        walk(pg.descents.SGLD(0.03, 0.0), **options), walk(0.03, **options), rtol=1e-12
    )


@pytest.mark.parametrize("a", [0.05, 0.4])
def test_stationary_law_of_a_bowl(a):
    """N(0, T / c) up to O(a): of x <- (1 - a c) x + sqrt(2 a T) z it is T / (c (1 - a c / 2))."""
    c, temperature = 2.0, 0.1
    late = walk(pg.descents.SGLD(a, temperature), bowl=c, x=0.0)[:, 200::40]
    exact = temperature / (c * (1 - a * c / 2))
    # 400 runs at 46 times that are hardly correlated: the standard error is about 1 %.
    assert late.var() == pytest.approx(exact, rel=0.045)
    assert abs(late.mean()) < 4.5 * np.sqrt(exact / late.size)


def test_every_iteration_of_a_stage_has_a_push_of_its_own():
    """Two steps a stage: the variance after one stage is that of two pushes, not of one twice."""
    problem = pg.Problem(
        Cost(jnp.asarray(0.0), jnp.asarray(0.0)), noise, pg.feasible.Box(-30.0, 30.0)
    )
    algorithm = pg.BayesianSGD(problem, steps=pg.descents.SGLD(0.5, 1.0), iterations=2)
    moves = pg.simulate(algorithm, pg.beliefs.Known(0.0), 0.0, 0.0, runs=400, horizon=20).decisions
    assert np.diff(moves, axis=1).var() == pytest.approx(2.0, rel=0.08)  # 2 a T each; 4 if one


def test_wrong_numbers_are_refused():
    for temperature, cooling in ((-1.0, 0.0), (1.0, -1.0), (float("nan"), 0.0), ([1.0, 2.0], 0.0)):
        with pytest.raises(errors.StepSizeError):
            pg.descents.SGLD(0.1, temperature, cooling)
    with pytest.raises(errors.StepSizeError):
        pg.descents.SGLD(0.0, 1.0)

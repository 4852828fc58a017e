"""Regimes of a grid that are less likely than one draw in 256, against closed forms."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from rooms import ATTACK

import postgrad as pg
from postgrad.algorithm.sampled_objective import draw_thetas
from postgrad.beliefs.grid.rare_points import Drawn, weights_in_groups, wide_density
from postgrad.numerics.lattice_keys import purpose

PRICE, MEANS = 1e-4, np.array([1.0, 200.0])
# Cover x costs PRICE x, and what a loss exceeds x by is paid. Data tell little about the regime.
COVER = pg.Problem(
    lambda x, loss: PRICE * x + jnp.maximum(loss - x, 0.0),
    lambda x, theta: dist.Exponential(1.0 / theta["mean"], validate_args=False),
    pg.feasible.Box(0.0, 5000.0),
    observation=lambda x, theta: dist.Normal(theta["sign"], 1.0, validate_args=False),
)
REGIMES = {"mean": MEANS, "sign": np.array([0.0, 0.05])}


def averaged(belief, x):
    """E max(L - x, 0) = m exp(-x / m) for an exponential L of mean m."""
    tails = MEANS * np.exp(-np.atleast_1d(x)[:, None] / MEANS)
    return PRICE * np.atleast_1d(x) + tails @ np.asarray(belief.probabilities)


@ATTACK
def test_a_catastrophe_of_one_in_two_thousand():
    """Drawn as often as it is, the regime is missed: four fifths too dear, without a word."""
    agent = pg.Agent(COVER, pg.beliefs.Grid(REGIMES, prior=[0.9995, 0.0005]), x=5.0)
    for signs in np.random.default_rng(0).normal(0.0, 1.0, (6, 1)):
        agent.observe(signs)  # a warning would be an error
        least = averaged(agent.belief, np.linspace(0.0, 5000.0, 100_001)).min()
        assert averaged(agent.belief, float(agent.decision))[0] < 1.01 * least
        assert float(agent.info.course.doubt) == 0.0


@pytest.mark.parametrize("rare", [0.03, 1e-3, 1e-5])
def test_every_group_of_draws_counts_every_regime_as_it_should(rare):
    prior = np.array([0.6, rare, 0.4 - rare])
    belief = pg.beliefs.Grid(np.arange(3.0), prior=prior)

    @eqx.filter_jit
    def draw(key):
        thetas, drawn = draw_thetas(belief.wide(), key, 256)
        return thetas, weights_in_groups(drawn, 8)

    thetas, weights = draw(purpose(pg.BayesianSGD(COVER).key, 3))
    weights = np.asarray(weights).reshape(-1, 8)
    for k in range(3):
        shares = np.mean(np.where(np.asarray(thetas).reshape(-1, 8) == k, weights, 0.0), axis=0)
        np.testing.assert_allclose(shares, prior[k], rtol=1e-6)


def test_points_that_data_exclude_are_not_drawn():
    density = np.asarray(wide_density(jnp.asarray([1.0, 0.0, 1e-80])))
    assert density[1] == 0.0
    assert density[2] < 1e-5


def test_points_that_a_group_draws_by_chance_count_on_average():
    drawn = Drawn(jnp.arange(4), jnp.full(4, 0.25), jnp.asarray([0.1, 0.2, 0.3, 0.4]))
    weights = np.asarray(weights_in_groups(drawn, 2)).reshape(-1, 2)
    np.testing.assert_allclose(np.mean(weights, axis=0), 1.0)


def test_many_points_are_drawn_as_often_as_they_are():
    assert pg.beliefs.Grid(np.arange(30.0)).wide() is None

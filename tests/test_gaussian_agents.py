"""Agents and simulations that learn a price with a Gaussian belief."""

import equinox as eqx
import numpy as np
import pytest
from test_gaussian import bernoulli, flat, linear, spread

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.gaussian.gaussian import Gaussian


def revenue(price, sales):
    return -price * sales


TRUTH = {"base": 10.0, "slope": 2.0}  # the best price is 2.5


def test_agent_learns_a_price():
    problem = pg.Problem(revenue, linear, pg.feasible.Box(0.5, 5.0))
    prior = Gaussian({"base": 8.0, "slope": 1.0}, {"base": 4.0, "slope": 2.0})
    agent = pg.Agent(problem, prior, 1.0, steps=0.02, samples=4)
    assert agent.belief.exact
    rng = np.random.default_rng(0)
    for _ in range(150):
        agent.observe(rng.normal(10.0 - 2.0 * agent.decision, 2.0, 5))
    assert abs(agent.decision - 2.5) < 0.15
    assert np.all(np.abs(flat(agent.belief) - [10.0, 2.0]) < 4 * spread(agent.belief))
    assert np.isfinite(agent.info.log_predictive).all()


def test_agent_refuses_what_no_theta_explains():
    problem = pg.Problem(revenue, bernoulli, pg.feasible.Box(0.5, 5.0))
    agent = pg.Agent(problem, Gaussian({"base": 2.0, "slope": 1.0}, 0.5), 1.0, steps=0.01)
    assert not agent.belief.exact
    agent.observe([0.0, 1.0])
    before = agent.state
    with pytest.raises(errors.SupportError, match="row 1"):
        agent.observe([1.0, -2.0])
    assert eqx.tree_equal(agent.state, before)
    agent.observe([1.0, 1.0])
    assert float(agent.belief.effective_size) == 4.0


@pytest.mark.parametrize(
    ("model", "gradient"),
    [(linear, pg.gradients.MixtureScore()), (bernoulli, pg.gradients.Score())],
)
def test_simulations_run(model, gradient):
    """A price that moves the demand, learned in closed loops."""
    truth = TRUTH if model is linear else {"base": 2.0, "slope": 1.0}
    prior = Gaussian({k: v + 0.5 for k, v in truth.items()}, 1.0)
    algorithm = pg.BayesianSGD(
        pg.Problem(revenue, model, pg.feasible.Box(0.5, 5.0)), gradient, steps=0.01
    )
    result = pg.simulate(
        algorithm,
        prior,
        1.5,
        truth,
        runs=40,
        horizon=100,
        batch_size=5,
        record=lambda state: (state.belief.loc, state.belief.covariance_matrix),
    )
    assert not result.diverged().any()
    mean, covariance = result.record
    off = np.stack([mean[k][:, -1] - truth[k] for k in ("base", "slope")], axis=-1)
    z = off / np.sqrt(np.diagonal(covariance[:, -1], axis1=1, axis2=2))
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6  # as far off as it says

"""Valleys that become the best one between two scans of the whole set, and flat coordinates."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import postgrad as pg


def setup_cost(x, demand):
    """An order of less than two is none; any other has a fixed cost."""
    return 30.0 * (x >= 2.0) + 2.0 * x + 6.0 * jnp.maximum(demand - x, 0.0)


def test_an_order_with_a_fixed_cost_begins_when_demand_has_grown():
    """With four new places a stage, all at random, up to 12 % above the least cost for stages."""
    problem = pg.Problem(
        setup_cost, lambda x, theta: dist.Poisson(theta), pg.feasible.Box(0.0, 100.0)
    )
    shape, rate = 2.0, 0.4
    agent = pg.Agent(problem, pg.beliefs.Gamma(shape, rate), x=0.0)
    draw, counts = np.random.default_rng(3), np.arange(200.0)
    orders = np.append(np.arange(101.0), 2.0 - 1e-6)
    for t in range(1, 32):
        demand = draw.poisson(5.0 if t < 18 else 22.0, 2).astype(float)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pg.monitoring.MisspecificationWarning)  # it did change
            agent.observe(demand)
        shape, rate = shape + demand.sum(), rate + 2.0
        likely = stats.nbinom(shape, rate / (rate + 1.0)).pmf(counts)

        def averaged(x, likely=likely):
            return 30.0 * (x >= 2.0) + 2.0 * x + 6.0 * np.maximum(counts - x[:, None], 0.0) @ likely

        mine = averaged(np.asarray(agent.decision).reshape(1))[0]
        assert t < 5 or mine < 1.05 * averaged(orders).min(), t


def test_prices_of_goods_that_nobody_buys_beside_their_bundle():
    """Neither slope nor curvature in two of three prices, and yet a decision at every stage."""

    def cost(x, worth):
        alone = jnp.sum(jnp.maximum(worth - x[:2], 0.0))
        revenue = jnp.sum(jnp.where(worth > x[:2], x[:2] - 1.0, 0.0))
        surplus = jnp.sum(worth) - x[2]
        return -jnp.where((surplus > alone) & (surplus > 0.0), x[2] - 2.0, revenue)

    problem = pg.Problem(
        cost,
        lambda x, theta: dist.LogNormal(theta, 0.6, validate_args=False).to_event(1),
        pg.feasible.Box(np.zeros(3), np.array([40.0, 40.0, 80.0])),
    )
    belief = pg.beliefs.Normal(np.full(2, 2.0), np.full(2, 0.6))
    agent = pg.Agent(problem, belief, x=np.array([6.0, 6.0, 15.0]))
    for t in range(4):
        agent.observe(np.exp(np.random.default_rng(t).normal(np.log([6.0, 8.0]), 0.6, (2, 2))))
        assert np.all(np.isfinite(agent.decision))

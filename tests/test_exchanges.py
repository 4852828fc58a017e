"""Coordinates that compete, for a budget or for one demand: the next valley is an exchange away."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import postgrad as pg
from postgrad.monitoring.progress_warnings import ConvergenceWarning


def _excesses(agent, batches, least):
    """By how much more each decision from the fifth on costs than is possible."""
    for number, batch in enumerate(batches, start=1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            agent.observe(batch)
        if number >= 5:
            cost, best = least(agent)
            yield (cost(np.asarray(agent.decision)) - best) / abs(best)


@pytest.mark.slow
@pytest.mark.parametrize("start", [0.0, 0.5, 1.0])
def test_suppliers_with_scale_economies_compete_for_one_demand(start):
    """The best is one supplier alone; two that share the demand were 13 to 18 % dearer."""
    rng = np.random.default_rng(3)
    price, power, most = rng.uniform(6, 16, 6), rng.uniform(0.4, 0.7, 6), rng.uniform(30, 90, 6)
    problem = pg.Problem(
        lambda x, xi: jnp.sum(price * (x + 1e-9) ** power) + 12 * jnp.maximum(xi - x.sum(), 0),
        lambda x, theta: dist.Gamma(5.0, theta),
        pg.feasible.Box(np.zeros(6), most),
    )

    def least(agent):
        rng = np.random.default_rng(0)
        rate = rng.gamma(agent.belief.concentration, 1 / agent.belief.rate, 100_000)
        demand = rng.gamma(5, 1 / rate)

        def cost(x):
            short = np.maximum(demand - x.sum(), 0).mean()
            return float(np.sum(price * (x + 1e-9) ** power) + 12 * short)

        alone = (np.eye(6)[i] * x for i in range(6) for x in np.linspace(0, most[i], 40))
        return cost, min(map(cost, alone))

    agent = pg.Agent(problem, pg.beliefs.Gamma(5.0, 60.0), x=start * most)
    rng = np.random.default_rng(7)
    batches = rng.gamma(5, 1 / rng.uniform(0.04, 0.12), 15)
    assert max(_excesses(agent, batches, least)) < 0.02


@pytest.mark.slow
def test_set_up_costs_of_items_that_share_a_budget():
    """Against the best of all sets of items, each of which shares the budget at its best."""
    rng = np.random.default_rng(2)
    mean, price = rng.uniform(10, 40, 6), rng.uniform(3.5, 9, 6)
    setup = rng.uniform(0.2, 0.7, 6) * (price - 2) * mean * 0.8
    total = 0.4 * mean.sum()

    def cost(x, xi):
        fixed = setup * (1 - jnp.exp(-x / 4))
        return jnp.sum(2 * x - price * jnp.minimum(x, xi) + fixed)

    problem = pg.Problem(
        cost,
        lambda x, theta: dist.Normal(theta * mean, 0.3 * mean).to_event(1),
        pg.feasible.Budget(0.0, total, np.ones(6), total),
    )
    levels = np.linspace(0.6, 1.4, 41)
    orders = np.linspace(0, total, 401)

    def least(agent):
        chances = np.asarray(agent.belief.probabilities)
        z = (orders[:, None, None] - levels * mean[:, None]) / (0.3 * mean[:, None])
        sold = orders[:, None, None] - 0.3 * mean[:, None] * (
            z * stats.norm.cdf(z) + stats.norm.pdf(z)
        )
        fixed = setup * (1 - np.exp(-orders[:, None] / 4))
        each = 2 * orders[:, None] - price * (sold @ chances) + fixed  # (order, item)

        def averaged(x):
            return float(sum(np.interp(x[i], orders, each[:, i]) for i in range(6)))

        best = np.zeros(len(orders))  # with so much spent on the items so far
        for column in each.T:
            best = np.array([np.min(best[k::-1] + column[: k + 1]) for k in range(len(orders))])
        return averaged, best.min()

    agent = pg.Agent(problem, pg.beliefs.Grid(levels), x=np.full(6, total / 6))
    rng = np.random.default_rng(7)
    batches = [rng.normal(mean, 0.3 * mean)[None] for _ in range(12)]
    assert max(_excesses(agent, batches, least)) < 0.02

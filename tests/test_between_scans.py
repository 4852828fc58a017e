"""Valleys that become the best one between two scans of the whole set, and flat coordinates."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from rooms import ATTACK
from scipy import stats

import postgrad as pg


def setup_cost(x, demand):
    """An order of less than two is none; any other has a fixed cost."""
    return 30.0 * (x >= 2.0) + 2.0 * x + 6.0 * jnp.maximum(demand - x, 0.0)


@ATTACK
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


@ATTACK
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


@ATTACK
def test_channels_that_earn_little_unless_they_get_much():
    """Channels that get nothing have no curvature: without a least one, a step was not finite."""
    count, budget, places = 5, 10.0, np.linspace(0.0, 10.0, 201)
    draw = np.random.default_rng(5)
    power, half = draw.uniform(2, 5, count), draw.uniform(1.5, 5, count)
    worth = draw.uniform(5, 15, count)

    def returns(x, power=power, half=half):
        return x**power / (x**power + half**power)

    problem = pg.Problem(
        lambda x, y: -jnp.sum(y),
        lambda x, theta: dist.Normal(theta * returns(jnp.maximum(x, 1e-9)), 2.0).to_event(1),
        pg.feasible.Simplex(budget),
    )

    def most(mean):
        """By dynamic programming, channel by channel."""
        best = np.full(places.size, -np.inf)
        best[0] = 0.0
        for i in range(count):
            own = mean[i] * returns(places, power[i], half[i])
            best = np.array(
                [np.max(own[: j + 1] + best[j::-1][: j + 1]) for j in range(places.size)]
            )
        return best[-1]

    draw = np.random.default_rng(1)
    truth = worth + 4.0 * draw.normal(size=count)
    agent = pg.Agent(problem, pg.beliefs.Gaussian(worth, 4.0), x=np.full(count, 2.0), seed=1)
    for t in range(1, 24):
        agent.observe([truth * returns(agent.decision) + 2.0 * draw.normal(size=count)])
        mean = np.asarray(agent.belief.mean())
        mine = np.sum(mean * returns(np.asarray(agent.decision)))
        assert t < 5 or mine > 0.95 * most(mean), t

"""Whole-number decisions equal exhaustive search under the exact posterior."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import postgrad as pg
from postgrad.problem.feasible import Box, Budget, Integers, Lots, MinimumOrder, Product

NOISE = 4e-3  # of the least cost: points that cost so little more are ties
RATES = np.linspace(0.5, 60.0, 120)
DEMANDS = np.arange(300.0)


class Waves(eqx.Module):
    """A newsvendor with a cost of ordering at all, and with a wave that makes many valleys."""

    underage: jax.Array
    overage: jax.Array
    setup: jax.Array
    wave: jax.Array

    def __call__(self, x, xi):
        plain = self.underage * jnp.maximum(xi - x, 0) + self.overage * jnp.maximum(x - xi, 0)
        return plain + jnp.where(x > 0, self.setup, 0.0) + self.wave * jnp.cos(1.3 * x)


def waves(*numbers):
    return Waves(*(jnp.asarray(float(number)) for number in numbers))


def poisson(x, theta):
    return dist.Poisson(theta)


def negative_binomial(x, theta):
    return dist.NegativeBinomial2(theta, 4.0)


LAWS = {
    poisson: lambda y, theta: stats.poisson.logpmf(y, theta),
    negative_binomial: lambda y, theta: stats.nbinom.logpmf(y, 4, 4 / (4 + theta)),
}
COSTS = [(4, 1, 0, 0), (40, 1, 0, 0), (1, 3, 0, 0), (3, 1, 6, 0), (4, 1, 0, 3), (9, 1, 2, 6)]
# The lot size, the minimum order (0: none) and the largest order.
ALLOWED = [(1, 0, 120), (6, 0, 500), (3, 10, 120), (1, 14, 60)]


def predictive(law, data):
    """The exact probability of each demand, by summation over the grid."""
    log_weight = law(data[:, None], RATES).sum(axis=0)
    weight = np.exp(log_weight - log_weight.max())
    return np.exp(law(DEMANDS[:, None], RATES)) @ (weight / weight.sum())


@pytest.mark.sample(4, of="planners")
@pytest.mark.parametrize(
    "model", [poisson, pytest.param(negative_binomial, marks=pytest.mark.slow)]
)
def test_a_number_equals_exhaustive_search(model):
    """All costs and sets differ in numbers only, and so share one compiled program."""
    moved = 0
    for seed, (cost, (lot, minimum, most)) in enumerate(itertools.product(COSTS, ALLOWED)):
        rng = np.random.default_rng(seed)
        cost, rate = waves(*cost), rng.choice([3.0, 9.0, 24.0, 40.0])
        feasible = MinimumOrder(Lots(Box(0.0, float(most)), lot), minimum)
        problem = pg.Problem(cost, model, feasible)
        agent = pg.Agent(problem, pg.beliefs.Grid(jnp.asarray(RATES)), x=0.0)
        points = np.arange(0.0, most + 0.5, lot)
        points = points[(points == 0) | (points >= minimum)]
        seen = np.zeros(0)
        for _ in range(2):
            batch = rng.poisson(rate, 4).astype(float)
            seen = np.concatenate([seen, batch])
            decision = float(agent.observe(batch))
            chance = predictive(LAWS[model], seen)
            costs = chance @ np.asarray(cost(points, DEMANDS[:, None]))
            (here,) = np.flatnonzero(points == decision)
            assert costs[here] <= costs.min() * (1 + NOISE)
            moved += decision != feasible.project(agent._now.state.x)
        low, high = agent.interval
        assert {float(low), float(high)} <= set(points.tolist())
        assert agent.info.course.local_only == 0.0
    assert moved > 5  # rounding would not do


class Shop(eqx.Module):
    """Newsvendors, and a cost of all orders together: items interact where it is not zero."""

    underage: jax.Array
    crowd: jax.Array

    def __call__(self, x, xi):
        each = self.underage * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0)
        return jnp.sum(each) + self.crowd * jnp.sum(x) ** 2


def several(x, theta):
    return dist.Poisson(theta).to_event(1)


def expected(shop, points, shape, rate):
    """The exact expected cost at some points, for demands that are gamma-Poisson by item."""
    demand = stats.nbinom(shape, rate / (rate + 1.0))
    chance = demand.pmf(DEMANDS[:, None])
    total = shop.crowd * points.sum(axis=1) ** 2
    for i, underage in enumerate(np.asarray(shop.underage)):
        values = np.arange(points[:, i].max() + 1.0)[:, None]
        short, left = np.maximum(DEMANDS - values, 0), np.maximum(values - DEMANDS, 0)
        total = total + ((underage * short + left) @ chance[:, i])[points[:, i].astype(int)]
    return np.asarray(total)


def orders(feasible, x, shop, batches, shape=4.0, rate=0.4):
    """An agent's last order, and the posterior's numbers."""
    items = len(x)
    belief = pg.beliefs.Gamma(jnp.full(items, shape), jnp.full(items, rate))
    agent = pg.Agent(pg.Problem(shop, several, feasible), belief, x=np.asarray(x))
    for batch in batches:
        agent.observe(batch)
    data = np.concatenate(batches)
    return agent, shape + data.sum(axis=0), rate + float(len(data))


def combinations(feasible, most):
    weights, totals = (np.asarray(each) for each in feasible.budgets(len(most)))
    step, least = (np.broadcast_to(np.asarray(each), len(most)) for each in feasible.values()[2:4])
    each = [np.arange(0, high + 1, lot) for high, lot in zip(most, step, strict=True)]
    each = [values[(values == 0) | (values >= m)] for values, m in zip(each, least, strict=True)]
    points = np.asarray(list(itertools.product(*each)), float)
    return points[np.all(points @ weights.T <= totals + 1e-9, axis=1)]


@pytest.mark.sample(4, of="planners")
@pytest.mark.parametrize("crowd", [0.03, pytest.param(0.0, marks=pytest.mark.slow)])
def test_items_with_a_budget_are_within_a_hundredth_of_exhaustive_search(crowd):
    shop = Shop(jnp.asarray([5.0, 3.0, 8.0]), jnp.asarray(crowd))
    sets = [
        Budget(0.0, 30.0, [1.0, 1.0, 1.0], 24.0),
        Budget(0.0, 30.0, [1.0, 2.0, 1.5], 40.0),
    ]
    lots = [([1, 1, 1], [0.0] * 3), ([2, 3, 1], [0.0] * 3), ([1, 2, 1], [8.0, 0.0, 6.0])]
    exact = 0
    for number, (budget, (lot, least)) in enumerate(itertools.product(sets, lots)):
        feasible = MinimumOrder(Lots(budget, lot), least)
        rng = np.random.default_rng(number)
        batches = [rng.poisson([9, 7, 12], (4, 3)).astype(float) for _ in range(2)]
        agent, shape, rate = orders(feasible, [0.0] * 3, shop, batches)
        points = combinations(feasible, [30, 30, 30])
        costs = expected(shop, points, shape, rate)
        (here,) = np.flatnonzero(np.all(points == agent.decision, axis=1))
        assert costs[here] <= costs.min() * 1.01
        local = agent.info.course.local_only
        if local == 0.0:
            assert costs[here] <= costs.min() * (1 + NOISE)
        exact += local == 0.0
    # Only where items add up, and a lot of each takes as much of the budget.
    assert exact == (1 if crowd == 0.0 else 0)


@pytest.mark.slow
def test_fifty_items_with_a_budget_are_solved_exactly():
    rng = np.random.default_rng(0)
    rates, underage = rng.uniform(2.0, 30.0, 50), rng.uniform(2.0, 20.0, 50)
    total = float(int(0.9 * rates.sum()))
    shop = Shop(jnp.asarray(underage), jnp.asarray(0.0))
    feasible = Integers(Budget(0.0, 100.0, np.ones(50), total))
    batches = [rng.poisson(rates, (5, 50)).astype(float) for _ in range(3)]
    agent, shape, rate = orders(feasible, np.zeros(50), shop, batches)
    # Marginal allocation: the unit that saves most, again and again, by exact expected savings.
    units = np.arange(100.0)[:, None]
    saved = underage - (underage + 1.0) * stats.nbinom(shape, rate / (rate + 1.0)).cdf(units)
    worth = np.sort(saved.ravel())[::-1][: int(total)]
    best = np.sum(saved >= max(worth[-1], 0.0), axis=0).astype(float)
    assert best.sum() <= total
    least, found = expected(shop, np.stack([best, agent.decision]), shape, rate)
    assert np.sum(agent.decision) <= total
    assert found <= least * (1 + NOISE)
    assert np.max(np.abs(agent.decision - best)) <= 1.0


@pytest.mark.slow
def test_a_continuous_coordinate_follows_the_whole_one():
    """The price of a whole number of seats: price and seats interact."""

    def cost(x, xi):
        return 4.0 * jnp.maximum(xi - x[0], 0) + jnp.maximum(x[0] - xi, 0) + (x[1] - x[0] / 9) ** 2

    def model(x, theta):
        return dist.Poisson(theta)

    feasible = Product((Lots(Box(0.0, 60.0), 6), Box(0.0, 9.0)), (1, 1))
    agent = pg.Agent(pg.Problem(cost, model, feasible), pg.beliefs.Gamma(4.0, 0.4), x=np.zeros(2))
    for batch in np.random.default_rng(0).poisson(10.0, (3, 5)).astype(float):
        seats, price = agent.observe(batch)
        assert seats % 6 == 0
        assert price == pytest.approx(seats / 9, abs=0.02)
        assert abs(agent._now.state.x[0] - seats) > 0.05


def told_by(x, theta):
    return dist.Normal(theta * x, 1.0)


def test_data_are_learned_under_the_whole_decision():
    """By steps, which are rounded; in an agent, a backtest and a simulation alike."""

    def cost(x, xi):
        return (xi - 7.3) ** 2

    options, grid = {"steps": 0.02, "seed": 3}, np.linspace(0.5, 2.0, 31)
    problem, belief = pg.Problem(cost, told_by, Lots(Box(2.0, 40.0), 2)), pg.beliefs.Grid(grid)
    agent = pg.Agent(problem, belief, x=20.0, **options)
    log_weight, relaxed, decided, rows = np.zeros(31), [], [], []
    for noise in np.random.default_rng(1).normal(0.0, 1.0, 12):
        x = float(agent.decision)
        row = 1.3 * x + noise
        rows.append(row)
        log_weight += stats.norm.logpdf(row, grid * x, 1.0)
        relaxed.append(float(agent._now.state.x))
        decided.append(x)
        agent.observe([row])
    weight = np.exp(log_weight - log_weight.max())
    assert np.isclose(agent.belief.mean(), weight @ grid / weight.sum(), atol=1e-9)
    assert len(set(decided)) > 2
    assert set(np.asarray(decided) % 2) == {0.0}
    assert np.array_equal(decided, 2 * np.round(np.asarray(relaxed) / 2))
    assert np.max(np.abs(np.asarray(relaxed) - decided)) > 0.1  # the descent's own x is not whole
    assert agent.replay().identical
    walk = pg.backtest(problem, belief, 20.0, rows, rules=[], in_force=decided, **options)
    assert np.array_equal(walk.decisions["postgrad"][:, 0], decided)
    policy = pg.BayesianSGD(problem, **options)
    runs = pg.simulate(
        policy, belief, 6.0, 1.3, runs=2, horizon=8, record=lambda state: (state.x, state.decision)
    )
    assert set(np.ravel(runs.decisions) % 2) == {0.0}


@pytest.mark.sample(4, of="planners")
def test_the_search_decides_the_same_in_all_drivers():
    rows = np.random.default_rng(5).poisson(24.0, (5, 1)).astype(float)
    problem = pg.Problem(waves(4, 1, 0, 3), poisson, MinimumOrder(Lots(Box(0.0, 120.0), 3), 10))
    belief = pg.beliefs.Grid(jnp.asarray(RATES))
    agent = pg.Agent(problem, belief, x=0.0)
    decided = [float(agent.decision)] + [float(agent.observe(row)) for row in rows]
    walk = pg.backtest(problem, belief, 0.0, rows[:, 0], rules=[])
    assert np.array_equal(walk.decisions["postgrad"][:, 0], decided[:-1])
    assert agent.replay().identical

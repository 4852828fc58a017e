"""Assumptions about cost and model are tried where they are used, and given up where they fail."""

import warnings

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import optimize

import postgrad as pg
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights
from postgrad.beliefs.sufficient_totals import SufficientTotals

CORRELATED = np.full((3, 3), 0.95) + 0.05 * np.eye(3)
FACTOR = 20.0 * jnp.asarray(np.linalg.cholesky(CORRELATED))
MEANS = np.asarray([100.0, 100.0, 100.0])


def branches(x, theta):
    return dist.MultivariateNormal(theta, scale_tril=FACTOR, validate_args=False)


def branch_cost(x, demand):
    """Stock is dear; a shortage is made up for, but not one of all branches together."""
    short = jnp.maximum(demand - x, 0.0)
    emergency = jnp.maximum(jnp.sum(short) - 25.0, 0.0)
    return jnp.sum(0.5 * jnp.maximum(x - demand, 0.0) + 0.6 * short) + 3.0 * emergency


def excess(cost, draws, x):
    """What x costs above the best decision on draws from the truth, relative to that."""

    def expected(x):
        return float(np.mean([cost(x, draws)]))

    best = min(
        optimize.minimize(expected, start, method="Nelder-Mead", options={"maxiter": 2000}).fun
        for start in (np.asarray(x), np.asarray(x) * 0.8, np.asarray(x) * 1.2)
    )
    return expected(np.asarray(x)) / best - 1.0


def all_branch_costs(x, demand):
    short = np.maximum(demand - x, 0.0)
    each = 0.5 * np.maximum(x - demand, 0.0) + 0.6 * short
    return each.sum(axis=1) + 3.0 * np.maximum(short.sum(axis=1) - 25.0, 0.0)


@pytest.mark.slow
def test_three_branches_with_an_emergency_that_sets_in_elsewhere():
    rng = np.random.default_rng(0)
    factor = np.asarray(FACTOR)
    # So much stock at first that no shortage is seen near it.
    problem = pg.Problem(branch_cost, branches, pg.feasible.Box(0.0, 400.0))
    belief = pg.beliefs.Gaussian(MEANS, 10.0)
    agent = pg.Agent(problem, belief, x=np.full(3, 350.0))
    for _ in range(5):
        agent.observe(MEANS + rng.normal(size=(40, 3)) @ factor.T)
    draws = MEANS + rng.normal(size=(20_000, 3)) @ factor.T
    assert not agent.state.only_marginals
    assert excess(all_branch_costs, draws, agent.decision) < 0.02


def demand(x, theta):
    """Customers do not mind the price up to 20."""
    mean = theta["size"] - theta["slope"] * jnp.maximum(x - 20.0, 0.0)
    return dist.Normal(mean, 2.0, validate_args=False)


def loss(x, sold):
    return -(x - 5.0) * sold


SIZE, SLOPE = 60.0, 2.4
BEST = 25.0  # of (x - 5) (size - slope (x - 20))


def grid():
    levels = pg.beliefs.product_grid(
        {"size": jnp.linspace(50.0, 70.0, 81), "slope": jnp.linspace(0.5, 4.5, 61)}
    )
    return pg.beliefs.Grid(levels)


def particles():
    prior = {"size": dist.Normal(60.0, 5.0), "slope": dist.Uniform(0.5, 4.5)}
    return pg.beliefs.Particles(prior, count=256)


# All tests with bounds share the programs of this problem.
SHOP = pg.Problem(loss, demand, pg.feasible.Box(0.0, 40.0))
UNBOUNDED = pg.Problem(loss, demand, pg.feasible.Box(0.0, jnp.inf))


def in_the_shop(belief, problem, stages=12):
    rng = np.random.default_rng(1)
    agent = pg.Agent(problem, belief, x=5.0)
    for _ in range(stages):
        x = float(agent.decision)
        mean = SIZE - SLOPE * max(x - 20.0, 0.0)
        agent.observe(mean + 2.0 * rng.normal(size=10))
    return agent


def profit(x):
    return (x - 5.0) * (SIZE - SLOPE * max(x - 20.0, 0.0))


@pytest.mark.parametrize("problem", [SHOP, UNBOUNDED], ids=["bounded", "unbounded"])
@pytest.mark.parametrize("belief", [grid, particles])
def test_price_effect_above_20_only(belief, problem):
    agent = in_the_shop(belief(), problem)
    assert profit(float(agent.decision)) > 0.98 * profit(BEST)
    if isinstance(agent.belief, pg.beliefs.Grid):
        assert not isinstance(agent.belief.weights, SufficientWeights)
    else:
        assert not isinstance(agent.belief.kept, SufficientTotals)


@pytest.fixture
def planted(monkeypatch):
    """At first, assumptions are tried near x_1 only; there they hold."""
    monkeypatch.setattr("postgrad.problem.problem._all_over", lambda feasible, x: x[None])


# Plain steps, which soon lead beyond 20 and compile faster than the default's search.
PLAIN = {"steps": 0.2, "samples": 64}
either = pytest.mark.parametrize(
    "options", [PLAIN, pytest.param({}, marks=pytest.mark.slow)], ids=["plain", "default"]
)


def sold(x, rng):
    return SIZE - SLOPE * max(float(x) - 20.0, 0.0) + 2.0 * rng.normal(size=10)


@pytest.mark.sample(1)
@pytest.mark.parametrize("belief", [grid, particles])
def test_agent_learns_again_from_its_batches(belief, planted, tmp_path):
    def opened():
        return pg.Agent(SHOP, belief(), x=5.0, path=tmp_path / "shop.db")

    rng, warned, met = np.random.default_rng(1), [], []
    agent = opened()
    for _ in range(12):
        met.append(agent.decision)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            agent.observe(sold(agent.decision, rng))
        warned += [str(entry.message) for entry in caught]
    assert len(warned) == 1
    assert "statistics" in warned[0]
    assert profit(float(agent.decision)) > 0.98 * profit(BEST)
    # What was issued stays, and all can be computed again, to the last bit.
    assert [record.x for record in agent.history()] == met
    assert agent.replay().identical
    decision = agent.decision
    agent.close()
    agent = opened()
    assert agent.decision == decision
    assert agent.replay().identical
    next_batch = sold(decision, rng)
    assert np.isfinite(agent.observe(next_batch))
    assert agent.rollback(12) == decision
    if belief is grid:  # the same as if statistics had never been used
        small = pg.beliefs.Grid(agent.belief.points, forget=1.0)
        plain = pg.Agent(SHOP, small, x=5.0)
        for record in agent.history():
            plain.observe(record.rows, x=record.x)
        np.testing.assert_allclose(
            agent.belief.probabilities, plain.belief.probabilities, atol=1e-12
        )


def test_stages_before_the_failure_are_still_there(planted):
    rng = np.random.default_rng(1)
    agent = pg.Agent(SHOP, grid(), x=5.0)
    with pytest.warns(pg.monitoring.AssumptionWarning):
        decisions = [agent.observe(sold(agent.decision, rng)) for _ in range(6)]
    assert str(agent.explain())
    for stage in (5, 3, 1):
        assert agent.rollback(stage) == decisions[stage - 1]
        assert agent.replay().identical


@pytest.mark.slow
def test_cost_that_does_not_add_where_the_decision_comes_to(planted):
    rng, factor = np.random.default_rng(0), np.asarray(FACTOR)
    problem = pg.Problem(branch_cost, branches, pg.feasible.Box(0.0, 4000.0))
    belief, x = pg.beliefs.Gaussian(MEANS, 10.0), np.full(3, 3000.0)
    batches = [MEANS + rng.normal(size=(40, 3)) @ factor.T for _ in range(4)]
    agent = pg.Agent(problem, belief, x=x)
    with pytest.warns(pg.monitoring.AssumptionWarning, match="adds over"):
        _ = [agent.observe(batch) for batch in batches]
    assert not agent.state.only_marginals
    assert agent.replay().identical
    draws = MEANS + rng.normal(size=(20_000, 3)) @ factor.T
    assert excess(all_branch_costs, draws, agent.decision) < 0.02


@pytest.mark.slow
def test_simulation_starts_again(planted):
    truth = {"size": SIZE, "slope": SLOPE}
    options = {"runs": 4, "horizon": 12, "batch_size": 10}
    with pytest.warns(pg.monitoring.AssumptionWarning, match="statistics"):
        found = pg.simulate(pg.BayesianSGD(SHOP), grid(), 5.0, truth, **options)
    small = pg.beliefs.Grid(grid().points, forget=1.0)  # which never uses statistics
    plain = pg.simulate(pg.BayesianSGD(SHOP), small, 5.0, truth, **options)
    np.testing.assert_allclose(found.decisions, plain.decisions, rtol=1e-6)


@either
def test_backtest_starts_again(planted, options):
    rng, prices = np.random.default_rng(2), np.linspace(5.0, 30.0, 20)
    demands = [float(sold(price, rng)[0]) for price in prices]

    def decisions(belief):
        tested = pg.backtest(SHOP, belief, 5.0, demands, in_force=prices, **options)
        return tested.decisions["postgrad"]

    with pytest.warns(pg.monitoring.AssumptionWarning, match="statistics"):
        found = decisions(grid())
    plain = decisions(pg.beliefs.Grid(grid().points, forget=1.0))
    np.testing.assert_allclose(found, plain, rtol=1e-6)


@either
def test_where_assumptions_hold_nothing_is_said(options):
    def shifted(x, theta):
        return dist.Normal(theta["size"] - 0.5 * jnp.maximum(x - 20.0, 0.0), 2.0)

    problem = pg.Problem(loss, shifted, pg.feasible.Box(0.0, jnp.inf))
    rng = np.random.default_rng(1)
    for belief, x in ((grid(), 5.0), (particles(), 5.0)):
        agent = pg.Agent(problem, belief, x=x, **options)
        for _ in range(4):
            mean = 60.0 - 0.5 * max(float(agent.decision) - 20.0, 0.0)
            agent.observe(mean + 2.0 * rng.normal(size=9))
        kept = agent.belief.weights if isinstance(belief, pg.beliefs.Grid) else agent.belief.kept
        assert isinstance(kept, SufficientWeights | SufficientTotals)

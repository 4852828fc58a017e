"""Backtests: nothing is known before its time, and a decide is the live run."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import polars
import pytest
from scipy import stats
from scipy.optimize import linprog

import postgrad as pg
from postgrad import errors
from postgrad.research.problems.newsvendor import Mismatch
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.rules_of_thumb import RuleBacktest, normal, saa


def demand(x, theta):
    return dist.Normal(theta, 2.0)


def shown(x, theta):  # stock on show sells stock
    return dist.Normal(theta + 0.1 * x, 2.0)


def problem(underage, overage, model=demand, feasible=None):
    box = pg.feasible.Box(0.0, 50.0) if feasible is None else feasible
    return pg.Problem(Mismatch(jnp.asarray(underage), jnp.asarray(overage)), model, box)


# The paper's descent compiles in a moment, and the decide does not care.
PAPER = pg.presets.paper()
PRIOR = pg.beliefs.Normal(10.0, 5.0)
ITEMS = [problem(4.0, 1.0), problem(1.0, 3.0)]
DAYS = 12
DEMAND = np.random.default_rng(0).normal([10.0, 14.0], 2.0, (DAYS, 2))


def live(index, rows, x=5.0, decisions=None):
    """The decisions before each row, of an agent that is given the rows."""
    agent = pg.Agent(ITEMS[index], PRIOR, x, **PAPER)
    found = [agent.decision]
    for row in rows:
        agent.observe([row])
        found.append(agent.decision)
    return np.asarray(found)


def decide(table=DEMAND, problems=ITEMS, x=5.0, **options):
    return pg.backtest(problems, PRIOR, x, table, **PAPER, **options)


def test_a_walk_is_the_live_run():
    result = decide()
    for i in range(2):
        np.testing.assert_allclose(
            result.decisions["postgrad"][:, i], live(i, DEMAND[:-1, i]), rtol=1e-10
        )


def test_the_rows_of_a_day_are_one_batch():
    """Days of the first item have one row or two, or none; those of the second have one."""
    table = np.stack([DEMAND, np.full_like(DEMAND, np.nan)], axis=2)[:4]
    table[1, 0, 1], table[2, 0] = 12.0, np.nan
    result = decide(table, rules=["last-value"])
    agent = pg.Agent(ITEMS[0], PRIOR, 5.0, **PAPER)
    expected = [agent.decision, agent.observe(DEMAND[:1, 0]), agent.observe([DEMAND[1, 0], 12.0])]
    expected.append(agent.decision)  # nothing was learned on the third day
    np.testing.assert_allclose(result.decisions["postgrad"][:, 0], expected, rtol=1e-10)
    np.testing.assert_allclose(
        result.decisions["postgrad"][:, 1], live(1, DEMAND[:3, 1]), rtol=1e-10
    )
    assert result.decisions["last-value"][2, 0] == 12.0
    order = expected[1]
    both = sum(4.0 * max(d - order, 0.0) + max(order - d, 0.0) for d in (DEMAND[1, 0], 12.0))
    assert result.costs["postgrad"][1, 0] == pytest.approx(both)
    assert result.costs["postgrad"][2, 0] == 0.0
    assert result.demand[1, 0] == pytest.approx((DEMAND[1, 0] + 12.0) / 2)


def test_each_item_has_its_own_start():
    np.testing.assert_array_equal(decide(x=[5.0, 7.0]).decisions["postgrad"][0], [5.0, 7.0])


@pytest.mark.parametrize("delay", [1, 3])
def test_what_is_delayed_is_not_known(delay):
    result = decide(delay=delay)
    expected = live(0, DEMAND[: -1 - delay, 0])
    decided = result.decisions["postgrad"][:, 0]
    np.testing.assert_allclose(decided[delay:], expected, rtol=1e-10)
    assert (decided[: delay + 1] == 5.0).all()
    late = decide(delay=delay, burn_in=delay + 1, rules=["last-value"])
    np.testing.assert_array_equal(
        late.decisions["last-value"][delay + 1 :], np.clip(DEMAND[: -1 - delay], 0.0, 50.0)
    )


def test_the_future_changes_nothing():
    other = DEMAND.copy()
    other[7:] += 5.0
    one, two = decide(burn_in=2), decide(other, burn_in=2)
    for name in ("postgrad", "saa", "normal", "last-value"):
        np.testing.assert_array_equal(one.decisions[name][2:8], two.decisions[name][2:8])
        assert (one.decisions[name][8:] != two.decisions[name][8:]).any()


def test_days_without_demand_are_days_without_news():
    table = DEMAND.copy()
    table[4, 0] = np.nan
    result = decide(table, burn_in=1)
    expected = live(0, np.delete(DEMAND[:, 0], 4)[:-1])
    np.testing.assert_allclose(
        np.delete(result.decisions["postgrad"][:, 0], 4), expected, rtol=1e-10
    )
    assert result.decisions["saa"][5, 0] == result.decisions["saa"][4, 0]
    assert all(costs[4, 0] == 0.0 for costs in result.costs.values())
    assert np.isfinite(list(result.total.values())).all()


def test_each_group_learns_from_its_own_days():
    group = ["odd" if day % 2 else "even" for day in range(DAYS)]
    result = decide(split_by=group, burn_in=2)
    odd = live(0, DEMAND[1::2, 0][:-1])
    np.testing.assert_allclose(result.decisions["postgrad"][1::2, 0], odd, rtol=1e-10)
    np.testing.assert_array_equal(
        result.decisions["last-value"][2:], np.clip(DEMAND[:-2], 0.0, 50.0)
    )
    assert len(np.unique(result.decisions["hindsight"][2:, 0])) == 2


def test_items_with_one_budget_are_decided_together():
    both = problem(
        [4.0, 1.0], [1.0, 3.0], pg.Items(demand), pg.feasible.Budget(0.0, 50.0, [1.0, 1.0], 18.0)
    )
    result = pg.backtest(
        both, pg.beliefs.Separate(PRIOR, 2), [5.0, 5.0], DEMAND, burn_in=2, **PAPER
    )
    for name in ("postgrad", "saa", "normal", "last-value", "hindsight"):
        assert (result.decisions[name][2:].sum(axis=1) <= 18.0 + 1e-9).all(), name
    assert result.by_item.keys() == {"item 1", "item 2"}
    assert sum(costs["saa"] for costs in result.by_item.values()) == pytest.approx(
        result.total["saa"]
    )


@pytest.mark.parametrize("bounds", [(0.0, 50.0), (2.0, 9.0)])
def test_orders_with_a_budget_solve_the_linear_programme(bounds):
    rng = np.random.default_rng(1)
    past = rng.integers(0, 30, (25, 3)).astype(float)
    b, h, price = np.asarray([4.0, 2.0, 5.0]), np.asarray([1.0, 2.0, 3.0]), np.asarray([1, 2, 0.5])
    both = problem(b, h, pg.Items(demand), pg.feasible.Budget(*bounds, price, 30.0))
    orders = saa(list(past.T), both.cost, both.feasible)
    assert price @ orders <= 30.0 + 1e-9
    # Variables: the orders, then shortage and surplus of each day and item.
    n, d = past.size, 3
    weights = np.concatenate([np.zeros(d), np.tile(b, 25), np.tile(h, 25)])
    balance = np.hstack([np.tile(np.eye(d), (25, 1)), np.eye(n), -np.eye(n)])
    exact = linprog(
        weights,
        A_ub=np.concatenate([price, np.zeros(2 * n)])[None],
        b_ub=[30.0],
        A_eq=balance,
        b_eq=past.ravel(),
        bounds=[bounds] * d + [(0.0, None)] * (2 * n),
    ).fun
    cost = np.where(past > orders, b * (past - orders), h * (orders - past)).sum()
    assert cost == pytest.approx(exact, rel=1e-9)


def test_normal_orders_are_quantiles_and_share_a_budget():
    b, h, price = np.asarray([4.0, 1.0]), np.asarray([1.0, 3.0]), np.asarray([1.0, 2.0])
    cost = Mismatch(b, h)
    mean, spread = DEMAND.mean(axis=0), DEMAND.std(axis=0)
    orders = normal(list(DEMAND.T), cost, pg.feasible.Box(0.0, 50.0))
    np.testing.assert_allclose(orders, stats.norm.ppf(b / (b + h), mean, spread))
    orders = normal(list(DEMAND.T), cost, pg.feasible.Budget(0.0, 50.0, price, 30.0))
    assert price @ orders == pytest.approx(30.0)
    saved = (b - (b + h) * stats.norm.cdf(orders, mean, spread)) / price
    assert saved[0] == pytest.approx(saved[1], rel=1e-6)  # a unit of budget, wherever it is spent


def test_a_window_is_of_the_last_demands_known():
    thumb = RuleBacktest(
        DemandTable(DEMAND, delay=1),
        start=np.full(2, 5.0),
        costs=[item.cost for item in ITEMS],
        feasible=[item.feasible for item in ITEMS],
    )
    low, high = np.sort(DEMAND[6:9], axis=0)[[0, 2]]  # of day 10: its yesterday is not yet known
    np.testing.assert_allclose(thumb.orders("saa-3", 10)[10], [high[0], low[1]])
    np.testing.assert_allclose(thumb.orders("last-value-2", 10)[10], DEMAND[8])


def test_data_that_answer_to_decisions_need_those_in_force():
    stocked = problem(4.0, 1.0, shown)
    with pytest.raises(errors.SettingError, match="in_force"):
        pg.backtest(stocked, PRIOR, 5.0, DEMAND[:, 0], **PAPER)
    stock = np.full((DAYS, 1), 8.0)
    result = pg.backtest(stocked, PRIOR, 5.0, DEMAND[:, 0], in_force=stock, **PAPER)
    assert result.counterfactual
    assert "not what other decisions would have cost" in str(result)
    assert not decide().counterfactual
    assert "would have cost" not in str(decide())
    agent = pg.Agent(stocked, PRIOR, 5.0, **PAPER)
    for row in DEMAND[:-1, 0]:
        agent.observe([row], x=8.0)
    assert result.decisions["postgrad"][-1, 0] == pytest.approx(float(agent.decision), rel=1e-10)
    stock[3] = np.nan  # a decision that is not known is not zero
    with pytest.raises(errors.BatchError, match="of day 3, item 0, arose, got nan"):
        pg.backtest(stocked, PRIOR, 5.0, DEMAND[:, 0], in_force=stock, **PAPER)
    table = DEMAND[:, :1].copy()
    table[3] = np.nan  # nor is it needed where there is no demand
    skipped = pg.backtest(stocked, PRIOR, 5.0, table, in_force=stock, **PAPER)
    assert np.isfinite(skipped.decisions["postgrad"]).all()


@pytest.mark.slow
def test_delays_groups_gaps_and_decisions_in_force_together():
    """Against agents that are told what has become known, day by day; also how unsure they are."""
    days, delay = 10, 2
    stocked, group = problem(4.0, 1.0, shown), list("abbacabbca")
    rng = np.random.default_rng(2)
    table, stock = rng.normal(12.0, 3.0, (days, 1)), rng.uniform(2.0, 20.0, (days, 1))
    table[[0, 4]] = np.nan
    result = pg.backtest(
        stocked, PRIOR, 5.0, table, split_by=group, in_force=stock, delay=delay, rules=[]
    )
    agents = {name: pg.Agent(stocked, PRIOR, 5.0) for name in "abc"}
    for day in range(days):
        now = agents[group[day]]
        spread = np.nan if now.info is None else now.info.outlook.epistemic
        assert result.decisions["postgrad"][day, 0] == pytest.approx(now.decision, rel=1e-6)
        # from other programs: rounding decides on which side of a kink a curvature is measured
        assert result.spread[day, 0] == pytest.approx(float(spread), rel=1e-4, nan_ok=True)
        known = day - delay
        if known >= 0 and np.isfinite(table[known, 0]):
            agents[group[known]].observe(table[known], x=stock[known, 0])
    assert np.isfinite(result.spread).any()


def test_other_costs_have_no_rules():
    squared = pg.Problem(lambda x, xi: (x - xi) ** 2, demand, pg.feasible.Box(0.0, 50.0))
    assert list(pg.backtest(squared, PRIOR, 5.0, DEMAND[:, 0], **PAPER).total) == ["postgrad"]
    with pytest.raises(errors.SettingError, match="newsvendor"):
        pg.backtest(squared, PRIOR, 5.0, DEMAND[:, 0], rules=["saa"], **PAPER)


def test_what_is_shown():
    frame = polars.DataFrame({"bread": DEMAND[:, 0], "rolls": DEMAND[:, 1]})
    result = decide(frame, burn_in=4, rules=["saa", "saa-3"], dates=[f"d{i}" for i in range(DAYS)])
    assert result.items == ("bread", "rolls")
    assert result.scored == DAYS - 4
    lines = str(result).splitlines()
    assert lines[0].split() == ["postgrad", "saa", "saa-3", "hindsight"]
    assert [line.split()[0] for line in lines[1:]] == ["bread", "rolls", "total"]
    table = result.to_csv().splitlines()
    assert table[0].endswith(",decision hindsight,cost hindsight,spread postgrad")
    assert len(table) == 1 + 2 * result.scored
    assert table[1].startswith(f"d4,,bread,{float(DEMAND[4, 0])!r},")
    assert result.cumulative()["saa"][-1] == pytest.approx(result.total["saa"])


BAD = {
    "no table": (lambda: decide([["a"]]), errors.BatchError, "numbers"),
    "infinite": (lambda: decide(np.full((3, 2), np.inf)), errors.BatchError, "finite"),
    "empty": (lambda: decide(np.empty((0, 2))), errors.BatchError, "days by items"),
    "items": (lambda: decide(DEMAND[:, :1]), errors.SettingError, "1 items, but 2 problems"),
    "burn-in": (lambda: decide(burn_in=DAYS), errors.SettingError, "burn_in"),
    "delay": (lambda: decide(delay=-1), errors.SettingError, "delay"),
    "rival": (lambda: decide(rules=["fortune"]), errors.SettingError, "fortune"),
    "rival first": (lambda: decide("no", rules=["fortune"]), errors.SettingError, "fortune"),
    "in force": (lambda: decide(in_force="x"), errors.SettingError, "table of numbers"),
    "in force of another shape": (lambda: decide(in_force=[1.0]), errors.SettingError, "shape"),
    "in force, infinite": (
        lambda: decide(in_force=np.full_like(DEMAND, np.inf)),
        errors.BatchError,
        "got inf",
    ),
    "window": (lambda: decide(rules=["saa-0"]), errors.SettingError, "saa-0"),
    "split_by": (lambda: decide(split_by=["a"]), errors.SettingError, "split_by"),
    "names": (lambda: decide(items=["a"]), errors.SettingError, "one name"),
    "starts": (lambda: decide(x=[1.0, 2.0, 3.0]), errors.SettingError, "one entry"),
    "pool": (lambda: decide(pool=pg.Pool()), errors.PriorError, "or a Grid made with `forget`"),
    "other problems": (
        lambda: decide(problems=[problem(4.0, 1.0), problem(4.0, 1.0, lambda x, t: demand(x, t))]),
        errors.SettingError,
        "numbers only",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call()


def test_impossible_demand_is_named():
    counted = problem(4.0, 1.0, lambda x, theta: dist.Poisson(theta))
    with pytest.raises(errors.BatchError, match=r"-3\.0 of day 2"):
        pg.backtest(counted, pg.beliefs.Gamma(2.0, 0.2), 5.0, [1.0, 2.0, -3.0, 4.0], **PAPER)


POINTS = jnp.linspace(1.0, 20.0, 39)


def pooled(strength, rows=DEMAND[:, 0]):
    group = ["a" if day % 4 else "b" for day in range(DAYS)]  # few days of b
    grid = pg.beliefs.Grid(POINTS, forget=1.0)
    pool = None if strength is None else pg.Pool(strength)
    options = {"iterations": 2, "samples": (64, 4)}
    return pg.backtest(
        ITEMS[0], grid, 5.0, rows, split_by=group, pool=pool, burn_in=1, **options
    ).decisions["postgrad"][:, 0]


@pytest.mark.slow
def test_a_pool_of_great_strength_lends_nothing():
    """Then the population is the prior, and what is left is what each group knows."""
    np.testing.assert_allclose(pooled(1e12)[-2:], pooled(None)[-2:], atol=0.3)


@pytest.mark.slow
def test_a_pool_lends_to_those_who_know_nothing():
    raised = np.where(np.arange(DAYS) == 0, 9.0, 0.0)  # b has the first day
    changes = [pooled(s, DEMAND[:, 0] + raised)[2] - pooled(s)[2] for s in (None, 0.1)]
    assert changes[0] == 0.0  # a has seen one day of its own
    assert changes[1] > 0.1  # and has heard of the first day, which b has seen

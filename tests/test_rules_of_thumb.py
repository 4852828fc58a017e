"""Rules of thumb: quantiles as defined, also where floats round, and budgets kept."""

import types

import numpy as np
import pytest

import postgrad as pg
from postgrad.spec.demand_table import DemandTable
from postgrad.spec.rules_of_thumb import RULES, RuleBacktest, rule_named, saa

BOX = pg.feasible.Box(0.0, 100.0)


def unit_costs(underage, overage):
    return types.SimpleNamespace(underage=underage, overage=overage)


def test_saa_is_the_smallest_demand_that_a_share_does_not_exceed():
    rng = np.random.default_rng(0)
    for size in range(1, 40):
        demand = rng.integers(0, 20, size).astype(float)
        for b, h in ((1, 9), (4, 1), (1, 1), (7, 3), (1, 2)):
            # In whole numbers: nothing is rounded.
            ordered = np.sort(demand)
            expected = next(d for d in ordered if (demand <= d).sum() * (b + h) >= size * b)
            assert saa([demand], unit_costs(float(b), float(h)), BOX) == expected


@pytest.mark.parametrize("share", [0.7, 0.8, 0.9])
def test_a_share_that_floats_round_up_is_still_that_share(share):
    """0.7 of ten demands is the seventh, though 10 * (0.7 + 2 ** -53) is a little more than 7."""
    demand = np.arange(1.0, 11.0)
    for nudged in (np.nextafter(share, 0.0), share, np.nextafter(share, 1.0)):
        assert saa([demand], unit_costs(nudged, 1.0 - nudged), BOX) == round(10 * share)


@pytest.mark.parametrize("name", RULES)
def test_items_may_share_one_unit_cost_and_one_budget(name):
    past = [np.asarray([3.0, 5.0, 8.0]), np.asarray([10.0, 2.0, 4.0])]
    budget = pg.feasible.Budget(0.0, 50.0, [1.0, 2.0], 9.0)
    rule, window = rule_named(f"{name}-60")
    orders = rule(past, unit_costs(4.0, 1.0), budget)
    assert window == 60
    assert orders.shape == (2,)
    assert orders @ [1.0, 2.0] <= 9.0 + 1e-9
    assert orders @ [1.0, 2.0] > 8.9  # nor is any of it left


@pytest.mark.parametrize("name", RULES)
def test_orders_lie_in_any_feasible_set(name):
    demand = np.random.default_rng(1).uniform(0.0, 9.0, (8, 2))
    ball = pg.feasible.Ball(np.asarray([1.0, 1.0]), 0.5)
    backtest = RuleBacktest(DemandTable(demand), np.ones(2), [unit_costs(4.0, 1.0)], [ball])
    for orders in (backtest.orders(name, 2), backtest.hindsight(2)):
        assert all(float(ball.violation(order)) <= 1e-9 for order in orders[2:])
        assert np.isfinite(orders[2:]).all()


@pytest.mark.parametrize("name", [*RULES, "saa-5", "normal-5"])
def test_items_side_by_side_are_ordered_as_each_alone(name):
    """Costs and bounds are each item's own, also where demands are missing, at first or later."""
    rng = np.random.default_rng(2)
    demand = rng.integers(0, 30, (60, 4)).astype(float)
    demand[:25, 1] = demand[30:33, 2] = np.nan
    groups = [str(day % 3) for day in range(60)]
    costs = [unit_costs(1.0 + i, 2.0) for i in range(4)]
    boxes = [pg.feasible.Box(2.0 * i, 20.0 + i) for i in range(4)]
    start = np.asarray([7.0, 8.0, 9.0, 10.0])
    table = DemandTable(demand, groups, None, 1)
    both = RuleBacktest(table, start, costs, boxes)
    for i in range(4):
        own = DemandTable(demand[:, i : i + 1], groups, None, 1)
        alone = RuleBacktest(own, start[i : i + 1], costs[i : i + 1], boxes[i : i + 1])
        np.testing.assert_array_equal(both.orders(name, 9)[:, [i]], alone.orders(name, 9))
        np.testing.assert_array_equal(both.hindsight(9)[:, [i]], alone.hindsight(9))

"""Functions that are objects of a class: which of them share programs, and what is stored."""

import dataclasses
import functools
import itertools
import types

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg
from postgrad.problem.own_identity import of_itself


@dataclasses.dataclass(frozen=True)
class Equal:
    """Equal to every other one, whatever the price."""

    price: float = dataclasses.field(compare=False)

    def __call__(self, x, xi):
        return 2.0 * x - self.price * jnp.minimum(x, xi)


@dataclasses.dataclass
class Unhashable:
    price: float

    def __call__(self, x, xi):
        return 2.0 * x - self.price * jnp.minimum(x, xi)


@dataclasses.dataclass(frozen=True)
class Demand:
    spread: float = dataclasses.field(compare=False)

    def __call__(self, x, theta):
        return dist.Normal(theta, self.spread)


@dataclasses.dataclass(frozen=True)
class Steps:
    size: float = dataclasses.field(compare=False)

    def __call__(self, t):
        return self.size / t


def demand(x, theta):
    return dist.Normal(theta, 3.0)


def agent(cost, model=demand, steps=2.0, **options):
    problem = pg.Problem(cost, model, pg.feasible.Box(0.0, 50.0))
    chosen = pg.presets.paper() | {"steps": steps} | options
    return pg.Agent(problem, pg.beliefs.Normal(15.0, 5.0), x=10.0, **chosen)


def decided(cost, model=demand, steps=2.0):
    return agent(cost, model, steps).observe([14.0, 17.0])


def plain(price):
    return lambda x, xi: 2.0 * x - price * jnp.minimum(x, xi)


@pytest.mark.parametrize("kind", [Equal, Unhashable])
def test_costs_that_are_equal_may_differ(kind):
    low, high = decided(kind(4.0)), decided(kind(6.5))
    assert (low, high) == (decided(plain(4.0)), decided(plain(6.5)))
    assert low != high


def test_models_and_steps_that_are_equal_may_differ():
    cost, means = plain(4.0), []
    for model in (Demand(3.0), Demand(9.0)):
        of_model = agent(cost, model)
        of_model.observe([20.0])
        means.append(of_model.belief.mean())
    assert means[0] > means[1] > 15.0
    assert decided(cost, steps=Steps(2.0)) != decided(cost, steps=Steps(20.0))


def test_one_object_is_one_function():
    cost = Equal(4.0)
    first, second = (pg.Problem(cost, dist.Normal).cost for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert pg.Problem(first, dist.Normal).cost == first
    assert first != pg.Problem(Equal(4.0), dist.Normal).cost


def test_what_is_printed_and_stored_is_the_object(tmp_path):
    path, model = tmp_path / "prices.db", Demand(3.0)
    with agent(Equal(4.0), model, path=path) as first:
        assert "Equal(price=4.0)" in repr(pg.Problem(Equal(4.0), model))
        first.observe([14.0])
    with agent(Equal(4.0), model, path=path) as again:  # the same by its fields
        assert again.stage == 1
    with pytest.raises(pg.errors.StoreError, match="price"):
        agent(Equal(6.5), model, path=path)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(pg.errors.CostError, match="must be a function"):
        pg.Problem(dataclasses.make_dataclass("Nothing", [])(), dist.Normal)


class Shop:
    tax = 0.0

    def __init__(self, price):
        self.price = price

    def cost(self, x, xi):
        return 2.0 * x - (self.price - self.tax) * jnp.minimum(x, xi)

    def __call__(self, x, xi):
        return self.cost(x, xi)


PRICE = 4.0
SETTINGS = types.SimpleNamespace(prices={"now": 4.0})


def of_global(x, xi):
    return 2.0 * x - PRICE * jnp.minimum(x, xi)


def of_namespace(x, xi):
    def sales(x):
        return SETTINGS.prices["now"] * jnp.minimum(x, xi)

    return 2.0 * x - sales(x)


def of_closure():
    held = {"price": np.array([4.0])}

    def cost(x, xi):
        return 2.0 * x - held["price"][0] * jnp.minimum(x, xi)

    return cost, lambda patch: held["price"].put(0, 6.5)


def of_object(cost_of):
    shop = Shop(4.0)
    return cost_of(shop), lambda patch: setattr(shop, "price", 6.5)


CHANGED = {
    "object": lambda: of_object(lambda shop: shop),
    "method": lambda: of_object(lambda shop: shop.cost),
    "partial": lambda: of_object(lambda shop: functools.partial(shop)),
    "lambda": lambda: of_object(lambda shop: lambda x, xi: shop(x, xi)),
    "array in a closure": of_closure,
    "global": lambda: (of_global, lambda patch: patch.setitem(globals(), "PRICE", 6.5)),
    "global namespace": lambda: (
        of_namespace,
        lambda patch: patch.setitem(SETTINGS.prices, "now", 6.5),
    ),
    "class": lambda: (Shop(4.0), lambda patch: patch.setattr(Shop, "tax", -2.5)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", CHANGED)
def test_what_was_changed_counts_for_the_next_agent(kind, monkeypatch, tmp_path):
    cost, change = CHANGED[kind]()
    problem = pg.Problem(cost, demand, pg.feasible.Box(0.0, 50.0))

    def step(**options):
        chosen = pg.presets.paper(steps=2.0) | options
        return pg.Agent(problem, pg.beliefs.Normal(15.0, 5.0), x=10.0, **chosen)

    assert step().observe([14.0, 17.0]) == decided(plain(4.0))
    with step(path=tmp_path / "four.db") as agent:
        agent.observe([14.0])
    change(monkeypatch)
    assert step().observe([14.0, 17.0]) == decided(plain(6.5))
    with pytest.raises(pg.errors.StoreError, match="cost"):
        step(path=tmp_path / "four.db")


def test_simulations_are_those_of_now():
    shop, prior = Shop(4.0), pg.beliefs.Normal(15.0, 5.0)

    def simulated(cost):
        policy = pg.BayesianSGD(
            pg.Problem(cost, demand, pg.feasible.Box(0.0, 50.0)), **pg.presets.paper(steps=2.0)
        )
        return pg.simulate(policy, prior, 10.0, 15.0, runs=2, horizon=3)

    before = simulated(shop).decisions
    shop.price = 6.5
    assert np.array_equal(simulated(shop).decisions, simulated(plain(6.5)).decisions)
    assert not np.array_equal(before, simulated(shop).decisions)


@dataclasses.dataclass(frozen=True)
class Recorded:
    factor: float = dataclasses.field(compare=False)

    def __call__(self, state):
        return self.factor * state.decision


def test_steps_of_rivals_and_records_that_are_equal_may_differ():
    problem = pg.Problem(plain(4.0), demand, pg.feasible.Box(0.0, 50.0))
    prior, found = pg.beliefs.Normal(15.0, 5.0), []
    for number in (1.0, 9.0):
        greedy = pg.rivals.Greedy(problem, steps=Steps(number))
        done = pg.simulate(greedy, prior, 10.0, 15.0, runs=2, horizon=3, record=Recorded(number))
        found.append((done.decisions, done.record / number))
    assert not np.array_equal(found[0][0], found[1][0])
    for decisions, recorded in found:
        np.testing.assert_allclose(recorded, decisions)


class Slotted:
    __slots__ = "price"

    def __call__(self, x, xi):
        return 2.0 * x - self.price * jnp.minimum(x, xi)


def test_what_is_replaced_is_noticed_wherever_it_lies():
    """Also if it gets the address of what it replaces."""
    cost, seen = Slotted(), []
    arrays = (jnp.asarray(float(i)) for i in range(50))  # made one by one
    for price in itertools.chain([4.0, 6.5, {4.0}, {6.5}], arrays):
        cost.price = price
        seen.append(of_itself(cost))
        del price
    assert len(set(seen)) == len(seen)


def test_what_does_not_change_compiles_nothing_new():
    shop = Shop(4.0)
    assert of_itself(shop.cost) == of_itself(shop.cost)
    assert hash(of_itself(shop)) == hash(of_itself(shop))
    assert of_itself(demand) is demand  # refers to modules alone
    assert of_itself(jnp.sin) is jnp.sin
    assert of_itself(dist.Normal) is dist.Normal
    shop.itself = shop  # a circle
    assert of_itself(shop) == of_itself(shop)

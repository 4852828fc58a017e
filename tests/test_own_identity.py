"""Functions that are objects of a class: which of them share programs, and what is stored."""

import dataclasses

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest

import postgrad as pg


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

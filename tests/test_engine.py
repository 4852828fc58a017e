"""The engine: few programs serve all batches and numbers, and every driver decides the same."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad.engine.bulk import _evenly
from postgrad.engine.packing import Packed

ROWS = np.random.default_rng(0).normal(12.0, 2.0, 64)


def cost(x, xi):
    return 4.0 * jnp.maximum(xi - x, 0.0) + jnp.maximum(x - xi, 0.0)


def demand(x, theta):
    return dist.Normal(theta, 2.0)


def agent(low=0.0, points=(8.0, 10.0, 12.0, 14.0), x=5.0, **options):
    problem = pg.Problem(cost, demand, pg.feasible.Box(low, 50.0))
    return pg.Agent(problem, pg.beliefs.Grid(jnp.asarray(points)), x, **options)


@pytest.mark.parametrize("options", [pg.presets.paper(), {}], ids=["paper", "default"])
def test_few_programs_serve_all_batches_and_numbers(options):
    subject = agent(**options)
    learn, _, descend = subject._stream._programs
    learn = getattr(learn, "of_few", learn)
    for program in (learn, descend):
        program.clear_cache()
    for size in range(1, 9):
        subject.observe(ROWS[:size])
        assert (learn._cache_size(), descend._cache_size()) == (1, 1)
    for size in range(9, 17):
        subject.observe(ROWS[:size])
        assert (learn._cache_size(), descend._cache_size()) == (2, 1)
    for numbers in ({"points": (7.0, 9.0, 13.0, 15.0)}, {"x": 20.0}, {"low": 1.0}):
        other = agent(**numbers, **options)
        assert other._stream._programs == subject._stream._programs
        for size in (1, 8, 16):
            other.observe(ROWS[:size])
        assert (learn._cache_size(), descend._cache_size()) == (2, 1)
    more = agent(points=(8.0, 9.0, 10.0, 12.0, 14.0), **options)  # the belief's shape is learn's
    more.observe(ROWS[:1])
    mixture = subject._stream.policy.gradient.uses_mixture
    assert (learn._cache_size(), descend._cache_size()) == (3, 2 if mixture else 1)


@pytest.mark.parametrize(
    ("options", "within"), [(pg.presets.paper(), 1e-9), ({}, 1e-6)], ids=["paper", "default"]
)
def test_agent_backtest_and_plain_steps_decide_the_same(options, within):
    days, live = ROWS[:8], agent(**options)
    policy = pg.BayesianSGD(live.problem, **options)
    state = policy.init(pg.beliefs.Grid(jnp.asarray([8.0, 10.0, 12.0, 14.0])), 5.0)
    step = jax.jit(lambda state, batch: policy.step(state, batch)[0])
    walk = pg.backtest(live.problem, state.belief, 5.0, days, rules=[], **options)
    for day, row in enumerate(days):
        assert walk.decisions["postgrad"][day, 0] == pytest.approx(live.decision, rel=within)
        assert float(state.decision) == pytest.approx(live.decision, rel=within)
        live.observe([row])
        state = step(state, jnp.asarray([row]))
    assert float(state.decision) == pytest.approx(live.decision, rel=within)
    assert live.decision != 5.0
    assert live.replay().identical


@pytest.mark.parametrize(
    ("count", "cores"), [(1, 2), (8, 1), (49, 2), (252, 2), (252, 16), (7, 16)]
)
def test_chunks_are_nearly_full(count, cores):
    width = _evenly(count, 50, cores)
    chunks = -(-count // width)
    assert width <= 50
    assert chunks * width - count < width  # no chunk of copies alone
    assert chunks * width - count < cores * -(-count // (50 * cores))


TREE = {
    "float64": jnp.asarray([1.5, -0.0, jnp.nan, -jnp.inf, 5e-324]),
    "scalar": jnp.asarray(2.5),
    "float32": jnp.asarray([[1.5, jnp.nan]], jnp.float32),
    "bfloat16": jnp.asarray([1.5, -2.0], jnp.bfloat16),
    "int32": jnp.asarray([-1, 2**31 - 1], jnp.int32),
    "int64": jnp.asarray([-(2**63), 2**63 - 1]),
    "uint64": jnp.asarray([2**64 - 1], jnp.uint64),
    "bool": jnp.asarray([True, False]),
    "empty": jnp.zeros((0, 3)),
    "keys": random.split(random.key(7), 2),
}


@pytest.mark.parametrize("traced", [False, True])
def test_packing_brings_back_every_bit(traced):
    def there_and_back(tree):
        return Packed.of(tree).tree_of_arrays()

    back = (jax.jit(there_and_back) if traced else there_and_back)(TREE)
    host = Packed.of(TREE, np.concatenate)
    assert host.layout == Packed.of(TREE).layout
    assert np.array_equal(host.words, Packed.of(TREE).words)
    for name, array in TREE.items():
        leaf = back[name]
        assert (leaf.dtype, leaf.shape) == (array.dtype, array.shape)
        if name == "keys":
            leaf, array = random.key_data(leaf), random.key_data(array)
        assert np.asarray(leaf).tobytes() == np.asarray(array).tobytes()

"""When a search rests, and what happens to a run that rests beside others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import postgrad as pg
from postgrad.algorithm.descents.search import loop
from postgrad.algorithm.descents.search.looks import Kind
from postgrad.numerics.every_run import unless_idle
from postgrad.research import problems

HORIZON = 8


@pytest.fixture
def steps(monkeypatch):
    """How many steps each stage takes, in a program that is traced while this is in use."""
    counts = np.zeros(HORIZON + 1, int)

    def seen(kind, number):
        counts[number] += kind == Kind.NEAR

    def counted(on, draws, carry):
        jax.debug.callback(seen, carry.look.kind, on.stage.plan.number)
        return body(on, draws, carry)

    body = loop._body
    monkeypatch.setattr(loop, "_body", counted)
    yield counts
    jax.clear_caches()


def test_between_kinks_of_single_draws_a_search_rests(steps):
    """A cost in the tail: few draws matter, and F is straight between their kinks."""
    instance = problems.testbed()["portfolio-cvar"]()
    agent = pg.Agent(instance.problem, instance.belief, x=instance.x)
    law = instance.problem.likelihood(instance.x, instance.theta)
    key = random.key(0)
    for _ in range(HORIZON):
        key, own = random.split(key)
        agent.observe(law.sample(own, (instance.batch_size,)))
    jax.effects_barrier()
    assert np.all(steps[1:] > 0)
    assert np.sum(steps) <= 90  # 211, if a failed step does not count


def test_what_is_known_of_idle_runs_stays():
    new = {"a": jnp.arange(6.0).reshape(3, 2), "b": jnp.ones(2)}
    old = {"a": -jnp.ones((3, 2)), "b": jnp.zeros(2)}
    axes = ({"a": 0, "b": None}, {"a": 0, "b": None})
    idle = jnp.asarray([True, False, True])
    found = jax.jit(jax.vmap(unless_idle, in_axes=(0, *axes)))(idle, new, old)
    assert np.array_equal(found["a"], np.where(idle[:, None], old["a"], new["a"]))
    assert np.array_equal(found["b"], np.where(idle[:, None], old["b"], new["b"]))


def test_a_run_by_itself_is_never_idle():
    assert unless_idle(jnp.asarray(True), 1.0, 2.0) == 1.0
    all_alike = jax.vmap(unless_idle, in_axes=(None, 0, 0))
    assert np.array_equal(all_alike(jnp.asarray(True), jnp.ones(3), jnp.zeros(3)), np.ones(3))

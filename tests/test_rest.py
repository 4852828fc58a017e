"""When a search rests, and what happens to a run that rests beside others."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy.special import ndtri

import postgrad as pg
from postgrad.algorithm.descents.search import loop
from postgrad.algorithm.descents.search.looks import Kind
from postgrad.numerics.every_run import unless_idle
from postgrad.research import problems

HORIZON = 8


@pytest.fixture(scope="module")
def counted():
    """How many steps each stage takes, in programs that are traced while this is in use."""
    counts = np.zeros(HORIZON + 1, int)

    def seen(kind, number):
        counts[number] += kind == Kind.NEAR

    def counted_body(on, draws, carry):
        jax.debug.callback(seen, carry.look.kind, on.stage.plan.number)
        return body(on, draws, carry)

    body = loop._body
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "_body", counted_body)
        yield counts
    jax.clear_caches()


@pytest.fixture
def steps(counted):
    counted[:] = 0
    return counted


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


def test_where_f_is_straight_a_search_does_not_creep(steps):
    """Once theta is known, F is straight between kinks of draws, and curvature not to be met."""
    problem = pg.Problem(
        cost=lambda x, xi: jnp.sum(2.0 * x - 3.0 * jnp.minimum(x, xi)),
        model=lambda x, theta: dist.Normal(theta * jnp.arange(1.0, 4.0), 1.0).to_event(1),
        feasible=pg.feasible.Box(0.0, 100.0),
    )
    agent = pg.Agent(problem, pg.beliefs.Grid(jnp.arange(5.0, 26.0)), x=jnp.full(3, 20.0))
    rng = np.random.default_rng(0)
    for _ in range(HORIZON):
        agent.observe(10.0 * np.arange(1.0, 4.0) + rng.standard_normal((500, 3)))
    jax.effects_barrier()
    best = 10.0 * np.arange(1.0, 4.0) + ndtri(1.0 / 3.0)
    assert np.allclose(agent.decision, best, atol=0.01)
    assert np.sum(steps[2:]) <= 60  # 161, if a step that saved nothing does not count


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

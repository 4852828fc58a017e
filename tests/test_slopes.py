"""Slopes of the averaged cost: forwards for one number, backwards for several."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax

import postgrad as pg


@jax.custom_vjp
def short(gap):
    return jnp.maximum(gap, 0.0)


short.defvjp(lambda gap: (short(gap), gap > 0.0), lambda above, slope: (slope * above,))


def decided(cost, x, model=lambda x, theta: dist.Normal(theta, 2.0)):
    problem = pg.Problem(cost, model, pg.feasible.Box(0.0, 20.0))
    agent = pg.Agent(problem, pg.beliefs.Normal(8.0, 3.0), x=x)
    return agent.observe([9.0, 11.0, 10.5])


@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_cost_that_goes_backwards_only(shape):
    """`custom_vjp` has no derivative forwards."""
    x = np.full(shape, 5.0)
    plain, own = (
        decided(lambda x, xi, gap=gap: jnp.sum(x + 4.0 * gap(xi - x)), x)
        for gap in (lambda gap: jnp.maximum(gap, 0.0), short)
    )
    np.testing.assert_allclose(own, plain, rtol=1e-6)
    assert own.shape == shape


def test_a_cost_that_goes_forwards_only():
    """`while_loop` has no derivative backwards: a queue that is worked off hour by hour."""

    def worked_off(x, xi):
        def hour(now):
            left, waited = now
            return jnp.maximum(left - x, 0.0), waited + left

        return lax.while_loop(lambda now: now[0] > 0.0, hour, (xi, jnp.zeros(())))[1]

    def spelled_out(x, xi):
        return sum(jnp.maximum(xi - k * x, 0.0) for k in range(30))

    loop, plain = (
        decided(lambda x, xi, cost=cost: 5.0 * x + cost(x + 1.0, xi), 5.0)
        for cost in (worked_off, spelled_out)
    )
    np.testing.assert_allclose(loop, plain, rtol=1e-6)


def test_the_error_of_a_cost_is_its_own():
    with pytest.raises(TypeError, match="bad operand"):
        decided(lambda x, xi: x + abs("text"), 5.0)

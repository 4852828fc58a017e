"""Densities are zero outside their support, and their gradients are numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from postgrad.distributions.density import log_density


@pytest.mark.parametrize("validate", [True, False])
def test_outside_the_support_is_impossible(validate):
    with numpyro.validation_enabled(validate):
        assert log_density(dist.Exponential(1.0), jnp.asarray(-1.0)) == -jnp.inf
        assert log_density(dist.Exponential(1.0), jnp.asarray(1.0)) == -1.0
        assert log_density(dist.Uniform(0.0, 2.0), jnp.asarray(3.0)) == -jnp.inf
        pair = dist.Gamma(2.0, 1.0).expand([2]).to_event(1)
        rows = log_density(pair, jnp.asarray([[1.0, -1.0], [1.0, 1.0]]))
        assert np.array_equal(np.isfinite(rows), [False, True])


def test_gradient_is_a_number_outside_the_support():
    """log(-1) is NaN, and NaN times zero is NaN: the formula must not be evaluated there."""

    def total(rate):
        values = jnp.asarray([-1.0, 2.0])
        log_f = log_density(dist.Gamma(rate, 1.0), values)
        return jnp.sum(jnp.where(jnp.isfinite(log_f), log_f, 0.0))

    assert jnp.isfinite(jax.grad(total)(2.0))

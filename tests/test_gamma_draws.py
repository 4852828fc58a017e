"""Random numbers that JAX draws slowly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from postgrad.numerics import gamma_draws as draws
from postgrad.numerics.draw_barrier import computed_once


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 1.5, 7.0, 300.0])
def test_gamma_draws_are_gamma(shape):
    shapes = jnp.full(200_000, shape)
    values = jax.jit(draws.gamma)(random.key(0), shapes)
    logarithms = jax.jit(draws.log_gamma)(random.key(0), shapes)
    assert stats.kstest(values, stats.gamma(shape).cdf).pvalue > 1e-3
    assert stats.kstest(logarithms, stats.loggamma(shape).cdf).pvalue > 1e-3


def test_tiny_shapes_do_not_underflow_by_their_logarithms():
    shapes = np.full(1000, 1e-4)
    assert np.isfinite(jax.jit(draws.log_gamma)(random.key(0), shapes)).all()
    assert (np.asarray(jax.jit(draws.gamma)(random.key(0), shapes)) == 0.0).any()


def test_what_is_no_shape_gives_no_number():
    """And does not wait for a candidate for ever."""
    values = jax.jit(draws.gamma)(random.key(0), np.array([np.nan, -1.0, 2.0]))
    assert np.isnan(values).tolist() == [True, True, False]


def test_what_is_computed_once_is_the_same():
    key = random.key(0)
    draws = {
        "z": random.normal(key, (64,)),
        "n": jnp.arange(3),
        "ends": jnp.asarray([1e-300, -0.0, jnp.inf]),
    }
    kept = jax.jit(computed_once)(draws, key)
    jax.tree.map(np.testing.assert_array_equal, kept, draws)
    assert kept["n"].dtype == int
    keys = random.split(key, 5)
    many = jax.vmap(lambda key: computed_once(random.normal(key), key))(keys)
    np.testing.assert_array_equal(many, jax.vmap(random.normal)(keys))

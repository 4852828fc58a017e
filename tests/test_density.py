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


@pytest.mark.parametrize(
    ("law", "value"),
    [
        (lambda a: dist.Bernoulli(logits=a), 1.0),
        (lambda a: dist.Bernoulli(logits=a), 0.0),
        (lambda a: dist.Binomial(7, logits=a), 3.0),
        (lambda a: dist.Bernoulli(logits=jnp.stack([a, -a])).to_event(1), jnp.asarray([1.0, 0.0])),
    ],
)
def test_logits_of_zero_have_derivatives(law, value):
    """A prior mean of zero is usual, and Newton's method starts there."""

    def log_f(a):
        return log_density(law(a), jnp.asarray(value))

    for logit in (-1.3, 0.0, 40.0):
        np.testing.assert_allclose(log_f(logit), law(logit).log_prob(value), atol=1e-12)
    step = 1e-6
    slope = (log_f(step) - log_f(-step)) / (2 * step)
    bend = (log_f(2e-4) - 2 * log_f(0.0) + log_f(-2e-4)) / 4e-8
    for derivative in (jax.grad(log_f), jax.jacfwd(log_f)):
        np.testing.assert_allclose(derivative(0.0), slope, atol=1e-8)
        for second in (jax.grad(derivative), jax.jacfwd(derivative)):
            np.testing.assert_allclose(second(0.0), bend, atol=1e-5)

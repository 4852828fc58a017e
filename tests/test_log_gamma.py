"""The logarithm of the gamma function, and its derivative."""

import jax
import numpy as np
from scipy import special

from postgrad.distributions.log_gamma import log_gamma


def test_it_is_that_of_scipy():
    z = np.concatenate([np.logspace(-12, 12, 2001), np.arange(1.0, 100.0), np.linspace(7, 9, 201)])
    exact = special.gammaln(z)
    np.testing.assert_allclose(jax.jit(log_gamma)(z), exact, rtol=2e-14, atol=1e-14)
    slopes = jax.jit(jax.vmap(jax.grad(log_gamma)))(z)
    np.testing.assert_allclose(slopes, special.digamma(z), rtol=1e-11, atol=1e-12)

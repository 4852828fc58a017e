"""The Bayesian average."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from postgrad.algorithm.risks.risk import Risk


class Mean(Risk):
    """E_pi H(x, theta): the paper's objective, all thetas alike."""

    is_mean: ClassVar[bool] = True

    def value(self, costs: Array) -> Array:
        """The mean."""
        return jnp.mean(costs)

    def weights(self, costs: Array) -> Array:
        """1/m each."""
        return jnp.full(costs.shape, 1.0 / costs.shape[0])

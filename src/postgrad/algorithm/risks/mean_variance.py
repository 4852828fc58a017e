"""The mean and a price on variance."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_number


class MeanVariance(Risk):
    """E_pi H + c Var_pi H.

    The weights are (1 + 2 c (H_j - mean H)) / m: negative for thetas of very low cost, since these
    too add to the variance.

    Args:
        c: The price of variance, zero or more, in units of one over a cost.

    Raises:
        SettingError: If c is not such a number.
    """

    c: Float[Array, ""]

    def __init__(self, c: Any):
        self.c = as_number(c, SettingError, "c", "a number, zero or more", lambda c: c >= 0)

    def value(self, costs: Array) -> Array:
        """Mean and variance of the draws."""
        return jnp.mean(costs) + self.c * jnp.var(costs)

    def weights(self, costs: Array) -> Array:
        """More where the cost is above the mean."""
        return (1.0 + 2.0 * self.c * (costs - jnp.mean(costs))) / costs.shape[0]

"""The mean and a price on variance."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_array, is_concrete


class MeanVariance(Risk):
    """E_pi H + c Var_pi H.

    Its weights are (1 + 2 c (H_j - mean H)) / m; thetas with low costs may get negative ones, since
    the variance also punishes being lucky. c has the unit of one over a cost.
    """

    c: Float[Array, ""]

    def __init__(self, c: Any):
        """The price of variance.

        Raises:
            SettingError: If it is negative.
        """
        self.c = as_array(c, SettingError, "c")
        if self.c.shape != () or (is_concrete(self.c) and not self.c >= 0):
            raise SettingError(f"c must be a number, zero or more, got {c!r}")

    def value(self, costs: Array) -> Array:
        """Mean and variance of the draws."""
        return jnp.mean(costs) + self.c * jnp.var(costs)

    def weights(self, costs: Array) -> Array:
        """More where the cost is above the mean."""
        return (1.0 + 2.0 * self.c * (costs - jnp.mean(costs))) / costs.shape[0]

"""A quantile of the cost."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk, as_level
from postgrad.errors import SettingError
from postgrad.numerics.validate import is_concrete


class VaR(Risk):
    """The alpha-quantile of H over the posterior.

    Its gradient is that of H at the thetas whose cost is the quantile (Hong, 2009). Of m draws only
    one has that rank, and its gradient alone would be noise. So the quantile is estimated by an
    average of order statistics around it (Harrell and Davis, 1982),

        sum_k w_k H_(k),   w_k proportional to r_k^((m+1) alpha - 1) (1 - r_k)^((m+1)(1-alpha) - 1),

    with ranks r_k = (k - 1/2)/m: about sqrt(alpha (1 - alpha) m) draws share the work.
    """

    alpha: Float[Array, ""]

    def __init__(self, alpha: Any):
        """The level: 0.9 is exceeded by a tenth.

        Raises:
            SettingError: If it does not lie strictly between 0 and 1.
        """
        self.alpha = as_level(alpha)
        if is_concrete(self.alpha) and not self.alpha > 0:
            raise SettingError(f"alpha must be a number in (0, 1), got {alpha!r}")

    def value(self, costs: Array) -> Array:
        """The weighted sum."""
        return self.weights(costs) @ costs

    def weights(self, costs: Array) -> Array:
        """Around the rank of the quantile."""
        m = costs.shape[0]
        rank = (jnp.arange(m) + 0.5) / m
        above, below = (m + 1) * self.alpha - 1.0, (m + 1) * (1.0 - self.alpha) - 1.0
        ordered = jax.nn.softmax(above * jnp.log(rank) + below * jnp.log1p(-rank))
        return jnp.zeros(m).at[jnp.argsort(costs)].set(ordered)

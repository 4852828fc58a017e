"""A quantile of the cost."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_number


class VaR(Risk):
    """The q-quantile of H over the posterior.

    Its gradient is that of H at the thetas whose cost is the quantile (Hong, 2009). Of m draws only
    one has that rank, and its gradient alone would be noise. So the quantile is estimated by an
    average of order statistics around it (Harrell and Davis, 1982),

        sum_k w_k H_(k),   w_k proportional to r_k^((m+1) q - 1) (1 - r_k)^((m+1)(1-q) - 1),

    with ranks r_k = (k - 1/2)/m: about sqrt(q (1 - q) m) draws share the weight.

    Args:
        quantile: q in (0, 1): 0.9 is exceeded by a tenth of the posterior.

    Raises:
        SettingError: If the quantile is not such a number.
    """

    quantile: Float[Array, ""]

    def __init__(self, quantile: Any):
        self.quantile = as_number(
            quantile, SettingError, "quantile", "a number in (0, 1)", lambda q: (q > 0) & (q < 1)
        )

    def weights(self, costs: Array) -> Array:
        """Largest at the rank of the quantile."""
        m = costs.shape[0]
        rank = (jnp.arange(m) + 0.5) / m
        above, below = (m + 1) * self.quantile - 1.0, (m + 1) * (1.0 - self.quantile) - 1.0
        ordered = jax.nn.softmax(above * jnp.log(rank) + below * jnp.log1p(-rank))
        return jnp.zeros(m).at[jnp.argsort(costs)].set(ordered)

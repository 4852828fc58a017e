"""The mean of the worst cases."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk, as_level


class CVaR(Risk):
    """The mean of H over the worst 1 - alpha of the posterior; at alpha = 0 it is the mean.

        CVaR_alpha  =  min_v  v + E_pi max(H - v, 0) / (1 - alpha)     (Rockafellar, Uryasev, 2000)

    Of m draws the worst (1 - alpha) m share the weight; one of them may count in part.
    """

    alpha: Float[Array, ""]

    def __init__(self, alpha: Any):
        """The level: 0.9 looks at the worst tenth."""
        self.alpha = as_level(alpha)

    def value(self, costs: Array) -> Array:
        """The weighted sum."""
        return self.weights(costs) @ costs

    def weights(self, costs: Array) -> Array:
        """1 / ((1 - alpha) m) for each of the worst, as far as the weight reaches."""
        m = costs.shape[0]
        order = jnp.argsort(-costs)
        each = 1.0 / ((1.0 - self.alpha) * m)
        left = 1.0 - each * jnp.arange(m)
        return jnp.zeros(m).at[order].set(jnp.clip(left, 0.0, each))

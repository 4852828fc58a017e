"""The mean of the worst cases."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.risks.risk import Risk
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_number


class CVaR(Risk):
    """The mean of H over the worst 1 - q of the posterior; at q = 0 it is the mean.

        CVaR_q  =  min_v  v + E_pi max(H - v, 0) / (1 - q)     (Rockafellar, Uryasev, 2000)

    The worst (1 - q) m of m draws share the weight; if that is no whole number, one of them counts
    in part.

    Args:
        quantile: q in [0, 1): 0.9 is the mean of the worst tenth.

    Raises:
        SettingError: If the quantile is not such a number.
    """

    quantile: Float[Array, ""]

    def __init__(self, quantile: Any):
        self.quantile = as_number(
            quantile, SettingError, "quantile", "a number in [0, 1)", lambda q: (q >= 0) & (q < 1)
        )

    def weights(self, costs: Array) -> Array:
        """1 / ((1 - q) m) for the worst, then what is left to a sum of one, then zero."""
        m = costs.shape[0]
        order = jnp.argsort(-costs)
        each = 1.0 / ((1.0 - self.quantile) * m)
        left = 1.0 - each * jnp.arange(m)
        return jnp.zeros(m).at[order].set(jnp.clip(left, 0.0, each))

"""Numbers between 0 and 1 that are evenly spread, and densely near both ends."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# The tails are covered down to u = 1e-9.
_END = 20.7
_NODES = 1024


def stretched(
    v: Float[Array, "..."], share: float
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """u(v) with the density p for evenly spread v, and p(u).

        p(u)  =  (1 - e)  +  e / (2 L u (1 - u)),        |logit u| < L,

    the share e of the points uniform in logit u, the others uniform in u. With y = logit u,

        v  =  (1 - e) u  +  e (y + L) / (2 L),

    which is solved for y by a table and one step of Newton's method.

    Args:
        v: Numbers between 0 and 1.
        share: e.
    """

    def level(y: np.ndarray) -> np.ndarray:
        return (1.0 - share) / (1.0 + np.exp(-y)) + share * (y + _END) / (2.0 * _END)

    fine = np.linspace(-_END, _END, 32 * _NODES)
    table = jnp.asarray(np.interp(np.linspace(0.0, 1.0, _NODES + 1), level(fine), fine))
    place = v * _NODES
    node = jnp.clip(place.astype(int), 0, _NODES - 1)
    y = table[node] + (place - node) * (table[node + 1] - table[node])
    u = jax.nn.sigmoid(y)
    rise = (1.0 - share) * u * (1.0 - u) + share / (2.0 * _END)
    y = y - ((1.0 - share) * u + share * (y + _END) / (2.0 * _END) - v) / rise
    u = jax.nn.sigmoid(jnp.clip(y, -_END, _END))
    return u, (1.0 - share) + share / (2.0 * _END * u * (1.0 - u))

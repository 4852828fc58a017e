"""Numbers between 0 and 1 that are evenly spread, and densely near both ends."""

import functools

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

    y_of_v, _ = _fine(share)
    y = _interpolated(v, y_of_v)
    u = jax.nn.sigmoid(y)
    rise = (1.0 - share) * u * (1.0 - u) + share / (2.0 * _END)
    y = y - ((1.0 - share) * u + share * (y + _END) / (2.0 * _END) - v) / rise
    u = jax.nn.sigmoid(jnp.clip(y, -_END, _END))
    return u, (1.0 - share) + share / (2.0 * _END * u * (1.0 - u))


def balanced(v: Float[Array, "..."], share: float, rows: int) -> Float[Array, "..."]:
    """Numbers v such that the weights 1 / p of the points v + i / rows average to a known factor.

    Draws of one theta are the points v + i / rows, i < rows. If their weights are divided by their
    mean, g'(v) with g(v) = sum_i u(v + i / rows) / rows, then v must be drawn with a density
    proportional to g': else the draws of all thetas together are not distributed as u.

    Args:
        v: Numbers between 0 and 1, evenly spread.
        share: See `stretched`.
        rows: How many draws each theta has.
    """
    _, u_of_v = _fine(share)
    each = np.linspace(0.0, 1.0, _NODES + 1) / rows
    whole = np.linspace(0.0, 1.0, u_of_v.size)
    g = sum(np.interp(each + i / rows, whole, u_of_v) for i in range(rows)) / rows
    table = np.interp(np.linspace(g[0], g[-1], _NODES + 1), g, each)
    row = jnp.floor(v * rows)
    return row / rows + _interpolated(v * rows - row, table)


@functools.cache
def _fine(share: float) -> tuple[np.ndarray, np.ndarray]:
    """y(v), and u(v) on a finer grid, for evenly spread v from 0 to 1."""
    y = np.linspace(-_END, _END, 32 * _NODES)
    u = 1.0 / (1.0 + np.exp(-y))
    level = (1.0 - share) * u + share * (y + _END) / (2.0 * _END)
    fine = np.linspace(level[0], level[-1], 32 * _NODES + 1)
    y_of_v = np.interp(np.linspace(0.0, 1.0, _NODES + 1), level, y)
    return y_of_v, np.interp(fine, level, u)


def _interpolated(v: Float[Array, "..."], table: np.ndarray) -> Float[Array, "..."]:
    """The values of a table over [0, 1] between its evenly spread nodes."""
    nodes, place = jnp.asarray(table), v * (table.size - 1)
    node = jnp.clip(place.astype(int), 0, table.size - 2)
    return nodes[node] + (place - node) * (nodes[node + 1] - nodes[node])

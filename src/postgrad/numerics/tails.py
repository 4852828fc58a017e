"""Numbers between 0 and 1 that are evenly spread, and densely near both ends."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr, ndtri
from jaxtyping import Array, Float, Int

# The tails of one number are covered down to u = 1e-9, those of several numbers to 1e-6.
_END, _END_OF_SEVERAL = 20.7, 13.8
_NODES = 1024
# The largest floating-point number below one is this much below it.
_LAST = 2.0**-53


def stretched(
    v: Float[Array, "..."], share: float, end: float = _END
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """u(v) with the density p for evenly spread v, and p(u).

        p(u)  =  (1 - e)  +  e / (2 L u (1 - u)),        |logit u| < L,

    the share e of the points uniform in logit u, the others uniform in u. With y = logit u,

        v  =  (1 - e) u  +  e (y + L) / (2 L),

    which is solved for y by a table and one step of Newton's method.

    Args:
        v: Numbers between 0 and 1.
        share: e.
        end: L.
    """
    y_of_v, _ = _fine(share, end)
    y = _interpolated(v, y_of_v)
    u = jax.nn.sigmoid(y)
    rise = (1.0 - share) * u * (1.0 - u) + share / (2.0 * end)
    y = y - ((1.0 - share) * u + share * (y + end) / (2.0 * end) - v) / rise
    u = jax.nn.sigmoid(jnp.clip(y, -end, end))
    return u, (1.0 - share) + share / (2.0 * end * u * (1.0 - u))


def stretched_along(
    v: Float[Array, "n d"], number: Int[np.ndarray, " n"], share: float
) -> tuple[Float[Array, "n d"], Float[Array, " n"]]:
    """Points u with more of them in the tails, and their density p(u).

    With z = Phi^-1(v) normal numbers, each point is moved along a line through the centre: a third
    along the diagonal, as where all coordinates together make a sum large (light tails), the others
    along a coordinate each, as where one of them does (heavy tails). On its line, of direction a_k,
    Phi(a_k'z) is moved as `stretched` does; across the line nothing changes. So

        p(u)  =  sum_k s_k p_k,

    with s_k the share of line k, and p_k the density of `stretched` at Phi(a_k'z).

    Args:
        v: Points in the unit cube, evenly spread.
        number: Of each point: lines take turns.
        share: See `stretched`.
    """
    d, end = v.shape[1], _END_OF_SEVERAL
    lines = np.concatenate([np.eye(d), np.full((1, d), d**-0.5)])
    shares = np.append(np.full(d, 2.0 / (3.0 * d)), 1.0 / 3.0)
    way = lines[np.where(number % 3 == 0, d, (number - number // 3 - 1) % d)]
    z = ndtri(jnp.clip(v, _LAST, 1.0 - _LAST))
    along = jnp.sum(z * way, axis=1)
    far, _ = stretched(ndtr(along), share, end)
    z = z + (ndtri(far) - along)[:, None] * way
    tail = ndtr(-jnp.abs(z @ lines.T))
    inside = tail > np.exp(-end)
    more = jnp.where(inside, 1.0 / jnp.where(inside, tail * (1.0 - tail), 1.0), 0.0) @ shares
    return ndtr(z), (1.0 - share) + share / (2.0 * end) * more


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
    _, u_of_v = _fine(share, _END)
    each = np.linspace(0.0, 1.0, _NODES + 1) / rows
    whole = np.linspace(0.0, 1.0, u_of_v.size)
    g = sum(np.interp(each + i / rows, whole, u_of_v) for i in range(rows)) / rows
    table = np.interp(np.linspace(g[0], g[-1], _NODES + 1), g, each)
    row = jnp.floor(v * rows)
    return row / rows + _interpolated(v * rows - row, table)


@functools.cache
def _fine(share: float, end: float) -> tuple[np.ndarray, np.ndarray]:
    """y(v), and u(v) on a finer grid, for evenly spread v from 0 to 1."""
    y = np.linspace(-end, end, 32 * _NODES)
    u = 1.0 / (1.0 + np.exp(-y))
    level = (1.0 - share) * u + share * (y + end) / (2.0 * end)
    fine = np.linspace(level[0], level[-1], 32 * _NODES + 1)
    y_of_v = np.interp(np.linspace(0.0, 1.0, _NODES + 1), level, y)
    return y_of_v, np.interp(fine, level, u)


def _interpolated(v: Float[Array, "..."], table: np.ndarray) -> Float[Array, "..."]:
    """The values of a table over [0, 1] between its evenly spread nodes."""
    nodes, place = jnp.asarray(table), v * (table.size - 1)
    node = jnp.clip(place.astype(int), 0, table.size - 2)
    return nodes[node] + (place - node) * (nodes[node + 1] - nodes[node])

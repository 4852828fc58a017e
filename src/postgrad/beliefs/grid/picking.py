"""Draws from very many points by inversion, without computing the weights of all of them."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, Int, PyTree

from postgrad.beliefs.grid.natural_parameters import LEAF, Rows, Tally
from postgrad.beliefs.grid.weights import cumulate, pick_in_rows

# Running sums are taken over so many numbers at once.
_PART = 16
# A draw from a leaf computes the weights of the leaf: 64 draws as many as four blocks have.
_MANY_DRAWS, _FEW_BLOCKS = 64, 8


@custom_vmap
def pick(
    live: Rows, tally: Tally, statistics: Float[Array, " m"], u: Float[Array, ""]
) -> Int[Array, ""]:
    """The number of a point: of its block, its leaf and itself, each by inversion of the rest of u.

    Under `vmap` over u alone, many draws from few blocks read running sums over all live points,
    whose weights are then computed once and not for each draw.

    Args:
        live: The points.
        tally: Their weights under the statistics.
        statistics: S, without the term that all points share.
        u: From where to draw.
    """
    top = jnp.max(tally.blocks)
    block, u = _invert(jnp.exp(tally.blocks - top), u)
    leaf, u = _invert(jnp.exp(tally.leaves[block] - tally.blocks[block]), u)
    leaf = block * tally.leaves.shape[1] + leaf
    row, _ = _invert(jnp.exp(live.leaf_log_weights(leaf, statistics) - top), u)
    return live.point(leaf * LEAF + row)


@pick.def_vmap
def _(size: int, batched: list[Any], *arguments: PyTree) -> tuple[Array, bool]:
    axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
    one_by_one = jax.vmap(pick.fun, in_axes=axes, axis_size=size)
    live, *_ = arguments
    if size < _MANY_DRAWS or any(jax.tree.leaves(batched[:-1])):
        return one_by_one(*arguments), True
    few = live.blocks <= _FEW_BLOCKS
    return lax.cond(few, lambda: _pick_at_once(*arguments), lambda: one_by_one(*arguments)), True


def _pick_at_once(
    live: Rows, tally: Tally, statistics: Float[Array, " m"], u: Float[Array, " k"]
) -> Int[Array, " k"]:
    """The same points, up to rounding, from running sums over all of a few blocks."""
    top = jnp.max(tally.blocks)
    blocks, size = live.log_prior.shape

    def visit(block: Array, mass: Array) -> Array:
        here = jnp.exp(live.log_weights(block, statistics[:, None])[:, 0] - top)
        return lax.dynamic_update_index_in_dim(mass, here, block, 0)

    nothing = jnp.zeros((min(blocks, _FEW_BLOCKS), size))
    mass = lax.fori_loop(0, live.blocks, visit, nothing)
    row, _ = pick_in_rows(mass.reshape(1, -1), jnp.zeros(u.shape, jnp.int32), u)
    return live.point(row)


def _invert(mass: Float[Array, " k"], u: Array) -> tuple[Array, Array]:
    """The first entry whose running sum exceeds u of the total, and the rest of u within it.

    Of many entries first the part: running sums of n entries are a product with n^2 numbers.
    """
    if mass.shape[0] > _PART and mass.shape[0] % _PART == 0:
        parts = mass.reshape(-1, _PART)
        part, u = _invert(jnp.sum(parts, axis=1), u)
        entry, u = _invert(parts[part], u)
        return part * _PART + entry, u
    cumulated = cumulate(mass)
    target = u * cumulated[-1]
    index = jnp.minimum(jnp.sum(cumulated <= target, dtype=jnp.int32), mass.shape[0] - 1)
    return index, jnp.clip(1.0 - (cumulated[index] - target) / mass[index], 0.0, 1.0)

"""The log-weights of very many points as a table times a vector, block by block.

Loops over blocks need little memory and stay in the processor's caches. How many blocks are in use
is a number in the program, not a shape, so that one program serves many points and few.

`sweep` and `log_normaliser` are functions of one run. Under `vmap` they read each block once for
all runs, with the runs along the last axis, over which compiled loops vectorise.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

# Points come in leaves, and leaves in blocks: a draw finds its block, its leaf, its point.
LEAF = 128
# How many points `sort_out` takes at a time; points are padded to a multiple of this.
SEARCHED = 128 * LEAF
# The share l of the data before the search: see `SufficientWeights`.
SHARE = 0.2
# Up to this many statistics a product is written as a sum.
_FEW = 32
# How many points `log_normaliser` takes at a time, at most: on a CPU so few that their weights in
# all runs stay in the caches between two matrix products.
_PIECE = {"cpu": 2 * LEAF, "elsewhere": SEARCHED}
# Above -inf, so that differences from -inf are not NaN.
_BOTTOM = -1e300


class Rows(eqx.Module):
    """Natural parameters and log-prior of points.

    Attributes:
        natural: phi_i.
        log_prior: log pi_0(theta_i); -inf where a block is padded.
        index: i.
        blocks: How many blocks are in use.
    """

    natural: Float[Array, "blocks m rows"]
    log_prior: Float[Array, "blocks rows"]
    index: Int[Array, "blocks rows"]
    blocks: Int[Array, ""]

    def log_weights(
        self, block: Array, statistics: Float[Array, "m runs"]
    ) -> Float[Array, "rows runs"]:
        """log pi_0(theta_i) + phi_i . S for one block."""
        return _product(self.natural[block], statistics) + self.log_prior[block][:, None]

    def leaf_log_weights(self, leaf: Array, statistics: Float[Array, " m"]) -> Array:
        """The same for one leaf."""
        blocks, m, rows = self.natural.shape
        leaves = rows // LEAF
        natural = self.natural.reshape(blocks, m, leaves, LEAF)
        log_prior = self.log_prior.reshape(-1, LEAF)[leaf]
        if m > _FEW:
            return statistics @ natural[leaf // leaves, :, leaf % leaves] + log_prior
        # As in `_product`. Drawn from many leaves, phi would be copied first, in ten times as long.
        return sum(
            (natural[leaf // leaves, k, leaf % leaves] * statistics[k] for k in range(m)), log_prior
        )

    def point(self, row: Array) -> Array:
        """The number of the point in a row."""
        return self.index.reshape(-1)[row]

    def table(self) -> Float[Array, "n m"]:
        """phi_i of all rows, one after the other."""
        return jnp.swapaxes(self.natural, 1, 2).reshape(-1, self.natural.shape[1])


def _product(natural: Float[Array, "m rows"], statistics: Float[Array, "m runs"]) -> Array:
    """phi_i . S of each row; if there are few statistics, such that it fuses with what follows."""
    m = natural.shape[0]
    if m > _FEW:
        return natural.T @ statistics
    return sum((natural[k][:, None] * statistics[k] for k in range(m)), jnp.zeros(()))


class Tally(eqx.Module):
    """The total weight of each block and leaf; -inf in those that are not in use.

    Attributes:
        blocks: The log of the total weight of each block.
        leaves: The same of each leaf.
        peaks: The largest log-weight in each leaf.
    """

    blocks: Float[Array, " blocks"]
    leaves: Float[Array, "blocks leaves"]
    peaks: Float[Array, "blocks leaves"]

    @property
    def log_total(self) -> Float[Array, ""]:
        """log sum_i w_i."""
        return logsumexp(self.blocks)


def blank(rows: Rows) -> Tally:
    """A tally of -inf everywhere."""
    count, size = rows.log_prior.shape
    nothing = jnp.full((count, size // LEAF), -jnp.inf)
    return Tally(jnp.full(count, -jnp.inf), nothing, nothing)


def _vmap_as_stack(stack: Callable[[Rows, Any], Any]) -> Callable[[Rows, Any], Any]:
    """A function of one run, from one of a stack of runs along axis 0 which share their rows.

    `vmap` of the result calls `stack`: JAX's own rule would turn each write into a large array
    inside the loop over blocks into a scatter, which is slow on CPUs.
    """

    @custom_vmap
    def runs(rows: Rows, each: Any) -> Any:
        return stack(rows, each)

    @runs.def_vmap
    def batch(size: int, batched: Any, rows: Rows, each: Any) -> tuple[Any, Any]:
        if any(jax.tree.leaves(batched[0])):  # rows are not shared
            axes = jax.tree.map(lambda is_batched: 0 if is_batched else None, tuple(batched))
            out = jax.vmap(stack, in_axes=axes, axis_size=size)(rows, each)
        else:

            def merge(is_batched: bool, leaf: Array) -> Array:
                leaf = leaf if is_batched else jnp.broadcast_to(leaf, (size, *leaf.shape))
                return leaf.reshape(-1, *leaf.shape[2:])

            merged = runs(rows, jax.tree.map(merge, batched[1], each))
            out = jax.tree.map(lambda leaf: leaf.reshape(size, -1, *leaf.shape[1:]), merged)
        return out, jax.tree.map(lambda leaf: True, out)

    def one(rows: Rows, own: Any) -> Any:
        out = runs(rows, jax.tree.map(lambda leaf: leaf[None], own))
        return jax.tree.map(lambda leaf: leaf[0], out)

    return one


@jax.jit  # outside of a program, a loop would be compiled anew at each call
def sweep(rows: Rows, statistics: Float[Array, " m"], tally: Tally) -> Tally:
    """The tally of the blocks in use; the others stay as they were."""
    swept: Tally = _sweep(rows, (statistics, tally))
    return swept


@_vmap_as_stack
def _sweep(rows: Rows, runs: tuple[Float[Array, "runs m"], Tally]) -> Tally:
    statistics, tally = runs[0].T, runs[1]

    def put(into: Array, new: Array, block: Array) -> Array:
        return lax.dynamic_update_index_in_dim(into, new.T, block, 1)

    def visit(block: Array, tally: Tally) -> Tally:
        log_weights = rows.log_weights(block, statistics)
        leaves = log_weights.reshape(-1, LEAF, log_weights.shape[1])
        peaks = jnp.max(leaves, axis=1)
        tops = jnp.maximum(peaks, _BOTTOM)
        sums = jnp.sum(jnp.exp(leaves - tops[:, None]), axis=1)
        top = jnp.max(tops, axis=0)
        total = top + jnp.log(jnp.sum(sums * jnp.exp(tops - top), axis=0))
        return Tally(
            put(tally.blocks, total, block),
            put(tally.leaves, peaks + jnp.log(sums), block),
            put(tally.peaks, peaks, block),
        )

    return lax.fori_loop(0, rows.blocks, visit, tally)


@jax.jit
def log_normaliser(rows: Rows, statistics: Float[Array, " m"]) -> Float[Array, ""]:
    """log Z(S) = log sum_i w_i, whose gradient in S is the mean of phi under the weights."""
    # JAX cannot differentiate the loop over blocks in reverse, but the gradient is known.
    fixed = lax.stop_gradient(statistics)
    value, gradient = _log_normaliser(rows, fixed)
    return value + gradient @ (statistics - fixed)


@_vmap_as_stack
def _log_normaliser(
    rows: Rows, statistics: Float[Array, "runs m"]
) -> tuple[Float[Array, " runs"], Float[Array, "runs m"]]:
    """log Z(S) and its gradient."""
    runs_last = statistics.T
    size = rows.log_prior.shape[1]
    step = min(size, _PIECE["cpu" if jax.default_backend() == "cpu" else "elsewhere"])
    pieces = size // step

    def visit(piece: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        peak, sums = so_far
        block, place = piece // pieces, piece % pieces * step
        natural = lax.dynamic_slice_in_dim(rows.natural[block], place, step, axis=1)
        log_prior = lax.dynamic_slice_in_dim(rows.log_prior[block], place, step)
        log_weights = natural.T @ runs_last + log_prior[:, None]
        higher = jnp.maximum(peak, jnp.max(log_weights, axis=0))
        weights = jnp.exp(log_weights - higher)
        # One product sums phi times the weights, and the weights themselves.
        summed = jnp.concatenate([natural, jnp.ones((1, step))]) @ weights
        return higher, sums * jnp.exp(peak - higher) + summed

    runs, m = statistics.shape
    start = (jnp.full(runs, _BOTTOM), jnp.zeros((m + 1, runs)))
    peak, sums = lax.fori_loop(0, rows.blocks * pieces, visit, start)
    return peak + jnp.log(sums[-1]), (sums[:-1] / sums[-1]).T


def average(
    rows: Rows, statistics: Float[Array, " m"], log_total: Float[Array, ""], values: PyTree
) -> PyTree:
    """sum_i w_i v_i / sum_i w_i over the blocks in use, with v_i of all points along axis 0."""

    def visit(block: Array, so_far: PyTree) -> PyTree:
        shares = jnp.exp(rows.log_weights(block, statistics[:, None])[:, 0] - log_total)

        def add(total: Array, leaf: Array) -> Array:
            here = leaf.at[rows.index[block]].get(mode="clip")  # padded rows have no weight
            return total + jnp.tensordot(shares, here, axes=1)

        return jax.tree.map(add, so_far, values)

    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:]), values)
    return lax.fori_loop(0, rows.blocks, visit, nothing)


def sort_out(
    rows: Rows, statistics: Float[Array, "m runs"], peak: Float[Array, " runs"], gap: Array
) -> tuple[Array, Array]:
    """Which points are within `gap` nats of the peak in some run, and the weight of the others.

    Returns:
        Marks, (blocks * rows,), and for each run log sum_out pi_0(theta_i) exp((1 - SHARE) phi_i
        . S) over the points that are not marked.
    """
    natural, log_prior = rows.natural, rows.log_prior

    def visit(block: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        near, total = so_far
        prior = log_prior[block][:, None]
        below = natural[block].T @ statistics + prior - peak
        here = jnp.any(below >= -gap, axis=1)
        tempered = jnp.exp(SHARE * prior + (1.0 - SHARE) * below)
        total += jnp.sum(jnp.where(here[:, None], 0.0, tempered), axis=0)
        return near.at[block].set(here), total

    start = (jnp.zeros(log_prior.shape, bool), jnp.zeros_like(peak))
    near, total = lax.fori_loop(0, log_prior.shape[0], visit, start)
    return near.reshape(-1), (1.0 - SHARE) * peak + jnp.log(total)


def take(rows: Rows, index: Int[Array, "blocks rows"], count: Array) -> Rows:
    """The first `count` of the indexed points, in blocks of their own."""
    put = lax.dynamic_update_index_in_dim
    size = rows.log_prior.shape[1]
    place = jnp.arange(index.shape[1])

    def copy(block: Array, taken: tuple[Array, Array]) -> tuple[Array, Array]:
        used = block * index.shape[1] + place < count
        source, row = index[block] // size, index[block] % size
        prior = jnp.where(used, rows.log_prior[source, row], -jnp.inf)
        phi = rows.natural[source, :, row].T
        return put(taken[0], phi, block, 0), put(taken[1], prior, block, 0)

    blocks = (-(-count // index.shape[1])).astype(jnp.int32)
    nothing = jnp.zeros_like(rows.natural), jnp.full_like(rows.log_prior, -jnp.inf)
    phi, prior = lax.fori_loop(0, blocks, copy, nothing)
    return Rows(phi, prior, index, blocks)


def sweep_runs(rows: Rows, statistics: Float[Array, "*runs m"]) -> Tally:
    """`sweep` from a blank tally, for one run or for a stack of them along the leading axis."""

    def one(statistics: Float[Array, " m"]) -> Tally:
        return sweep(rows, statistics, blank(rows))

    return one(statistics) if statistics.ndim == 1 else jax.vmap(one)(statistics)

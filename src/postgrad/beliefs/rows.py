"""The log-weights of very many points as a table times a vector, block by block.

Loops over blocks keep memory small and work in the caches; how many blocks are in use is a number
in the program, not a shape, so that one program serves many points and few.
"""

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from postgrad.lanes import vmap_last

# Points come in leaves, and leaves in blocks: a draw finds its block, its leaf, its point.
LEAF = 128
# Above -inf, so that what is -inf has a number as its distance from it.
_BOTTOM = -1e300


class Rows(eqx.Module):
    """Natural parameters and log-prior of points.

    Attributes:
        natural: phi_i.
        log_prior: log pi_0(theta_i); -inf where a block is padded.
        index: i; None if the rows are all points in order.
        blocks: How many blocks are in use.
    """

    natural: Float[Array, "blocks rows m"]
    log_prior: Float[Array, "blocks rows"]
    index: Int[Array, "blocks rows"] | None
    blocks: Int[Array, ""]

    def log_weights(self, block: Array, statistics: Float[Array, " m"]) -> Float[Array, " rows"]:
        """Log pi_0(theta_i) + phi_i . S for one block."""
        return self.natural[block] @ statistics + self.log_prior[block]

    def leaf_log_weights(self, leaf: Array, statistics: Float[Array, " m"]) -> Array:
        """The same for one leaf."""
        natural = self.natural.reshape(-1, LEAF, self.natural.shape[-1])[leaf]
        return natural @ statistics + self.log_prior.reshape(-1, LEAF)[leaf]

    def point(self, row: Array) -> Array:
        """The number of the point in a row."""
        return row if self.index is None else self.index.reshape(-1)[row]


def sweep(rows: Rows, statistics: Float[Array, " m"]) -> tuple[Array, Array]:
    """The log of the total weight, and the largest log-weight, of each leaf: (blocks, leaves)."""

    def visit(block: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        leaves = rows.log_weights(block, statistics).reshape(-1, LEAF)
        peak = jnp.max(leaves, axis=1)
        top = jnp.maximum(peak, _BOTTOM)[:, None]
        mass = peak + jnp.log(jnp.sum(jnp.exp(leaves - top), axis=1))
        put = lax.dynamic_update_index_in_dim
        return put(found[0], mass, block, 0), put(found[1], peak, block, 0)

    nothing = jnp.full((rows.natural.shape[0], rows.natural.shape[1] // LEAF), -jnp.inf)
    return lax.fori_loop(0, rows.blocks, visit, (nothing, nothing))


def log_normaliser(rows: Rows, statistics: Float[Array, " m"]) -> Float[Array, ""]:
    """Log Z(S) = log sum_i w_i, whose gradient in S is the mean of phi under the weights."""
    fixed = lax.stop_gradient(statistics)

    def visit(block: Array, so_far: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        peak, total, moment = so_far
        log_weights = rows.log_weights(block, fixed)
        higher = jnp.maximum(peak, jnp.max(log_weights))
        weights = jnp.exp(log_weights - higher)
        shrink = jnp.exp(peak - higher)
        total = total * shrink + jnp.sum(weights)
        return higher, total, moment * shrink + weights @ rows.natural[block]

    start = (jnp.asarray(_BOTTOM), jnp.zeros(()), jnp.zeros_like(fixed))
    peak, total, moment = lax.fori_loop(0, rows.blocks, visit, start)
    # A loop has no reverse derivative of its own; we know this one.
    slope = lax.stop_gradient(moment / total)
    return lax.stop_gradient(peak + jnp.log(total)) + slope @ (statistics - fixed)


def sort_out(
    rows: Rows,
    statistics: Float[Array, "m runs"],
    peak: Float[Array, " runs"],
    gap: Array,
    share: Array,
) -> tuple[Array, Array]:
    """Which points are within `gap` nats of the peak in some run, and what the others weigh.

    Returns:
        Marks, (blocks * rows,), and for each run log sum_out pi_0(theta_i) exp((1 - share) phi_i
        . S) over the points that are in no run's neighbourhood.
    """

    def visit(block: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        near, total = so_far
        prior = rows.log_prior[block][:, None]
        below = rows.natural[block] @ statistics + prior - peak
        here = jnp.any(below >= -gap, axis=1)
        tempered = jnp.exp(share * prior + (1.0 - share) * below)
        total += jnp.sum(jnp.where(here[:, None], 0.0, tempered), axis=0)
        return near.at[block].set(here), total

    nowhere = jnp.zeros(rows.log_prior.shape, bool)
    near, total = lax.fori_loop(0, rows.blocks, visit, (nowhere, jnp.zeros_like(peak)))
    return near.reshape(-1), (1.0 - share) * peak + jnp.log(total)


def take(rows: Rows, index: Int[Array, "blocks rows"], count: Array) -> Rows:
    """The first `count` of the indexed points, in blocks of their own."""
    natural = rows.natural.reshape(-1, rows.natural.shape[-1])[index]
    log_prior = rows.log_prior.reshape(-1)[index]
    used = jnp.arange(index.size).reshape(index.shape) < count
    blocks = -(-count // index.shape[1])
    return Rows(natural, jnp.where(used, log_prior, -jnp.inf), index, blocks.astype(jnp.int32))


def sweep_runs(rows: Rows, statistics: Float[Array, " m *runs"]) -> tuple[Array, Array]:
    """`sweep` for one run, or for a stack of them along the last axis."""
    if statistics.ndim == 1:
        return sweep(rows, statistics)
    return vmap_last(lambda one: sweep(rows, one), statistics[:, 0])(statistics)

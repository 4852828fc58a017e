"""What is kept of the data so that their likelihood can be computed at any theta later.

Beliefs that move their draws of theta need

    l_t(theta)  =  sum_{s <= t} sum_j w_{s,j} log f(y_{s,j}; x_s, theta)

at values of theta that are not known when the data arrive. There are two ways, and
`sufficient_totals.choose` finds out which one a problem allows:

==================  ==========================  =======================  =======================
                    which models                time for one l_t(theta)  memory
==================  ==========================  =======================  =======================
`SufficientTotals`  exponential families that   O(1), whatever the       O(1)
                    decisions shift or scale    number of data
`KeptRows`          all                         O(n) with n data         O(n), in buffers that
                                                                         grow between stages
==================  ==========================  =======================  =======================

Shapes do not change inside compiled programs, so the loops around them enlarge the buffers:
`room` says how many rows fit, and `with_room` enlarges.
"""

import abc
import math
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.beliefs.belief import log_likelihood
from postgrad.beliefs.forgetting import fade
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import context_of, in_context
from postgrad.problem.problem import Decision, Model

# How many numbers of the rows are read at a time; how many rows a buffer has at first, and by which
# factor it grows: in few, large steps, as each size is a program to compile. If the buffer had no
# more rows than are read at a time, XLA would move the reading out of the loop, and do it whether
# rows are in use or not.
_BLOCK, _LEAST, _GROWTH = 32, 1024, 4
# Rows that have faded to this weight may be dropped.
_NEGLIGIBLE = 1e-12
_UNLIMITED = 1 << 62


class KeptLikelihood(eqx.Module):
    """l_t: the log-likelihood of all data so far, as a function of theta."""

    @abc.abstractmethod
    def add(self, likelihood: Model, batch: Batch) -> Self:
        """With one more batch."""

    @abc.abstractmethod
    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Float[Array, ""]:
        """l_t(theta)."""

    @abc.abstractmethod
    def faded(self, share: Float[Array, ""]) -> Self:
        """This share of l_t."""

    @property
    @abc.abstractmethod
    def is_whole(self) -> Bool[Array, ""]:
        """Whether all data are in l_t; if not, l_t is NaN."""

    @abc.abstractmethod
    def is_like(self, other: "KeptLikelihood") -> bool:
        """Whether the other is of the same kind of data, whatever their values."""


class KeptRows(KeptLikelihood):
    """All data, row by row: l_t(theta) is computed from the densities.

    If a row does not fit, l_t is NaN: left out, it would give a posterior that looks right.

    Attributes:
        x: The decision under which each row arose.
        y: The observation.
        weight: How much the row counts; zero for rows that are not in use.
        count: How many rows are in use.
        context: The context in which each row arose; None where there are none.
    """

    x: Float[Array, "capacity ..."]
    y: Float[Array, "capacity ..."]
    weight: Float[Array, " capacity"]
    count: Int[Array, ""]
    # Follows from the problem, and is not part of an agent's settings.
    context: PyTree = eqx.field(default=None, metadata={"of_this_process": True})

    @classmethod
    def empty(cls, likelihood: Model, x: Decision, theta: PyTree) -> Self:
        """No rows in use. The others hold a draw from the model, whose density is finite."""
        y = _draw(likelihood, x, theta)
        x, y = (_repeated(entry, np.float64) for entry in (x, y))
        context = jax.tree.map(lambda z: _repeated(z, z.dtype), context_of(likelihood))
        return cls(x, y, on_device(np.zeros(_LEAST)), on_device(np.int32(0)), context)

    @property
    def capacity(self) -> int:
        """How many rows fit."""
        return self.weight.shape[0]

    def add(self, likelihood: Model, batch: Batch) -> Self:
        """Writes the rows behind those in use."""
        x, y, rows = batch.x, batch.y.astype(jnp.float64), len(batch.y)
        weight = jnp.ones(rows) if batch.weight is None else batch.weight
        if rows > 1:  # rows without weight go last, where the next batch overwrites them
            order = jnp.argsort(weight == 0, stable=True)
            y, weight = y[order], weight[order]
        if rows > self.capacity:
            full = jnp.full_like(self.count, self.capacity)
            return replaced(self, weight=jnp.full_like(self.weight, jnp.nan), count=full)
        fits = self.count + rows <= self.capacity

        def write(into: Array, new: Array) -> Array:
            return lax.dynamic_update_slice_in_dim(into, new, self.count, axis=0)

        def same(into: Array, z: Array) -> Array:
            return write(into, jnp.broadcast_to(z, (rows, *z.shape)))

        return type(self)(
            x=same(self.x, x),
            y=write(self.y, y),
            weight=jnp.where(fits, write(self.weight, weight), jnp.nan),
            count=self.count + jnp.sum(weight != 0, dtype=jnp.int32),
            context=jax.tree.map(same, self.context, context_of(likelihood)),
        )

    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Array:
        """Sums the log-densities of the rows in use, a block at a time."""
        return _read(theta, likelihood, self)

    def faded(self, share: Array) -> Self:
        """All weights multiplied by the share."""
        return replaced(self, weight=fade(self.weight, share))

    @property
    def is_whole(self) -> Array:
        """False after rows that did not fit."""
        return ~jnp.any(jnp.isnan(self.weight))

    def is_like(self, other: KeptLikelihood) -> bool:
        """Rows of the same shapes."""
        return isinstance(other, KeptRows) and all(
            a.shape[1:] == b.shape[1:] for a, b in ((self.x, other.x), (self.y, other.y))
        )

    @property
    def stride(self) -> int:
        """How many rows a block has, a power of two."""
        entries = math.prod(self.y.shape[1:])
        return max(1, _BLOCK >> (max(entries, 1) - 1).bit_length())

    @property
    def blocks(self) -> Int[Array, ""]:
        """How many blocks are in use."""
        used = jnp.minimum(self.count, self.capacity)
        return (used + self.stride - 1) // self.stride

    def block(self, likelihood: Model, theta: PyTree, k: Array) -> Float[Array, ""]:
        """The k-th block's part of l_t(theta)."""

        def part(array: Array) -> Array:
            return lax.dynamic_slice_in_dim(array, k * self.stride, self.stride)

        def row(x: Decision, y: Array, weight: Array, z: PyTree) -> Array:
            f = likelihood if z is None else in_context(likelihood, z)
            return log_likelihood(f, theta, Batch(x, y[None], weight[None]))

        weight, context = part(self.weight), jax.tree.map(part, self.context)
        each = jax.vmap(row)(part(self.x), part(self.y), weight, context)
        return jnp.sum(jnp.where(jnp.isnan(weight), jnp.nan, each))

    def with_room(self, rows: int) -> Self:
        """With room for at least so many rows more; faded rows are dropped if it lacks."""
        if self.capacity - int(self.count) >= rows:
            return self
        weight = np.asarray(self.weight)
        kept = np.flatnonzero(~(np.abs(weight) <= _NEGLIGIBLE))  # NaN stays
        capacity = self.capacity
        while capacity < len(kept) + rows:
            capacity *= _GROWTH
        blank = (0, capacity - len(kept))  # copies of the first row, without weight
        index, weight = np.pad(kept, blank), np.pad(weight[kept], blank)
        x, y, context = jax.tree.map(
            lambda rows: jnp.asarray(np.asarray(rows)[index]), (self.x, self.y, self.context)
        )
        count = jnp.asarray(len(kept), self.count.dtype)
        return type(self)(x, y, jnp.asarray(weight), count, context)


def _repeated(entry: Array, kind: Any) -> Float[Array, "capacity ..."]:
    """The same row as often as a buffer has rows at first."""
    shape = (_LEAST, *entry.shape)
    if is_concrete(entry):  # on the host, where nothing is to be compiled
        return on_device(np.full(shape, entry, kind))
    return jnp.full(shape, entry, kind)


@compiled_at_once
def _draw(likelihood: Model, x: Decision, theta: PyTree) -> Array:
    return likelihood(x, theta).sample(random.key(0))


# Blocks not in use are not read, so the number of iterations is not known to the compiler, and
# JAX cannot differentiate such a loop. The derivative is the loop over the blocks' derivatives.
@eqx.filter_custom_vjp
def _read(theta: PyTree, likelihood: Model, rows: KeptRows) -> Float[Array, ""]:
    def more(k: Array, total: Array) -> Array:
        return total + rows.block(likelihood, theta, k)

    return lax.fori_loop(0, rows.blocks, more, jnp.zeros(()))


def _read_and_differentiate(
    perturbed: PyTree, theta: PyTree, likelihood: Model, rows: KeptRows
) -> tuple[Array, PyTree]:
    del perturbed
    block = jax.value_and_grad(lambda theta, k: rows.block(likelihood, theta, k))

    def more(k: Array, carry: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        return jax.tree.map(jnp.add, carry, block(theta, k))

    nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, theta)
    return lax.fori_loop(0, rows.blocks, more, nothing)


def _scale(slope: PyTree, factor: Array, *_: Any) -> PyTree:
    return jax.tree.map(lambda leaf: factor * leaf, slope)


_read.def_fwd(_read_and_differentiate)
_read.def_bwd(_scale)


def with_room(tree: PyTree, rows: int) -> PyTree:
    """The tree with room for so many rows more in all `KeptRows` in it."""
    return jax.tree.map(
        lambda node: node.with_room(rows) if _is_kept(node) else node, tree, is_leaf=_is_kept
    )


def room(tree: PyTree) -> int:
    """How many rows fit into all `KeptRows` in the tree; very many, if it has none."""
    nodes = [node for node in jax.tree.leaves(tree, is_leaf=_is_kept) if _is_kept(node)]
    return min((node.capacity - int(node.count) for node in nodes), default=_UNLIMITED)


def _is_kept(node: Any) -> bool:
    return isinstance(node, KeptRows)

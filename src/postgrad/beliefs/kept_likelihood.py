"""What the data said, kept so that their likelihood can be had at any theta later.

Beliefs that move their draws of theta need

    l_t(theta)  =  sum_{s <= t} sum_j w_{s,j} log f(y_{s,j}; x_s, theta)

at values of theta which nobody had thought of when the data came. There are two ways to keep what
it takes, and `choose` finds out which one a problem allows:

=========  ==========================  ================================  ======================
           which models                time for one l_t(theta)           memory
=========  ==========================  ================================  ======================
`Totals`   exponential families that   O(1), whatever the number of      O(1)
           decisions shift or scale    data
`History`  all                         O(n) with n data                  O(n), in buffers that
                                                                         have to be made to fit
=========  ==========================  ================================  ======================

Shapes do not change inside compiled programs, so it is the loops around them that see to the
buffers: `room` says how many rows fit, and `with_room` makes some.
"""

import abc
import math
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.beliefs.belief import log_likelihood
from postgrad.beliefs.decision_shift import Shift, find_shift
from postgrad.beliefs.forgetting import Memory
from postgrad.distributions.density import settle
from postgrad.distributions.exponential_families import ExponentialFamily, family_of
from postgrad.errors import ModelError
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.numerics.validate import is_concrete
from postgrad.problem.problem import Decision, Model, Problem

# How many values of theta and how many decisions statistics are tried on, and by how many nats for
# each observation they may differ from the densities, whether by rounding or because the model is
# no such family. A million observations then are off by a hundredth.
_THETAS, _DECISIONS, _TOLERANCE = 256, 8, 1e-8
# How many numbers of a history are read at a time, and how many rows it has at least: more than are
# read at a time, or else the compiler takes the reading of the only ones out of the loop, and it is
# done whether any are in use or not.
_BLOCK, _LEAST = 32, 64
# Rows that have faded to this weight may be dropped.
_NEGLIGIBLE = 1e-12
_UNLIMITED = 1 << 62


class Evidence(eqx.Module):
    """l_t: the log-likelihood of all data so far, as a function of theta."""

    @abc.abstractmethod
    def add(
        self,
        likelihood: Model,
        x: Decision,
        batch: Float[Array, "D ..."],
        weight: Float[Array, " D"] | None,
    ) -> Self:
        """The evidence with one more batch in it, which arose under x."""

    @abc.abstractmethod
    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Float[Array, ""]:
        """l_t(theta)."""

    @abc.abstractmethod
    def faded(self, memory: Memory) -> Self:
        """What remains of it, now that one more batch is there."""

    @property
    @abc.abstractmethod
    def is_whole(self) -> Bool[Array, ""]:
        """Whether all data are in it; else l_t is not a number."""

    @abc.abstractmethod
    def is_like(self, other: "Evidence") -> bool:
        """Whether the other is evidence of the same kind of data, whatever they said."""


class Totals(Evidence):
    """Sums of sufficient statistics: l_t(theta) = phi(x_0, theta) . S_t + s_t.

    Attributes:
        family: The model's family.
        shift: What the decision does to it; None if nothing.
        x: x_0, the decision at which the data are as if seen.
        theta: Any value, to know the support of the data by.
        sums: S_t, and s_t as the last entry.
    """

    family: ExponentialFamily = fixed()
    shift: Shift | None = fixed()
    x: Decision = fixed()
    theta: PyTree = fixed()
    sums: Sum

    def add(self, likelihood: Model, x: Decision, batch: Array, weight: Array | None) -> Self:
        """Adds the statistics; NaN if the data lie outside the family's support."""
        safe, inside = settle(likelihood(x, self.theta), batch)
        each, base = jax.vmap(self.family.statistics)(safe), jax.vmap(self.family.log_base)(safe)
        if weight is not None:
            each, base = weight[:, None] * each, weight * base
            inside |= weight == 0
        total, shared = jnp.sum(each, axis=0), jnp.sum(base)
        if self.shift is None:
            step = jnp.append(total, shared)
        else:
            step = self.shift.undo(self.family, likelihood, x, total).at[-1].add(shared)
        step = jnp.where(jnp.all(inside), step, jnp.nan)
        return eqx.tree_at(lambda self: self.sums, self, self.sums.add(step))

    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Array:
        """phi(x_0, theta) . S_t + s_t."""
        natural, sums = self.family.natural(likelihood(self.x, theta)), self.sums.value
        return natural @ sums[:-1] + sums[-1]

    def faded(self, memory: Memory) -> Self:
        """All sums alike."""
        if memory.forget is None:
            return self
        return eqx.tree_at(lambda self: self.sums, self, self.sums.scaled(memory.forget))

    @property
    def is_whole(self) -> Array:
        """Not after data outside the support."""
        return ~jnp.any(jnp.isnan(self.sums.value))

    def is_like(self, other: Evidence) -> bool:
        """Sums of the same statistics."""
        return _shapes(self) == _shapes(other)


class History(Evidence):
    """All data, row by row: l_t(theta) is computed from the densities.

    A row that does not fit is no row that may be left out: then l_t is NaN. The loops see to it
    that this does not happen.

    Attributes:
        x: The decision under which each row arose.
        y: The observation.
        weight: How much it counts; zero for the rows that are not in use yet.
        count: How many are in use.
    """

    x: Float[Array, "capacity ..."]
    y: Float[Array, "capacity ..."]
    weight: Float[Array, " capacity"]
    count: Int[Array, ""]

    @classmethod
    def empty(cls, likelihood: Model, x: Decision, theta: PyTree) -> Self:
        """No rows yet. Those not in use hold values at which the density is a number."""
        y = _draw(likelihood, x, theta)
        x, y = (jnp.full((_LEAST, *entry.shape), entry, jnp.float64) for entry in (x, y))
        return cls(x, y, jnp.zeros(_LEAST), jnp.zeros((), jnp.int32))

    @property
    def capacity(self) -> int:
        """How many rows fit, a power of two."""
        return self.weight.shape[0]

    def add(self, likelihood: Model, x: Decision, batch: Array, weight: Array | None) -> Self:
        """Writes the rows behind those in use."""
        rows = batch.shape[0]
        y = batch.astype(jnp.float64)
        weight = jnp.ones(rows) if weight is None else weight
        if rows > 1:  # those without weight go last, and the next batch may have their place
            order = jnp.argsort(weight == 0, stable=True)
            y, weight = y[order], weight[order]
        if rows > self.capacity:
            none = jnp.full_like(self.weight, jnp.nan), jnp.full_like(self.count, self.capacity)
            return eqx.tree_at(lambda self: (self.weight, self.count), self, none)
        fits = self.count + rows <= self.capacity

        def write(into: Array, new: Array) -> Array:
            return lax.dynamic_update_slice_in_dim(into, new, self.count, axis=0)

        written = write(self.weight, weight)
        return type(self)(
            x=write(self.x, jnp.broadcast_to(x, (rows, *x.shape))),
            y=write(self.y, y),
            weight=jnp.where(fits, written, jnp.nan),
            count=self.count + jnp.sum(weight != 0, dtype=jnp.int32),
        )

    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Array:
        """Sums the log-densities of the rows in use, a block at a time."""
        return _read(theta, likelihood, self)

    def faded(self, memory: Memory) -> Self:
        """All weights alike."""
        return eqx.tree_at(lambda self: self.weight, self, memory.fade(self.weight))

    @property
    def is_whole(self) -> Array:
        """Not after rows for which there was no room."""
        return ~jnp.any(jnp.isnan(self.weight))

    def is_like(self, other: Evidence) -> bool:
        """Rows of the same shapes."""
        return isinstance(other, History) and all(
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

        def row(x: Decision, y: Array, weight: Array) -> Array:
            return log_likelihood(likelihood, x, theta, y[None], weight[None])

        weight = part(self.weight)
        each = jax.vmap(row)(part(self.x), part(self.y), weight)
        return jnp.sum(jnp.where(jnp.isnan(weight), jnp.nan, each))


@eqx.filter_jit
def _draw(likelihood: Model, x: Decision, theta: PyTree) -> Array:
    return likelihood(x, theta).sample(random.key(0))


# Blocks not in use are not read, so the number of rounds is not known to the compiler, and it
# cannot differentiate such a loop. The derivative is the loop over the blocks' own.
@eqx.filter_custom_vjp
def _read(theta: PyTree, likelihood: Model, history: History) -> Float[Array, ""]:
    def more(k: Array, total: Array) -> Array:
        return total + history.block(likelihood, theta, k)

    return lax.fori_loop(0, history.blocks, more, jnp.zeros(()))


def _read_and_differentiate(
    perturbed: PyTree, theta: PyTree, likelihood: Model, history: History
) -> tuple[Array, PyTree]:
    del perturbed
    block = jax.value_and_grad(lambda theta, k: history.block(likelihood, theta, k))

    def more(k: Array, carry: tuple[Array, PyTree]) -> tuple[Array, PyTree]:
        return jax.tree.map(jnp.add, carry, block(theta, k))

    nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, theta)
    return lax.fori_loop(0, history.blocks, more, nothing)


def _scale(slope: PyTree, factor: Array, *_: Any) -> PyTree:
    return jax.tree.map(lambda leaf: factor * leaf, slope)


_read.def_fwd(_read_and_differentiate)
_read.def_bwd(_scale)


def with_room(tree: PyTree, rows: int) -> PyTree:
    """The tree with room for so many rows more in every history in it.

    Buffers grow to a power of two, so that there are few shapes to compile programs for. Rows that
    have faded away are dropped first.
    """
    return _each(tree, lambda history: _grown(history, rows))


def room(tree: PyTree) -> int:
    """How many rows fit into every history in the tree; very many, if there is none."""
    nodes = [node for node in jax.tree.leaves(tree, is_leaf=_is_history) if _is_history(node)]
    return min((node.capacity - int(node.count) for node in nodes), default=_UNLIMITED)


def _is_history(node: Any) -> bool:
    return isinstance(node, History)


def _each(tree: PyTree, change: Callable[[History], History]) -> PyTree:
    return jax.tree.map(
        lambda node: change(node) if _is_history(node) else node, tree, is_leaf=_is_history
    )


def _grown(history: History, rows: int) -> History:
    if history.capacity - int(history.count) >= rows:
        return history
    x, y, weight = (np.asarray(a) for a in (history.x, history.y, history.weight))
    kept = np.flatnonzero(~(np.abs(weight) <= _NEGLIGIBLE))  # NaN stays
    capacity = max(history.capacity, 1 << (len(kept) + rows - 1).bit_length())
    blank = np.zeros(capacity - len(kept), int)  # copies of the first row, with no weight
    index = np.concatenate([kept, blank])
    weight = np.where(np.arange(capacity) < len(kept), weight[index], 0.0)
    count = jnp.asarray(len(kept), history.count.dtype)
    return History(jnp.asarray(x[index]), jnp.asarray(y[index]), jnp.asarray(weight), count)


def choose(problem: Problem, thetas: PyTree, x: Decision) -> Evidence:
    """No evidence yet, in the form that serves the problem best.

    Args:
        problem: The problem, already tried on the thetas.
        thetas: Draws from the prior along the leading axis.
        x: The initial decision.
    """
    thetas = _central(thetas)
    first = jax.tree.map(lambda leaf: leaf[0], thetas)
    data = Problem(problem.cost, problem.likelihood, problem.feasible)
    totals = _totals(data, thetas, x, family_of(data.model(x, first)))
    return History.empty(data.model, x, first) if totals is None else totals


def renewed(
    kept: Evidence | None, memory: Memory, problem: Problem, thetas: PyTree, x: Decision
) -> Evidence:
    """The evidence of a belief that is bound to a problem: what it has already, or none yet.

    Raises:
        ModelError: If it has some, from data of another kind.
    """
    fresh = choose(problem, thetas, x)
    empty = is_concrete(memory.size) and not float(memory.size) > 0
    if kept is None or (empty and not isinstance(kept, History)):
        return fresh
    if kept.is_like(fresh):
        return kept  # with the room that somebody may have made
    if empty:
        return fresh
    raise ModelError(
        f"the belief has learned from data of another kind: it keeps their {type(kept).__name__}, "
        f"and the problem's model needs {type(fresh).__name__} of another family or other shapes"
    )


def _totals(
    problem: Problem, thetas: PyTree, x: Decision, family: ExponentialFamily | None
) -> Totals | None:
    """No evidence yet, as sums of statistics; None if the model has none."""
    if family is None:
        return None
    natural = np.asarray(_naturals(family, problem.model, x, thetas))
    finite = np.flatnonzero(np.isfinite(natural).all(axis=1))
    if len(finite) == 0:
        return None
    thetas = jax.tree.map(lambda leaf: leaf[finite], thetas)
    first = jax.tree.map(lambda leaf: leaf[0], thetas)
    shift = None
    if problem.kind(x, first).depends_on_decision:
        try:
            with np.errstate(all="ignore"):  # parameters may be infinite at other decisions
                shift = find_shift(family, problem, thetas, x)
        except np.linalg.LinAlgError:
            return None
        if shift is None:
            return None
    sums = Sum.zeros_like(jnp.zeros(natural.shape[1] + 1))
    totals = Totals(family, shift, jnp.full(x.shape, x, jnp.float64), first, sums)
    return totals if float(_gap(totals, problem, thetas)) <= _TOLERANCE else None  # NaN is not


@eqx.filter_jit
def _naturals(
    family: ExponentialFamily, model: Model, x: Decision, thetas: PyTree
) -> Float[Array, "n m"]:
    return jax.vmap(lambda theta: family.natural(model(x, theta)))(thetas)


def _central(thetas: PyTree) -> PyTree:
    """The half of some draws that is nearest to their median, the nearest first.

    A family is one for all theta or for none, but far out in a prior's tails rounding would hide
    which.
    """
    thetas = jax.tree.map(lambda leaf: leaf[: 2 * _THETAS], thetas)
    flat = np.concatenate(
        [np.asarray(leaf).reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(thetas)], axis=1
    )
    distance = np.abs(flat - np.median(flat, axis=0))
    distance /= np.median(distance, axis=0) + np.finfo(float).tiny
    nearest = np.argsort(distance.max(axis=1), kind="stable")[: (len(flat) + 1) // 2]
    return jax.tree.map(lambda leaf: leaf[nearest], thetas)


@eqx.filter_jit
def _gap(totals: Totals, problem: Problem, thetas: PyTree) -> Float[Array, ""]:
    """By how much statistics and densities differ at most, for data at several decisions."""
    x = totals.x
    noise = np.random.default_rng(0).normal(size=(_DECISIONS, *x.shape))
    noise *= np.linspace(0.0, 1.0, _DECISIONS).reshape(-1, *(1,) * x.ndim)
    places = jax.vmap(problem.feasible.project)(x + (1.0 + jnp.max(jnp.abs(x))) * noise)
    data = problem.model(x, totals.theta).sample(random.key(0), (_DECISIONS, 1))

    def one(x: Decision, batch: Array) -> Array:
        added = totals.add(problem.model, x, batch, None)

        def at(theta: PyTree) -> Array:
            exact = log_likelihood(problem.model, x, theta, batch, None)
            return jnp.abs(added.log_likelihood(problem.model, theta) - exact)

        return jnp.max(jax.vmap(at)(thetas))

    return jnp.max(jax.vmap(one)(places, data))


def _shapes(evidence: Evidence) -> PyTree:
    return jax.tree.structure(evidence), [leaf.shape for leaf in jax.tree.leaves(evidence)]

"""Many streams at once, as one array program: `jit(loop over stages(vmap over streams(stage)))`.

Streams are computed in chunks small enough for the caches of a processor, on as many threads as
there are cores; on a GPU all together. Between calls of the compiled program the host looks again
at all points of large grids (`beliefs.grid.live_points`).
"""

import os
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, PyTree

from postgrad.beliefs.grid import live_points
from postgrad.beliefs.kept_likelihood import with_room
from postgrad.engine.compiling import (
    compiled_for_grids,
    compiled_for_many,
    compiled_soon,
    quietly,
)
from postgrad.monitoring.assumptions import (
    AssumptionFailedError,
    AssumptionWarning,
    check_fits,
    failed,
    without,
)
from postgrad.numerics.cache_by_shape import once_per_shape
from postgrad.numerics.fixed import fixed_leaves
from postgrad.problem.problem import Model

# One stage of one stream: (the stream's own numbers, its state, the stage's number) -> (the state
# after the stage, what is kept of it).
Stage = Callable[[PyTree, Any, Array], tuple[Any, PyTree]]
Progress = Callable[[str, int, int], None]
Compiler = Callable[[Callable[..., Any]], Any]


# How many streams and stages one call of a compiled program computes, on a CPU and elsewhere.
# Progress is reported after every call.
_ON_CPU, _ELSEWHERE = (50, 100), (5000, 250)
# Chunks of streams on a CPU if there are few of them, and how many are few.
_FEW = (10, 30)
# The same as `_ON_CPU` for stages of one draw, if there are so many streams for each core and each
# carries few numbers: 50 of them take no longer than to start their operations. And how many
# numbers are few.
_MANY, _LIGHT = (500, 50), 1000
# A belief that shares more numbers than this between streams is a large grid.
_LARGE = 4096


class Streams(NamedTuple):
    """The states of many streams before the first stage.

    Attributes:
        moving: What stages change, stacked along the leading axis.
        fixed: The other leaves, the same for all streams.
    """

    moving: PyTree
    fixed: PyTree


def beginning(states: Sequence[Any], rows: int) -> Streams:
    """The states of streams before the first stage, with room for data that beliefs keep.

    Args:
        states: One for each stream; where all are the same object, fixed arrays are shared.
        rows: How many observations each stream will meet.
    """
    first = with_room(states[0], rows)
    if all(state is states[0] for state in states):
        fixed, moving = eqx.partition(first, fixed_leaves(first))
        shape = len(states)
        return Streams(
            jax.tree.map(lambda leaf: np.broadcast_to(leaf, (shape, *leaf.shape)), moving), fixed
        )
    roomy = [with_room(state, rows) for state in states]
    nothing = jax.tree.map(lambda leaf: None, first)
    return Streams(jax.tree.map(lambda *leaves: np.stack(leaves), *roomy), nothing)


def run(
    stage: Stage,
    states: Sequence[Any],
    likelihood: Model,
    own: PyTree,
    horizon: int,
    rows: int,
    progress: Progress = lambda label, done, total: None,
    *,
    of_one_size: bool = True,
    one_draw: bool = False,
    compiled: Compiler | None = None,
) -> tuple[Sequence[Any], PyTree]:
    """Stages 1, ..., horizon of all streams; again without what was assumed, if that fails.

    Args:
        stage: One stage of one stream.
        states: Those before the first stage: see `beginning`.
        likelihood: The distribution of the data.
        own: Numbers of each stream, along the leading axis.
        horizon: How many stages.
        rows: How many observations each stream will meet.
        progress: Called with ("simulating", stages done, of how many), summed over streams, from
            the threads that do the work, one at a time.
        of_one_size: Whether chunks have one size on a CPU however few streams there are, filled up
            with copies, so that stream i is always the same bit for bit.
        one_draw: Whether a stage draws one number or so. Such stages are the same in large chunks
            as well, but for the last bit of products of matrices; sums over many draws are not.
        compiled: How the program is compiled: see `compiling`. If not given, soon, but for stages
            of one draw in many streams or on large grids.

    Returns:
        The states before the first stage, as they were used, and what was kept, (streams, stages,
        ...) in each leaf.

    Warns:
        AssumptionWarning: If something that was assumed turned out not to hold.
    """
    which = 0
    while True:
        try:
            streams = beginning(states, rows)
            return states, _run(
                stage, streams, own, horizon, progress, of_one_size, one_draw, compiled
            )
        except AssumptionFailedError as found:
            which |= found.which
            check_fits(which, states[0].belief)
            warnings.warn(AssumptionWarning(found.which), stacklevel=3)
            plain = {id(state): without(state, likelihood, which) for state in states}
            states = [plain[id(state)] for state in states]


def _run(
    stage: Stage,
    streams: Streams,
    own: PyTree,
    horizon: int,
    progress: Progress,
    of_one_size: bool,
    one_draw: bool,
    compiled: Compiler | None,
) -> PyTree:
    count = jax.tree.leaves(own)[0].shape[0]
    on_cpu = jax.default_backend() == "cpu"
    width, length = _ON_CPU if on_cpu else _ELSEWHERE
    cores = (os.cpu_count() or 1) if on_cpu else 1
    if not (on_cpu and of_one_size):
        width = _evenly(count, width, cores)
    elif count <= _FEW[1]:
        width = _FEW[0]
    elif one_draw and count >= _MANY[0] * cores and _numbers(streams.moving, own) <= _LIGHT * count:
        width, length = _MANY
    kept = _Kept(count, horizon, progress)
    chunk = _chunk(streams.moving, own, 0, width)
    if compiled is None:
        compiled = compiled_soon
        if one_draw and _numbers(streams.fixed) > _LARGE:
            compiled = compiled_for_grids
        elif width == _MANY[0]:
            compiled = compiled_for_many
    program = _compile((stage, streams.fixed), *chunk, length, compiled)

    def run_chunk(first: int) -> None:
        chunk = _chunk(streams.moving, own, first, width)
        rows = slice(first, min(first + width, count))
        _run_chunk(program, stage, streams.fixed, *chunk, rows, length, horizon, kept)

    # A call of this size keeps one core busy, and releases Python's lock meanwhile.
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(run_chunk, range(0, count, width)))
    return kept.tree


def _numbers(*trees: PyTree) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(trees))


def _evenly(count: int, most: int, cores: int) -> int:
    """The size of chunks of at most `most` streams, as many on each core, with few copies."""
    rounds = -(-count // (most * cores))
    return -(-count // (rounds * cores))


class _Kept:
    """What was kept of all streams, filled in by several threads."""

    def __init__(self, streams: int, horizon: int, progress: Progress):
        self.tree: PyTree = None
        self._shape, self._progress = (streams, horizon), progress
        self._lock, self._done = threading.Lock(), 0

    def add(self, rows: slice, first: int, count: int, kept: PyTree) -> None:
        """Stages first, ..., first + count - 1 of some streams."""
        with self._lock:
            if self.tree is None:
                self.tree = jax.tree.map(
                    lambda leaf: np.empty((*self._shape, *leaf.shape[2:]), leaf.dtype), kept
                )
        for out, leaf in zip(jax.tree.leaves(self.tree), jax.tree.leaves(kept), strict=True):
            stages = slice(first - 1, first - 1 + count)
            out[rows, stages] = np.asarray(leaf)[: rows.stop - rows.start, :count]
        with self._lock:
            self._done += (rows.stop - rows.start) * count
            self._progress("simulating", self._done, self._shape[0] * self._shape[1])


def _chunk(moving: PyTree, own: PyTree, first: int, width: int) -> tuple[PyTree, PyTree]:
    """Some streams; the last ones are repeated where a chunk is not full."""
    count = jax.tree.leaves(own)[0].shape[0]
    rows = np.minimum(np.arange(first, first + width), count - 1)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf[rows]), (moving, own))


def _run_chunk(
    program: Callable[..., Any],
    stage: Stage,
    fixed: PyTree,
    states: PyTree,
    own: PyTree,
    rows: slice,
    length: int,
    horizon: int,
    kept: _Kept,
) -> None:
    """All stages of some streams, with a new look at all points of large grids now and then."""
    first = 1
    while first <= horizon:
        numbers = eqx.filter((stage, fixed), eqx.is_array)
        next_look = first + live_points.patience(fixed)
        sound = True
        while sound and first < min(next_look, horizon + 1):
            count = min(length, horizon + 1 - first, next_look - first)
            new, shown = program(numbers, states, own, first, count)
            if which := failed(new):
                raise AssumptionFailedError(which)
            sound = live_points.is_sound(new)
            if sound:
                kept.add(rows, first, count, shown)
                states = new
                first += count
        if first <= horizon:  # a new list of live points; nothing else changes
            look = live_points.focused if sound else live_points.unfocused
            fixed, states = _parted(look(eqx.combine(states, fixed)), fixed)


def _parted(states: Any, fixed: PyTree) -> tuple[PyTree, PyTree]:
    is_fixed = jax.tree.map(lambda leaf: leaf is not None, fixed, is_leaf=lambda leaf: leaf is None)
    return eqx.partition(states, is_fixed)


@once_per_shape
def _compile(
    parts: Any, states: PyTree, own: PyTree, length: int, compiled: Compiler
) -> Callable[..., Any]:
    """A program of the numbers in `parts`, states, own numbers, the first stage and the count.

    It computes at most `length` stages; how many is a number, so that one program serves all.
    """
    numbers, rest = eqx.partition(parts, eqx.is_array)

    def program(numbers: Any, states: PyTree, own: PyTree, first: Array, count: Array) -> Any:
        stage, fixed = eqx.combine(numbers, rest)

        def one(own: PyTree, moving: PyTree, t: Array) -> tuple[PyTree, PyTree]:
            state, shown = stage(own, eqx.combine(moving, fixed), t)
            return _parted(state, fixed)[1], shown

        # As a program of its own it is traced once, for its shapes and for the loop.
        each = jax.jit(jax.vmap(one, in_axes=(0, 0, None)))

        def body(i: Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
            states, shown = carry
            states, new = each(own, states, first + i)
            put = partial(lax.dynamic_update_index_in_dim, index=i, axis=1)
            return states, jax.tree.map(put, shown, new)

        shapes = jax.eval_shape(each, own, states, first)[1]
        blank = jax.tree.map(
            lambda leaf: jnp.zeros((leaf.shape[0], length, *leaf.shape[1:]), leaf.dtype), shapes
        )
        return lax.fori_loop(0, count, body, (states, blank))

    with quietly():
        return compiled(program).lower(numbers, states, own, 1, 1).compile()

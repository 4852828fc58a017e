"""Many runs as a JAX reader would write them first: `jit(scan(vmap(step)))`, in chunks on threads.

`ablation.py` measures `pg.simulate` against it. Nothing here is beyond JAX's documented interface.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

import postgrad as pg
from postgrad.beliefs import focus
from postgrad.beliefs.evidence import with_room


class Layout(NamedTuple):
    """How runs are arranged.

    Attributes:
        inside: Whether the loop over stages is inside `vmap`, one for each run.
        axis: Along which axis of each array the runs lie, 0 or -1.
        chunk: How many runs one compiled call takes.
        length: How many stages one compiled call takes at most.
        threads: How many calls go at a time; as many as there are cores, if None.
    """

    inside: bool = False
    axis: int = 0
    chunk: int = 50
    length: int = 250
    threads: int | None = None


def simulator(
    algorithm: Any, belief: Any, x: Any, theta: Any,
    runs: int, horizon: int, batch_size: int, layout: Layout,
) -> Callable[[], np.ndarray]:  # fmt: skip
    """A function that runs all runs and returns their decisions, (run, stage, *x.shape).

    The program is compiled here, once. The decisions are those of `pg.simulate` with seed 0.
    """
    start = with_room(algorithm.init(belief, x), horizon * batch_size)
    theta = jax.tree.map(jnp.asarray, theta)
    axis, length = layout.axis, layout.length
    chunk = min(layout.chunk, runs)

    def stage(key: Any, t: Any, state: Any) -> Any:
        """One stage of one run."""
        key_data, key_algorithm = random.split(key)
        truth = algorithm.problem.likelihood(state.decision, theta)
        batch = truth.sample(random.fold_in(key_data, t), (batch_size,))
        seeded = eqx.tree_at(lambda a: a.key, algorithm, key_algorithm)
        return seeded.step(eqx.tree_at(lambda s: s.stage, state, t), batch)[0]

    moves = _changed(lambda state: stage(random.key(0), state.stage, state), start)

    @jax.jit
    def program(shared: Any, states: Any, keys: Any, first: Any, count: Any) -> Any:
        """Stages first, ..., first + count - 1 of a chunk of runs, and the decision after each."""

        def one(key: Any, t: Any, moving: Any) -> Any:
            return eqx.filter(stage(key, t, eqx.combine(moving, shared)), moves)

        def loop(advance: Any, states: Any, like: Any) -> Any:
            def body(i: Any, carry: Any) -> Any:
                states, seen = carry
                states = advance(first + i, states)
                return states, seen.at[i].set(eqx.combine(states, shared).decision)

            return lax.fori_loop(0, count, body, (states, jnp.zeros((length, *like.shape))))

        if layout.inside:
            each = jax.vmap(
                lambda key, moving: loop(lambda t, s: one(key, t, s), moving, start.decision),
                (0, axis), axis,
            )  # fmt: skip
            return each(keys, states)
        advance = jax.vmap(one, (0, None, axis), axis)
        return loop(lambda t, s: advance(keys, t, s), states, eqx.combine(states, shared).decision)

    root = random.key(0)
    moving, shared = eqx.partition(start, moves)
    stacked = jax.tree.map(
        lambda leaf: jnp.repeat(jnp.expand_dims(leaf, axis), chunk, axis % (leaf.ndim + 1)), moving
    )
    fold = jax.jit(
        lambda first: jax.vmap(random.fold_in, (None, 0))(root, first + jnp.arange(chunk))
    )
    compiled = program.lower(shared, stacked, fold(0), 1, 1).compile()
    focuses = focus.can_focus(start)

    def run_chunk(decisions: np.ndarray, number: int) -> None:
        rows = slice(number * chunk, min((number + 1) * chunk, runs))
        keys, states, fixed, first = fold(rows.start), stacked, shared, 1
        while first <= horizon:
            look = first + focus.patience(fixed)
            sound = True
            while sound and first < min(look, horizon + 1):
                count = min(length, horizon + 1 - first, look - first)
                new, seen = compiled(fixed, states, keys, first, count)
                sound = not focuses or focus.is_sound(new)
                if sound:
                    seen = np.asarray(seen)
                    if layout.inside:
                        seen = np.moveaxis(seen, axis, 0)[:, :count]
                    else:
                        at = 1 if axis == 0 else -1
                        seen = np.moveaxis(seen[:count], at, 0)
                    decisions[rows, first : first + count] = seen[: rows.stop - rows.start]
                    states = new
                    first += count
            if first <= horizon:  # a new list of live points, which are the same for all runs
                again = focus.focused if sound else focus.unfocused
                last = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, axis, -1), states)
                states, fixed = eqx.partition(again(eqx.combine(last, fixed)), moves)
                states = jax.tree.map(lambda leaf: jnp.moveaxis(leaf, -1, axis), states)

    def run() -> np.ndarray:
        decisions = np.empty((runs, horizon + 1, *start.decision.shape))
        decisions[:, 0] = start.decision
        with ThreadPoolExecutor(layout.threads or os.cpu_count()) as pool:
            list(pool.map(lambda number: run_chunk(decisions, number), range(-(-runs // chunk))))
        return decisions

    return run


def _changed(stage: Any, state: pg.State) -> Any:
    """Which leaves a stage changes: the points of a grid, for one, it hands on as they are."""
    marks = []

    def compare(state: Any) -> Any:
        new = stage(state)
        pairs = zip(jax.tree.leaves(state), jax.tree.leaves(new), strict=True)
        marks.append(jax.tree.unflatten(jax.tree.structure(new), [a is not b for a, b in pairs]))
        return new

    jax.eval_shape(compare, state)
    return marks[0]

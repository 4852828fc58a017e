"""Closed loops: truth -> data -> algorithm -> decision -> data, many runs at once."""

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, PyTree

from postgrad.algorithm.policy import Policy
from postgrad.algorithm.policy import PolicyState as State
from postgrad.beliefs import Belief
from postgrad.beliefs.belief import as_theta
from postgrad.beliefs.grid import live_points as focus
from postgrad.beliefs.kept_likelihood import with_room
from postgrad.errors import SettingError
from postgrad.numerics import unrolled_threefry as threefry
from postgrad.numerics.cache_by_shape import once_per_shape
from postgrad.numerics.split_by_input import hoist
from postgrad.numerics.validate import as_count, as_key
from postgrad.numerics.vmap_last_axis import vmap_last


class _Size(NamedTuple):
    """How much one compiled call does: this many runs, and this many stages between two signs."""

    runs: int
    stages: int


# On a CPU, calls small enough for the caches, and enough of them for all cores. There are two sizes
# only, so that programs are shared, and run i is bit for bit the same in all simulations of its
# class, and the same to rounding in the other.
_FEW, _SIZE_FOR_FEW, _SIZE_FOR_MANY = 500, _Size(50, 250), _Size(200, 1000)
# Elsewhere all runs go together, up to this many.
_SIZE_ELSEWHERE = _Size(5000, 250)
# XLA prefers vectors of 256 bits; the loops here gain from wider ones where there are any.
_COMPILER_OPTIONS: dict[str, Any] = {"cpu": {"xla_cpu_prefer_vector_width": 512}}


class Simulation(eqx.Module):
    """The record of many runs, as plain NumPy arrays with named axes.

    Attributes:
        decisions: What was in force, (run, stage, *x.shape); stage 0 is the initial decision.
        record: What `simulate(record=...)` asked for, with axes (run, stage, ...) in each leaf.
    """

    decisions: np.ndarray
    record: PyTree

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of `decisions`."""
        return ("run", "stage", *(f"x_{i}" for i in range(self.decisions.ndim - 2)))

    def diverged(self, beyond: float = 1e6) -> np.ndarray:
        """Whether each run was ever farther out than this, or not a number, (run,).

        Not only infinities count: in float64 some diverging runs overflow, others stick where
        adding theta to x no longer changes it.
        """
        size = np.abs(self.decisions).max(axis=tuple(range(1, self.decisions.ndim)))
        return ~(size <= beyond)

    def errors(self, x_star: Any) -> np.ndarray:
        """|x_t - x*|_2, (run, stage)."""
        gap = (self.decisions - np.asarray(x_star)).reshape(*self.decisions.shape[:2], -1)
        return np.linalg.norm(gap, axis=-1)


def simulate(
    algorithm: Policy,
    belief: Belief | None,
    x: Any,
    theta: PyTree,
    *,
    runs: int = 100,
    horizon: int = 1000,
    batch_size: int = 1,
    seed: int | Array = 0,
    record: Callable[[Any], PyTree] = lambda state: (),
    progress: Callable[[int], None] = lambda done: None,
) -> Simulation:
    """Runs an algorithm, or any other policy, in a world whose truth is theta.

    Run i derives its randomness from (seed, i) alone, and its data noise from (seed, i, stage): it
    is the same whatever the number of runs, and different algorithms meet the same noise.

    Args:
        algorithm: The algorithm; its own seed is replaced, run by run.
        belief: pi_0; None for policies that believe nothing.
        x: x_1.
        theta: theta_c, the truth.
        runs: How many runs.
        horizon: T, how many stages.
        batch_size: D, how many observations a stage.
        seed: The seed of everything: a whole number or a JAX key.
        record: A function of the state, whose results are kept for every stage.
        progress: Called with the number of run-stages done since the last call, from the threads
            that do the work, one at a time.

    Raises:
        SettingError: If a count is not a positive whole number.
        ModelError: If the model is no proper distribution at theta.
        PostgradError: As the policy's `init` does.
    """
    runs = as_count(runs, SettingError, "runs")
    horizon = as_count(horizon, SettingError, "horizon")
    batch_size = as_count(batch_size, SettingError, "batch_size")
    start = with_room(algorithm.init(belief, x), horizon * batch_size)
    theta = as_theta(theta)
    # Checked as often as the belief's own values, by the same program.
    count = 1 if belief is None else jax.tree.leaves(belief.examples())[0].shape[0]
    thetas = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), theta)
    algorithm.problem.check_models(start.decision, thetas)
    root = as_key(seed, SettingError)
    stage = jax.tree_util.Partial(_stage, algorithm, theta, batch_size)
    try:
        moving = _moving(stage, start, threefry.like(root))
        root = threefry.like(root)
    except NotImplementedError:  # JAX draws Poisson numbers with its own generator only
        moving = _moving(stage, start, root)
    on_cpu = jax.default_backend() == "cpu"
    if on_cpu:
        lanes, length = _SIZE_FOR_FEW if runs <= _FEW else _SIZE_FOR_MANY
    else:
        lanes, length = min(runs, _SIZE_ELSEWHERE.runs), _SIZE_ELSEWHERE.stages

    initial = _observe(record)(start)
    seen = jax.tree.map(
        lambda leaf: np.empty((runs, horizon + 1, *leaf.shape), leaf.dtype), initial
    )
    for out, leaf in zip(jax.tree.leaves(seen), jax.tree.leaves(initial), strict=True):
        out[:, 0] = leaf
    focuses = focus.can_focus(start)
    telling = threading.Lock()

    def keep(rows: slice, first: int, count: int, shown: PyTree) -> None:
        for out, leaf in zip(jax.tree.leaves(seen), jax.tree.leaves(shown), strict=True):
            stored = np.moveaxis(np.asarray(leaf)[:count], -1, 0)
            out[rows, first : first + count] = stored[: rows.stop - rows.start]
        with telling:
            progress((rows.stop - rows.start) * count)

    def run_chunk(chunk: int) -> None:
        rows = slice(chunk * lanes, min((chunk + 1) * lanes, runs))
        keys = _keys(root, chunk * lanes, lanes)
        one, shared = eqx.partition(start, moving)
        states = _stack(one, lanes)
        program = _compile((stage, record, shared), states, keys, length)
        first = 1
        while first <= horizon:
            numbers = eqx.filter((stage, record, shared), eqx.is_array)
            look = first + focus.patience(shared)
            sound = True
            while sound and first < min(look, horizon + 1):
                count = min(length, horizon + 1 - first, look - first)
                new, shown = program(numbers, states, keys, first, count)
                sound = not focuses or focus.is_sound(new)
                if sound:
                    keep(rows, first, count, shown)
                    states = new
                    first += count
            if first <= horizon:  # a new list of live points; nothing else changes
                look_again = focus.focused if sound else focus.unfocused
                states, shared = eqx.partition(look_again(eqx.combine(states, shared)), moving)

    # A compiled call of this size keeps one core busy, and releases Python meanwhile.
    with ThreadPoolExecutor(os.cpu_count() if on_cpu else 1) as pool:
        list(pool.map(run_chunk, range(-(-runs // lanes))))
    return Simulation(*seen)


def _observe(record: Callable[[Any], PyTree]) -> Callable[[Any], PyTree]:
    return lambda state: (state.decision, record(state))


def _stage(algorithm: Policy, theta: PyTree, batch_size: int, draw: PyTree, state: State) -> State:
    """One stage of one run, given draw = (the run's key, t)."""
    key, t = draw
    key_data, key_algorithm = random.split(key)
    # The data: y_t ~ f(.; x_t, theta_c).
    truth = algorithm.problem.likelihood(state.decision, theta)
    batch = truth.sample(random.fold_in(key_data, t), (batch_size,))
    seeded, counted = eqx.tree_at(
        lambda pair: (pair[0].key, pair[1].stage), (algorithm, state), (key_algorithm, t)
    )
    return seeded.step(counted, batch)[0]


Stage = Callable[[PyTree, State], State]


@once_per_shape
def _moving(stage: Stage, state: State, key: Array) -> State:
    """Which leaves of the state a stage changes: a grid's points, for one, stay as they are."""
    traced = jax.make_jaxpr(stage)((key, state.stage), state).jaxpr
    entered = traced.invars[len(traced.invars) - len(traced.outvars) :]
    changed = [before is not after for before, after in zip(entered, traced.outvars, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(state), changed)


@eqx.filter_jit
def _stack(state: State, lanes: int) -> State:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[..., None], (*leaf.shape, lanes)), state)


@functools.partial(jax.jit, static_argnums=2)
def _keys(root: Array, first: int, lanes: int) -> Array:
    return jax.vmap(random.fold_in, (None, 0))(root, first + jnp.arange(lanes))


@once_per_shape
def _compile(parts: Any, states: State, keys: Array, length: int) -> Callable[..., Any]:
    """A program of the numbers in `parts`, the states, the keys, the first stage and the count."""
    numbers, rest = eqx.partition(parts, eqx.is_array)

    def program(
        numbers: Any, states: State, keys: Array, first: Array, count: Array
    ) -> tuple[State, PyTree]:
        stage, record, shared = eqx.combine(numbers, rest)
        return _loop(stage, record, shared, states, keys, first, count, length)

    lowered = jax.jit(program).lower(numbers, states, keys, 1, 1)
    return lowered.compile(_COMPILER_OPTIONS.get(jax.default_backend()))


def _loop(
    stage: Stage,
    record: Callable[[Any], PyTree],
    shared: State,
    states: State,
    keys: Array,
    first: Array,
    count: Array,
    length: int,
) -> tuple[State, PyTree]:
    """Stages first, ..., first + count - 1 of each run, and what was seen after each.

    Args:
        stage: One stage of one run.
        record: What to keep.
        shared: The leaves of the state that are the same in all runs, always.
        states: The other leaves, stacked over runs along the last axis.
        keys: The runs' keys.
        first: The number of the first stage.
        count: How many stages.
        length: The most that one call can do.
    """
    one_key, one_state = keys[0], jax.tree.map(lambda leaf: leaf[..., 0], states)
    moves = jax.tree.map(lambda leaf: leaf is None, shared, is_leaf=lambda leaf: leaf is None)

    def move(t: Array, late: tuple[Array, State]) -> State:
        key, moving = late
        return eqx.filter(stage((key, t), eqx.combine(moving, shared)), moves)

    # The stage number is an input of its own rather than a part of the state, so that the random
    # numbers of all stages can be drawn at once: first what needs the stage alone and is the same
    # in all runs, then what each run draws for itself.
    share, rest = hoist(move, first, (one_key, one_state))
    common = jax.vmap(share)(first + jnp.arange(length))

    def split(common: PyTree) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return hoist(lambda key, moving: rest(common, (key, moving)), one_key, one_state)

    noise = jax.vmap(lambda common: jax.vmap(split(common)[0], out_axes=-1)(keys))(common)
    one_noise = jax.tree.map(lambda leaf: leaf[0, ..., 0], noise)

    def advance(i: Array, states: State) -> tuple[State, PyTree]:
        finish = split(jax.tree.map(lambda leaf: leaf[i], common))[1]

        def after(noise: PyTree, moving: State) -> tuple[State, PyTree]:
            new = finish(noise, moving)
            return new, _observe(record)(eqx.combine(new, shared))

        step = vmap_last(after, one_noise, one_state)
        return step(jax.tree.map(lambda leaf: leaf[i], noise), states)

    # Traced once, for its shapes and for the loop: that takes as long as compiling it does.
    traced, shapes = jax.make_jaxpr(advance, return_shape=True)(jnp.zeros_like(count), states)
    tree = jax.tree.structure(shapes)

    def body(i: Array, carry: tuple[State, PyTree]) -> tuple[State, PyTree]:
        states, shown = carry
        leaves = jax.core.eval_jaxpr(traced.jaxpr, traced.consts, i, *jax.tree.leaves(states))
        states, new = jax.tree.unflatten(tree, leaves)
        return states, jax.tree.map(lambda out, leaf: out.at[i].set(leaf), shown, new)

    blank = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), shapes[1])
    return lax.fori_loop(0, count, body, (states, blank))

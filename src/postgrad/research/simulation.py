"""Closed loops: truth -> data -> algorithm -> decision -> data, many runs at once."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.policy import Policy
from postgrad.algorithm.policy import PolicyState as State
from postgrad.beliefs.belief import Belief, as_theta
from postgrad.engine.bulk import Progress, run
from postgrad.errors import SettingError
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.validate import as_count, as_key
from postgrad.problem.own_identity import as_of_now
from postgrad.research.stages_in_contexts import ContextsOfStages, stage_in_context

# A decision with a larger entry, or one that is not a number, has diverged.
_LARGEST_DECISION = 1e6


class Simulation(eqx.Module):
    """The record of many runs, as plain NumPy arrays with named axes.

    Attributes:
        decisions: What was in force, (run, stage, *x.shape); stage 0 is the initial decision.
        record: What `simulate(record=...)` asked for, with axes (run, stage, ...) in each leaf.
        doubts: Why each decision may be wrong, (run, stage): a `Doubt`, where an agent would warn.
            None if that was not kept.
        contexts: With contexts, those of stages 1, ..., T, with axes (run, stage, ...) in each
            leaf: `decisions[:, t]` is the decision for `contexts[:, t - 1]`, under which the batch
            of stage t arises. None without contexts.
    """

    decisions: np.ndarray
    record: PyTree
    doubts: np.ndarray | None = None
    contexts: PyTree = None

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes of `decisions`."""
        return ("run", "stage", *(f"x_{i}" for i in range(self.decisions.ndim - 2)))

    def __repr__(self) -> str:
        runs, stages = self.decisions.shape[:2]
        last = np.asarray(self.decisions[:, -1].mean(axis=0)).round(4).tolist()
        doubtful = 0 if self.doubts is None else np.count_nonzero(self.doubts)
        said = f"; {doubtful} decisions in doubt" if doubtful else ""
        text = f"{runs} runs, {stages - 1} stages; mean of the last decisions {last}{said}"
        return f"Simulation({text})"

    def diverged(self) -> np.ndarray:
        """Whether each run was ever farther out than 1e6, or not a number, (run,).

        Not only infinities count: in float64 some diverging runs overflow, others stick where
        adding theta to x no longer changes it.
        """
        return self.diverged_by_stage()[:, -1]

    def diverged_by_stage(self) -> np.ndarray:
        """Whether each run had diverged at a stage or before, (run, stage)."""
        near = np.abs(self.decisions) <= _LARGEST_DECISION
        near = near.reshape(*near.shape[:2], -1).all(axis=-1)
        return np.logical_or.accumulate(~near, axis=1)

    def errors(self, x_star: Any) -> np.ndarray:
        """|x_t - x*|_2, (run, stage)."""
        gap = (self.decisions - np.asarray(x_star)).reshape(*self.decisions.shape[:2], -1)
        return np.linalg.norm(gap, axis=-1)


def nothing(state: Any) -> PyTree:
    """Records nothing."""
    del state
    return ()


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
    record: Callable[[Any], PyTree] = nothing,
    contexts: Any = None,
    progress: Progress = lambda label, done, total: None,
) -> Simulation:
    """Runs an algorithm, or any other policy, in a world whose truth is theta.

    Run i derives its randomness from (seed, i) alone, and its data noise from (seed, i, stage): it
    is the same whatever the number of runs, up to rounding where the model has several dimensions,
    and different algorithms meet the same noise.

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
        contexts: If the problem takes contexts: a function of (stage, key) that returns z, the
            stages numbered from 1; or arrays with the z of each stage along the leading axis. A
            stage then decides for its context first, as `Agent.decide` does, and learns.
        progress: Called with ("simulating", stages done, of how many), summed over runs, from the
            threads that do the work, one at a time.

    Warns:
        AssumptionWarning: If something that was assumed of cost or model did not hold at decisions
            that were met; all runs are then computed without it.

    Raises:
        SettingError: If a count is not a positive whole number.
        ContextError: If contexts are missing or not like each other, or the policy takes none.
        ModelError: If the model is no proper distribution at theta.
        PostgradError: As the policy's `init` does.
    """
    runs = as_count(runs, SettingError, "runs")
    horizon = as_count(horizon, SettingError, "horizon")
    batch_size = as_count(batch_size, SettingError, "batch_size")
    algorithm, record = as_of_now((algorithm, record))
    world = None if contexts is None else ContextsOfStages(contexts, horizon)
    example = algorithm if world is None else world.example_of(algorithm)
    start = example.init(belief, x)
    theta = as_theta(theta)
    # Checked as often as the belief's own values, by the same program.
    count = 1 if belief is None else jax.tree.leaves(belief.examples())[0].shape[0]
    thetas = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), theta)
    example.problem.check_models(start.decision, thetas)
    keys = _keys(as_key(seed, SettingError), runs)
    stage = jax.tree_util.Partial(_stage, algorithm, theta, batch_size, record)
    if world is not None:
        stage = jax.tree_util.Partial(
            stage_in_context, algorithm, start, world, theta, batch_size, record
        )
    likelihood, rows = example.problem.likelihood, horizon * batch_size
    states, seen = run(
        stage,
        [start] * runs,
        likelihood,
        keys,
        horizon,
        rows,
        progress,
        one_draw=_draws_once(algorithm),
    )
    start = states[0]

    def from_start(first: Array, later: np.ndarray) -> np.ndarray:
        begun = np.broadcast_to(np.asarray(first), (runs, 1, *first.shape))
        return np.concatenate([begun, later], axis=1)

    first = start.decision, record(start), jnp.zeros((), jnp.int8)
    met = None if world is None else seen[3]
    decisions, kept, doubts = jax.tree.map(from_start, first, seen[:3])
    return Simulation(decisions, kept, doubts, met)


def _draws_once(algorithm: Policy) -> bool:
    """Whether a stage draws one theta and one xi, as the paper's does."""
    if not isinstance(algorithm, BayesianSGD) or algorithm.descent.fixes_draws:
        return False
    return algorithm.iterations * algorithm.samples[0] == 1


def _stage(
    algorithm: Policy,
    theta: PyTree,
    batch_size: int,
    record: Callable[[Any], PyTree],
    key: Array,
    state: State,
    t: Array,
) -> tuple[State, PyTree]:
    """One stage of one run: data from the truth, then the algorithm."""
    key_data, key_algorithm = random.split(key)
    # The data: y_t ~ f(.; x_t, theta_c).
    truth = algorithm.problem.likelihood(state.decision, theta)
    key_data = random.fold_in(key_data, t)
    batch = computed_once(truth.sample(key_data, (batch_size,)), key_data)
    # The stage's number is the same in all runs, so draws that depend on it alone are shared.
    seeded, counted = eqx.tree_at(
        lambda pair: (pair[0].key, pair[1].stage), (algorithm, state), (key_algorithm, t)
    )
    new, info = seeded.step(counted, batch)
    course = getattr(info, "course", None)  # other policies tell nothing
    doubt = jnp.zeros(()) if course is None else course.doubt
    return new, (new.decision, record(new), doubt.astype(jnp.int8))


@functools.partial(jax.jit, static_argnums=1)
def _keys(root: Array, runs: int) -> Array:
    return jax.vmap(random.fold_in, (None, 0))(root, jnp.arange(runs))

"""The paper's descent: K projected stochastic-gradient steps."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import lax, random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.descents.descent import Course, Descent, Stage
from postgrad.algorithm.gradients import Sample
from postgrad.algorithm.step_sizes import Constant, Schedule, positive
from postgrad.beliefs import Belief
from postgrad.numerics.validate import is_concrete
from postgrad.problem.problem import Decision


class SGD(Descent):
    """x <- Proj(x - a_t g), K times, each with draws of its own (Algorithms 2.1 and 2.2).

    optax closes over its numbers; here they are array leaves, so that step sizes can differ across
    a stack of runs. And a_t follows the stage t, not the count of inner iterations.

    Attributes:
        schedule: t -> a_t.
    """

    schedule: Schedule

    def __init__(self, steps: Any):
        """A number, or a schedule t -> a_t, ours or optax's.

        Raises:
            StepSizeError: If a number or the schedule's first value is not positive and finite.
        """
        self.schedule = steps if callable(steps) else Constant(steps)
        if is_concrete(self.schedule):
            positive(self.schedule(jnp.asarray(1)), "the step size at t = 1")

    def init(self, x: Decision) -> tuple[()]:
        """No state: the stage is the algorithm's."""
        del x
        return ()

    def sample_thetas(
        self,
        belief: Belief,
        key: Array,
        number: Int[Array, ""],
        iterations: int,
        samples: tuple[int, int],
    ) -> PyTree:
        """New draws for each of the K steps."""
        return fresh_thetas(belief, key, iterations, samples)

    def descend(self, stage: Stage, x: Decision, state: PyTree) -> tuple[Decision, PyTree, Course]:
        """K plain steps."""

        def step(gradient: Array, state: PyTree, x: Decision, i: Array) -> tuple[Array, PyTree]:
            del x, i
            return -self.schedule(stage.number) * gradient, state

        return take_steps(step, stage, x, state)

    def step_size(self, number: Int[Array, ""]) -> Float[Array, ""]:
        """a_t."""
        return self.schedule(number)


class Optax(Descent):
    """The same with the steps of an optax optimiser that needs the gradient alone.

    Attributes:
        optimizer: Adam, AdaGrad, momentum and so on.
    """

    optimizer: optax.GradientTransformationExtraArgs

    def __init__(self, optimizer: optax.GradientTransformation):
        self.optimizer = optax.with_extra_args_support(optimizer)

    def init(self, x: Decision) -> PyTree:
        """The optimiser's own state."""
        return self.optimizer.init(x)

    def sample_thetas(
        self,
        belief: Belief,
        key: Array,
        number: Int[Array, ""],
        iterations: int,
        samples: tuple[int, int],
    ) -> PyTree:
        """New draws for each of the K steps."""
        return fresh_thetas(belief, key, iterations, samples)

    def descend(self, stage: Stage, x: Decision, state: PyTree) -> tuple[Decision, PyTree, Course]:
        """K steps of the optimiser."""

        def step(gradient: Array, state: PyTree, x: Decision, i: Array) -> tuple[Array, PyTree]:
            del i
            move, state = self.optimizer.update(gradient, state, x)
            return jnp.asarray(move), state

        return take_steps(step, stage, x, state)

    def step_size(self, number: Int[Array, ""]) -> Array:
        """Such steps have no common scale."""
        del number
        return jnp.ones(())


def fresh_thetas(belief: Belief, key: Array, iterations: int, samples: tuple[int, int]) -> PyTree:
    """Independent draws theta ~ pi_t, `samples[0]` for each of the K steps."""
    return belief.sample(random.fold_in(key, 0), (iterations, samples[0]))


Step = Callable[[Array, PyTree, Decision, Array], tuple[Array, PyTree]]


def take_steps(
    step: Step, stage: Stage, x: Decision, state: PyTree
) -> tuple[Decision, PyTree, Course]:
    """K projected steps: theta from the posterior, xi from the model at theta.

    Args:
        step: What to add to x, from the gradient, the state, x and the iteration's number.
        stage: Where and when.
        x: x_t.
        state: The step's own state.
    """
    objective, problem = stage.objective, stage.objective.problem
    shape = (stage.iterations, stage.samples[0])
    each = jax.vmap(lambda i: random.fold_in(stage.key, i))(2 + jnp.arange(math.prod(shape)))

    def iterate(carry: PyTree, draws: PyTree) -> PyTree:
        x, state, i = carry
        estimates = _map(
            lambda theta, key: objective.gradient.estimate(
                problem, x, Sample(theta, key, objective.mixture)
            ),
            *draws,
        )
        gradient, noise = _mean_and_error(estimates)
        move, state = step(gradient, state, x, i)
        return (problem.feasible.project(x + move), state, i + 1), (gradient, noise)

    start = (x, state, jnp.zeros((), jnp.int32))
    (x, state, _), (gradient, noise) = _scan(iterate, start, (stage.thetas, each.reshape(shape)))
    unknown = jnp.asarray(jnp.nan)
    curvature = jnp.full((x.size, x.size), jnp.nan)
    return x, state, Course(gradient, noise, curvature, unknown, unknown)


def _map(function: Callable[..., Any], *xs: PyTree) -> Array:
    """`vmap`, without an inner axis of length one: it would keep XLA from vectorising over runs."""
    if jax.tree.leaves(xs)[0].shape[0] > 1:
        return jax.vmap(function)(*xs)
    return function(*jax.tree.map(lambda leaf: leaf[0], xs))[None]


def _scan(body: Callable[..., Any], carry: PyTree, xs: PyTree) -> PyTree:
    """`lax.scan`, without a loop around a single iteration: `simulate` can then see into it."""
    if jax.tree.leaves(xs)[0].shape[0] > 1:
        return lax.scan(body, carry, xs)
    carry, y = body(carry, jax.tree.map(lambda leaf: leaf[0], xs))
    return carry, jax.tree.map(lambda leaf: leaf[None], y)


def _mean_and_error(estimates: Float[Array, "n ..."]) -> tuple[Array, Array]:
    n = estimates.shape[0]
    mean = jnp.mean(estimates, axis=0)
    if n == 1:
        return mean, jnp.full_like(mean, jnp.nan)
    return mean, jnp.std(estimates, axis=0, ddof=1) / jnp.sqrt(n)

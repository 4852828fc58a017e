"""The paper's descent: K projected stochastic-gradient steps."""

import abc
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import Outlook, unknown
from postgrad.algorithm.descents.descent import Course, Descent, Plan, Stage, plain_course
from postgrad.algorithm.gradients.gradient import Sample
from postgrad.algorithm.step_sizes import Constant, Schedule, positive
from postgrad.beliefs.belief import Belief
from postgrad.numerics.validate import is_concrete
from postgrad.problem.own_identity import of_itself
from postgrad.problem.problem import Decision

if TYPE_CHECKING:
    import optax


class TakesSteps(Descent):
    """K projected steps, each with draws of its own of theta and of xi."""

    def sample_thetas(self, belief: Belief, plan: Plan) -> PyTree:
        """Independent draws theta ~ pi_t, `samples[0]` for each of the K steps."""
        return belief.sample(random.fold_in(plan.key, 0), (plan.iterations, plan.samples[0]))

    @abc.abstractmethod
    def _move(
        self, plan: Plan, gradient: Array, state: PyTree, x: Decision, i: Array
    ) -> tuple[Array, PyTree]:
        """What the i-th step adds to x before the projection, and the new state."""

    def descend(
        self, stage: Stage, x: Decision, state: PyTree
    ) -> tuple[Decision, PyTree, Course, Outlook]:
        """K steps."""
        objective, problem, plan = stage.objective, stage.objective.problem, stage.plan
        shape = (plan.iterations, plan.samples[0])
        each = jax.vmap(lambda i: random.fold_in(plan.key, i))(2 + jnp.arange(math.prod(shape)))

        def iterate(carry: PyTree, draws: PyTree) -> PyTree:
            x, state, i = carry
            estimates = _map(
                lambda theta, key: objective.gradient.estimate(
                    problem, x, Sample(theta, key, objective.mixture)
                ),
                *draws,
            )
            gradient, noise = _mean_and_error(estimates)
            move, state = self._move(plan, gradient, state, x, i)
            return (problem.feasible.project(x + move), state, i + 1), (gradient, noise)

        start = (x, state, jnp.zeros((), jnp.int32))
        draws = (stage.thetas, each.reshape(shape))
        (x, state, _), (gradient, noise) = _scan(iterate, start, draws)
        return x, state, plain_course(gradient, noise, x), unknown(x)


class SGD(TakesSteps):
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
        self.schedule = of_itself(steps) if callable(steps) else Constant(steps)
        if is_concrete(self.schedule):
            positive(self.schedule(jnp.asarray(1)), "the step size at t = 1")

    def init(self, x: Decision, theta: PyTree, additive: bool) -> tuple[()]:
        """No state: the stage is the algorithm's."""
        del x, theta, additive
        return ()

    def _move(
        self, plan: Plan, gradient: Array, state: PyTree, x: Decision, i: Array
    ) -> tuple[Array, PyTree]:
        """-a_t g."""
        del x, i
        return -self.schedule(plan.number) * gradient, state

    def step_size(self, number: Int[Array, ""]) -> Float[Array, ""]:
        """a_t."""
        return self.schedule(number)


class Optax(TakesSteps):
    """The same with the steps of an optax optimiser that needs the gradient alone.

    Attributes:
        optimizer: Adam, AdaGrad, momentum and so on.
    """

    optimizer: "optax.GradientTransformationExtraArgs"

    def __init__(self, optimizer: "optax.GradientTransformation"):
        import optax  # slow to import, and whoever has an optimiser has imported it

        self.optimizer = optax.with_extra_args_support(optimizer)

    def init(self, x: Decision, theta: PyTree, additive: bool) -> PyTree:
        """The optimiser's own state."""
        del theta, additive
        return self.optimizer.init(x)

    def _move(
        self, plan: Plan, gradient: Array, state: PyTree, x: Decision, i: Array
    ) -> tuple[Array, PyTree]:
        """The optimiser's update."""
        del plan, i
        move, state = self.optimizer.update(gradient, state, x)
        return jnp.asarray(move), state

    def step_size(self, number: Int[Array, ""]) -> Array:
        """Such steps have no common scale."""
        del number
        return jnp.ones(())


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

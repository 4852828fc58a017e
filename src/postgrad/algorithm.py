"""Bayesian stochastic gradient descent: one stage of the paper, on one screen.

Algorithms 2.1 and 2.2 of Liu, Lin and Zhou are one function here, `BayesianSGD.step`; 2.1 is 2.2
with a model that ignores x. Other parts make it other methods:

==============================  ==========================================================
Algorithm 2.1                   belief `Grid` (or any other), gradient `Pathwise`
Algorithm 2.2                   belief `Grid`, gradient `MixtureScore`
known-parameter benchmark       belief `Known`
MLE method                      belief `MaximumLikelihood`
repeated gradient descent       gradient `Partial`
==============================  ==========================================================
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.beliefs import Belief
from postgrad.checks import as_count, as_key, as_numbers
from postgrad.errors import DecisionError, PriorError, SettingError
from postgrad.gradients import Automatic, Gradient
from postgrad.outputs import Last, Output
from postgrad.problem import Decision, Problem
from postgrad.steps import SGD, Harmonic, as_optimizer, step_size
from postgrad.surprise import Surprise, surprise

# How far outside the feasible set a decision may lie for rounding's sake, relative to its size.
_ROUNDING = 1e-9


class State(eqx.Module):
    """Everything that is carried from stage to stage. No random key: that derives from the stage.

    Attributes:
        stage: t, the number of the stage to come: 1 before the first batch.
        belief: pi_{t-1}.
        x: x_t, the iterate of the descent.
        optimizer: The optimiser's own state.
        output: What is issued, given the iterates so far.
    """

    stage: Int[Array, ""]
    belief: Belief
    x: Decision
    optimizer: PyTree
    output: Output

    @property
    def decision(self) -> Decision:
        """What is issued and in force: x_t itself, unless the output says otherwise."""
        return self.output.decision(self.x)


class Info(eqx.Module):
    """What a stage tells about itself.

    Attributes:
        log_predictive: log f_hat_{t-1}(y_j; x_t), how well each observation was foreseen.
        surprise: Where the batch lies among those that pi_{t-1} foresaw.
        gradient: The gradient estimate of each of the K iterations.
        noise: The standard error of each of these; NaN with one sample, which cannot tell.
    """

    log_predictive: Float[Array, " D"]
    surprise: Surprise
    gradient: Float[Array, "K ..."]
    noise: Float[Array, "K ..."]


class BayesianSGD(eqx.Module):
    """The paper's algorithm, its parts chosen by the user.

    Attributes:
        problem: Cost, model and feasible set.
        gradient: The estimator of the gradient of the Bayesian average.
        optimizer: Plain SGD with a schedule a_t, or any optax optimiser.
        output: What is issued: the last iterate, an average or the rate theorem's z_T.
        iterations: K, gradient steps a stage.
        samples: Draws of (theta, xi) that each gradient averages over; the paper has one.
        key: The seed. Stage t uses `fold_in(key, t)` and nothing else.
    """

    problem: Problem
    gradient: Gradient
    optimizer: SGD | optax.GradientTransformationExtraArgs
    output: Callable[[Decision], Output]
    iterations: int = eqx.field(static=True)
    samples: int = eqx.field(static=True)
    key: Array

    def __init__(
        self,
        problem: Problem,
        gradient: Gradient | None = None,
        *,
        steps: Any = None,
        output: Callable[[Decision], Output] = Last,
        iterations: int = 1,
        samples: int = 1,
        seed: int | Array = 0,
    ):
        """Choose the parts.

        Args:
            problem: Cost, model and feasible set.
            gradient: Pathwise where the model allows it and the score elsewhere, if not given.
            steps: A number, a schedule t -> a_t or an optax optimiser that needs the gradient
                alone; the paper's 2/(t + 5), if not given.
            output: What is issued: `Last`, `Average` or `RandomIterate`.
            iterations: K.
            samples: Draws per gradient.
            seed: A number or a JAX key.

        Raises:
            StepSizeError: If the first step size is not positive.
            SettingError: If a count is not a positive whole number, or a part is none.
        """
        self.problem = problem
        self.gradient = Automatic() if gradient is None else gradient
        if not isinstance(self.gradient, Gradient):
            raise SettingError(
                f"gradient must be an estimator such as Pathwise(), got {gradient!r}"
            )
        if not (isinstance(output, type) and issubclass(output, Output)):
            raise SettingError(f"output must be a class such as Average, got {output!r}")
        self.optimizer = as_optimizer(Harmonic(2.0, 5.0) if steps is None else steps)
        self.output = output
        self.iterations = as_count(iterations, SettingError, "iterations")
        self.samples = as_count(samples, SettingError, "samples")
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief, x: Any) -> State:
        """The state before the first stage, after trying all parts on each other.

        Args:
            belief: pi_0.
            x: x_1, the initial decision. Its shape is the shape of all decisions.

        Raises:
            DecisionError: If x is not finite numbers inside the feasible set.
            PriorError: If belief is none.
            ModelError, CostError, GradientError: If the parts do not fit.
        """
        if not isinstance(belief, Belief):
            raise PriorError(f"belief must be a belief such as Grid(...), got {belief!r}")
        x = jnp.asarray(as_numbers(x, DecisionError, "x"))
        if x.size == 0:
            raise DecisionError("x must have at least one entry, got none")
        excess = float(self.problem.feasible.violation(x))
        if excess > _ROUNDING * max(1.0, float(jnp.max(jnp.abs(x)))):
            raise DecisionError(f"x = {x} violates {self.problem.feasible} by {excess:g}")
        thetas = belief.examples()
        self.problem.check(x, thetas)
        belief = belief.bind(self.problem, x)
        self.gradient.check(self.problem, x, jax.tree.map(lambda leaf: leaf[0], thetas))
        return State(
            stage=jnp.asarray(1, jnp.int64),
            belief=belief,
            x=x,
            optimizer=self.optimizer.init(x),
            output=self.output(x),
        )

    def step(
        self,
        state: State,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[State, Info]:
        """One stage: learn, descend, decide.

        Args:
            state: The state after stage t - 1.
            batch: y_{t,1}, ..., y_{t,D} along the leading axis.
            weight: How much each observation counts; all once, if not given.
            x: The decision in force when the batch arose; the last one issued, if not given.
        """
        problem, t = self.problem, state.stage
        (key_theta, key_output, key_belief, key_surprise), keys = _stage_keys(
            self.key, t, (self.iterations, self.samples)
        )
        x_t = state.decision if x is None else x

        # Learn: pi_t from pi_{t-1} and the batch, which arose under x_t.
        belief = state.belief.update(problem.likelihood, x_t, batch, weight, key_belief)

        # Descend: K projected steps, theta from the posterior, xi from the model at theta.
        def descend(carry: PyTree, draws: PyTree) -> PyTree:
            x, optimizer = carry
            estimates = _map(
                lambda theta, key: self.gradient.estimate(problem, belief, x, theta, key), *draws
            )
            gradient, noise = _mean_and_error(estimates)
            move, optimizer = self.optimizer.update(gradient, optimizer, x, stage=t)
            return (problem.feasible.project(x + move), optimizer), (gradient, noise)

        draws = belief.sample(key_theta, keys.shape), keys
        (x_next, optimizer), (gradient, noise) = _scan(descend, (state.x, state.optimizer), draws)

        # Decide: issue the last iterate, or what the output makes of the iterates.
        a_t = step_size(self.optimizer, t)
        output = state.output.follow(state.x, x_next, a_t, key_output)

        log_predictive = jax.vmap(lambda y: state.belief.log_mixture(problem.likelihood, x_t, y))(
            batch
        )
        foreseen = surprise(state.belief, problem.likelihood, x_t, batch, weight, key_surprise)
        info = Info(log_predictive, foreseen, gradient, noise)
        return State(t + 1, belief, x_next, optimizer, output), info


def _stage_keys(key: Array, t: Array, shape: tuple[int, int]) -> tuple[tuple[Array, ...], Array]:
    """Keys for theta, the output, the belief and the surprise, and one for each xi."""
    key = random.fold_in(key, t)
    each = jax.vmap(lambda i: random.fold_in(key, i))(2 + jnp.arange(math.prod(shape)))
    others = (random.fold_in(key, np.uint32(i)) for i in (0, 1, 2**32 - 1, 2**32 - 2))
    return tuple(others), each.reshape(shape)


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

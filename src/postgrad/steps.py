"""Step sizes a_t, t = 1, 2, ... (the stage), and the plain stochastic-gradient step."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from postgrad.checks import as_array, is_concrete
from postgrad.errors import StepSizeError

Stage = Int[Array, ""]
Schedule = Callable[[Any], Any]


class Harmonic(eqx.Module):
    """a_t = a / (t + b). With b = 0 it is the classical a/t; the paper uses 2/(t + 5)."""

    a: Float[Array, ""]
    b: Float[Array, ""]

    def __init__(self, a: Any, b: Any = 0.0):
        self.a = _positive(a, "a")
        self.b = _number(b, "b")
        if is_concrete(self.b) and jnp.any(self.b <= -1):
            raise StepSizeError(f"b must be greater than -1, so that a/(1 + b) > 0, got {b}")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        return self.a / (t + self.b)


class InverseSqrt(eqx.Module):
    """a_t = a / sqrt(t)."""

    a: Float[Array, ""]

    def __init__(self, a: Any):
        self.a = _positive(a, "a")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        return self.a / jnp.sqrt(t)


class Constant(eqx.Module):
    """a_t = a / sqrt(T) for a horizon T known in advance; a_t = a with T = 1."""

    a: Float[Array, ""]
    horizon: Float[Array, ""]

    def __init__(self, a: Any, horizon: Any = 1):
        self.a = _positive(a, "a")
        self.horizon = _positive(horizon, "horizon")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        del t
        return self.a / jnp.sqrt(self.horizon)


class SGD(eqx.Module):
    """The paper's plain step, -a_t times the gradient, in optax's clothes.

    optax closes over its numbers; here they are array leaves, so that step sizes can differ across
    a stack of runs. And a_t follows the stage t, not the count of inner iterations.
    """

    step_size: Schedule

    def init(self, x: Array) -> tuple[()]:
        """No state: the stage is the algorithm's."""
        del x
        return ()

    def update(
        self, gradient: Array, state: tuple[()], x: Array, *, stage: Stage
    ) -> tuple[Array, tuple[()]]:
        """The step to add to x."""
        del x
        return -self.step_size(stage) * gradient, state


def as_optimizer(steps: Any) -> SGD | optax.GradientTransformationExtraArgs:
    """A number, a schedule t -> a_t (ours or optax's) or an optax optimiser, as an optimiser.

    Raises:
        StepSizeError: If a number or the schedule's first value is not positive and finite.
    """
    if isinstance(steps, SGD | optax.GradientTransformationExtraArgs):
        return steps
    if isinstance(steps, optax.GradientTransformation):
        return optax.with_extra_args_support(steps)
    schedule = steps if callable(steps) else Constant(steps)
    if is_concrete(schedule):
        _positive(schedule(jnp.asarray(1)), "the step size at t = 1")
    return SGD(schedule)


def step_size(optimizer: SGD | optax.GradientTransformationExtraArgs, stage: Stage) -> Array:
    """a_t where the optimiser has one; 1 for optax optimisers, whose steps have no common scale."""
    return optimizer.step_size(stage) if isinstance(optimizer, SGD) else jnp.asarray(1.0)


def _positive(value: Any, what: str) -> Float[Array, ""]:
    array = _number(value, what)
    if is_concrete(array) and not array > 0:
        raise StepSizeError(f"{what} must be positive, got {value}")
    return array


def _number(value: Any, what: str) -> Float[Array, ""]:
    array = as_array(value, StepSizeError, what)
    if array.ndim > 0:
        raise StepSizeError(f"{what} must be one number, got shape {array.shape}")
    return array

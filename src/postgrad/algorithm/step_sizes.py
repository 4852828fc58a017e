"""Step sizes a_t, t = 1, 2, ... (the stage)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.errors import StepSizeError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_array, is_concrete

Stage = Int[Array, ""]
Schedule = Callable[[Any], Any]


class Harmonic(Module):
    """a_t = a / (t + b). With b = 0 it is the classical a/t; the paper uses 2/(t + 5)."""

    a: Float[Array, ""]
    b: Float[Array, ""]

    def __init__(self, a: Any, b: Any = 0.0):
        self.a = positive(a, "a")
        self.b = _number(b, "b")
        if is_concrete(self.b) and jnp.any(self.b <= -1):
            raise StepSizeError(f"b must be greater than -1, so that a/(1 + b) > 0, got {b}")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        return self.a / (t + self.b)


class InverseSqrt(Module):
    """a_t = a / sqrt(t)."""

    a: Float[Array, ""]

    def __init__(self, a: Any):
        self.a = positive(a, "a")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        return self.a / jnp.sqrt(t)


class Constant(Module):
    """a_t = a / sqrt(T) for a horizon T known in advance; a_t = a with T = 1."""

    a: Float[Array, ""]
    horizon: Float[Array, ""]

    def __init__(self, a: Any, horizon: Any = 1):
        self.a = positive(a, "a")
        self.horizon = positive(horizon, "horizon")

    def __call__(self, t: Stage) -> Float[Array, ""]:
        """a_t."""
        del t
        return self.a / jnp.sqrt(self.horizon)


def positive(value: Any, what: str) -> Float[Array, ""]:
    """One positive number.

    Raises:
        StepSizeError: If it is none.
    """
    array = _number(value, what)
    if is_concrete(array) and not array > 0:
        raise StepSizeError(f"{what} must be positive, got {value}")
    return array


def _number(value: Any, what: str) -> Float[Array, ""]:
    array = as_array(value, StepSizeError, what)
    if array.ndim > 0:
        raise StepSizeError(f"{what} must be one number, got shape {array.shape}")
    return array

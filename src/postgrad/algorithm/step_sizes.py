"""Step sizes a_t, t = 1, 2, ... (the stage)."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.errors import StepSizeError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_number

Stage = Int[Array, ""]
Schedule = Callable[[Any], Any]


class Harmonic(Module):
    """a_t = a / (t + b). With b = 0 it is the classical a/t; the paper uses 2/(t + 5)."""

    a: Float[Array, ""]
    b: Float[Array, ""]

    def __init__(self, a: Any, b: Any = 0.0):
        self.a = positive(a, "a")
        self.b = as_number(
            b, StepSizeError, "b", "greater than -1, so that a/(1 + b) > 0", lambda b: b > -1
        )

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
        StepSizeError: If the value is not one.
    """
    return as_number(value, StepSizeError, what, "a positive number", lambda number: number > 0)

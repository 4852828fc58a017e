"""The contract of a term: a prior, how it moves with time, what it reads from the context."""

import abc
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.errors import ModelError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_number, on_device

_NEVER = np.inf  # the half-life of what does not return


class Term(Module):
    """A summand of a linear predictor: a design vector times coefficients.

        eta  =  ...  +  design(x, z)' beta  +  ...,      beta ~ N(mean, scale^2 I) at the start

    In t units of time each coefficient moves: beta  <-  mean + k (beta - mean) + noise, with
    k = 2^(-t / half_life) and noise of variance scale^2 (1 - k^2) + t drift^2. Without drift and
    half-life the coefficient stays.

    Attributes:
        scale: The prior standard deviation of each coefficient, in units of eta.
        mean: The prior mean of each coefficient.
        drift: The standard deviation of a coefficient's random walk in a unit of time.
        half_life: The time in which a coefficient has come half the way back to its mean.
    """

    scale: eqx.AbstractVar[Float[Array, ""]]

    @property
    def mean(self) -> Array:
        """Zero, but for a level."""
        return on_device(np.float64(0.0))

    @property
    def drift(self) -> Array:
        """Zero: the coefficients stay."""
        return on_device(np.float64(0.0))

    @property
    def half_life(self) -> Array:
        """Infinite: the coefficients do not return."""
        return on_device(np.float64(_NEVER))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the coefficients: () for one number."""
        return ()

    @abc.abstractmethod
    def design(self, name: str, x: Any, z: PyTree) -> Float[Array, "..."]:
        """What the coefficients are multiplied by; `name` is the term's name in the predictor."""


def read_column(z: PyTree, column: str) -> Any:
    """The value of a column of a context.

    Raises:
        ModelError: If the context has no such column.
    """
    if not isinstance(z, dict) or column not in z:
        there = sorted(z) if isinstance(z, dict) else z
        raise ModelError(
            f"the model reads the column {column!r} of the context, which has {there}: "
            f"give the column, or name another one in the term"
        )
    return z[column]


def not_negative(value: Any, what: str) -> Array:
    """The value as a number that is not negative, or an error that names it."""
    return as_number(value, ModelError, what, "a number of at least 0", lambda number: number >= 0)

"""A distribution on given numbers, each with its probability."""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import random
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Bool, Float
from numpyro.distributions import constraints

from postgrad.errors import GradientError, ModelError
from postgrad.numerics.module import shown
from postgrad.numerics.validate import as_array

# Numbers whose difference is at most this, relative to their size, are equal.
_ROUNDING = 1e-12


class Atoms(dist.Distribution):
    """P(xi = v_i) = w_i for finitely many numbers, or vectors, v_i.

    The values may depend on the decision: a draw is v_i(x) with i ~ w, and its derivative is that
    of v_i, so `Pathwise` is right and draws count as differentiable. The weights may depend on the
    decision, and then `Score` is right, as long as the values do not. Derivatives that would be
    wrong, of draws in the weights and of probabilities in the values, raise a `GradientError`.

    Attributes:
        values: v_1, ..., v_m along the axis after those of the batch.
        weights: w_1, ..., w_m along the last axis, probabilities.
    """

    arg_constraints = {"values": constraints.real, "weights": constraints.simplex}  # noqa: RUF012

    def __init__(self, values: Any, weights: Any, *, validate_args: bool | None = None):
        """Give each value its probability.

        Args:
            values: The values, (m, ...).
            weights: Their probabilities, (m,).
            validate_args: As in numpyro.

        Raises:
            ModelError: If values or weights are not numbers, or not one weight for each value.
        """
        self.values = as_array(values, ModelError, "values")
        self.weights = as_array(weights, ModelError, "weights")
        count = self.weights.ndim
        if count == 0 or self.values.shape[:count] != self.weights.shape or 0 in self.weights.shape:
            raise ModelError(
                f"Atoms needs one weight for each value, got values of shape "
                f"{self.values.shape} and weights of shape {self.weights.shape}"
            )
        shape = self.values.shape
        super().__init__(shape[: count - 1], shape[count:], validate_args=validate_args)

    __repr__ = shown

    @property
    def has_rsample(self) -> bool:
        """Draws are differentiable in the values."""
        return True

    @property
    def support(self) -> constraints.Constraint:
        """All numbers: those that are no atom have probability zero."""
        return _Anywhere(self.values, len(self.event_shape))

    @property
    def mean(self) -> Array:
        """sum_i w_i v_i."""
        return jnp.sum(self._wide() * self.values, axis=len(self.batch_shape))

    @property
    def variance(self) -> Array:
        """sum_i w_i (v_i - mean)^2."""
        axis = len(self.batch_shape)
        gaps = self.values - jnp.expand_dims(self.mean, axis)
        return jnp.sum(self._wide() * gaps**2, axis=axis)

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """By inversion: the first value whose cumulated weight exceeds a uniform number."""
        weights = _fixed(
            self.weights,
            "a draw from Atoms has no derivative in the weights, but they depend on x: use "
            "Score() or MixtureScore()",
        )
        batch, m = self.batch_shape, self.weights.shape[-1]
        u = random.uniform(key, (math.prod(sample_shape), *batch))
        cumulated = jnp.cumsum(weights, axis=-1)
        target = u[..., None] * cumulated[..., -1:]
        index = jnp.minimum(jnp.sum(cumulated <= target, axis=-1), m - 1)
        axis = len(batch)
        place = jnp.moveaxis(index, 0, axis).reshape((*batch, -1, *(1,) * len(self.event_shape)))
        drawn = jnp.moveaxis(jnp.take_along_axis(self.values, place, axis=axis), axis, 0)
        return drawn.reshape(self.shape(sample_shape))

    def log_prob(self, value: Array) -> Array:
        """The log of the total weight of the atoms that equal the value to twelve digits."""
        values = _fixed(
            self.values,
            "the probabilities of Atoms have no derivative in the values, but these depend on "
            "x: use Pathwise()",
        )
        event = len(self.event_shape)
        asked = jnp.expand_dims(jnp.asarray(value, float), -1 - event)
        equal = jnp.all(same(asked, values), axis=tuple(range(-event, 0)))
        mass = jnp.sum(jnp.where(equal, self.weights, 0.0), axis=-1)
        return jnp.where(mass > 0, jnp.log(jnp.where(mass > 0, mass, 1.0)), -jnp.inf)

    def _wide(self) -> Array:
        return self.weights.reshape(self.weights.shape + (1,) * len(self.event_shape))


def same(
    a: Float[Array, "..."], b: Float[Array, "..."], rounding: float = _ROUNDING
) -> Bool[Array, "..."]:
    """Whether two numbers are equal but for rounding, relative to their size."""
    return jnp.abs(a - b) <= rounding * jnp.maximum(jnp.abs(a), jnp.abs(b))


class _Anywhere(constraints.Constraint):
    """All numbers, in a formula that contains the atoms.

    So tracing finds that the support depends on x if the atoms do, and scores are refused.
    """

    is_discrete = True

    def __init__(self, values: Array, event_dim: int):
        self.values, self.event_dim = values, event_dim

    def __call__(self, x: Array) -> Bool[Array, "..."]:
        inside = jnp.isfinite(jnp.asarray(x, float)) & jnp.all(jnp.isfinite(self.values))
        return jnp.all(inside, axis=tuple(range(-self.event_dim, 0)))

    def feasible_like(self, prototype: Array) -> Array:
        return jnp.zeros_like(prototype)

    def tree_flatten(self) -> Any:
        return (self.values,), (("values",), {"event_dim": self.event_dim})


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _fixed(value: Array, message: str) -> Array:
    """The value itself; its derivative is a `GradientError` with the message."""
    del message
    return value


def _refuse(message: str, values: Any, tangents: Any) -> tuple[Array, Any]:
    if not isinstance(tangents[0], SymbolicZero):
        raise GradientError(message)
    return values[0], tangents[0]


_fixed.defjvp(_refuse, symbolic_zeros=True)

"""Observations that arose under one decision."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.problem.problem import Decision


class Batch(NamedTuple):
    """D observations, the decision in force when they arose, and how much each counts.

    Attributes:
        x: The decision.
        y: The observations along the leading axis.
        weight: How much each observation counts; None counts all once.
    """

    x: Decision
    y: Float[Array, "D ..."]
    weight: Float[Array, " D"] | None = None

    @property
    def size(self) -> Float[Array, ""]:
        """How many observations the batch counts as: D, or the sum of the weights."""
        return jnp.asarray(float(len(self.y))) if self.weight is None else jnp.sum(self.weight)

    def total(self, each: Float[Array, "D ..."]) -> Float[Array, "..."]:
        """sum_j w_j v_j of a value v_j for each observation, which may be infinite if w_j = 0."""
        if self.weight is None:
            return jnp.sum(each, axis=0)
        wide = self.weight.reshape(-1, *(1,) * (each.ndim - 1))
        return jnp.sum(jnp.where(wide > 0, wide * each, 0.0), axis=0)

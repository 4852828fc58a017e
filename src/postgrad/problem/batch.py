"""Observations that arose under one decision."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.problem.problem import Decision

# Of larger batches so many rows are read at a time: a function of a row may take as much memory as
# there are values of theta.
MOST_ROWS = 1024


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

    def total_of(self, function: Callable[[Array], Array]) -> Float[Array, "..."]:
        """sum_j w_j f(y_j) of a function of many rows, in memory that hardly grows with D."""
        count = len(self.y)
        if count <= MOST_ROWS:
            return self.total(function(self.y))

        # Its derivatives compute a part anew instead of keeping what it was computed from.
        @jax.checkpoint
        def part(rows: tuple[Array, Array | None]) -> Array:
            y, weight = rows
            return Batch(self.x, y, weight).total(function(y))

        whole, every = count - count % MOST_ROWS, (self.y, self.weight)
        parts = jax.tree.map(lambda row: row[:whole].reshape(-1, MOST_ROWS, *row.shape[1:]), every)
        total = jnp.sum(jax.lax.map(part, parts), axis=0)
        return total if whole == count else total + part(jax.tree.map(lambda a: a[whole:], every))


def by_rows(function: Callable[[Array], Array], y: Float[Array, "D ..."]) -> Array:
    """A function of one row at each, in memory that hardly grows with D."""
    if len(y) <= MOST_ROWS:
        return jax.vmap(function)(y)
    return jax.lax.map(function, y, batch_size=MOST_ROWS)

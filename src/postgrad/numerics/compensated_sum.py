"""Sums that do not drift."""

from typing import Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from postgrad.numerics.module import Module


class Sum(Module):
    """A running sum of PyTrees, together with its rounding error.

    After n additions a plain float64 sum is off by some sqrt(n) rounding errors, and depends on the
    order of the terms. Here the rounding error of each addition is computed exactly (Knuth's
    two-sum) and kept: the result is right to the last digit or two, after a million additions as
    after one.

    Attributes:
        high: The sum, rounded.
        low: The sum of the rounding errors.
    """

    high: PyTree
    low: PyTree

    @classmethod
    def zeros_like(cls, tree: PyTree) -> Self:
        """An empty sum."""
        zeros = jax.tree.map(jnp.zeros_like, tree)
        return cls(zeros, zeros)

    @property
    def value(self) -> PyTree:
        """The sum."""
        return jax.tree.map(jnp.add, self.high, self.low)

    def add(self, tree: PyTree) -> Self:
        """One more term."""
        high = jax.tree.map(jnp.add, self.high, tree)
        low = jax.tree.map(_error, self.high, tree, high)
        return type(self)(high, jax.tree.map(jnp.add, self.low, low))


def _error(a: Array, b: Array, total: Array) -> Array:
    """a + b - total, exactly."""
    of_b = total - a
    return (a - (total - of_b)) + (b - of_b)

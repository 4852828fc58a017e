"""The benchmark that knows theta."""

from typing import Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from postgrad.beliefs.belief import as_theta
from postgrad.beliefs.point_mass import PointMass
from postgrad.numerics.fixed import fixed
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem


class Known(PointMass):
    """A point mass at a given value, whatever the data.

    With the true parameter this is the paper's benchmark: plain SGD on the true problem.
    """

    value: PyTree = fixed()

    def __init__(self, theta: PyTree):
        self.value = as_theta(theta)

    @property
    def theta(self) -> PyTree:
        """The value."""
        return self.value

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Ignores the batch."""
        del likelihood, batch, key
        return self

    @property
    def effective_size(self) -> Array:
        """Infinite."""
        return jnp.asarray(jnp.inf)

    def examples(self) -> PyTree:
        """The value alone."""
        return jax.tree.map(lambda leaf: leaf[None], self.value)

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Any model is admitted."""
        del problem, x
        return self

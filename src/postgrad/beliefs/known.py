"""A belief without doubt: the benchmark that knows theta."""

from typing import Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief, as_theta
from postgrad.density import log_density
from postgrad.problem import Decision, Model


class Known(Belief):
    """A point mass at theta, which no data can move.

    With the true parameter it is the paper's benchmark: plain SGD on the true problem.
    """

    theta: PyTree

    def __init__(self, theta: PyTree):
        self.theta = as_theta(theta)

    def update(
        self, likelihood: Model, x: Decision, batch: Array, weight: Array | None = None
    ) -> Self:
        """Nothing is left to learn."""
        del likelihood, x, batch, weight
        return self

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """Theta, every time."""
        del key
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), self.theta)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """Log f(xi; x, theta)."""
        return log_density(model(x, self.theta), xi)

    def examples(self) -> PyTree:
        """The one value."""
        return jax.tree.map(lambda leaf: leaf[None], self.theta)

    def check(self, likelihood: Model, x: Decision) -> None:
        """Any model will do."""

"""Beliefs that put all their weight on one value."""

import abc
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import BatchBelief, Belief
from postgrad.distributions.density import log_density
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem


class PointMass(BatchBelief):
    """A belief without doubt: pi_t is concentrated on one value theta_hat_t."""

    @property
    @abc.abstractmethod
    def theta(self) -> PyTree:
        """theta_hat_t."""

    def sample(self, key: Array, shape: tuple[int, ...] = ()) -> PyTree:
        """theta_hat_t, every time."""
        del key
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, shape + leaf.shape), self.theta)

    def mean(self) -> PyTree:
        """theta_hat_t."""
        return self.theta

    def spread(self) -> PyTree:
        """Zeros."""
        return jax.tree.map(jnp.zeros_like, self.theta)

    def log_mixture(self, model: Model, x: Decision, xi: Array) -> Float[Array, ""]:
        """The log-density at theta_hat_t."""
        return log_density(model(x, self.theta), xi)


class PlugIn(PointMass):
    """A point mass at a value that another belief yields: its mean, its mode or a draw.

    Attributes:
        belief: The other belief.
    """

    belief: eqx.AbstractVar[Belief]

    def advance(self, elapsed: Any) -> Self:
        """Of the other belief."""
        return replaced(self, belief=self.belief.advance(elapsed))

    @property
    def is_comparable(self) -> bool:
        """If the other belief is."""
        return self.belief.is_comparable

    @property
    def effective_size(self) -> Array:
        """As many observations as the other belief counts."""
        return self.belief.effective_size

    def examples(self) -> PyTree:
        """Those of the other belief."""
        return self.belief.examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """Binds the other belief."""
        return replaced(self, belief=self.belief.bind(problem, x))


class Estimate(PlugIn):
    """A point mass at a function of another belief, such as its mean."""

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Updates the other belief."""
        return replaced(self, belief=self.belief.update(likelihood, *batch, key))

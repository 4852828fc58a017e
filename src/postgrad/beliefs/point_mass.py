"""Beliefs that put all their weight on one value."""

import abc

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.distributions.density import log_density
from postgrad.problem.problem import Decision, Model


class PointMass(Belief):
    """A belief without doubt: pi_t is concentrated on theta_hat_t, whatever that is."""

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

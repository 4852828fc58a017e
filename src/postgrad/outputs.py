"""What is issued as the decision, given the iterates x_1, x_2, ... of the descent."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float


class Output(eqx.Module):
    """Turns the stream of iterates into the stream of decisions, in constant memory."""

    @abc.abstractmethod
    def init(self, x: Array) -> Any:
        """The state before the first stage, at the initial decision x_1."""

    @abc.abstractmethod
    def decide(
        self, state: Any, before: Array, after: Array, step_size: Float[Array, ""], key: Array
    ) -> tuple[Any, Array]:
        """The decision after stage t, where before = x_t, after = x_{t+1} and step_size = a_t."""


class Last(Output):
    """The last iterate, x_{t+1}: the paper's algorithms as printed."""

    def init(self, x: Array) -> tuple[()]:
        """Nothing to remember."""
        del x
        return ()

    def decide(
        self, state: Any, before: Array, after: Array, step_size: Array, key: Array
    ) -> tuple[Any, Array]:
        """x_{t+1}."""
        del before, step_size, key
        return state, after


class Average(Output):
    """Polyak-Ruppert averaging: the mean of x_2, ..., x_{t+1} (the arbitrary x_1 is left out)."""

    def init(self, x: Array) -> tuple[Array, Array]:
        """The count and the mean so far."""
        return jnp.zeros(()), jnp.zeros_like(x)

    def decide(
        self, state: Any, before: Array, after: Array, step_size: Array, key: Array
    ) -> tuple[Any, Array]:
        """The running mean."""
        del before, step_size, key
        count, mean = state
        count = count + 1
        mean = mean + (after - mean) / count
        return (count, mean), mean


class RandomIterate(Output):
    """z_T of the rate theorem: z_T = x_t with probability a_t / sum_{s <= T} a_s, t = 1, ..., T.

    The draw is a weighted reservoir of size one: at stage t, x_t replaces z with probability
    a_t / (a_1 + ... + a_t), which gives those probabilities for every T without knowing T.
    """

    def init(self, x: Array) -> tuple[Array, Array]:
        """The sum of step sizes and the iterate kept."""
        return jnp.zeros(()), x

    def decide(
        self, state: Any, before: Array, after: Array, step_size: Array, key: Array
    ) -> tuple[Any, Array]:
        """z_t."""
        del after
        total, kept = state
        total = total + step_size
        kept = jnp.where(random.uniform(key) * total < step_size, before, kept)
        return (total, kept), kept

"""What is issued as the decision, given the iterates x_1, x_2, ... of the descent."""

import abc
from typing import Self

import equinox as eqx
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float


class Output(eqx.Module):
    """Turns the stream of iterates into the stream of decisions, in constant memory.

    What is issued is what is in force: with `Average` and `RandomIterate`, too, the next data arise
    under the issued decision, while the descent goes on from its own iterate.

    An output is made from the initial decision x_1 and replaced by a new one at every stage. The
    algorithm is given the class: `BayesianSGD(problem, output=Average)`.
    """

    @abc.abstractmethod
    def __init__(self, x: Array):
        """Before the first stage."""

    @abc.abstractmethod
    def follow(self, before: Array, after: Array, step_size: Float[Array, ""], key: Array) -> Self:
        """After stage t, where before = x_t, after = x_{t+1} and step_size = a_t."""

    @abc.abstractmethod
    def decision(self, x: Array) -> Array:
        """What is issued when the iterate is x."""


class Last(Output):
    """The last iterate, x_{t+1}: the paper's algorithms as printed."""

    def __init__(self, x: Array):
        del x

    def follow(self, before: Array, after: Array, step_size: Array, key: Array) -> Self:
        """Nothing to remember."""
        del before, after, step_size, key
        return self

    def decision(self, x: Array) -> Array:
        """The iterate itself."""
        return x


class Average(Output):
    """Polyak-Ruppert averaging: the mean of x_2, ..., x_{t+1} (the arbitrary x_1 is left out)."""

    count: Float[Array, ""]
    mean: Array

    def __init__(self, x: Array):
        self.count = jnp.zeros(())
        self.mean = x

    def follow(self, before: Array, after: Array, step_size: Array, key: Array) -> Self:
        """The running mean."""
        del before, step_size, key
        count = self.count + 1
        mean = self.mean + (after - self.mean) / count
        return eqx.tree_at(lambda self: (self.count, self.mean), self, (count, mean))

    def decision(self, x: Array) -> Array:
        """The mean so far."""
        del x
        return self.mean


class RandomIterate(Output):
    """z_T of the rate theorem: z_T = x_t with probability a_t / sum_{s <= T} a_s, t = 1, ..., T.

    The draw is a weighted reservoir of size one: at stage t, x_t replaces z with probability
    a_t / (a_1 + ... + a_t), which gives those probabilities for every T without knowing T.
    """

    total: Float[Array, ""]
    kept: Array

    def __init__(self, x: Array):
        self.total = jnp.zeros(())
        self.kept = x

    def follow(self, before: Array, after: Array, step_size: Array, key: Array) -> Self:
        """z_t."""
        del after
        total = self.total + step_size
        kept = jnp.where(random.uniform(key) * total < step_size, before, self.kept)
        return eqx.tree_at(lambda self: (self.total, self.kept), self, (total, kept))

    def decision(self, x: Array) -> Array:
        """The iterate kept."""
        del x
        return self.kept

"""What a population of streams knows, and what it lends to each of them."""

import abc
import functools
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from postgrad.beliefs.belief import Belief
from postgrad.errors import PriorError
from postgrad.numerics.module import Module

B = TypeVar("B", bound=Belief)


class Population(Module):
    """The law G that the parameters of all members are drawn from: theta_i ~ G.

    G follows from the sum of the members' expected statistics T (empirical Bayes: steps of the EM
    algorithm, one for each batch of a member). A member i has the evidence L_i of its own data, and

        pi_i  ~  L_i G_{-i},     T_i  =  (E_{pi_i} T(theta), 1),     G_{-i}  from  sum_{j != i} T_j

    so nothing that a member has learned comes back to it as if others had said so.
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many numbers the statistics of a member have."""

    @abc.abstractmethod
    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """T_i: the expected statistics of a member's belief, followed by the number 1."""

    @abc.abstractmethod
    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The belief with the same evidence, and the law of the other members for its prior.

        Args:
            belief: What a member believes.
            others: The sum of the statistics of all other members.
        """

    @abc.abstractmethod
    def prior_of(self, belief: Any) -> tuple[Array, ...]:
        """The arrays of a belief that are its prior: those that `lent` replaces."""


@functools.singledispatch
def population_of(belief: Belief, strength: Float[Array, ""]) -> Population:
    """The population of members with this prior; beliefs register theirs.

    Raises:
        PriorError: If such beliefs cannot be pooled.
    """
    given, possible = type(belief).__name__, "a Gaussian, or a Grid made with `forget`"
    raise PriorError(f"only beliefs such as {possible}, can be pooled, got {given}")


@eqx.filter_jit
def statistics_of(population: Population, belief: Belief) -> Float[Array, " m"]:
    """T_i, as one compiled program."""
    return population.statistics(belief)


@eqx.filter_jit
def lent_by(population: Population, belief: B, others: ArrayLike) -> B:
    """What a member believes with G_{-i} for its prior, as one compiled program."""
    return population.lent(belief, jnp.asarray(others))

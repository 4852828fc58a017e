"""What is issued as the decision, given the iterates x_1, x_2, ... of the descent."""

import abc
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float

from postgrad.errors import SettingError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_array, is_concrete
from postgrad.problem.feasible import FeasibleSet


class Output(Module):
    """Turns the stream of iterates into the stream of decisions, in constant memory.

    What is issued is what is in force: with `Average` and `RandomIterate`, too, the next data arise
    under the issued decision, while the descent goes on from its own iterate.

    An output is made from the initial decision x_1 and replaced by a new one at every stage. The
    algorithm is given what makes one: `BayesianSGD(problem, output=Average)`.
    """

    @abc.abstractmethod
    def follow(
        self,
        before: Array,
        after: Array,
        step_size: Float[Array, ""],
        key: Array,
        feasible: FeasibleSet,
    ) -> Self:
        """After stage t.

        Args:
            before: x_t.
            after: x_{t+1}.
            step_size: a_t.
            key: Randomness.
            feasible: X, for those that issue something between or beside the iterates.
        """

    @abc.abstractmethod
    def decision(self, x: Array) -> Array:
        """What is issued when the iterate is x."""


class Last(Output):
    """The last iterate, x_{t+1}: the paper's algorithms as printed."""

    def __init__(self, x: Array):
        del x

    def follow(
        self, before: Array, after: Array, step_size: Array, key: Array, feasible: FeasibleSet
    ) -> Self:
        """Nothing to remember."""
        del before, after, step_size, key, feasible
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

    def follow(
        self, before: Array, after: Array, step_size: Array, key: Array, feasible: FeasibleSet
    ) -> Self:
        """The running mean."""
        del before, step_size, key, feasible
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

    def follow(
        self, before: Array, after: Array, step_size: Array, key: Array, feasible: FeasibleSet
    ) -> Self:
        """z_t."""
        del after, feasible
        total = self.total + step_size
        kept = jnp.where(random.uniform(key) * total < step_size, before, self.kept)
        return eqx.tree_at(lambda self: (self.total, self.kept), self, (total, kept))

    def decision(self, x: Array) -> Array:
        """The iterate kept."""
        del x
        return self.kept


class Perturbed(Module):
    """Issues Proj(x_t + e_t), e_t normal of standard deviation size / t^decay: exploration.

    Where the decision changes what can be learned, the best decision for today's posterior may be
    one at which data say nothing new, for ever: x stops moving, theta stays unknown. Small
    deliberate variation prevents that. With decay = 1/4 its cost adds up to the order of sqrt(T),
    which is the best possible in such problems (Keskin and Zeevi, 2014).

    `BayesianSGD(problem, output=Perturbed(0.5))`. What is issued is feasible, always.

    Attributes:
        size: The standard deviation at the first stage, one number or one for each entry of x.
        decay: How fast it falls.
    """

    size: Float[Array, "..."]
    decay: Float[Array, ""]

    def __init__(self, size: Any, decay: Any = 0.25):
        """How much to explore.

        Raises:
            SettingError: If size is negative, or decay is not a number from 0 to 1/2: with more the
                variation adds up to too little to learn from.
        """
        self.size = as_array(size, SettingError, "size")
        self.decay = as_array(decay, SettingError, "decay")
        if is_concrete(self.size) and not jnp.all(self.size >= 0):
            raise SettingError(f"size must not be negative, got {size!r}")
        if self.decay.shape != () or (is_concrete(self.decay) and not 0 <= self.decay <= 0.5):
            raise SettingError(f"decay must be a number from 0 to 0.5, got {decay!r}")

    def __call__(self, x: Array) -> "Exploring":
        """Before the first stage: x_1 itself."""
        if self.size.shape not in ((), x.shape):
            raise SettingError(f"size must have shape {x.shape} or (), got {self.size.shape}")
        return Exploring(self, jnp.zeros(()), x)


class Exploring(Output):
    """What `Perturbed` makes.

    Attributes:
        how: Size and decay.
        count: Stages so far.
        issued: The decision in force.
    """

    how: Perturbed
    count: Float[Array, ""]
    issued: Array

    def follow(
        self, before: Array, after: Array, step_size: Array, key: Array, feasible: FeasibleSet
    ) -> Self:
        """A new push."""
        del before, step_size
        count = self.count + 1
        spread = self.how.size / count**self.how.decay
        issued = feasible.project(after + spread * random.normal(key, after.shape))
        return eqx.tree_at(lambda self: (self.count, self.issued), self, (count, issued))

    def decision(self, x: Array) -> Array:
        """The iterate with its push."""
        del x
        return self.issued

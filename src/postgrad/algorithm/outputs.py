"""What is issued as the decision, given the iterates x_1, x_2, ... of the descent."""

import abc
from typing import Any, ClassVar, NamedTuple

import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float

from postgrad.errors import SettingError
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_array, as_number, is_concrete
from postgrad.problem.feasible.feasible_set import FeasibleSet


class Move(NamedTuple):
    """What stage t did.

    Attributes:
        before: x_t.
        after: x_{t+1}.
        step_size: a_t.
        key: Randomness of the stage, for the output alone.
        feasible: X.
    """

    before: Array
    after: Array
    step_size: Float[Array, ""]
    key: Array
    feasible: FeasibleSet


Memory = tuple[Array, ...]
"""A number that a rule keeps, and the decision it issues; () if it issues the iterate itself."""


class Output(Module):
    """A rule that turns the iterates into decisions, in constant memory.

    The issued decision is in force: the next data arise under it, while the descent goes on from
    its own iterate. `BayesianSGD(problem, output=Average())`.

    Attributes:
        varies: Whether decisions differ from the best one on purpose. Where they are whole numbers
            or the like, these are rounded; others are chosen by value.
    """

    varies: ClassVar[bool] = False

    @abc.abstractmethod
    def init(self, x: Array) -> Memory:
        """What the rule remembers before the first stage, given the initial decision x_1."""

    @abc.abstractmethod
    def follow(self, memory: Memory, move: Move) -> Memory:
        """What the rule remembers after stage t."""


class Issued(Module):
    """A rule together with what it remembers; see `Output`."""

    output: Output
    memory: Memory

    def follow(self, move: Move) -> "Issued":
        """After stage t."""
        return Issued(self.output, self.output.follow(self.memory, move))

    def decision(self, x: Array) -> Array:
        """The decision that is issued when the iterate is x."""
        return self.memory[1] if self.memory else x


class Last(Output):
    """The last iterate, x_{t+1}: the paper's algorithms as printed."""

    def init(self, x: Array) -> Memory:
        """Nothing."""
        del x
        return ()

    def follow(self, memory: Memory, move: Move) -> Memory:
        """Nothing."""
        del move
        return memory


class Average(Output):
    """Polyak-Ruppert averaging: the mean of x_2, ..., x_{t+1} (the arbitrary x_1 is left out)."""

    def init(self, x: Array) -> Memory:
        """The number of iterates in the mean, and x_1 until there is a mean."""
        return jnp.zeros(()), x

    def follow(self, memory: Memory, move: Move) -> Memory:
        """The running mean."""
        count, mean = memory
        return count + 1, mean + (move.after - mean) / (count + 1)


class RandomIterate(Output):
    """z_T of the rate theorem: z_T = x_t with probability a_t / sum_{s <= T} a_s, t = 1, ..., T.

    The draw is a weighted reservoir of size one: at stage t, x_t replaces z with probability
    a_t / (a_1 + ... + a_t), which gives those probabilities for every T without knowing T.
    """

    varies: ClassVar[bool] = True

    def init(self, x: Array) -> Memory:
        """The sum of step sizes, and the iterate kept."""
        return jnp.zeros(()), x

    def follow(self, memory: Memory, move: Move) -> Memory:
        """z_t."""
        total = memory[0] + move.step_size
        replaces = random.uniform(move.key) * total < move.step_size
        return total, jnp.where(replaces, move.before, memory[1])


class Perturbed(Output):
    """Issues Proj(x_t + e_t), e_t normal of standard deviation size / t^decay: exploration.

    Where the decision changes what can be learned, the best decision for today's posterior may be
    one at which data say nothing new, for ever: x stops moving, theta stays unknown. Small
    deliberate variation prevents that. With decay = 1/4 its cost adds up to the order of sqrt(T),
    which is the best possible in such problems (Keskin and Zeevi, 2014).

    Args:
        size: The standard deviation at the first stage, one number or one for each entry of x.
        decay: How fast it falls.

    Raises:
        SettingError: If size is negative, or decay is not a number from 0 to 1/2: with more the
            variation adds up to too little to learn from.
    """

    varies: ClassVar[bool] = True

    size: Float[Array, "..."]
    decay: Float[Array, ""]

    def __init__(self, size: Any, decay: Any = 0.25):
        self.size = as_array(size, SettingError, "size")
        if is_concrete(self.size) and not jnp.all(self.size >= 0):
            raise SettingError(f"size must not be negative, got {size!r}")
        self.decay = as_number(
            decay, SettingError, "decay", "from 0 to 0.5", lambda d: (d >= 0) & (d <= 0.5)
        )

    def init(self, x: Array) -> Memory:
        """The number of stages, and the decision in force: x_1 itself."""
        if self.size.shape not in ((), x.shape):
            raise SettingError(f"size must have shape {x.shape} or (), got {self.size.shape}")
        return jnp.zeros(()), x

    def follow(self, memory: Memory, move: Move) -> Memory:
        """The iterate with new noise, projected to X."""
        count = memory[0] + 1
        noise = self.size / count**self.decay * random.normal(move.key, move.after.shape)
        return count, move.feasible.project(move.after + noise)

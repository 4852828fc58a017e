"""The contract of everything that decides: a state, a batch, a new state."""

import abc
from typing import Any, Protocol

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Int

from postgrad.beliefs.belief import Belief
from postgrad.errors import DecisionError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.module import Module
from postgrad.numerics.validate import as_numbers, on_device
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Decision, Problem

# How far outside the feasible set a decision may lie for rounding's sake, relative to its size.
_ROUNDING = 1e-9


class PolicyState(Protocol):
    """What a policy carries from stage to stage: a PyTree of arrays with these two."""

    @property
    def stage(self) -> Int[Array, ""]:
        """t, the number of the stage to come: 1 before the first batch. A leaf, in int64."""

    @property
    def decision(self) -> Decision:
        """x_t, what is in force when the next batch arises."""


class Policy(Module):
    """Decides, stage by stage, from the data that its decisions bring about.

    Stage t derives its randomness from `fold_in(key, t)` and nothing else, so that a restored state
    goes on bit for bit, and a simulation can give each run a key of its own.

    Laws, checked for every final class of the room `rivals`: decisions are feasible; a restored
    state goes on bit for bit; an observation of weight zero is no observation.

    Attributes:
        problem: Cost, model and feasible set. Policies without a model read the cost and the
            feasible set alone.
        key: The seed.
    """

    problem: eqx.AbstractVar[Problem]
    key: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def init(self, belief: Belief | None, x: Any) -> Any:
        """The `PolicyState` before the first stage, after trying all parts on each other.

        Args:
            belief: pi_0; None for policies that believe nothing.
            x: x_1, the initial decision. Its shape is the shape of all decisions.
        """

    @abc.abstractmethod
    def step(
        self,
        state: Any,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[Any, Any]:
        """One stage: the next state, and what the stage tells about itself.

        Args:
            state: The state after stage t - 1.
            batch: y_{t,1}, ..., y_{t,D} along the leading axis.
            weight: How much each observation counts; all once, if not given.
            x: The decision in force when the batch arose; the last one issued, if not given.
        """


def initial_decision(problem: Problem, x: Any) -> Decision:
    """x_1 as an array.

    Raises:
        DecisionError: If it is not finite numbers inside the feasible set.
    """
    numbers = as_numbers(x, DecisionError, "x")
    if numbers.size == 0:
        raise DecisionError("x must have at least one entry, got none")
    excess = float(_violation(problem.feasible, numbers))
    if excess > _ROUNDING * max(1.0, float(np.max(np.abs(numbers)))):
        raise DecisionError(f"x = {numbers} violates {problem.feasible} by {excess:g}")
    return on_device(numbers)


@compiled_at_once
def _violation(feasible: FeasibleSet, x: Any) -> Float[Array, ""]:
    """How far outside; compiled once for sets that differ in numbers only."""
    return feasible.violation(x)


def first_stage() -> Int[Array, ""]:
    """The number 1, as states keep it."""
    return on_device(np.int64(1))

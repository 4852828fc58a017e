"""A policy in whatever context: one plan, and the numbers that differ from context to context."""

from typing import Any

import jax
from jaxtyping import Array, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.programs import bare, split
from postgrad.errors import ContextError
from postgrad.numerics.module import replaced
from postgrad.problem.contexts import as_context
from postgrad.problem.problem import Problem


class PolicyInContexts:
    """A policy whose problem may take contexts.

    Attributes:
        example: An example of a context, as arrays; None if the problem takes none.
        policy: The policy, in the example.
        numbers: Its numbers: see `programs.split`.
        plan: The rest of it, the same in all contexts.
    """

    def __init__(self, policy: BayesianSGD, context: PyTree):
        """See the attributes.

        Raises:
            ContextError: If the context is none, or the problem takes none.
        """
        self.example = None
        if context is not None:
            if not policy.problem.takes_context:
                raise ContextError(
                    "a context was given, but cost, model and feasible set take none: a function "
                    "of the context has three arguments without defaults, as cost(x, xi, z)"
                )
            self.example = as_context(context)
        self._general = policy
        self.policy = policy if context is None else policy.at(self.example)
        self.numbers, self.plan = split(bare(self.policy))

    def occasion(self, context: Any, elapsed: float | None, time: float | None) -> Occasion:
        """An occasion, whose context must be like the example.

        Raises:
            ContextError: If it is not.
        """
        if self.example is None:
            if context is not None:
                raise ContextError("a context was given, but the problem takes none")
            return USUAL if elapsed is None and time is None else Occasion(None, elapsed, time)
        if context is None:
            raise ContextError("a context is needed: the problem takes one")
        return Occasion(as_context(context, self.example), elapsed, time)

    def problem_on(self, on: Occasion) -> Problem:
        """The problem on an occasion."""
        general = self._general.problem
        return general if on.context is None else general.at(on.context)

    def policy_on(self, on: Occasion, seed: int | None = None) -> BayesianSGD:
        """The policy on an occasion; see `numbers_on`."""
        policy = self.policy if on.context is None else self._general.at(on.context)
        return policy if seed is None else replaced(policy, key=_folded(policy.key, seed))

    def numbers_on(self, on: Occasion, seed: int | None = None) -> list[Array]:
        """The numbers of the policy on an occasion.

        Args:
            on: The occasion.
            seed: If given, what the random numbers follow from, besides the policy's own seed.

        Raises:
            ContextError: If the feasible set in that context is of another kind.
        """
        if on.context is None and seed is None:
            return self.numbers
        policy = self.policy_on(on, seed)
        numbers, plan = split(bare(policy))
        if plan != self.plan:
            raise ContextError(
                f"feasible(z) must return sets of one kind, whatever the context: it was "
                f"{self.policy.problem.feasible} and is {policy.problem.feasible}"
            )
        return numbers


@jax.jit
def _folded(key: Array, number: int) -> Array:
    return jax.random.fold_in(key, number)

"""Feasible sets that a specification can name."""

from typing import Annotated, Any, ClassVar, Literal

import jax.numpy as jnp
from pydantic import Field

from postgrad.problem import feasible
from postgrad.spec.parts.part import Number, Numbers, Part, Positives


class BoxSet(Part):
    """Bounds for each item by itself."""

    kind: Literal["box"]
    low: Numbers
    high: Numbers
    joint: ClassVar[bool] = False  # each item is decided by itself

    def build(self, pick: Any, count: int) -> feasible.FeasibleSet:
        """The set."""
        del count
        return feasible.Box(pick(self.low), pick(self.high))


class BudgetSet(Part):
    """Bounds for each item, and one budget for all of them together."""

    kind: Literal["budget"]
    low: Numbers = 0.0
    high: Numbers
    weights: Positives = 1.0
    total: Number
    joint: ClassVar[bool] = True

    def build(self, pick: Any, count: int) -> feasible.FeasibleSet:
        """The set."""
        weights = jnp.broadcast_to(pick(self.weights), (count,))
        return feasible.Budget(pick(self.low), pick(self.high), weights, self.total)


AnySet = Annotated[BoxSet | BudgetSet, Field(discriminator="kind")]

"""Feasible sets that `[feasible]` can name."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from postgrad.spec.parts.toml_table import Number, Numbers, Pick, Positives, TomlTable

if TYPE_CHECKING:
    from postgrad.problem.feasible.feasible_set import FeasibleSet


class _Bounds(TomlTable):
    """Bounds for each item."""

    low: Numbers = 0.0
    high: Numbers

    def check(self) -> None:
        """See `TomlTable`."""
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        # Lists of other lengths than the number of items are refused elsewhere.
        comparable = low.size == high.size or 1 in (low.size, high.size)
        if comparable and not (low <= high).all():
            raise ValueError(f"`low` must not exceed `high`, got {self.low} and {self.high}")


class BoxSet(_Bounds):
    """Bounds for each item, which is decided by itself."""

    kind: Literal["box"]
    low: Numbers
    joint: ClassVar[bool] = False

    def build(self, pick: Pick) -> "FeasibleSet":
        """The set, with the numbers that `pick` takes."""
        from postgrad.problem import feasible

        return feasible.Box(pick(self.low), pick(self.high))


class BudgetSet(_Bounds):
    """Bounds for each item, and one budget for all items, which are decided together."""

    kind: Literal["budget"]
    weights: Positives = 1.0
    total: Number
    joint: ClassVar[bool] = True

    def build(self, pick: Pick) -> "FeasibleSet":
        """The set, with the numbers that `pick` takes: one for each item."""
        from postgrad.problem import feasible

        return feasible.Budget(pick(self.low), pick(self.high), pick(self.weights), self.total)


AnySet = Annotated[BoxSet | BudgetSet, Field(discriminator="kind")]

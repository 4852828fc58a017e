"""Feasible sets that `[feasible]` can name."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from postgrad.spec.parts.toml_table import Number, Numbers, Pick, Positives, TomlTable

if TYPE_CHECKING:
    from postgrad.problem.feasible.feasible_set import FeasibleSet


class _Bounds(TomlTable):
    """Bounds for each item, and which numbers between them are allowed.

    Attributes:
        low: The lower bound.
        high: The upper bound.
        whole: Whether decisions are whole numbers.
        lot: Of what decisions are multiples.
        minimum: What is ordered at least, if anything is.
    """

    low: Numbers = 0.0
    high: Numbers
    whole: bool = False
    lot: Positives | None = None
    minimum: Positives | None = None

    def check(self) -> None:
        """See `TomlTable`."""
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        # Lists of other lengths than the number of items are refused elsewhere.
        comparable = low.size == high.size or 1 in (low.size, high.size)
        if comparable and not (low <= high).all():
            raise ValueError(f"`low` must not exceed `high`, got {self.low} and {self.high}")
        if self.whole and self.lot is not None:
            raise ValueError(
                f"`whole = true` is `lot = 1`: give one of the two, got `lot` {self.lot}"
            )
        if self.minimum is not None and not (low >= 0).all():
            raise ValueError(f"`low` must not be negative where there is a `minimum`, got {low}")

    def _allowed(self, bounded: "FeasibleSet", pick: Pick) -> "FeasibleSet":
        """The numbers that are allowed of a set."""
        from postgrad.problem import feasible

        if self.whole:
            bounded = feasible.Integers(bounded)
        if self.lot is not None:
            bounded = feasible.Lots(bounded, pick(self.lot))
        return (
            bounded if self.minimum is None else feasible.MinimumOrder(bounded, pick(self.minimum))
        )


class BoxSet(_Bounds):
    """Bounds for each item, which is decided by itself."""

    kind: Literal["box"]
    low: Numbers
    joint: ClassVar[bool] = False

    def build(self, pick: Pick) -> "FeasibleSet":
        """The set, with the numbers that `pick` takes."""
        from postgrad.problem import feasible

        return self._allowed(feasible.Box(pick(self.low), pick(self.high)), pick)


class BudgetSet(_Bounds):
    """Bounds for each item, and one budget for all items, which are decided together."""

    kind: Literal["budget"]
    weights: Positives = 1.0
    total: Number
    joint: ClassVar[bool] = True

    def build(self, pick: Pick) -> "FeasibleSet":
        """The set, with the numbers that `pick` takes: one for each item."""
        from postgrad.problem import feasible

        bounds, weights = (pick(self.low), pick(self.high)), pick(self.weights)
        return self._allowed(feasible.Budget(*bounds, weights, self.total), pick)


AnySet = Annotated[BoxSet | BudgetSet, Field(discriminator="kind")]

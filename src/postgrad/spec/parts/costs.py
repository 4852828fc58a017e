"""Costs that `[cost]` can name. JAX is imported when one is built."""

import itertools
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from postgrad.spec.parts.toml_table import Numbers, Pick, Positives, TomlTable

if TYPE_CHECKING:
    from postgrad.problem.problem import Cost


class NewsvendorCost(TomlTable):
    """`underage` for each unit short, `overage` for each unit left over."""

    kind: Literal["newsvendor"]
    underage: Positives
    overage: Positives

    def build(self, pick: Pick) -> "Cost":
        """The cost, with the numbers that `pick` takes."""
        from postgrad.research.problems.newsvendor import Mismatch

        return Mismatch(pick(self.underage), pick(self.overage))


class ProfitCost(TomlTable):
    """Minus the profit of ordering at `cost`, selling at `price` and salvaging the rest."""

    kind: Literal["profit"]
    cost: Numbers
    price: Numbers
    salvage: Numbers = 0.0

    def check(self) -> None:
        """See `TomlTable`."""
        numbers = [np.atleast_1d(value) for value in (self.salvage, self.cost, self.price)]
        for less, more in itertools.pairwise(numbers):
            # Lists of other lengths than the number of items are refused when the data are read.
            comparable = less.size == more.size or 1 in (less.size, more.size)
            if comparable and not (less < more).all():
                raise ValueError("`salvage` must be less than `cost`, and `cost` than `price`")

    def build(self, pick: Pick) -> "Cost":
        """The cost, with the numbers that `pick` takes."""
        from postgrad.research.problems.newsvendor import Newsvendor

        return Newsvendor(pick(self.cost), pick(self.price), pick(self.salvage))


class SquaredCost(TomlTable):
    """The squared distance of the decision from the demand: the decision is a forecast."""

    kind: Literal["squared"]

    def build(self, pick: Pick) -> "Cost":
        """The cost."""
        from postgrad.spec.parts.built import Squared

        del pick
        return Squared()


class RevenueCost(TomlTable):
    """Minus the profit of selling the demand at a price, which is the decision."""

    kind: Literal["revenue"]
    unit_cost: Numbers = 0.0

    def build(self, pick: Pick) -> "Cost":
        """The cost, with the numbers that `pick` takes."""
        from postgrad.research.problems.pricing import Revenue

        return Revenue(pick(self.unit_cost))


AnyCost = Annotated[
    NewsvendorCost | ProfitCost | SquaredCost | RevenueCost, Field(discriminator="kind")
]

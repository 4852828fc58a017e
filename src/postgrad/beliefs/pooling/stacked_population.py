"""A population of mixtures, whose members differ in their rates of forgetting."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.errors import PriorError
from postgrad.numerics.module import replaced


class StackedPopulation(Population):
    """One population for all members of the stack, whose prior they share.

    The statistics are those of the whole belief: averaged with the weights of its members.

    Attributes:
        each: The population as one member of the stack sees it.
    """

    each: Population

    @property
    def size(self) -> int:
        """As many as for one member of the stack."""
        return self.each.size

    def statistics(self, belief: Any) -> Float[Array, " m"]:
        """sum_r v_r T^(r)."""
        return belief.weights.average(belief.each(self.each.statistics))

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The same prior for every member of the stack."""
        lent = belief.each(lambda one: self.each.lent(one, others), belief.axes)
        return replaced(belief, beliefs=lent)

    def prior_of(self, belief: Any) -> tuple[Array, ...]:
        """The prior that the members of the stack share."""
        return self.each.prior_of(belief.beliefs)


@population_of.register
def _stacked(belief: Mixture, strength: Array) -> Population:
    first, *others = (population_of(member, strength) for member in belief.members)
    for number, other in enumerate(others, 2):
        if not eqx.tree_equal(first, other):
            raise PriorError(
                f"members of a Mixture that is pooled have one prior, and differ in `forget` or "
                f"other rates only, but member {number} has another than the first"
            )
    return StackedPopulation(first)

"""A population of beliefs that are stacks of members, such as several rates of forgetting."""

from typing import Any

import jax
from jaxtyping import Array, Float

from postgrad.beliefs.adaptive import Adaptive
from postgrad.beliefs.belief import member_axes
from postgrad.beliefs.pooling.population import Population, population_of
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
        axes = member_axes(belief.beliefs)
        return belief.weights.average(jax.vmap(self.each.statistics, (axes,))(belief.beliefs))

    def lent(self, belief: Any, others: Float[Array, " m"]) -> Any:
        """The same prior for every member of the stack."""
        axes = member_axes(belief.beliefs)
        lend = jax.vmap(lambda one: self.each.lent(one, others), (axes,), axes)
        return replaced(belief, beliefs=lend(belief.beliefs))

    def prior_of(self, belief: Any) -> tuple[Array, ...]:
        """The prior that the members of the stack share."""
        return self.each.prior_of(belief.beliefs)


@population_of.register
def _stacked(belief: Adaptive, strength: Array) -> Population:
    return StackedPopulation(population_of(belief.beliefs, strength))

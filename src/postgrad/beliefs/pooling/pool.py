"""How streams lean on each other: see `Pool`."""

from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.pooling.population import Population, population_of
from postgrad.errors import PriorError
from postgrad.numerics.validate import as_positive


class Pool(eqx.Module):
    """Partial pooling: the members' parameters come from one population, which is learned.

    A member with few data leans on the others; one with many does as it likes. Beliefs may be
    `Grid`s made with `forget`, `Gaussian`s, and stacks of them: see `Population`.

    Attributes:
        strength: How many members the prior is worth.
        name: Of the population, among those in the file of live agents.
    """

    strength: Float[Array, ""]
    name: str = eqx.field(static=True)

    def __init__(self, strength: Any = 1.0, name: str = "all"):
        """See the attributes.

        Raises:
            PriorError: If the strength is not a positive number, or the name no text.
        """
        if not isinstance(name, str) or not name:
            raise PriorError(f"name must be a string that is not empty, got {name!r}")
        self.name = name
        self.strength = as_positive(strength, PriorError, "strength")

    def population(self, belief: Belief) -> Population:
        """The population of members with this prior.

        Raises:
            PriorError: If such beliefs cannot be pooled.
        """
        # Each registers what it pools: imported only where something is pooled.
        from postgrad.beliefs.pooling import (
            gaussian_population,  # noqa: F401
            grid_population,  # noqa: F401
            stacked_population,  # noqa: F401
        )

        return population_of(belief, self.strength)

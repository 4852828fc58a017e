"""What simulations record of a state. Those that record the same share compiled programs."""

from typing import cast

import equinox as eqx
from jaxtyping import Array, Float

from postgrad.algorithm.bayesian_sgd import State
from postgrad.beliefs.grid.grid import Grid


def estimate(state: State) -> Array:
    """The posterior mean of theta, or its maximum-likelihood estimate."""
    return state.belief.mean()


class BeliefInTruth(eqx.Module):
    """pi_t(theta_c).

    Attributes:
        theta: theta_c, one of the grid's points.
    """

    theta: Float[Array, ""]

    def __call__(self, state: State) -> Array:
        """Of a state."""
        return cast(Grid, state.belief).probability(self.theta)

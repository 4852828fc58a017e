"""The mean of a posterior, taken for the truth."""

from jaxtyping import PyTree

from postgrad.beliefs.belief import Belief, check_belief
from postgrad.beliefs.point_mass import Estimate


class PosteriorMean(Estimate):
    """A point mass at theta_hat_t = E_{pi_t} theta, number by number: certainty equivalence.

    The mean over the points of a grid need not be one of the points.

    Attributes:
        belief: pi_t.
    """

    belief: Belief

    def __init__(self, belief: Belief):
        """The mean of a belief.

        Raises:
            PriorError: If `belief` is not a belief.
        """
        self.belief = check_belief(belief)

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.belief.mean()

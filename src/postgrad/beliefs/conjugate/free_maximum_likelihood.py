"""The plug-in estimate in closed form, on a continuous parameter space."""

from jaxtyping import PyTree

from postgrad.beliefs.conjugate.conjugate import Conjugate
from postgrad.beliefs.point_mass import Estimate
from postgrad.errors import PriorError


class FreeMaximumLikelihood(Estimate):
    """A point mass at the maximum-likelihood estimate over all parameters of a family.

    The estimate is computed from the statistics that a conjugate belief keeps, without its prior.
    Before the first observation theta is NaN.

    Attributes:
        belief: The family, and the sums of its statistics.
    """

    belief: Conjugate

    def __init__(self, belief: Conjugate):
        """The estimate for the models of a conjugate belief, whose prior is not used.

        Raises:
            PriorError: If the belief is not conjugate.
        """
        if not isinstance(belief, Conjugate):
            raise PriorError(f"belief must be conjugate, such as Normal(0.0, 1.0), got {belief!r}")
        self.belief = belief

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.belief.estimate()

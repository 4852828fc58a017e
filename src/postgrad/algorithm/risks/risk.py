"""The contract of a risk measure over the posterior."""

import abc
from typing import ClassVar

from jaxtyping import Array, Float

from postgrad.numerics.module import Module


class Risk(Module):
    """What to minimise when theta is uncertain: rho_{theta ~ pi} H(x, theta).

    The Bayesian risk optimisation of Zhou and Xie (2015) and Wu, Zhu and Zhou (2018), which the
    paper's conclusions point to. The risk is over theta, what we do not know; the noise in xi is
    averaged out inside H. Given H_j = H(x, theta_j) at draws theta_1, ..., theta_m ~ pi,

        grad_x rho  =  sum_j w_j(H) grad_x H(x, theta_j),

    so a risk measure is a rule for weights. H_j itself is an average over a few draws of xi, whose
    error goes into the weights: there must be enough of these draws that H_j orders the thetas
    (docs/risk.md says how many).

    Laws, checked for every final class: the weights sum to one; adding a constant to all costs adds
    it to the value and leaves the weights alone; the weights are the derivative of the value.
    """

    is_mean: ClassVar[bool] = False  # whether all thetas count alike, so that draws may be weighed

    def value(self, costs: Float[Array, " m"]) -> Float[Array, ""]:
        """The risk of m equally likely costs: their weighted sum, unless it is not linear."""
        return self.weights(costs) @ costs

    @abc.abstractmethod
    def weights(self, costs: Float[Array, " m"]) -> Float[Array, " m"]:
        """w_j: what each cost adds to rho when it rises by one."""

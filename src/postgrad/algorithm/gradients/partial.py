"""The first term alone: repeated gradient descent."""

from typing import ClassVar

from jax import lax
from jaxtyping import Array, PyTree

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.problem.problem import Decision, Problem


class Partial(Gradient):
    """grad_x h(x, xi) with xi held fixed: the effect of x on the distribution of xi is left out.

    Biased where the model depends on x: descent with it ends at the performatively stable point
    (Perdomo et al., 2020), not at the optimum.
    """

    unbiased: ClassVar[bool] = False

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """The cost with xi held fixed."""
        cost = problem.cost(x, problem.model(lax.stop_gradient(x), sample.theta).sample(sample.key))
        return cost, cost

    def has_values(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Where the model depends on x, no function has this gradient."""
        return not problem.kind(x, theta).depends_on_decision

"""The score at the sampled theta."""

from typing import ClassVar

from jaxtyping import Array

from postgrad.algorithm.gradients.gradient import Gradient, Sample, score_surrogate
from postgrad.distributions.density import log_density
from postgrad.problem.problem import Decision, Problem


class Score(Gradient):
    """The likelihood-ratio estimator at the sampled theta.

        grad_x h(x, xi) + h(x, xi) grad_x log f(xi; x, theta),   xi ~ f(.; x, theta),  theta ~ pi_t.

    `MixtureScore` is its conditional expectation given xi: this one costs O(1) instead of
    O(|Theta|), with somewhat more variance.
    """

    unbiased: ClassVar[bool] = True
    uses_score: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """Both terms at one draw."""
        return score_surrogate(
            problem, lambda x, xi: log_density(problem.model(x, sample.theta), xi), x, sample
        )

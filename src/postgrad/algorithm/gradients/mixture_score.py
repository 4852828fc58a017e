"""The paper's estimator for decision-dependent uncertainty."""

import functools
from typing import ClassVar

from jaxtyping import Array

from postgrad.algorithm.gradients.gradient import Gradient, Sample, score_surrogate
from postgrad.problem.problem import Decision, Problem


class MixtureScore(Gradient):
    """The paper's eq. dependent gradient estimator, with f_hat over the whole belief.

    grad_x h(x, xi) + h(x, xi) grad_x f_hat_t(xi; x) / f_hat_t(xi; x),
    xi ~ f(.; x, theta),   theta ~ pi_t,   f_hat_t(.; x) = E_{pi_t} f(.; x, theta).
    """

    unbiased: ClassVar[bool] = True
    uses_score: ClassVar[bool] = True
    uses_mixture: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """Both terms at one draw."""
        assert sample.mixture is not None  # `uses_mixture`
        log_f_hat = functools.partial(sample.mixture.log_mixture, problem.model)
        return score_surrogate(problem, log_f_hat, x, sample)

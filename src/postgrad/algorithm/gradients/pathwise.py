"""The derivative along the sample path."""

from typing import ClassVar

from jaxtyping import Array, PyTree

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.errors import GradientError
from postgrad.numerics.draw_barrier import computed_once
from postgrad.problem.problem import Decision, Problem


class Pathwise(Gradient):
    """d/dx h(x, xi(x, theta, noise)): infinitesimal perturbation analysis.

    Where the model ignores x this is the paper's eq. independent gradient estimator,

        grad_x h(x, xi),   xi ~ f(.; theta),   theta ~ pi_t.

    Where the model depends on x, xi is a differentiable transform of x and noise, and the total
    derivative goes through it: unbiased, with far less variance than a score. The cost must be
    continuous in (x, xi), as costs of stock, price and staff are: the derivative along a path does
    not see a jump.
    """

    unbiased: ClassVar[bool] = True
    along_paths: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """The cost along the path of one draw."""
        xi = computed_once(problem.model(x, sample.theta).sample(sample.key), sample.key)
        cost = problem.cost(x, xi)
        return cost, cost

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """If the model depends on x, draws must be differentiable in x."""
        kind = problem.kind(x, theta)
        if kind.depends_on_decision and not kind.has_rsample:
            raise GradientError(
                f"Pathwise needs draws that are differentiable in x, but {kind.name} has none and "
                f"the model depends on x; use Score() or MixtureScore()"
            )

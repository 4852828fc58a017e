"""The estimator that the model allows."""

from typing import ClassVar

from jaxtyping import Array, PyTree

from postgrad.algorithm.gradients.enumerate import Enumerate
from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.algorithm.gradients.score import Score
from postgrad.algorithm.gradients.systematic import Systematic, is_count
from postgrad.problem.problem import Decision, Problem

# With more values a sum over all of them costs more than its lack of noise saves.
_FEW = 256


class Automatic(Gradient):
    """`Pathwise` where draws are differentiable, `Enumerate` where they have few values.

    `Systematic` for one Poisson count whose rate depends on x; `Score` elsewhere.
    """

    unbiased: ClassVar[bool] = True
    along_paths: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """That of the chosen estimator; the choice is made when the program is traced."""
        return self.choice(problem, x, sample.theta).surrogate(problem, x, sample)

    def choice(self, problem: Problem, x: Decision, theta: PyTree) -> Gradient:
        """The estimator that the model allows."""
        kind = problem.kind(x, theta)
        if kind.has_rsample:
            return Pathwise()
        if 0 < kind.values <= _FEW:
            return Enumerate()
        # Counts that do not depend on x are drawn once for all looks of a search.
        return Systematic() if is_count(kind) and kind.depends_on_decision else Score()

    def uses_baseline(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """As the choice does."""
        return self.choice(problem, x, theta).uses_baseline(problem, x, theta)

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """As the choice does."""
        self.choice(problem, x, theta).check(problem, x, theta)

    def draws(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """As the choice does."""
        return self.choice(problem, x, theta).draws(problem, x, theta)

"""The estimator that the model allows."""

from typing import ClassVar

from jaxtyping import Array, PyTree

from postgrad.beliefs import Belief
from postgrad.gradients.gradient import Gradient
from postgrad.gradients.pathwise import Pathwise
from postgrad.gradients.score import Score
from postgrad.problem import Decision, Problem


class Automatic(Gradient):
    """`Pathwise` where the model's draws are differentiable, `Score` where they are not."""

    unbiased: ClassVar[bool] = True

    def estimate(
        self, problem: Problem, belief: Belief, x: Decision, theta: PyTree, key: Array
    ) -> Decision:
        """The choice is made when the program is traced, and costs nothing when it runs."""
        chosen = Pathwise() if problem.model(x, theta).has_rsample else Score()
        return chosen.estimate(problem, belief, x, theta, key)

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """Where draws are not differentiable, the score must exist."""
        if not problem.kind(x, theta).has_rsample:
            Score().check(problem, x, theta)

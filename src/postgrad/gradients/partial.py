"""The first term alone: repeated gradient descent."""

from typing import ClassVar

import jax
from jax import lax
from jaxtyping import Array, PyTree

from postgrad.beliefs import Belief
from postgrad.gradients.gradient import Gradient
from postgrad.problem import Decision, Problem


class Partial(Gradient):
    """grad_x h(x, xi) with xi held fixed, blind to what x does to the data.

    Biased where the model depends on x: descent with it ends at the performatively stable point
    (Perdomo et al., 2020), not at the optimum.
    """

    unbiased: ClassVar[bool] = False

    def estimate(
        self, problem: Problem, belief: Belief, x: Decision, theta: PyTree, key: Array
    ) -> Decision:
        """The partial derivative at one draw."""
        del belief
        xi = lax.stop_gradient(problem.model(x, theta).sample(key))
        return jax.grad(problem.cost)(x, xi)

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """Biased by intent."""

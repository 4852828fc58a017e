"""The sum over everything that can happen."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.distributions.counts import probabilities
from postgrad.errors import GradientError
from postgrad.problem.problem import Decision, Problem


class Enumerate(Gradient):
    """The exact derivative where xi has finitely many values, such as a count out of n.

    grad_x sum_k f(k; x, theta) h(x, k)

    xi is not drawn, so there is no noise of xi; the cost may jump between values.
    """

    unbiased: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """H(x, theta)."""
        law = problem.model(x, sample.theta)
        with jax.ensure_compile_time_eval():
            values = law.enumerate_support(expand=False)
        costs = jax.vmap(lambda xi: problem.cost(x, xi))(values)
        expected = jnp.sum(probabilities(law, values) * costs)
        return expected, expected

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """The values must be finitely many."""
        kind = problem.kind(x, theta)
        if not kind.values:
            raise GradientError(f"Enumerate needs finitely many values, but {kind.name} has more")

    def draws(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """All values are summed over."""
        del problem, x, theta
        return False

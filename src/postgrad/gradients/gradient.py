"""The contract of a gradient estimator."""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
from jax import lax
from jaxtyping import Array, PyTree

from postgrad.beliefs import Belief
from postgrad.errors import GradientError
from postgrad.problem import Decision, Problem


class Gradient(eqx.Module):
    """An estimate of the gradient in x of E_{theta ~ pi} H(x, theta), from one draw of theta.

    Written for one draw; the algorithm averages over several and reports their noise.

    Laws, checked for every final class of this room: the mean over draws equals the finite
    difference of the exact Bayesian average within its standard error, if `unbiased` says so, and
    differs from it on a decision-dependent problem, if not.
    """

    unbiased: ClassVar[bool]

    @abc.abstractmethod
    def estimate(
        self, problem: Problem, belief: Belief, x: Decision, theta: PyTree, key: Array
    ) -> Decision:
        """The estimate at x, given theta ~ belief and a key for xi ~ f(.; x, theta)."""

    @abc.abstractmethod
    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """Raise `GradientError` where the estimator would be wrong for the problem."""


def check_score(problem: Problem, x: Decision, theta: PyTree) -> None:
    """A score exists only where the support of xi stays put as x moves.

    Where it moves, the derivative of the integral has a term at the boundary, which no density
    ratio sees.

    Raises:
        GradientError: If the support depends on x.
    """
    kind = problem.kind(x, theta)
    if kind.support_depends_on_decision:
        raise GradientError(
            f"a score needs a support that does not depend on x, but that of {kind.name} does; "
            f"use Pathwise() if its draws are differentiable"
        )


def score_gradient(
    problem: Problem,
    log_f: Callable[[Decision, Array], Array],
    x: Decision,
    theta: PyTree,
    key: Array,
) -> Decision:
    """grad_x h(x, xi) + h(x, xi) grad_x log_f(x, xi) at xi ~ f(.; x, theta), xi held fixed."""
    xi = lax.stop_gradient(problem.model(x, theta).sample(key))

    def surrogate(x: Decision) -> Array:
        h = problem.cost(x, xi)
        return h + lax.stop_gradient(h) * log_f(x, xi)

    return jax.grad(surrogate)(x)

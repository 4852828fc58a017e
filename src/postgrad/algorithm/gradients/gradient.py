"""The contract of a gradient estimator."""

import abc
from collections.abc import Callable
from typing import ClassVar

import jax
from jax import lax
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs import Belief
from postgrad.errors import GradientError
from postgrad.numerics.module import Module
from postgrad.problem.problem import Decision, Problem


class Gradient(Module):
    """An estimate of the gradient in x of E_{theta ~ pi} H(x, theta), from one draw of theta.

    An estimator is the derivative of a surrogate: a function of x, given theta and a key for xi,
    whose derivative at x is the estimate. Derivatives of averages of surrogates are then averages
    of estimates, at the price of one.

    Laws, checked for every final class of this room: the mean over draws equals the finite
    difference of the exact Bayesian average within its standard error, if `unbiased` says so, and
    differs from it on a decision-dependent problem, if not.

    Attributes:
        unbiased: Whether the mean over draws is the gradient of the averaged cost.
        uses_mixture: Whether `surrogate` reads the belief's mixture density. Others never touch
            the belief, and are given None.
        along_paths: Whether the estimate is the derivative along the sampled path x -> xi wherever
            draws are differentiable, so that xi may be drawn in any way that leaves the
            distribution of the cost as it is.
    """

    unbiased: ClassVar[bool]
    uses_mixture: ClassVar[bool] = False
    along_paths: ClassVar[bool] = False

    @abc.abstractmethod
    def surrogate(
        self,
        problem: Problem,
        mixture: Belief | None,
        x: Decision,
        theta: PyTree,
        key: Array,
        baseline: float | Array = 0.0,
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """What to differentiate in x, and the cost itself.

        Args:
            problem: Cost and model.
            mixture: pi_t, if `uses_mixture`; else None.
            x: Where.
            theta: One draw from pi_t.
            key: Decides xi ~ f(.; x, theta).
            baseline: b, subtracted from the cost that a score is multiplied with; zero in the
                paper. Any b that does not depend on xi keeps the mean, since E grad_x log f = 0;
                a b near the expected cost makes the variance far smaller.
        """

    @abc.abstractmethod
    def uses_baseline(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Whether `baseline` makes a difference."""

    @abc.abstractmethod
    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """Raise `GradientError` where the estimator would be wrong for the problem."""

    def estimate(
        self, problem: Problem, mixture: Belief | None, x: Decision, theta: PyTree, key: Array
    ) -> Decision:
        """The derivative of the surrogate: the estimate from one draw of (theta, xi)."""
        return jax.grad(lambda x: self.surrogate(problem, mixture, x, theta, key)[0])(x)


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


def score_surrogate(
    problem: Problem,
    log_f: Callable[[Decision, Array], Array],
    x: Decision,
    theta: PyTree,
    key: Array,
    baseline: float | Array,
) -> tuple[Array, Array]:
    """H + (h - b) log_f with xi ~ f(.; x, theta) held fixed.

    Its derivative is grad_x h(x, xi) + (h(x, xi) - b) grad_x log_f(x, xi).
    """
    # at a fixed x, as some draws refuse to be differentiated
    xi = problem.model(lax.stop_gradient(x), theta).sample(key)
    h = problem.cost(x, xi)
    return h + lax.stop_gradient(h - baseline) * log_f(x, xi), h

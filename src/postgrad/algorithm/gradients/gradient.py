"""The contract of a gradient estimator."""

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
from jax import lax
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.errors import GradientError
from postgrad.numerics.module import Module
from postgrad.problem.problem import Decision, Problem


class Sample(NamedTuple):
    """What one estimate is computed from.

    Attributes:
        theta: One draw from pi_t.
        key: The randomness of xi ~ f(.; x, theta).
        mixture: pi_t, for estimators that use its mixture density; None for the others.
        baseline: b, subtracted from the cost that a score is multiplied with; zero in the paper.
            Any b that does not depend on xi keeps the mean, since E grad_x log f = 0; a b near the
            expected cost makes the variance far smaller.
    """

    theta: PyTree
    key: Array
    mixture: Belief | None = None
    baseline: float | Array = 0.0


class Gradient(Module):
    """An estimate of the gradient in x of E_{theta ~ pi} H(x, theta), from one draw of theta.

    An estimator is the derivative of a surrogate: a function of x, given theta and a key for xi,
    whose derivative at x is the estimate. The average of many estimates is then one derivative, of
    the average of the surrogates.

    Laws, checked for every final class of this room: the mean over draws equals the finite
    difference of the exact Bayesian average within its standard error, if `unbiased` says so, and
    differs from it on a decision-dependent problem, if not.

    Attributes:
        unbiased: Whether the mean over draws is the gradient of the averaged cost.
        uses_score: Whether the estimate has a term with grad_x log f or grad_x log f_hat.
        uses_mixture: Whether `surrogate` reads the belief's mixture density. The other estimators
            never touch `Sample.mixture`.
        along_paths: Whether the estimate is the derivative along the sampled path x -> xi wherever
            draws are differentiable, so that xi may be drawn in any way that leaves the
            distribution of the cost as it is.
    """

    unbiased: ClassVar[bool]
    uses_score: ClassVar[bool] = False
    uses_mixture: ClassVar[bool] = False
    along_paths: ClassVar[bool] = False

    @abc.abstractmethod
    def surrogate(
        self, problem: Problem, x: Decision, sample: Sample
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The number to differentiate in x, and the cost itself."""

    def uses_baseline(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Whether `Sample.baseline` makes a difference: in a score, if the model depends on x."""
        return self.uses_score and problem.kind(x, theta).depends_on_decision

    def has_values(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Whether the estimate is the gradient of the averaged cost, so that values can be used."""
        del problem, x, theta
        return True

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """Refuse problems for which the estimator would be wrong; here, scores that do not exist.

        If the support of xi depends on x, the derivative of the integral has a term at the boundary
        of the support, which the score leaves out.

        Raises:
            GradientError: If the estimator would be wrong.
        """
        kind = problem.kind(x, theta)
        if self.uses_score and kind.support_depends_on_decision:
            instead = (
                "use Pathwise(), as its draws are differentiable"
                if kind.has_rsample
                else "its draws are not differentiable either. Give it as `observation`, to learn "
                "from, and as `model` a law of xi for the cost whose support is fixed, or whose "
                "draws are differentiable: one draw for each unit, which the cost adds up, or a "
                "smooth approximation (docs/deciding.md)"
            )
            raise GradientError(
                f"a score needs a support that does not depend on x, but that of {kind.name} does; "
                f"{instead}"
            )

    def draws(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Whether the estimate draws xi, rather than sums over all its values."""
        del problem, x, theta
        return True

    def estimate(self, problem: Problem, x: Decision, sample: Sample) -> Decision:
        """The derivative of the surrogate: the estimate from one draw of (theta, xi)."""
        return jax.grad(lambda x: self.surrogate(problem, x, sample)[0])(x)


def score_surrogate(
    problem: Problem, log_f: Callable[[Decision, Array], Array], x: Decision, sample: Sample
) -> tuple[Array, Array]:
    """h + (h - b) log_f with xi ~ f(.; x, theta) held fixed.

    Its derivative is grad_x h(x, xi) + (h(x, xi) - b) grad_x log_f(x, xi).
    """
    # at a fixed x, as some draws refuse to be differentiated
    xi = problem.model(lax.stop_gradient(x), sample.theta).sample(sample.key)
    h = problem.cost(x, xi)
    return h + lax.stop_gradient(h - sample.baseline) * log_f(x, xi), h

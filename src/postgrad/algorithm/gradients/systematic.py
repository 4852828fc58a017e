"""The sum over every s-th value of a count."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import random
from jaxtyping import Array, PyTree

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.distributions.counts import some_counts
from postgrad.errors import GradientError
from postgrad.problem.problem import Decision, Kind, Problem


class Systematic(Gradient):
    """The derivative of a sum over every s-th value of a Poisson count: see `some_counts`.

    grad_x sum_j s f(k_j; x, theta) h(x, k_j)

    Costs and slopes belong to one function of x, as with `Enumerate`, whereas those of a score are
    two estimates, and xi must be drawn anew at every x. Small counts are summed over exactly.
    """

    unbiased: ClassVar[bool] = True

    def surrogate(self, problem: Problem, x: Decision, sample: Sample) -> tuple[Array, Array]:
        """H(x, theta), exactly or nearly."""
        law = problem.model(x, sample.theta)
        values, likely = some_counts(jnp.asarray(law.rate, float), random.uniform(sample.key))
        costs = jax.vmap(lambda xi: problem.cost(x, xi))(values)
        expected = jnp.sum(likely * costs)
        return expected, expected

    def check(self, problem: Problem, x: Decision, theta: PyTree) -> None:
        """The data must be one Poisson count."""
        kind = problem.kind(x, theta)
        if not is_count(kind):
            raise GradientError(f"Systematic needs one Poisson count, got {kind.name}")

    def draws(self, problem: Problem, x: Decision, theta: PyTree) -> bool:
        """Values are summed over."""
        del problem, x, theta
        return False


def is_count(kind: Kind) -> bool:
    """Whether xi is one Poisson count."""
    return issubclass(kind.family, dist.Poisson) and kind.event_shape == ()

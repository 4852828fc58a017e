"""The paper's experiments: what is run, with which parameters."""

import dataclasses
from collections.abc import Callable

from postgrad.beliefs import Belief, Grid, Known, MaximumLikelihood
from postgrad.feasible import FeasibleSet
from postgrad.gradients import Gradient, MixtureScore, Partial, Pathwise
from postgrad.problems import Instance, quadratic

BATCH_SIZES = (1, 2, 5, 10, 20)


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One curve of a figure: the belief, and the gradient where it is not the experiment's own."""

    title: str
    belief: Callable[[Instance], Belief]
    gradient: Gradient | None = None


ALGORITHMS = {
    "bayesian-sgd": Algorithm("Bayesian-SGD", lambda instance: Grid(instance.points)),
    "mle": Algorithm("MLE", lambda instance: MaximumLikelihood(instance.points)),
    "known": Algorithm("benchmark (known θ)", lambda instance: Known(instance.theta)),
    "repeated-gradient": Algorithm(
        "repeated gradient descent", lambda instance: Grid(instance.points), Partial()
    ),
}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure: mean and standard deviation of the error over the stages.

    D = 1, K = 1, a_t = 2/(t + 5) and a uniform prior in all of them.
    """

    title: str
    instance: Callable[[FeasibleSet], Instance]
    gradient: Gradient
    algorithms: tuple[str, ...]


# The paper leaves the MLE method out where the data depend on the decision, since the method it
# cites is not made for that. As a belief, a point mass at the estimate, it is; so we show it too.
_ALGORITHMS = ("bayesian-sgd", "mle", "known")

EXPERIMENTS = {
    "quadratic-1d-independent": Experiment(
        "Quadratic in one dimension, decision-independent",
        quadratic.univariate_independent,
        Pathwise(),
        _ALGORITHMS,
    ),
    "quadratic-2d-independent": Experiment(
        "Quadratic in two dimensions, decision-independent",
        quadratic.multivariate_independent,
        Pathwise(),
        _ALGORITHMS,
    ),
    "quadratic-1d-dependent": Experiment(
        "Quadratic in one dimension, decision-dependent",
        quadratic.univariate_dependent,
        MixtureScore(),
        _ALGORITHMS,
    ),
    "quadratic-2d-dependent": Experiment(
        "Quadratic in two dimensions, decision-dependent",
        quadratic.multivariate_dependent,
        MixtureScore(),
        _ALGORITHMS,
    ),
}

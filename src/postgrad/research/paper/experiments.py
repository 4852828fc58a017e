"""The paper's experiments: what is run, with which parameters."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from postgrad.algorithm.gradients.gradient import Gradient
from postgrad.algorithm.gradients.mixture_score import MixtureScore
from postgrad.algorithm.gradients.partial import Partial
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.algorithm.presets import paper
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.known import Known
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.reals import Reals
from postgrad.research.problems import Instance, newsvendor, quadratic

BATCH_SIZES = (1, 2, 5, 10, 20)


# What the paper does not have: our default, and the limit.
UNTUNED, LIMIT = "postgrad", "stage-optimal"
BEYOND = (UNTUNED, LIMIT)


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """One curve of a figure.

    Attributes:
        title: As in the legend.
        belief: Of the instance; on a grid, if not given.
        options: For `BayesianSGD`, given the experiment's gradient; the paper's, if not given.
    """

    title: str
    belief: Callable[[Instance], Belief] = lambda instance: Grid(instance.points)
    options: Callable[[Gradient], dict[str, Any]] = lambda gradient: paper(gradient=gradient)


ALGORITHMS = {
    "bayesian-sgd": Algorithm("Bayesian-SGD"),
    "mle": Algorithm("MLE", lambda instance: MaximumLikelihood(instance.points)),
    "known": Algorithm("benchmark (known θ)", lambda instance: Known(instance.theta)),
    "repeated-gradient": Algorithm(
        "repeated gradient descent", options=lambda gradient: paper(gradient=Partial())
    ),
    UNTUNED: Algorithm("postgrad, untuned", options=lambda gradient: {}),
    # No algorithm of ours, but what none can beat: computed from the posteriors of bayesian-sgd.
    LIMIT: Algorithm("limit: argmin of the Bayesian average"),
}


class Region(NamedTuple):
    """A feasible set, and how to write it."""

    feasible: FeasibleSet
    text: str


_BOXED, _BOXED_2D = Region(quadratic.BOX, "[-20, 20]"), Region(quadratic.BOX, "[-20, 20]^2")
_UNBOUNDED = Region(Reals(), "unbounded")


# The paper leaves the MLE method out where the data depend on the decision, since the method it
# cites is not made for that. As a belief, a point mass at the estimate, it is; so we show it too.
_ALGORITHMS = ("bayesian-sgd", "mle", "known", *BEYOND)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One figure: mean and standard deviation of the error over the stages.

    K = 1, a_t = 2/(t + 5) and a uniform prior in all of them.

    Attributes:
        title: As in the figure.
        instance: The problem on a feasible set.
        gradient: The paper's estimator for it.
        algorithms: The curves.
        batch_size: D.
        region: The feasible set.
        literal: The feasible set as the paper states it.
        far: An error beyond which a run counts as stuck at the last stage; None counts none.
        unit: What x counts; empty if it is a plain number.
        slow: Whether what the paper does not have takes long here: it may then have fewer runs.
    """

    title: str
    instance: Callable[[FeasibleSet], Instance]
    gradient: Gradient
    algorithms: tuple[str, ...] = _ALGORITHMS
    batch_size: int = 1
    region: Region = _BOXED
    literal: Region = _UNBOUNDED
    far: float | None = None
    unit: str = ""
    slow: bool = False


_PAPER_BOX = Region(newsvendor.LITERAL_BOX, "[0, 100]^3")
_newsvendor = functools.partial(
    Experiment, batch_size=2, literal=_PAPER_BOX, far=20.0, unit="items ordered", slow=True
)

EXPERIMENTS = {
    "quadratic-1d-independent": Experiment(
        "Quadratic in one dimension, decision-independent",
        quadratic.univariate_independent,
        Pathwise(),
    ),
    "quadratic-2d-independent": Experiment(
        "Quadratic in two dimensions, decision-independent",
        quadratic.multivariate_independent,
        Pathwise(),
        region=_BOXED_2D,
    ),
    "quadratic-1d-dependent": Experiment(
        "Quadratic in one dimension, decision-dependent",
        quadratic.univariate_dependent,
        MixtureScore(),
    ),
    "quadratic-2d-dependent": Experiment(
        "Quadratic in two dimensions, decision-dependent",
        quadratic.multivariate_dependent,
        MixtureScore(),
        region=_BOXED_2D,
    ),
    "newsvendor-independent": _newsvendor(
        "Newsvendor with three items, decision-independent",
        newsvendor.independent,
        Pathwise(),
        region=_PAPER_BOX,
    ),
    # x^beta has an infinite slope at 0, so the paper's own feasible set is the literal one.
    "newsvendor-dependent": _newsvendor(
        "Newsvendor with three items, decision-dependent",
        newsvendor.dependent,
        MixtureScore(),
        ("bayesian-sgd", "known", *BEYOND),
        region=Region(newsvendor.BOX, "[1, 100]^3"),
    ),
}

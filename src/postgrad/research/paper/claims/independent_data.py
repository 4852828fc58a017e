"""Claims where data do not depend on the decision: three algorithms, early, late, and why."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.gradients.pathwise import Pathwise
from postgrad.algorithm.presets import paper
from postgrad.research.paper.claims.claim import Claim, Statement, listed
from postgrad.research.paper.claims.error_curves import (
    ALIKE,
    EARLY,
    LATE,
    POSITIVE,
    Errors,
    Paired,
    Summarised,
    missing,
    period,
)
from postgrad.research.paper.claims.simulations import PlannedSimulation, shared
from postgrad.research.paper.experiments import ALGORITHMS
from postgrad.research.paper.limit import LIMITS
from postgrad.research.paper.records import estimate
from postgrad.research.problems import Instance, newsvendor, quadratic
from postgrad.research.simulation import Simulation

_RUNS, _NEWSVENDOR_RUNS = 20, 4  # runs here for each run of the summary
_ALGORITHMS = ("bayesian-sgd", "mle", "known")
_NEWSVENDOR = "newsvendor-independent"


def _instances() -> dict[str, Instance]:
    return {
        "quadratic-1d-independent": shared(quadratic.univariate_independent),
        "quadratic-2d-independent": shared(quadratic.multivariate_independent),
        _NEWSVENDOR: shared(newsvendor.independent),
    }


def simulations(runs: int) -> dict[str, PlannedSimulation]:
    """Three algorithms on two quadratics, with the theta that two of them estimate.

    And on the newsvendor, where a stage takes long, for the early stages.
    """
    planned: dict[str, PlannedSimulation] = {}
    for name, instance in _instances().items():
        algorithm = BayesianSGD(instance.problem, **paper(gradient=Pathwise()))
        for key in _ALGORITHMS:
            options: dict[str, Any] = {"runs": _RUNS * runs}
            if name == _NEWSVENDOR:
                options = {"runs": _NEWSVENDOR_RUNS * runs, "horizon": EARLY[-1], "batch_size": 2}
                if key == "bayesian-sgd":
                    options["record"] = LIMITS[name].record  # as in its figure: one program
            elif key != "known":
                options["record"] = estimate
            belief = ALGORITHMS[key].belief(instance)
            planned[f"{name}: {key}"] = PlannedSimulation(instance, algorithm, belief, **options)
    return planned


def claims(results: Mapping[str, Simulation]) -> list[Claim]:
    """What the simulations say: on the quadratics, and on the newsvendor at early stages."""
    found = []
    for name, instance in _instances().items():
        of = {key: results[f"{name}: {key}"] for key in _ALGORITHMS}
        runs = len(of["known"].decisions)
        errors = Paired({key: result.errors(instance.x_star) for key, result in of.items()})
        if name == _NEWSVENDOR:
            found += observations(name, errors, runs, (EARLY,))
            continue
        theta = np.asarray(instance.theta)
        beliefs = Paired({key: np.abs(of[key].record - theta) for key in ("bayesian-sgd", "mle")})
        found += [*observations(name, errors, runs), _reason(name, beliefs, runs)]
    return found


def from_summary(summary: Mapping[str, Any]) -> list[Claim]:
    """What the summary says on the newsvendor at late stages."""
    if why := missing(summary, _NEWSVENDOR, _ALGORITHMS):
        late = [o for o in _OBSERVATIONS if o.stages == LATE]
        return [Claim(f"{o.id}-{_NEWSVENDOR}", f"{o.text} ({_NEWSVENDOR}).", why, 0) for o in late]
    experiment = summary["experiments"][_NEWSVENDOR]
    return observations(_NEWSVENDOR, Summarised(experiment), experiment["runs"], (LATE,))


def observations(
    name: str, errors: Errors, runs: int, stages: tuple[range, ...] = (EARLY, LATE)
) -> list[Claim]:
    """The paper's observations on one experiment at some stages, as claims."""
    return [o.claim(name, errors, runs) for o in _OBSERVATIONS if o.stages in stages]


class _Observation(NamedTuple):
    """What the paper sees in several figures: how the errors of pairs of algorithms compare.

    At early stages one error is larger than the other, at late stages they are alike.
    """

    id: str
    text: str
    stages: range
    pairs: tuple[tuple[str, str], ...]

    def claim(self, name: str, errors: Errors, runs: int) -> Claim:
        what, compare, rule = "error ratio, {} to {}", errors.ratio, ALIKE
        if self.stages == EARLY:
            what, compare, rule = "error difference, {} - {}", errors.difference, POSITIVE
        statements = [
            Statement(what.format(*pair), compare(*pair, self.stages), rule) for pair in self.pairs
        ]
        means = ", ".join(f"{key} {errors.mean(key, self.stages)}" for key in _ALGORITHMS)
        measured = f"mean error {period(self.stages)}: {means}; {listed(statements, runs)}"
        return Claim(f"{self.id}-{name}", f"{self.text} ({name}).", measured, runs, statements)


_AGAINST_KNOWN = (("bayesian-sgd", "known"), ("mle", "known"))
_OBSERVATIONS = (
    _Observation(
        "benchmark-ahead",
        "While data are few, the benchmark that knows theta beats Bayesian-SGD and MLE",
        EARLY,
        _AGAINST_KNOWN,
    ),
    _Observation(
        "alike-late", "In the long run the three algorithms do equally well", LATE, _AGAINST_KNOWN
    ),
    _Observation(
        "bayes-before-mle",
        "In the first stages Bayesian-SGD does a little better than MLE",
        EARLY,
        (("mle", "bayesian-sgd"),),
    ),
)


def _reason(name: str, beliefs: Errors, runs: int) -> Claim:
    """What the paper gives as the reason, without the noise of the descent.

    The quadratics' H(x, theta) is affine in theta: the gradient of E_{pi_t} H is off by a multiple
    of E_{pi_t} theta - theta_c, that of the plug-in by the same multiple of theta_hat_t - theta_c.
    """
    gap = beliefs.difference("mle", "bayesian-sgd", EARLY)
    what = f"difference in |theta error| {period(EARLY)}, mle - posterior mean"
    statements = [Statement(what, gap, POSITIVE)]
    text = (
        "With few data the Bayesian average is nearer to the true objective than the objective at "
        f"the maximum-likelihood estimate; given as the reason for bayes-before-mle ({name})."
    )
    measured = listed(statements, runs)
    return Claim(f"average-before-estimate-{name}", text, measured, runs, statements)

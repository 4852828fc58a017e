"""The three algorithms where the data do not depend on the decision: early, late, and why."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.gradients import Pathwise
from postgrad.algorithm.presets import paper
from postgrad.beliefs import Grid, Known, MaximumLikelihood
from postgrad.research.paper.claims.claim import Claim, Statement, listed
from postgrad.research.paper.claims.error_curves import (
    ALIKE,
    EARLY,
    LATE,
    Errors,
    Paired,
    Summarised,
    missing,
    period,
)
from postgrad.research.paper.claims.experiment import Trial, shared
from postgrad.research.paper.claims.verdicts import Within
from postgrad.research.paper.experiments import ALGORITHMS
from postgrad.research.problems import Instance, newsvendor, quadratic
from postgrad.research.simulation import Simulation

_RUNS, _NEWSVENDOR_RUNS = 20, 4  # so many for each run of the summary
_POSITIVE = Within(low=0.0)
_ALGORITHMS = ("bayesian-sgd", "mle", "known")
_NEWSVENDOR = "newsvendor-independent"
_QUADRATICS: dict[str, Callable[[], Instance]] = {
    "quadratic-1d-independent": quadratic.univariate_independent,
    "quadratic-2d-independent": quadratic.multivariate_independent,
}


def _posterior_mean(state: State) -> Array:
    grid = cast(Grid, state.belief)
    return jnp.dot(grid.probabilities, grid.points)


def _estimate(state: State) -> Array:
    return cast(MaximumLikelihood, state.belief).theta


def trials(runs: int) -> dict[str, Trial]:
    """Three algorithms on two problems, with what two of them take theta to be.

    And on the newsvendor, where all stages would be dear, for the first ones.
    """
    planned: dict[str, Trial] = {}
    for name, make in _QUADRATICS.items():
        instance, n = shared(make), _RUNS * runs
        algorithm = BayesianSGD(instance.problem, **paper(gradient=Pathwise()))
        bayes, mle = Grid(instance.points), MaximumLikelihood(instance.points)
        planned |= {
            f"{name}: bayesian-sgd": Trial(instance, algorithm, bayes, n, record=_posterior_mean),
            f"{name}: mle": Trial(instance, algorithm, mle, n, record=_estimate),
            f"{name}: known": Trial(instance, algorithm, Known(instance.theta), n),
        }
    instance = shared(newsvendor.independent)
    algorithm = BayesianSGD(instance.problem, **paper(gradient=Pathwise()))
    for key in _ALGORITHMS:
        belief = ALGORITHMS[key].belief(instance)
        planned[f"{_NEWSVENDOR}: {key}"] = Trial(
            instance, algorithm, belief, _NEWSVENDOR_RUNS * runs, horizon=EARLY[-1], batch_size=2
        )
    return planned


def claims(results: Mapping[str, Simulation]) -> list[Claim]:
    """What the trials say on the quadratics."""
    found = []
    for name, make in _QUADRATICS.items():
        instance = shared(make)
        of = {key: results[f"{name}: {key}"] for key in _ALGORITHMS}
        runs = len(of["known"].decisions)
        errors = Paired({key: result.errors(instance.x_star) for key, result in of.items()})
        theta = np.asarray(instance.theta)
        beliefs = Paired({key: np.abs(of[key].record - theta) for key in ("bayesian-sgd", "mle")})
        found += [*compare(name, errors, runs), _reason(name, beliefs, runs)]
    x_star = shared(newsvendor.independent).x_star
    early = {key: results[f"{_NEWSVENDOR}: {key}"].errors(x_star) for key in _ALGORITHMS}
    return found + compare(_NEWSVENDOR, Paired(early), len(early["known"]), (EARLY,))


def from_summary(summary: Mapping[str, Any]) -> list[Claim]:
    """What the summary says on the newsvendor in the long run."""
    why = missing(summary, _NEWSVENDOR, _ALGORITHMS)
    if why:
        late = [o for o in _OBSERVATIONS if o.stages == LATE]
        return [Claim(f"{o.id}-{_NEWSVENDOR}", o.words(_NEWSVENDOR), why, 0) for o in late]
    experiment = summary["experiments"][_NEWSVENDOR]
    return compare(_NEWSVENDOR, Summarised(experiment), experiment["runs"], (LATE,))


def compare(
    name: str, errors: Errors, runs: int, stages: tuple[range, ...] = (EARLY, LATE)
) -> list[Claim]:
    """The paper's observations of those stages, on one experiment."""
    return [_observe(o, name, errors, runs) for o in _OBSERVATIONS if o.stages in stages]


class _Observation(NamedTuple):
    """What the paper sees in several figures, at some stages."""

    id: str
    text: str
    stages: range
    statements: Callable[[Errors], list[Statement]]

    def words(self, name: str) -> str:
        return f"{self.text} ({name})."


def _observe(observation: _Observation, name: str, errors: Errors, runs: int) -> Claim:
    statements = observation.statements(errors)
    means = ", ".join(f"{key} {errors.mean(key, observation.stages)}" for key in _ALGORITHMS)
    return Claim(
        f"{observation.id}-{name}",
        observation.words(name),
        f"mean error {period(observation.stages)}: {means}; {listed(statements, runs)}",
        runs,
        statements,
    )


def _benchmark_ahead(errors: Errors) -> list[Statement]:
    return [
        Statement(
            f"error difference, {key} - known", errors.difference(key, "known", EARLY), _POSITIVE
        )
        for key in ("bayesian-sgd", "mle")
    ]


def _alike_late(errors: Errors) -> list[Statement]:
    return [
        Statement(f"error ratio, {key} to known", errors.ratio(key, "known", LATE), ALIKE)
        for key in ("bayesian-sgd", "mle")
    ]


def _bayes_before_mle(errors: Errors) -> list[Statement]:
    gap = errors.difference("mle", "bayesian-sgd", EARLY)
    return [Statement("error difference, mle - bayesian-sgd", gap, _POSITIVE)]


_OBSERVATIONS = (
    _Observation(
        "benchmark-ahead",
        "While data are few, the benchmark that knows theta beats Bayesian-SGD and MLE",
        EARLY,
        _benchmark_ahead,
    ),
    _Observation(
        "alike-late", "In the long run the three algorithms do equally well", LATE, _alike_late
    ),
    _Observation(
        "bayes-before-mle",
        "In the first stages Bayesian-SGD does a little better than MLE",
        EARLY,
        _bayes_before_mle,
    ),
)


def _reason(name: str, beliefs: Errors, runs: int) -> Claim:
    """What the paper gives as the reason, without the noise of the descent.

    The quadratics' H(x, theta) is affine in theta: the gradient of E_{pi_t} H is off by a multiple
    of E_{pi_t} theta - theta_c, that of the plug-in by the same multiple of theta_hat_t - theta_c.
    """
    gap = beliefs.difference("mle", "bayesian-sgd", EARLY)
    what = f"difference in |theta error| {period(EARLY)}, mle - posterior mean"
    statements = [Statement(what, gap, _POSITIVE)]
    return Claim(
        f"average-before-estimate-{name}",
        "With few data the Bayesian average is nearer to the true objective than the objective at "
        f"the maximum-likelihood estimate; given as the reason for bayes-before-mle ({name}).",
        listed(statements, runs),
        runs,
        statements,
    )

"""Claims on the 1-D decision-dependent quadratic: posterior, batch sizes, the stable point."""

import itertools
from collections.abc import Mapping

import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.algorithm.gradients.partial import Partial
from postgrad.algorithm.presets import paper
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.known import Known
from postgrad.research.paper.claims.claim import Claim, Statement, listed
from postgrad.research.paper.claims.error_curves import (
    ALIKE,
    EARLY,
    LATE,
    POSITIVE,
    Errors,
    Paired,
    period,
)
from postgrad.research.paper.claims.learning import Learning, bounded
from postgrad.research.paper.claims.simulations import PlannedSimulation, shared
from postgrad.research.paper.claims.verdicts import Estimate, Within
from postgrad.research.paper.experiments import BATCH_SIZES
from postgrad.research.paper.records import BeliefInTruth
from postgrad.research.problems import Instance, quadratic
from postgrad.research.simulation import Simulation

_RUNS = 10  # runs here for each run of the summary
_LEARNING = range(1, 101)  # while the posteriors differ
_CONCENTRATED = Within(low=0.99)
_STABLE_POINT = 3.2  # where E grad_x h(x, xi) = 2 (x - 5) + (x + 4) / 2 vanishes
_NEAR = 0.05  # a tenth of the way from there to the optimum
_SIZES = {f"D = {size}": size for size in BATCH_SIZES}
_ONE = "D = 1"
_KNOWN = "D = infinity"  # as the paper sees the benchmark
_BLIND = "repeated gradient descent"


def _instance() -> Instance:
    return shared(quadratic.univariate_dependent)


def simulations(runs: int) -> dict[str, PlannedSimulation]:
    """Algorithm 2.2 with every batch size, the benchmark, and repeated gradient descent."""
    instance, n = _instance(), _RUNS * runs
    algorithm, belief = BayesianSGD(instance.problem, **paper()), Grid(instance.points)
    record = BeliefInTruth(instance.theta)
    planned = {
        name: PlannedSimulation(instance, algorithm, belief, n, 1000, size, record)
        for name, size in _SIZES.items()
    }
    planned[_ONE] = planned[_ONE]._replace(record=Learning(instance))
    planned[_KNOWN] = PlannedSimulation(instance, algorithm, Known(instance.theta), n)
    blind = BayesianSGD(instance.problem, **paper(gradient=Partial()))
    planned[_BLIND] = PlannedSimulation(instance, blind, belief, n)
    return planned


def claims(results: Mapping[str, Simulation]) -> list[Claim]:
    """What the simulations say."""
    first, d = results[_ONE].record
    beliefs = {name: results[name].record for name in _SIZES} | {_ONE: first}
    x_star = _instance().x_star
    errors = Paired({name: results[name].errors(x_star) for name in (*_SIZES, _KNOWN)})
    return [
        concentration(beliefs),
        acceleration(beliefs),
        batch_sizes("early", errors, EARLY, len(d)),
        batch_sizes("late", errors, LATE, len(d)),
        stable_point(results[_BLIND].decisions[:, -1], results[_ONE].decisions[:, -1]),
        bounded(first, d),
    ]


def concentration(beliefs: Mapping[str, np.ndarray]) -> Claim:
    """pi_t(theta_c) -> 1.

    Args:
        beliefs: pi_t(theta_c), (run, stage), for each batch size.
    """
    runs = len(next(iter(beliefs.values())))
    statements = [
        Statement(f"pi_t(theta_c), {name}", Estimate.mean(belief[:, -1]), _CONCENTRATED)
        for name, belief in beliefs.items()
    ]
    text = (
        "The posterior concentrates on the true parameter, though the data depend on the decision."
    )
    measured = f"at the last stage: {listed(statements, runs)}"
    return Claim("posterior-concentrates", text, measured, runs, statements)


def acceleration(beliefs: Mapping[str, np.ndarray]) -> Claim:
    """The larger the batch, the sooner pi_t(theta_c) rises.

    Args:
        beliefs: pi_t(theta_c), (run, stage), for each batch size, in increasing order.
    """
    runs, gain = len(next(iter(beliefs.values()))), Paired(beliefs).difference
    statements = [
        Statement(f"gain, {more} over {less}", gain(more, less, _LEARNING), POSITIVE)
        for less, more in itertools.pairwise(beliefs)
    ]
    text = "The more data a stage brings, the faster the posterior concentrates."
    measured = f"in the mean of pi_t(theta_c) {period(_LEARNING)}: {listed(statements, runs)}"
    return Claim("posterior-faster", text, measured, runs, statements)


def batch_sizes(when: str, errors: Errors, stages: range, runs: int) -> Claim:
    """The error is the same with few data a stage as with many."""
    statements = [
        Statement(f"error ratio, {name} to {_KNOWN}", errors.ratio(name, _KNOWN, stages), ALIKE)
        for name in _SIZES
    ]
    text = "The number of data a stage makes no notable difference to the decision's error, "
    known = f"{_KNOWN} {errors.mean(_KNOWN, stages)}"
    measured = f"mean error {period(stages)}: {known}; {listed(statements, runs)}"
    return Claim(f"batch-size-{when}", f"{text}{when} in the run.", measured, runs, statements)


def stable_point(blind: np.ndarray, seeing: np.ndarray) -> Claim:
    """Where descent ends with and without the gradient's term for how x changes the data.

    Args:
        blind: The last decision of each run of repeated gradient descent.
        seeing: That of Algorithm 2.2.
    """
    runs, x_star = len(blind), float(_instance().x_star)
    statements = [
        Statement(f"last x, {name}", Estimate.mean(ends), Within(x - _NEAR, x + _NEAR))
        for name, ends, x in ((_BLIND, blind, _STABLE_POINT), ("Bayesian-SGD", seeing, x_star))
    ]
    text = (
        "Without the gradient's second term the descent ends at the performatively stable point, "
        "which is not the optimum; with it, at the optimum."
    )
    return Claim("stable-point", text, f"mean of the {listed(statements, runs)}", runs, statements)

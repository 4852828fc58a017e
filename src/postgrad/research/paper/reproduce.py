"""Runs the paper's experiments: errors by algorithm and stage, as plain lists and numbers."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.presets import paper
from postgrad.beliefs.grid.grid import Grid
from postgrad.engine.bulk import Progress
from postgrad.research.comparison import known_names
from postgrad.research.json_types import as_json_types
from postgrad.research.paper.experiments import (
    ALGORITHMS,
    BATCH_SIZES,
    BEYOND,
    EXPERIMENTS,
    LIMIT,
)
from postgrad.research.paper.limit import LIMITS, STAGES, Limit
from postgrad.research.paper.records import BeliefInTruth, estimate
from postgrad.research.problems import Instance
from postgrad.research.progress import RunStages, silent
from postgrad.research.side_by_side import side_by_side
from postgrad.research.simulation import Simulation, nothing

# The figures in the paper's order.
POSTERIOR = "posterior"
_POSTERIOR_IN = "quadratic-1d-dependent"
_before = list(EXPERIMENTS).index(_POSTERIOR_IN) + 1
NAMES = (*list(EXPERIMENTS)[:_before], POSTERIOR, *list(EXPERIMENTS)[_before:])
# The algorithm whose posteriors the limit is computed from.
_POSTERIORS_OF = "bayesian-sgd"
# How many runs a curve has whose stages take long.
_FEW = 20

# Called with the name of a figure and its part of the summary.
Finished = Callable[[str, dict[str, Any]], None]


class Plan(NamedTuple):
    """What is run.

    Attributes:
        curves: The algorithms of each experiment.
        batch_sizes: The curves of the posterior.
    """

    curves: dict[str, list[str]]
    batch_sizes: list[int]


def simulated(algorithms: Sequence[str]) -> list[str]:
    """The algorithms that are simulated for some curves: the limit is computed from one."""
    return list(dict.fromkeys(_POSTERIORS_OF if key == LIMIT else key for key in algorithms))


def plan(names: Sequence[str], algorithms: Sequence[str], beyond: bool = True) -> Plan:
    """Which algorithms to run in each experiment, and which batch sizes for the posterior.

    Args:
        names: Experiments; all, if empty.
        algorithms: Algorithms; the experiment's own, if empty.
        beyond: Whether these include what the paper does not have: our default, and the limit.
    """
    chosen = known_names(names, NAMES, "experiment")
    if algorithms:
        algorithms = known_names(algorithms, list(ALGORITHMS), "algorithm")
    left_out = () if algorithms or beyond else BEYOND
    curves = {
        name: [key for key in algorithms or EXPERIMENTS[name].algorithms if key not in left_out]
        for name in chosen
        if name in EXPERIMENTS
    }
    return Plan(curves, list(BATCH_SIZES) if POSTERIOR in chosen else [])


def run_counts(name: str, runs: int, untuned_runs: int | None = None) -> dict[str, int]:
    """How many runs each algorithm has in an experiment; the arguments are those of `reproduce`."""
    fewer = min(runs, _FEW if untuned_runs is None else untuned_runs)
    slow = BEYOND if EXPERIMENTS[name].slow else ()
    return {key: fewer if key in slow else runs for key in ALGORITHMS}


def reproduce(
    names: Sequence[str] = (),
    *,
    algorithms: Sequence[str] = (),
    runs: int = 100,
    untuned_runs: int | None = None,
    horizon: int = 1000,
    seed: int = 0,
    literal: bool = False,
    beyond: bool = True,
    progress: Progress = silent,
    finished: Finished = lambda name, part: None,
) -> dict[str, Any]:
    """The summary of the named experiments, as plain lists and numbers.

    Args:
        names: Experiments; all, if empty.
        algorithms: Algorithms; the experiment's own, if empty.
        runs: Runs of each algorithm.
        untuned_runs: Runs of our default and of the limit on the newsvendors, where both take long;
            20, if not given. Never more than `runs`.
        horizon: Stages of each run.
        seed: The seed of everything.
        literal: On the feasible sets as the paper states them: none for the quadratics, and one
            with an infinite slope at its edge for the dependent newsvendor.
        beyond: Whether to show our default and the limit next to the paper's algorithms.
        progress: Called with what is being run, and the run-stages done and to do.
        finished: Called with the name of each figure and its part of the summary, as soon as that
            is known, one after the other.
    """
    todo = plan(names, algorithms, beyond)
    counts = {name: run_counts(name, runs, untuned_runs) for name in todo.curves}
    total = sum(counts[name][key] for name, keys in todo.curves.items() for key in simulated(keys))
    counter = RunStages(progress, (total + runs * len(todo.batch_sizes)) * horizon)
    settings: dict[str, Any] = {"horizon": horizon, "seed": seed}

    def part(name: str) -> dict[str, Any]:
        if name == POSTERIOR:
            found = _posterior(todo.batch_sizes, runs, literal, counter, **settings)
        else:
            chosen = todo.curves[name]
            found = _experiment(name, chosen, counts[name], literal, counter, **settings)
            found["runs"] = runs
        return found

    first, *others = known_names(names, NAMES, "experiment")
    parts = {first: part(first)}  # alone, so that it is soon there
    finished(first, parts[first])
    counter.end()
    jobs = {name: functools.partial(part, name) for name in others}
    for name, found in side_by_side(jobs, counter):
        parts[name] = found
        finished(name, found)
    return {
        "experiments": {name: parts[name] for name in todo.curves},
        "posterior": parts.get(POSTERIOR, {}),
    }


def _experiment(
    name: str,
    chosen: list[str],
    runs: dict[str, int],
    literal: bool,
    counter: RunStages,
    **settings: Any,
) -> dict[str, Any]:
    """Errors of some algorithms in one experiment.

    Args:
        name: The experiment.
        chosen: The algorithms, in the order of the figure.
        runs: How many runs each has.
        literal: As for `reproduce`.
        counter: Reports what is being run.
        **settings: horizon and seed.
    """
    experiment = EXPERIMENTS[name]
    region = experiment.literal if literal else experiment.region
    counter.tell(f"{name}: setting up")
    instance = experiment.instance(region.feasible)
    results = {}
    for key in simulated(chosen):
        part = ALGORITHMS[key]
        algorithm = BayesianSGD(instance.problem, **part.options(experiment.gradient))
        belief = part.belief(instance)
        options: dict[str, Any] = {"batch_size": experiment.batch_size, **settings}
        options["runs"] = runs[key]
        options["record"] = _record(name, key)
        result = counter.simulate(f"{name}: {key}", instance, algorithm, belief, **options)
        results[key] = _errors(result, instance.x_star, experiment.far)
        if key == _POSTERIORS_OF and LIMIT in chosen:
            counter.tell(f"{name}: {LIMIT}")
            start = algorithm.init(belief, instance.x)
            results[LIMIT] = _limit(LIMITS[name], instance, start, result, runs[LIMIT])
    shown = {key: results[key] for key in chosen}
    where = {"batch_size": experiment.batch_size, "feasible": region.text, "algorithms": shown}
    return as_json_types({"x_star": np.atleast_1d(instance.x_star), **settings, **where})


def _record(name: str, key: str) -> Callable[[State], Any]:
    """What a curve records: what the limit needs, and what claims record with the same program."""
    record = LIMITS[name].record
    is_needed = key == _POSTERIORS_OF or (key == "mle" and record is estimate)
    return record if is_needed else nothing


def _posterior(
    batch_sizes: list[int], runs: int, literal: bool, counter: RunStages, **settings: Any
) -> dict[str, Any]:
    """pi_t(theta_c) for several batch sizes; the arguments are those of `_experiment`."""
    experiment = EXPERIMENTS[_POSTERIOR_IN]
    instance = experiment.instance((experiment.literal if literal else experiment.region)[0])
    algorithm = BayesianSGD(instance.problem, **paper(gradient=experiment.gradient))
    belief = Grid(instance.points)
    settings |= {"runs": runs, "record": BeliefInTruth(instance.theta)}
    posterior = {}
    for size in batch_sizes:
        label = f"{POSTERIOR}: D={size}"
        result = counter.simulate(label, instance, algorithm, belief, batch_size=size, **settings)
        values = _some(result.record, np.isfinite(result.record).all(axis=1))
        mean, half = values.mean(axis=0), 1.96 * values.std(axis=0) / np.sqrt(len(values))
        low, high = np.clip([mean - half, mean + half], 0, 1)  # the 95 % interval of the mean
        counts = {"runs": runs, "diverged": int(result.diverged().sum())}
        posterior[f"D={size}"] = {"mean": mean, "low": low, "high": high, **counts}
    return as_json_types(posterior)


def _errors(result: Simulation, x_star: Any, far: float | None) -> dict[str, Any]:
    """Mean and standard deviation of the error over the runs that did not diverge."""
    diverged = result.diverged()
    errors = _some(result.errors(x_star), ~diverged)
    curve = {"mean_error": errors.mean(axis=0), "std_error": errors.std(axis=0)}
    curve |= {"runs": len(diverged), "diverged": int(diverged.sum())}
    return curve if far is None else curve | {"stuck": int((errors[:, -1] > far).sum())}


def _limit(
    limit: Limit, instance: Instance, start: State, result: Simulation, runs: int
) -> dict[str, Any]:
    """The errors of the best decisions, at every stage or, where each takes long, at some.

    Args:
        limit: How to find the best decisions.
        instance: The problem.
        start: The state before the first stage.
        result: The simulation whose posteriors are used.
        runs: How many of its runs.
    """
    fine, x_star = ~result.diverged()[:runs], np.asarray(instance.x_star)
    count = result.decisions.shape[1]
    mean, spread = np.full((2, count), np.nan)
    mean[0], spread[0] = np.linalg.norm(np.asarray(instance.x) - x_star), 0.0
    stages = [t for t in range(1, count) if limit.everywhere or t in STAGES]
    if fine.any() and stages:
        records = jax.tree.map(
            lambda leaf: leaf[:runs][fine][:, stages].reshape(-1, *leaf.shape[2:]), result.record
        )
        gap = limit.decide(instance, start, records) - x_star
        errors = np.linalg.norm(gap.reshape(fine.sum(), len(stages), -1), axis=2)
        mean[stages], spread[stages] = errors.mean(axis=0), errors.std(axis=0)
    return {"mean_error": mean, "std_error": spread, "runs": len(fine), "diverged": 0}


def _some(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen runs of (run, stage); one run of NaN if there are none."""
    return values[chosen] if chosen.any() else np.full_like(values[:1], np.nan)

"""Runs the paper's experiments: errors by algorithm and stage, as plain lists and numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.presets import paper
from postgrad.beliefs import Belief, Grid
from postgrad.engine.bulk import Progress
from postgrad.research.comparison import known_names
from postgrad.research.paper.experiments import ALGORITHMS, BATCH_SIZES, BEYOND, EXPERIMENTS, LIMIT
from postgrad.research.paper.limit import LIMITS, STAGES, Limit
from postgrad.research.problems import Instance
from postgrad.research.progress import RunStages, silent
from postgrad.research.simulation import Simulation, simulate

POSTERIOR = "posterior"
NAMES = (*EXPERIMENTS, POSTERIOR)
# The algorithm whose posteriors the limit is computed from.
_POSTERIORS_OF = "bayesian-sgd"


def plan(
    names: Sequence[str], algorithms: Sequence[str], beyond: bool = True
) -> tuple[dict[str, list[str]], list[int]]:
    """Which algorithms to run in each experiment, and which batch sizes for the posterior.

    Args:
        names: Experiments; all, if empty.
        algorithms: Algorithms; the experiment's own, if empty.
        beyond: Whether these include what the paper does not have: our default, and the limit.
    """
    chosen = known_names(names, NAMES, "experiment")
    if algorithms:
        algorithms = known_names(algorithms, list(ALGORITHMS), "algorithm")
    curves = {
        name: [
            key
            for key in algorithms or EXPERIMENTS[name].algorithms
            if algorithms or beyond or key not in BEYOND
        ]
        for name in chosen
        if name in EXPERIMENTS
    }
    return curves, list(BATCH_SIZES) if POSTERIOR in chosen else []


def reproduce(
    names: Sequence[str] = (),
    *,
    algorithms: Sequence[str] = (),
    runs: int = 100,
    horizon: int = 1000,
    seed: int = 0,
    literal: bool = False,
    beyond: bool = True,
    progress: Progress = silent,
) -> dict[str, Any]:
    """The summary of the named experiments, as plain lists and numbers.

    Args:
        names: Experiments; all, if empty.
        algorithms: Algorithms; the experiment's own, if empty.
        runs: Runs of each algorithm.
        horizon: Stages of each run.
        seed: The seed of everything.
        literal: On the feasible sets as the paper states them: none for the quadratics, and one
            with an infinite slope at its edge for the dependent newsvendor.
        beyond: Whether to show our default and the limit next to the paper's algorithms.
        progress: Called with what is being run, and the run-stages done and to do.
    """
    curves, batch_sizes = plan(names, algorithms, beyond)
    simulated = {
        name: list(dict.fromkeys(_POSTERIORS_OF if key == LIMIT else key for key in chosen))
        for name, chosen in curves.items()
    }
    count = sum(map(len, simulated.values())) + len(batch_sizes)
    counter = RunStages(progress, count * runs * horizon)
    settings: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed}

    def run(label: str, algorithm: BayesianSGD, belief: Belief, **options: Any) -> Simulation:
        x, theta, told = instance.x, instance.theta, counter.simulating(label)
        return simulate(algorithm, belief, x, theta, **settings, **options, progress=told)

    experiments = {}
    for name, chosen in curves.items():
        experiment = EXPERIMENTS[name]
        region = experiment.literal if literal else experiment.region
        counter.tell(f"{name}: setting up")
        instance = experiment.instance(region.feasible)
        results = {}
        for key in simulated[name]:
            part = ALGORITHMS[key]
            algorithm = BayesianSGD(instance.problem, **part.options(experiment.gradient))
            belief = part.belief(instance)
            options: dict[str, Any] = {"batch_size": experiment.batch_size}
            if key == _POSTERIORS_OF:
                options["record"] = LIMITS[name].record
            result = run(f"{name}: {key}", algorithm, belief, **options)
            results[key] = _errors(result, instance.x_star, experiment.far)
            if key == _POSTERIORS_OF and LIMIT in chosen:
                counter.tell(f"{name}: {LIMIT}")
                start = algorithm.init(belief, instance.x)
                results[LIMIT] = _limit(LIMITS[name], instance, start, result)
        experiments[name] = {
            "x_star": np.atleast_1d(instance.x_star).tolist(),
            **settings,
            "batch_size": experiment.batch_size,
            "feasible": region.text,
            "algorithms": {key: results[key] for key in chosen},
        }

    posterior = {}
    for size in batch_sizes:
        experiment = EXPERIMENTS["quadratic-1d-dependent"]
        instance = experiment.instance((experiment.literal if literal else experiment.region)[0])
        result = run(
            f"{POSTERIOR}: D={size}",
            BayesianSGD(instance.problem, **paper(gradient=experiment.gradient)),
            Grid(instance.points),
            batch_size=size,
            record=lambda state, theta=instance.theta: state.belief.probability(theta),
        )
        known = np.isfinite(result.record).all(axis=1)
        posterior[f"D={size}"] = {
            **_interval(result.record[known]),
            "runs": runs,
            "diverged": int(result.diverged().sum()),
        }
    return {"experiments": experiments, "posterior": posterior}


def _errors(result: Simulation, x_star: Any, far: float | None) -> dict[str, Any]:
    """Mean and standard deviation of the error over the runs that did not diverge."""
    diverged = result.diverged()
    errors = result.errors(x_star)[~diverged]
    curve = {
        "mean_error": _numbers(errors, np.mean),
        "std_error": _numbers(errors, np.std),
        "diverged": int(diverged.sum()),
    }
    return curve if far is None else curve | {"stuck": int((errors[:, -1] > far).sum())}


def _limit(limit: Limit, instance: Instance, start: State, result: Simulation) -> dict[str, Any]:
    """The errors of the best decisions, at every stage or, where each takes long, at some."""
    fine, x_star = ~result.diverged(), np.asarray(instance.x_star)
    count = result.decisions.shape[1]
    mean: list[float | None] = [float(np.linalg.norm(np.asarray(instance.x) - x_star))]
    mean, spread = mean + [None] * (count - 1), [0.0] + [None] * (count - 1)
    for t in range(1, count):
        if fine.any() and (limit.everywhere or t in STAGES):
            records = jax.tree.map(lambda leaf, t=t: leaf[fine, t], result.record)
            gap = limit.decide(instance, start, records) - x_star
            errors = np.linalg.norm(gap.reshape(len(gap), -1), axis=1)
            mean[t], spread[t] = float(errors.mean()), float(errors.std())
    return {"mean_error": mean, "std_error": spread, "diverged": 0}


def _interval(values: np.ndarray) -> dict[str, Any]:
    """The mean over runs with its 95 % confidence interval, within [0, 1]."""
    half = 1.96 / np.sqrt(max(1, len(values)))

    def end(sign: float) -> Callable[..., np.ndarray]:
        return lambda v, axis: np.clip(v.mean(axis) + sign * half * v.std(axis), 0, 1)

    ends: dict[str, Callable[..., Any]] = {"mean": np.mean, "low": end(-1.0), "high": end(1.0)}
    return {key: _numbers(values, statistic) for key, statistic in ends.items()}


def _numbers(values: np.ndarray, statistic: Callable[..., np.ndarray]) -> list[float | None]:
    if len(values) == 0:  # all runs diverged
        return [None] * values.shape[1]
    return statistic(values, axis=0).tolist()

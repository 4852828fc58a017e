"""Runs the paper's experiments: errors by algorithm and stage, as plain lists and numbers."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.presets import paper
from postgrad.beliefs import Grid
from postgrad.engine.bulk import Progress
from postgrad.research.comparison import known_names
from postgrad.research.json_types import as_json_types
from postgrad.research.paper.experiments import ALGORITHMS, BATCH_SIZES, BEYOND, EXPERIMENTS, LIMIT
from postgrad.research.paper.limit import LIMITS, STAGES, Limit
from postgrad.research.problems import Instance
from postgrad.research.progress import RunStages, silent
from postgrad.research.simulation import Simulation

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
    left_out = () if algorithms or beyond else BEYOND
    curves = {
        name: [key for key in algorithms or EXPERIMENTS[name].algorithms if key not in left_out]
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
            label = f"{name}: {key}"
            result = counter.simulate(label, instance, algorithm, belief, **settings, **options)
            results[key] = _errors(result, instance.x_star, experiment.far)
            if key == _POSTERIORS_OF and LIMIT in chosen:
                counter.tell(f"{name}: {LIMIT}")
                start = algorithm.init(belief, instance.x)
                results[LIMIT] = _limit(LIMITS[name], instance, start, result)
        shown = {key: results[key] for key in chosen}
        where = {"batch_size": experiment.batch_size, "feasible": region.text, "algorithms": shown}
        experiments[name] = {"x_star": np.atleast_1d(instance.x_star), **settings, **where}

    experiment, posterior = EXPERIMENTS["quadratic-1d-dependent"], {}
    instance = experiment.instance((experiment.literal if literal else experiment.region)[0])
    algorithm = BayesianSGD(instance.problem, **paper(gradient=experiment.gradient))
    belief = Grid(instance.points)
    settings["record"] = lambda state: state.belief.probability(instance.theta)
    for size in batch_sizes:
        label = f"{POSTERIOR}: D={size}"
        result = counter.simulate(label, instance, algorithm, belief, batch_size=size, **settings)
        values = _some(result.record, np.isfinite(result.record).all(axis=1))
        mean, half = values.mean(axis=0), 1.96 * values.std(axis=0) / np.sqrt(len(values))
        low, high = np.clip([mean - half, mean + half], 0, 1)  # the 95 % interval of the mean
        counts = {"runs": runs, "diverged": int(result.diverged().sum())}
        posterior[f"D={size}"] = {"mean": mean, "low": low, "high": high, **counts}
    return as_json_types({"experiments": experiments, "posterior": posterior})


def _errors(result: Simulation, x_star: Any, far: float | None) -> dict[str, Any]:
    """Mean and standard deviation of the error over the runs that did not diverge."""
    diverged = result.diverged()
    errors = _some(result.errors(x_star), ~diverged)
    curve = {"mean_error": errors.mean(axis=0), "std_error": errors.std(axis=0)}
    curve |= {"diverged": int(diverged.sum())}
    return curve if far is None else curve | {"stuck": int((errors[:, -1] > far).sum())}


def _limit(limit: Limit, instance: Instance, start: State, result: Simulation) -> dict[str, Any]:
    """The errors of the best decisions, at every stage or, where each takes long, at some."""
    fine, x_star = ~result.diverged(), np.asarray(instance.x_star)
    count = result.decisions.shape[1]
    mean, spread = np.full((2, count), np.nan)
    mean[0], spread[0] = np.linalg.norm(np.asarray(instance.x) - x_star), 0.0
    for t in range(1, count):
        if fine.any() and (limit.everywhere or t in STAGES):
            records = jax.tree.map(lambda leaf, t=t: leaf[fine, t], result.record)
            gap = limit.decide(instance, start, records) - x_star
            errors = np.linalg.norm(gap.reshape(len(gap), -1), axis=1)
            mean[t], spread[t] = errors.mean(), errors.std()
    return {"mean_error": mean, "std_error": spread, "diverged": 0}


def _some(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen runs of (run, stage); one run of NaN if there are none."""
    return values[chosen] if chosen.any() else np.full_like(values[:1], np.nan)

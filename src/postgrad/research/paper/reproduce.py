"""Runs the paper's experiments and sums them up."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.presets import paper
from postgrad.beliefs import Grid
from postgrad.research.comparison import select
from postgrad.research.paper.experiments import ALGORITHMS, BATCH_SIZES, BEYOND, EXPERIMENTS, LIMIT
from postgrad.research.paper.limit import LIMITS, STAGES, Limit
from postgrad.research.problems import Instance
from postgrad.research.simulation import Simulation, simulate

POSTERIOR = "posterior"
NAMES = (*EXPERIMENTS, POSTERIOR)
Watch = Callable[[str, int, int], None]


def plan(
    names: Sequence[str], algorithms: Sequence[str], beyond: bool = True
) -> tuple[dict[str, list[str]], list[int]]:
    """Which algorithms to run in each experiment, and which batch sizes for the posterior.

    Args:
        names: Experiments; all, if empty.
        algorithms: Algorithms; the experiment's own, if empty.
        beyond: Whether these include what the paper does not have: our default, and the limit.
    """
    chosen = select(names, NAMES, "experiment")
    if algorithms:
        algorithms = select(algorithms, list(ALGORITHMS), "algorithm")
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
    watch: Watch = lambda label, done, total: None,
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
        watch: Called with what is being run, and the run-stages done and to do.
    """
    curves, batch_sizes = plan(names, algorithms, beyond)
    simulated = [key for chosen in curves.values() for key in chosen if key != LIMIT]
    total = (len(simulated) + len(batch_sizes)) * runs * horizon
    done = 0
    settings: dict[str, Any] = {"runs": runs, "horizon": horizon, "seed": seed}

    def run(label: str, *parts: Any, **options: Any) -> Simulation:
        watch(label, done, total)

        def progress(more: int) -> None:
            nonlocal done
            done += more
            watch(label, done, total)

        algorithm, belief, x, theta = parts
        return simulate(algorithm, belief, x, theta, **settings, **options, progress=progress)

    experiments = {}
    for name, chosen in curves.items():
        experiment = EXPERIMENTS[name]
        feasible, text = experiment.literal if literal else experiment.region
        watch(f"{name}: setting up", done, total)
        instance = experiment.instance(feasible)
        limit = LIMITS[name]
        results = {}
        posteriors = None
        for key in chosen:
            # The limit is read off posteriors; those of Bayesian-SGD will do.
            part = ALGORITHMS["bayesian-sgd" if key == LIMIT else key]
            if key != LIMIT or posteriors is None:
                algorithm = BayesianSGD(instance.problem, **part.options(experiment.gradient))
                result = run(
                    f"{name}: {key}",
                    algorithm,
                    belief := part.belief(instance),
                    instance.x,
                    instance.theta,
                    batch_size=experiment.batch_size,
                    record=limit.record if part is ALGORITHMS["bayesian-sgd"] else _nothing,
                )
            if part is ALGORITHMS["bayesian-sgd"] and posteriors is None:
                posteriors = algorithm.init(belief, instance.x), result
            if key == LIMIT:
                watch(f"{name}: {key}", done, total)
                assert posteriors is not None
                results[key] = _limit(limit, instance, *posteriors)
            else:
                results[key] = _errors(result, instance.x_star, experiment.far)
        experiments[name] = {
            "x_star": np.atleast_1d(instance.x_star).tolist(),
            **settings,
            "batch_size": experiment.batch_size,
            "feasible": text,
            "algorithms": results,
        }

    posterior = {}
    for size in batch_sizes:
        experiment = EXPERIMENTS["quadratic-1d-dependent"]
        instance = experiment.instance((experiment.literal if literal else experiment.region)[0])
        result = run(
            f"{POSTERIOR}: D={size}",
            BayesianSGD(instance.problem, **paper(gradient=experiment.gradient)),
            Grid(instance.points),
            instance.x,
            instance.theta,
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
    count = result.decisions.shape[1]
    x_star = np.asarray(instance.x_star)
    mean: list[float | None] = [None] * count
    spread: list[float | None] = [None] * count
    mean[0], spread[0] = float(np.linalg.norm(np.asarray(instance.x) - x_star)), 0.0
    fine = ~result.diverged()
    for t in range(1, count):
        if fine.any() and (limit.everywhere or t in STAGES):
            records = jax.tree.map(lambda leaf, t=t: leaf[fine, t], result.record)
            gap = limit.decide(instance, start, records) - x_star
            errors = np.linalg.norm(gap.reshape(len(gap), -1), axis=1)
            mean[t], spread[t] = float(errors.mean()), float(errors.std())
    return {"mean_error": mean, "std_error": spread, "diverged": 0}


def _nothing(state: State) -> tuple[()]:
    del state
    return ()


def _interval(values: np.ndarray) -> dict[str, Any]:
    """The mean over runs with its 95 % confidence interval, within [0, 1]."""
    half = 1.96 / np.sqrt(max(1, len(values)))
    return {
        "mean": _numbers(values, np.mean),
        "low": _numbers(values, lambda v, axis: np.clip(v.mean(axis) - half * v.std(axis), 0, 1)),
        "high": _numbers(values, lambda v, axis: np.clip(v.mean(axis) + half * v.std(axis), 0, 1)),
    }


def _numbers(values: np.ndarray, statistic: Callable[..., np.ndarray]) -> list[float | None]:
    if len(values) == 0:  # all diverged: there is no number to give
        return [None] * values.shape[1]
    return statistic(values, axis=0).tolist()

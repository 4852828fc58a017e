"""The newsvendor with 1,953,125 parameter values: `simulate` against dense NumPy, in one process.

For 100 runs of 1,000 stages of Bayesian-SGD it prints the time of a first call with everything in
it (the grid, compilation), that of later calls (the best of several), and how many times faster a
stage of a run is than a dense stage in plain NumPy (`plain_newsvendor.py`): as the density's
definition says, and as one matrix product. "Points" are grid points times stages times runs, all of
the posterior that is followed, whether they had to be computed or not. "Processor" counts the
seconds of all threads, so that the ratio holds on a busy machine too.

    python benchmarks/newsvendor.py [--runs 100] [--horizon 1000] [--rounds 3] [--exact N] [--json]

`--exact N` follows one run for N stages and prints the largest total-variation distance between
the posterior in use and the dense one.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain_newsvendor

import postgrad as pg
from postgrad.beliefs.grid import live_points as focus
from postgrad.research.paper.experiments import EXPERIMENTS

NAMES = ("newsvendor-independent", "newsvendor-dependent")
POINTS = 5**9


Clock = Callable[[], float]


def seconds(function: Callable[[], object], clock: Clock = time.perf_counter) -> float:
    start = clock()
    function()
    return clock() - start


def dense_stage(
    name: str,
    likelihood: Callable[..., Any],
    stages: int = 5,
    clock: Clock = time.perf_counter,
) -> float:
    """The best time of a stage of one run in plain NumPy."""
    steps = plain_newsvendor.stages(
        name, "bayesian-sgd", np.random.default_rng(0), likelihood=likelihood
    )
    next(steps)
    return min(seconds(lambda: next(steps), clock) for _ in range(stages))


def measure(name: str, runs: int, horizon: int, rounds: int) -> dict[str, float]:
    experiment = EXPERIMENTS[name]
    kept: dict[str, Any] = {}

    def run() -> None:
        if not kept:
            instance = experiment.instance(experiment.region.feasible)
            algorithm = pg.BayesianSGD(
                instance.problem, **pg.presets.paper(gradient=experiment.gradient)
            )
            belief = pg.beliefs.Grid(instance.points).bind(instance.problem, instance.x)
            kept.update(instance=instance, algorithm=algorithm, belief=belief)
        instance = kept["instance"]
        pg.simulate(
            kept["algorithm"], kept["belief"], instance.x, instance.theta,
            runs=runs, horizon=horizon, batch_size=experiment.batch_size,
        )  # fmt: skip

    processor = time.process_time()
    cold = seconds(run)
    processor = time.process_time() - processor
    warm = min(seconds(run) for _ in range(rounds))
    stage = warm / (runs * horizon)
    return {
        "first call, s": cold,
        "later calls, s": warm,
        "runs x stages / s": 1.0 / stage,
        "points / s": POINTS / stage,
        "NumPy stage / first call": dense_stage(
            name, plain_newsvendor.log_likelihood_by_definition
        ) / (cold / (runs * horizon)),
        "NumPy stage / later calls": dense_stage(
            name, plain_newsvendor.log_likelihood_by_definition
        ) / stage,
        "NumPy product stage / later calls": dense_stage(name, plain_newsvendor.log_likelihood)
        / stage,
        "NumPy stage / first call, processor": dense_stage(
            name, plain_newsvendor.log_likelihood_by_definition, clock=time.process_time
        ) / (processor / (runs * horizon)),
    }  # fmt: skip


def distance(name: str, stages: int) -> float:
    """The largest total-variation distance to the dense posterior, over the stages of one run."""
    experiment = EXPERIMENTS[name]
    instance = experiment.instance(experiment.region.feasible)
    algorithm = pg.BayesianSGD(instance.problem, **pg.presets.paper(gradient=experiment.gradient))
    state = algorithm.init(pg.beliefs.Grid(instance.points), instance.x)
    step = eqx.filter_jit(algorithm.step)
    dense, look, worst = np.zeros((125, 15625)), focus.patience(state), 0.0
    for t in range(1, stages + 1):
        x = state.decision
        batch = instance.problem.model(x, instance.theta).sample(
            jax.random.key(t), (experiment.batch_size,)
        )
        shift = np.sqrt(np.asarray(x)) if name == "newsvendor-dependent" else 0.0
        dense += plain_newsvendor.log_likelihood_by_definition(np.asarray(batch) - shift)
        new = step(state, batch)[0]
        if not focus.is_sound(new):
            new = step(focus.unfocused(state), batch)[0]
        state = new
        worst = max(worst, _total_variation(state.belief.weights, dense))
        if t == look:
            state = focus.focused(state)
            look = t + focus.patience(state)
    return worst


def _total_variation(weights: Any, dense: np.ndarray) -> float:
    exact = np.exp(dense - dense.max())
    # Theirs: means, variances, correlations; ours: in the order of a dictionary's keys.
    exact = exact.reshape((5,) * 9).transpose(6, 7, 8, 0, 1, 2, 3, 4, 5).ravel() / exact.sum()
    rows = weights.live
    values = np.asarray(rows.table() @ weights.statistics[:-1] + rows.log_prior.ravel())
    used = values > -np.inf
    place = np.asarray(rows.index).ravel()
    ours = np.zeros_like(exact)
    ours[place[used]] = np.exp(values[used] - values.max())
    return float(0.5 * np.abs(ours / ours.sum() - exact).sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--exact", type=int, default=0, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    jnp.zeros(()).block_until_ready()  # starting the device is not what is measured
    device = jax.devices()[0]
    results: dict[str, Any] = {
        "device": f"{device.platform} ({device.device_kind})",
        "jax": jax.__version__,
        "runs": options.runs,
        "horizon": options.horizon,
    }
    for name in options.names:
        results[name] = measure(name, options.runs, options.horizon, options.rounds)
        if options.exact:
            results[name][f"total variation, {options.exact} stages"] = distance(
                name, options.exact
            )
    results["peak memory, GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    if options.json:
        print(json.dumps(results))
        return
    for key, value in results.items():
        if not isinstance(value, dict):
            print(f"{key}: {value if isinstance(value, int | str) else round(value, 2)}")
            continue
        print(key)
        for what, number in value.items():
            print(f"  {what:36} {number:12.4g}")


if __name__ == "__main__":
    main()

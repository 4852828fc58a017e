"""postgrad against plain NumPy on the paper's quadratics, in one process, as ratios.

Both run the same experiments (Bayesian-SGD, MLE, known parameter), vectorised over runs. Compile
time is left out here: each program is run once before it is timed. The two are timed in turn, and
the best of several rounds counts, since the machines are shared.

    python benchmarks/quadratics.py [--runs 100 10000] [--rounds 5] [--json]
"""

import argparse
import json
import time
from collections.abc import Callable

import jax
import numpy as np
import plain_numpy

import postgrad as pg
from postgrad.research.paper.experiments import ALGORITHMS, EXPERIMENTS
from postgrad.research.problems.quadratic import BOX

CURVES = ("bayesian-sgd", "mle", "known")
HORIZON = 1000


def best(function: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def ours(name: str, curve: str, runs: int) -> Callable[[], np.ndarray]:
    experiment = EXPERIMENTS[name]
    instance = experiment.instance(BOX)
    algorithm = pg.BayesianSGD(instance.problem, **pg.presets.paper(gradient=experiment.gradient))
    belief = ALGORITHMS[curve].belief(instance)

    def run() -> np.ndarray:
        return pg.simulate(
            algorithm, belief, instance.x, instance.theta, runs=runs, horizon=HORIZON
        ).decisions

    return run


def compare(name: str, curve: str, runs: int, rounds: int) -> dict[str, float]:
    # A stage of plain NumPy costs the same whenever it comes, so at 10,000 runs 100 of them do.
    horizon = HORIZON if runs <= 1000 else HORIZON // 10
    theirs_run = lambda: plain_numpy.run(name, curve, runs, horizon, np.random.default_rng(0))  # noqa: E731
    ours_run = ours(name, curve, runs)
    ours_run()
    theirs_run()
    numpy_times, postgrad_times = [], []
    for _ in range(rounds):
        numpy_times.append(best(theirs_run, 1) / horizon)
        postgrad_times.append(best(ours_run, 1) / HORIZON)
    return {"numpy": min(numpy_times), "postgrad": min(postgrad_times)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--names", nargs="+", default=list(plain_numpy.PROBLEMS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = jax.devices()[0]
    if not options.json:
        print(f"device {device.platform} ({device.device_kind}), jax {jax.__version__}")
        print("microseconds a stage of all runs; ratio = NumPy / postgrad")
    results: dict[str, dict[str, dict[str, float]]] = {}
    for runs in options.runs:
        for name in options.names:
            rows = {curve: compare(name, curve, runs, options.rounds) for curve in CURVES}
            total = {key: sum(row[key] for row in rows.values()) for key in ("numpy", "postgrad")}
            results[f"{name}, {runs} runs"] = rows | {"all three": total}
            for curve, row in (rows | {"all three": total}).items():
                row["ratio"] = row["numpy"] / row["postgrad"]
                if not options.json:
                    print(
                        f"{name:26} {runs:6} runs  {curve:13}"
                        f"  NumPy {row['numpy'] * 1e6:9.1f}  postgrad {row['postgrad'] * 1e6:9.1f}"
                        f"  ratio {row['ratio']:5.2f}",
                        flush=True,
                    )
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

"""What each trick of the engine buys: jobs with and without it, each in a fresh process.

    python benchmarks/ablation.py [--jobs NAME ...] [--rounds 2]
    python benchmarks/ablation.py --job NAME --without TRICK     one job in this process, as JSON

Prints processor seconds of the first call (from the start of the process, imports and compiling
included) and of a later call, and their ratios to the job with all tricks. A trick stays if without
it a first call takes 1.3 times or a later call 1.5 times as long; lattice keys are there for
accuracy, which is printed beside them: the mean distance to the best decision for the posterior.
Tricks that were tried and went are in docs/design.md, with what they bought.
"""

import argparse
import functools
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from jax import random

import postgrad as pg
from postgrad.algorithm import sampled_objective
from postgrad.algorithm.gradients import pathwise
from postgrad.beliefs.conjugate import gamma as gamma_belief
from postgrad.research.paper.experiments import EXPERIMENTS
from postgrad.research.paper.limit import LIMITS
from postgrad.research.problems import quadratic

ALL = "nothing"


def without_barrier() -> None:
    """Draws that XLA may compute again in each place that uses them."""
    for module in (sampled_objective, pathwise):
        module.computed_once = lambda draws, key: draws


def without_lattice() -> None:
    """Independent draws."""
    sampled_objective.lattice_keys = lambda key, shape, first=0: random.split(
        random.fold_in(key, first), shape
    )


def without_gamma() -> None:
    """JAX's own gamma draws."""
    gamma_belief.draws.gamma = random.gamma
    gamma_belief.draws.log_gamma = random.loggamma


TRICKS = {
    ALL: lambda: None,
    "draw barrier": without_barrier,
    "lattice keys": without_lattice,
    "gamma draws": without_gamma,
}


# Made once: a program belongs to the functions of its problem.
dependent = functools.cache(quadratic.univariate_dependent)
independent = functools.cache(
    lambda: EXPERIMENTS["quadratic-2d-independent"].instance(quadratic.BOX)
)


def simulation(runs: int, horizon: int, belief: str = "grid", **options: Any) -> Any:
    """The dependent quadratic, or the 2-D independent one with an inverse gamma belief."""
    world = dependent()
    prior = pg.beliefs.Grid(world.points)
    problem = world.problem
    if belief == "gamma":
        world = independent()
        prior, problem = world.prior, world.problem
    algorithm = pg.BayesianSGD(problem, **options)
    record = LIMITS["quadratic-1d-dependent"].record if belief == "grid" else lambda state: ()
    result = pg.simulate(
        algorithm, prior, world.x, world.theta, runs=runs, horizon=horizon, record=record
    )
    if belief == "gamma":
        return None
    best = (10.0 - result.record / 2.0) / 3.0
    return float(np.mean(np.abs(result.decisions[:, 10:] - best[:, 10:])))


def agent(batches: int) -> None:
    """An untuned agent over batches of one observation."""
    world = dependent()
    live = pg.Agent(world.problem, pg.beliefs.Grid(world.points), world.x)
    for y in np.random.default_rng(0).normal(6.0, 4.0, batches):
        live.observe(y)


JOBS: dict[str, Callable[[], Any]] = {
    "quadratic, 100 x 1,000": lambda: simulation(100, 1000, **pg.presets.paper()),
    "quadratic, 10,000 x 200": lambda: simulation(10_000, 200, **pg.presets.paper()),
    "default, 50 x 100": lambda: simulation(50, 100),
    "inverse gamma, 100 x 1,000": lambda: simulation(100, 1000, "gamma", steps=0.01),
    "agent, 100 batches": lambda: agent(100),
}


def measure(job: str, trick: str) -> dict[str, Any]:
    """Processor seconds of the first call, from the process's start, and of a later one."""
    TRICKS[trick]()
    distance = JOBS[job]()
    first = time.process_time()
    JOBS[job]()
    later = time.process_time() - first
    return {"first": first, "later": later, "distance": distance}


def fresh(job: str, trick: str, rounds: int) -> dict[str, Any]:
    """The least of several fresh processes."""
    command = [sys.executable, __file__, "--job", job, "--without", trick]
    outputs = [subprocess.run(command, capture_output=True, check=True) for _ in range(rounds)]
    found = [json.loads(output.stdout) for output in outputs]
    least = {name: min(result[name] for result in found) for name in ("first", "later")}
    return least | {"distance": found[0]["distance"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", nargs="*", default=list(JOBS), choices=JOBS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--job", choices=JOBS)
    parser.add_argument("--without", default=ALL, choices=TRICKS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(measure(options.job, options.without)))
        return
    for job in options.jobs:
        whole = fresh(job, ALL, options.rounds)
        print(f"{job}: {whole['first']:.2f} s first, {whole['later']:.3f} s later")
        for trick in list(TRICKS)[1:]:
            found = fresh(job, trick, options.rounds)
            ratios = [found[name] / whole[name] for name in ("first", "later")]
            line = f"  without {trick:14} {ratios[0]:5.2f} first {ratios[1]:5.2f} later"
            if found["distance"] is not None:
                line += f"   distance {whole['distance']:.4f} -> {found['distance']:.4f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()

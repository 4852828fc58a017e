"""The latency of one `Agent.observe` of one observation, on the paper's 1-D problem.

Beside it, in turn and on the same data: the same stage as a plain `jax.jit` of `BayesianSGD.step`
over the arrays of the state, which neither checks data nor watches for misspecification, and a
stage of the paper's algorithm in NumPy (`plain_numpy.py`). Ratios are `observe`'s median to theirs.

python benchmarks/observe.py [--count 2000] [--json]
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import plain_numpy

import postgrad as pg
from postgrad.research.problems import quadratic


def plain_step(world: Any, chosen: dict[str, Any]) -> Callable[[float], np.ndarray]:
    """A stage as one jitted function of the arrays of the state."""
    algorithm = pg.BayesianSGD(world.problem, **chosen)
    arrays, rest = eqx.partition(
        algorithm.init(pg.beliefs.Grid(world.points), world.x), eqx.is_array
    )

    @jax.jit
    def step(arrays: Any, batch: Any) -> Any:
        state, info = algorithm.step(eqx.combine(arrays, rest), batch)
        # What a stage says about its decision is returned too: unused, it would not be computed.
        return eqx.filter(state, eqx.is_array), eqx.filter(info, eqx.is_array), state.decision

    kept = [arrays]

    def observe(y: float) -> np.ndarray:
        kept[0], _, decision = step(kept[0], jnp.asarray([y]))
        return np.asarray(decision)

    return observe


def numpy_stage(count: int) -> float:
    """Seconds of a stage of one run in plain NumPy."""
    start = time.perf_counter()
    plain_numpy.run("quadratic-1d-dependent", "bayesian-sgd", 1, count, np.random.default_rng(0))
    return (time.perf_counter() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {}
    options_of = {
        "default": {},
        "pathwise": pg.presets.paper(gradient=pg.gradients.Pathwise()),
        "mixture-score": pg.presets.paper(),
    }
    bare = numpy_stage(options.count)
    for label, chosen in options_of.items():
        world = quadratic.univariate_dependent()
        agent = pg.Agent(world.problem, pg.beliefs.Grid(world.points), world.x, **chosen)
        plain = plain_step(world, chosen)
        data = np.random.default_rng(0).normal(6.0, 4.0, options.count)
        agent.observe(data[0])  # compiles
        plain(data[0])
        times, plain_times = [], []
        for y in data:
            start = time.perf_counter()
            agent.observe(y)
            middle = time.perf_counter()
            plain(y)
            plain_times.append(time.perf_counter() - middle)
            times.append(middle - start)
        quantiles = np.quantile(times, [0.5, 0.95]) * 1e6
        results[label] = {
            "median_us": quantiles[0],
            "p95_us": quantiles[1],
            "to_plain_step": np.median(times) / np.median(plain_times),
            "to_numpy_stage": np.median(times) / bare,
        }
        if not options.json:
            print(
                f"{label:14} median {quantiles[0]:6.0f} us   95 % {quantiles[1]:6.0f} us   "
                f"{results[label]['to_plain_step']:.2f} plain steps   "
                f"{results[label]['to_numpy_stage']:.1f} NumPy stages"
            )
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

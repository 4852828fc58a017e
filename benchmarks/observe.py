"""The latency of one `Agent.observe` of one observation, on the paper's 1-D problem.

python benchmarks/observe.py [--count 2000] [--json]
"""

import argparse
import json
import time

import numpy as np

import postgrad as pg
from postgrad.research.problems import quadratic


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
    for label, chosen in options_of.items():
        world = quadratic.univariate_dependent()
        agent = pg.Agent(world.problem, pg.beliefs.Grid(world.points), world.x, **chosen)
        data = np.random.default_rng(0).normal(6.0, 4.0, options.count)
        agent.observe(data[0])  # compiles
        times = []
        for y in data:
            start = time.perf_counter()
            agent.observe(y)
            times.append(time.perf_counter() - start)
        quantiles = np.quantile(times, [0.5, 0.95]) * 1e6
        results[label] = {"median_us": quantiles[0], "p95_us": quantiles[1]}
        if not options.json:
            print(f"{label:14} median {quantiles[0]:6.0f} us   95 % {quantiles[1]:6.0f} us")
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

"""Very many streams of one problem in one file: how long they take to be created and opened.

Each size is created in one transaction by `pg.Agent` in a loop, and opened by another process. Both
begin cold: the seconds hold the first agent, which tries the parts of the problem on each other and
compiles that; imports are left out.

python benchmarks/streams.py [--sizes 1000 10000] [--json]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as dist

import postgrad as pg

PROBLEM = pg.Problem(
    cost=lambda order, demand: (
        2 * order - 4 * jnp.minimum(order, demand) - jnp.maximum(order - demand, 0)
    ),
    model=lambda order, theta: dist.Normal(theta + jnp.sqrt(order), 3.0),
    feasible=pg.feasible.Box(1.0, 100.0),
)


def timed(path: str, size: int) -> dict[str, float]:
    """Makes agents of so many streams in one transaction."""
    prior, agents = pg.beliefs.Normal(15.0, 5.0), []
    start = time.perf_counter()
    with pg.Database(path) as database:
        with database.transaction():
            for number in range(size):
                name = f"stream {number}"
                agents.append(pg.Agent(PROBLEM, prior, x=15.0, path=database, name=name))
                if number == 0:
                    first = time.perf_counter() - start
        seconds = time.perf_counter() - start
    assert all(agent.stage == 0 for agent in agents)
    return {"seconds": seconds, "first": first, "each": (seconds - first) / max(size - 1, 1)}


def measure(size: int, folder: str) -> dict[str, dict[str, float]]:
    results = {}
    for what in ("create", "open"):
        command = [sys.executable, __file__, "--one", os.path.join(folder, f"{size}.db"), str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        results[what] = json.loads(done.stdout)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(timed(options.one[0], int(options.one[1]))))
        return
    results: dict[int, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in options.sizes:
            results[size] = measure(size, folder)
    if options.json:
        print(json.dumps(results))
        return
    print(f"{'streams':>8} {'':8} {'seconds':>8} {'first':>8} {'each, ms':>9}")
    for size, parts in results.items():
        for what, told in parts.items():
            each = 1e3 * told["each"]
            print(f"{size:8} {what:8} {told['seconds']:8.2f} {told['first']:8.2f} {each:9.2f}")


if __name__ == "__main__":
    main()

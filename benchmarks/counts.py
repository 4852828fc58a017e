"""What a stage costs where counts depend on the decision: `simulate` with the untuned default.

A price x is asked of customers who buy with probability p = 1 / (1 + exp(b x - a)); a and b are
learned. One customer comes (Bernoulli), fifty (Binomial), or about fifty (Poisson with rate 50 p).
The cost is minus the profit, so the three have the same minimum and differ in the law alone.

Printed are processor milliseconds of a run-stage, without compiling (a second call of the same
program), as multiples of Bernoulli's with as many runs; and what one run costs beside ten.

    python benchmarks/counts.py [--runs 1 10 100] [--horizon 100] [--laws poisson ...] [--json]
"""

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist

import postgrad as pg

CUSTOMERS = 50
TRUTH = {"base": jnp.asarray(4.0), "slope": jnp.asarray(1.25)}


def _share(x: Any, theta: Any) -> Any:
    return jax.nn.sigmoid(theta["base"] - theta["slope"] * x)


LAWS = {
    "bernoulli": lambda x, theta: dist.Bernoulli(_share(x, theta), validate_args=False),
    "binomial": lambda x, theta: dist.Binomial(CUSTOMERS, _share(x, theta), validate_args=False),
    "poisson": lambda x, theta: dist.Poisson(CUSTOMERS * _share(x, theta), validate_args=False),
}


def cost(x: Any, xi: Any) -> Any:
    return -(x - 1.0) * xi


def belief() -> pg.beliefs.Grid:
    levels = {"base": jnp.linspace(0.0, 8.0, 17), "slope": jnp.linspace(0.25, 2.5, 10)}
    return pg.beliefs.Grid(pg.beliefs.product_grid(levels))


def measure(law: str, runs: list[int], horizon: int) -> dict[int, dict[str, float]]:
    """By number of runs: processor milliseconds of a run-stage, and seconds of the first call."""
    problem = pg.Problem(cost, LAWS[law], pg.feasible.Box(1.0, 6.0))
    policy, prior, found = pg.BayesianSGD(problem), belief(), {}
    for count in runs:
        seconds = []
        for _ in range(2):
            start = time.process_time()
            pg.simulate(policy, prior, 1.5, TRUTH, runs=count, horizon=horizon)
            seconds.append(time.process_time() - start)
        first, later = seconds
        found[count] = {"ms": 1e3 * later / (count * horizon), "first_s": first}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--horizon", type=int, default=100)
    parser.add_argument("--laws", nargs="+", choices=list(LAWS), default=list(LAWS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results = {law: measure(law, options.runs, options.horizon) for law in options.laws}
    if options.json:
        print(json.dumps(results))
        return
    for law, by_runs in results.items():
        for runs, row in by_runs.items():
            ratio = row["ms"] / results[options.laws[0]][runs]["ms"]
            print(
                f"{law:10} {runs:4} runs: {row['ms']:8.3f} ms a run-stage, {ratio:6.1f} times "
                f"{options.laws[0]}'s; first call {row['first_s']:.1f} s"
            )


if __name__ == "__main__":
    main()

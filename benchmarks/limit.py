"""The untuned default against the best decision that the posterior allows.

python benchmarks/limit.py [EXPERIMENT ...] [--prior grid|continuous] [--free] [--runs 1000]

Mean error of `BayesianSGD(problem)`, with nothing chosen, over that of argmin_x E_pi_t H(x, theta)
on the same data, at t = 10, 50, 100, 200, 1000: the aim is a ratio of at most 1.05, or an excess of
at most 0.001. `--free` takes the feasible sets away.
"""

import argparse
import json
import time
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from postgrad.research.paper.experiments import EXPERIMENTS
from postgrad.research.paper.limit import LIMITS
from postgrad.research.problems import Instance

_STAGES = (1, 2, 5, 10, 50, 100, 200, 1000)


def _continuous(name: str, instance: Instance) -> tuple[Instance, pg.beliefs.Belief]:
    """A prior about as wide as the paper's grid, and the model in its terms."""
    if name.startswith("quadratic-1d"):
        return instance, pg.beliefs.Normal(10.5, 6.0)
    if name == "quadratic-2d-independent":
        return instance, pg.beliefs.InverseGamma(3.0, 20.0)
    exponent = 0.5 if name == "newsvendor-dependent" else None

    def model(x: Any, theta: Any) -> dist.Distribution:
        moved = 0.0 if exponent is None else x**exponent
        mean = theta["mean"] + moved
        return dist.MultivariateNormal(mean, theta["covariance"], validate_args=False)

    covariance = instance.problem.model(instance.x, instance.theta).covariance_matrix
    theta = {"mean": instance.theta["mean"], "covariance": covariance}
    changed = eqx.tree_at(
        lambda i: (i.problem.model, i.theta), instance, (model, theta), is_leaf=callable
    )
    return changed, pg.beliefs.NormalInverseWishart(jnp.full(3, 15.0), 0.1, 5.0, 6.0 * jnp.eye(3))


def measure(
    name: str, prior: str, free: bool, runs: int, horizon: int, options: dict[str, Any]
) -> dict[str, Any]:
    experiment, limit = EXPERIMENTS[name], LIMITS[name]
    feasible = pg.feasible.Reals() if free else experiment.region.feasible
    instance = experiment.instance(feasible)
    belief: pg.beliefs.Belief = pg.beliefs.Grid(instance.points)
    if prior == "continuous":
        instance, belief = _continuous(name, instance)
    algorithm = pg.BayesianSGD(instance.problem, **options)
    started = time.perf_counter()
    result = pg.simulate(
        algorithm,
        belief,
        instance.x,
        instance.theta,
        runs=runs,
        horizon=horizon,
        batch_size=experiment.batch_size,
        record=limit.record,
    )
    seconds = time.perf_counter() - started
    start = algorithm.init(belief, instance.x)
    errors = result.errors(instance.x_star)
    rows = {}
    for t in (t for t in _STAGES if t <= horizon):
        record = _at(result.record, t)
        best = limit.decide(instance, start, record)
        gap = (best - np.asarray(instance.x_star)).reshape(runs, -1)
        least = np.linalg.norm(gap, axis=1)
        own = errors[:, t]
        rows[t] = {
            "limit": least.mean(),
            "postgrad": own.mean(),
            "ratio": own.mean() / least.mean() if least.mean() > 1e-6 else np.inf,
            "excess": (own - least).mean(),
            "se": (own - least).std() / np.sqrt(runs),
        }
    return {"rows": rows, "seconds": seconds, "diverged": int(result.diverged().sum())}


def _at(record: Any, t: int) -> Any:
    return tuple(leaf[:, t] for leaf in record) if isinstance(record, tuple) else record[:, t]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="EXPERIMENT")
    parser.add_argument("--prior", choices=["grid", "continuous"], default="grid")
    parser.add_argument("--free", action="store_true", help="without a feasible set")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--horizon", type=int, default=1000)
    parser.add_argument("--samples", type=int, nargs=2, help="other numbers of theta and xi")
    parser.add_argument("--iterations", type=int, help="another K")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    names = arguments.names or list(EXPERIMENTS)
    chosen = {"iterations": arguments.iterations}
    chosen["samples"] = tuple(arguments.samples) if arguments.samples else None
    results = {}
    for name in names:
        if arguments.prior == "continuous" and name == "quadratic-2d-dependent":
            continue  # the mean is (x_1 - x_2)^2 + theta: no conjugate prior, and x* knows no theta
        result = measure(
            name, arguments.prior, arguments.free, arguments.runs, arguments.horizon, chosen
        )
        results[name] = result
        if arguments.json:
            continue
        print(f"{name}: {result['seconds']:.1f} s, {result['diverged']} diverged", flush=True)
        for t, row in result["rows"].items():
            fine = t < 10 or row["ratio"] <= 1.05 or row["excess"] <= 1e-3
            print(
                f"  t = {t:5d}  limit {row['limit']:.5f}  postgrad {row['postgrad']:.5f}  "
                f"ratio {row['ratio']:8.3f}  excess {row['excess']:.5f} +- {row['se']:.5f}"
                f"{'' if fine else '  MISSED'}",
                flush=True,
            )
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()

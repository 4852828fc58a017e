"""Does the 95 % interval of the decision hold the best decision in 95 % of all cases?

python benchmarks/intervals.py [NAME ...] [--runs 1000] [--stages 1 5 50] [--json]

theta is drawn from the prior, data from the model under theta at the decisions that were issued.
The true best decision is in closed form. One line for each problem: the coverage at each stage and
its standard error. The aim is 90 to 98 %: the ends are quantiles of 64 thetas.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from scipy import stats

import postgrad as pg
from postgrad.distributions.counts import Poisson

UNDER, OVER = 4.0, 1.0
QUANTILE = UNDER / (UNDER + OVER)
Z = float(stats.norm.ppf(QUANTILE))
LEAST, MOST = 0.90, 0.98


class Case(NamedTuple):
    """A problem whose best decision is known for each theta.

    Attributes:
        problem: Cost, model and feasible set.
        belief: The prior.
        x: The first decision.
        best: x*(theta), for thetas along the leading axis.
    """

    problem: pg.Problem
    belief: pg.beliefs.Belief
    x: float
    best: Callable[[Any], np.ndarray]


def _mismatch(x: Any, xi: Any) -> Any:
    return jnp.where(xi > x, UNDER * (xi - x), OVER * (x - xi))


def _lognormal() -> Case:
    problem = pg.Problem(
        _mismatch,
        lambda x, theta: dist.LogNormal(theta, 0.5, validate_args=False),
        pg.feasible.Box(0.0, 500.0),
    )
    best = lambda theta: np.clip(np.exp(theta + 0.5 * Z), 0.0, 500.0)  # noqa: E731
    return Case(problem, pg.beliefs.Normal(3.0, 0.5), 20.0, best)


def _unknown_spread() -> Case:
    problem = pg.Problem(
        _mismatch,
        lambda x, theta: dist.Normal(theta["mean"], theta["scale"], validate_args=False),
        pg.feasible.Box(-1000.0, 1000.0),
    )
    belief = pg.beliefs.NormalInverseGamma(100.0, 2.0, 3.0, 800.0)
    return Case(problem, belief, 50.0, lambda theta: theta["mean"] + Z * theta["scale"])


def _pricing() -> Case:
    problem = pg.Problem(
        lambda x, sold: -(x - 2.0) * sold,
        lambda x, theta: dist.Normal(theta["base"] - theta["slope"] * x, 3.0, validate_args=False),
        pg.feasible.Box(2.0, 11.0),
    )
    belief = pg.beliefs.Gaussian({"base": 20.0, "slope": 2.5}, {"base": 5.0, "slope": 0.5})

    def best(theta: Any) -> np.ndarray:
        peak = (theta["base"] / theta["slope"] + 2.0) / 2.0
        # With demand that rises with the price, the higher end is best, if it is not the lower.
        at = np.stack([np.clip(peak, 2.0, 11.0), np.full_like(peak, 2.0), np.full_like(peak, 11.0)])
        costs = -(at - 2.0) * (theta["base"] - theta["slope"] * at)
        return np.take_along_axis(at, costs.argmin(axis=0)[None], axis=0)[0]

    return Case(problem, belief, 5.0, best)


def _quadratic() -> Case:
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2,
        lambda x, theta: dist.Normal(theta, 2.0, validate_args=False),
        pg.feasible.Reals(),
    )
    return Case(problem, pg.beliefs.Normal(0.0, 1.0), 0.0, lambda theta: theta)


def _poisson() -> Case:
    problem = pg.Problem(
        _mismatch, lambda x, theta: Poisson(theta, validate_args=False), pg.feasible.Box(0.0, 200.0)
    )
    best = lambda theta: stats.poisson(theta).ppf(QUANTILE)  # noqa: E731
    return Case(problem, pg.beliefs.Gamma(5.0, 0.25), 20.0, best)


def _two_nines() -> Case:
    """A high service level: few draws of a single theta lie beside the decision."""
    problem = pg.Problem(
        lambda x, xi: jnp.where(xi > x, 99.0 * (xi - x), x - xi),
        lambda x, theta: dist.Normal(theta, 10.0, validate_args=False),
        pg.feasible.Box(0.0, 500.0),
    )
    z = float(stats.norm.ppf(0.99))
    return Case(problem, pg.beliefs.Normal(100.0, 15.0), 100.0, lambda theta: theta + 10.0 * z)


CASES = {
    "lognormal": _lognormal,
    "unknown-spread": _unknown_spread,
    "pricing": _pricing,
    "quadratic": _quadratic,
    "poisson": _poisson,
    "two-nines": _two_nines,
}


def intervals(case: Case, runs: int, horizon: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """The true thetas, and (low, high) of each run and stage, (run, stage, 2)."""
    algorithm = pg.BayesianSGD(case.problem)
    start = algorithm.init(case.belief, case.x)
    start = jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), start)

    def one(key: Any) -> tuple[Any, Any]:
        key_theta, key_data = random.split(key)
        theta = start.belief.sample(key_theta)

        def stage(state: Any, t: Any) -> tuple[Any, Any]:
            law = case.problem.likelihood(state.decision, theta)
            y = law.sample(random.fold_in(key_data, t), (1,))
            state, info = algorithm.step(state, y)
            return state, jnp.stack([info.outlook.low, info.outlook.high])

        return theta, jax.lax.scan(stage, start, jnp.arange(horizon))[1]

    keys = random.split(random.key(seed), runs)
    # few at a time, which keeps the draws of a stage within the processor's caches
    theta, ends = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=8))(keys)
    return jax.tree.map(np.asarray, (theta, ends))


def coverage(
    case: Case, runs: int, stages: Sequence[int], seed: int = 0
) -> list[tuple[float, float]]:
    """At each stage, the share of runs whose interval holds x*(theta), and its standard error."""
    theta, ends = intervals(case, runs, max(stages), seed)
    best = np.asarray(case.best(theta))
    size = 1e-9 * (1.0 + np.abs(best))
    found = []
    for t in stages:
        low, high = ends[:, t - 1].T
        share = np.mean((low <= best + size) & (best - size <= high))
        found.append((float(share), float(np.sqrt(share * (1 - share) / runs))))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 5, 50])
    parser.add_argument("--json", action="store_true", help="print the shares alone")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.names if name not in CASES]:
        parser.error(f"no such problem: {', '.join(unknown)}; there are {', '.join(CASES)}")
    stages, shares_of = sorted(set(arguments.stages)), {}
    for name in arguments.names or CASES:
        began = time.perf_counter()
        found = coverage(CASES[name](), arguments.runs, stages)
        seconds = time.perf_counter() - began
        shares_of[name] = {t: share for t, (share, _) in zip(stages, found, strict=True)}
        if arguments.json:
            continue
        shares = ", ".join(
            f"t = {t}: {100 * share:5.1f} % (+- {100 * error:.1f})"
            for t, (share, error) in zip(stages, found, strict=True)
        )
        off = any(not LEAST - 2 * e <= share <= MOST + 2 * e for share, e in found)
        print(f"{name:16} {shares}{'  OFF' if off else ''}  {seconds:5.1f} s", flush=True)
    if arguments.json:
        print(json.dumps(shares_of))


if __name__ == "__main__":
    main()

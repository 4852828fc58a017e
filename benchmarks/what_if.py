"""What questions about decisions take: the first one, which compiles, and later ones.

    python benchmarks/what_if.py [--items 1 5 20] [--times 20]

Prints, for newsvendors of some items with normal demand: processor seconds of the first `cost` and
of the first `decide(fixed=...)`, milliseconds of later ones (medians), seconds of a stage that
keeps to a chance of shortage, and how exact that is: the true chance at the decision against the
limit, and its cost above the least one under that limit, by closed forms (SLSQP).
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.optimize import minimize
from scipy.stats import norm

import postgrad as pg

LIMIT, NOISE = 0.1, 10.0


def agent(items: int, **rules: Any) -> tuple[pg.Agent, np.ndarray]:
    """An agent after two batches, and what its shortages cost."""
    under, level = np.linspace(3.0, 6.0, items), np.linspace(40.0, 80.0, items)

    def cost(x: Any, xi: Any) -> Any:
        return jnp.sum(under * jnp.maximum(xi - x, 0.0) + jnp.maximum(x - xi, 0.0))

    problem = pg.Problem(
        cost,
        lambda x, theta: dist.Normal(theta, NOISE).to_event(1),
        pg.feasible.Box(0.0, 200.0),
        outcomes={"short": lambda x, xi: jnp.any(xi > x)},
        **rules,
    )
    belief = pg.beliefs.Normal(np.full(items, 50.0), np.full(items, 20.0))
    made = pg.Agent(problem, belief, np.full(items, 50.0))
    for batch in np.random.default_rng(0).normal(level, NOISE, (2, 4, items)):
        made.observe(batch)
    return made, under


def median_ms(ask: Callable[[int], object], times: int) -> float:
    """The median of some calls."""
    taken = []
    for i in range(times):
        began = time.perf_counter()
        ask(i)
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def first_s(ask: Callable[[], object]) -> float:
    """Processor seconds of a call."""
    began = time.process_time()
    ask()
    return time.process_time() - began


def exactness(made: pg.Agent, under: np.ndarray) -> tuple[float, float]:
    """The true chance of a shortage, and how much more than the least is paid, as a share."""
    mean = np.asarray(made.belief.mean())
    sd = np.hypot(np.asarray(made.belief.spread()), NOISE)

    def cost(x: np.ndarray) -> float:
        z = (x - mean) / sd
        over = sd * (norm.pdf(z) + z * norm.cdf(z))
        return float(np.sum(under * (over - (x - mean)) + over))

    def served(x: np.ndarray) -> float:
        return float(np.sum(norm.logcdf((x - mean) / sd)) - np.log(1.0 - LIMIT))

    x = np.asarray(made.decision)
    least = minimize(cost, x, method="SLSQP", constraints=[{"type": "ineq", "fun": served}]).fun
    return float(1.0 - np.prod(norm.cdf((x - mean) / sd))), cost(x) / least - 1.0


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--items", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--times", type=int, default=20)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print("items  first cost  cost  first fixed  fixed  stage under rules  chance  above least")
    for items in asked.items:
        made, under = agent(items)
        x = np.asarray(made.decision)
        first_cost = first_s(lambda made=made, x=x: made.cost(x))
        cost = median_ms(lambda i, made=made, x=x: made.cost(x + 0.01 * i), asked.times)
        first_fixed = first_s(lambda made=made: made.decide(fixed={0: 60.0}))
        fixed = median_ms(lambda i, made=made: made.decide(fixed={0: 50.0 + i}), asked.times)
        ruled, under = agent(items, constraints=[pg.rules.AtMost("short", LIMIT)])
        batch = np.random.default_rng(1).normal(60.0, NOISE, (4, items))
        began = time.perf_counter()
        ruled.observe(batch)
        stage = time.perf_counter() - began
        chance, above = exactness(ruled, under)
        print(
            f"{items:5d} {first_cost:9.2f} s {cost:5.1f} ms {first_fixed:7.2f} s {fixed:6.1f} ms "
            f"{stage:14.2f} s {chance:10.4f} {100 * above:9.2f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()

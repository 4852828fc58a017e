"""Decisions for contexts: against brute force on five problems, and how long one takes.

    python benchmarks/decisions_in_contexts.py [--only NAME ...] [--seeds 3] [--json]

Brute force knows the posterior only by its own draws of theta, 4,000 of them that postgrad does not
see, and minimises the mean cost, in closed form or as a sum over theta, by a search of its own. The
excess is how much more than the least our decision costs by these draws. Each problem is solved
after 4 and after 40 batches, for contexts that were met, and for one that was not.

The times are medians of `Agent.decide` after warm-up, nothing stored: of a scalar decision and of
twenty coordinates with one budget.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import norm, poisson

import postgrad as pg

_DRAWS = 4000


@dataclass(frozen=True)
class Case:
    """A problem with contexts, and its exact cost at known theta.

    Attributes:
        problem: The problem.
        belief: pi_0.
        x: x_1.
        theta: The truth.
        met: Draws the context of a batch.
        new: A context that is never met.
        cost: E h(x, xi, z) at each theta of a stack: (x, thetas, z) -> one number for each theta.
        best: The minimiser of a function of the decision in a context.
    """

    problem: pg.Problem
    belief: Any
    x: Any
    theta: Any
    met: Callable[[np.random.Generator], Any]
    new: Any
    cost: Callable[[Any, Any, Any], np.ndarray]
    best: Callable[[Callable[[Any], float], Any], Any]


def _newsvendor(x: Any, mean: Any, scale: Any, under: float, over: float) -> np.ndarray:
    u = (x - mean) / scale
    short = scale * (norm.pdf(u) - u * norm.sf(u))
    return under * short + over * (x - mean + short)


def _on(low: float, high: float) -> Callable[[Callable[[Any], float], Any], Any]:
    """The best of 400 even places, refined."""

    def best(function: Callable[[Any], float], z: Any) -> Any:
        top = high if np.isscalar(high) else high(z)
        places = np.linspace(low, top, 400)
        i = int(np.argmin([function(x) for x in places]))
        ends = places[max(i - 1, 0)], places[min(i + 1, 399)]
        return minimize_scalar(function, bounds=ends, method="bounded").x

    return best


def regression() -> Case:
    """Bread for tomorrow, known its temperature and weekday."""

    def mean(theta: Any, z: Any) -> Any:
        return theta["base"] + theta["slope"] * z["temperature"] + theta["days"][..., z["day"]]

    return Case(
        problem=pg.Problem(
            cost=lambda x, xi, z: 4 * jnp.maximum(xi - x, 0) + 1 * jnp.maximum(x - xi, 0),
            model=lambda x, theta, z: dist.Normal(mean(theta, z), 6.0),
            feasible=pg.feasible.Box(0.0, 400.0),
        ),
        belief=pg.beliefs.Gaussian(
            {"base": 80.0, "slope": 0.0, "days": jnp.zeros(7)},
            {"base": 40.0, "slope": 3.0, "days": 15.0 * jnp.ones(7)},
        ),
        x=50.0,
        theta={"base": 90.0, "slope": 1.5, "days": jnp.asarray([0.0, -5, -5, 0, 10, 25, 20])},
        met=lambda rng: {"temperature": rng.uniform(5, 25), "day": int(rng.integers(5))},
        new={"temperature": 33.0, "day": 6},
        cost=lambda x, theta, z: _newsvendor(x, np.asarray(mean(theta, z)), 6.0, 4.0, 1.0),
        best=_on(0.0, 400.0),
    )


def price() -> Case:
    """A price, known that of the competitor; demand falls with ours and rises with theirs."""

    def rate(x: Any, theta: Any, z: Any) -> Any:
        return jnp.exp(theta["size"] - theta["own"] * x + theta["other"] * z)

    return Case(
        problem=pg.Problem(
            cost=lambda x, xi, z: -(x - 1.0) * xi,
            model=lambda x, theta, z: dist.Poisson(rate(x, theta, z)),
            feasible=pg.feasible.Box(1.0, 12.0),
        ),
        belief=pg.beliefs.Gaussian(
            {"size": 3.0, "own": 0.4, "other": 0.1}, {"size": 0.5, "own": 0.1, "other": 0.1}
        ),
        x=3.0,
        theta={"size": 3.2, "own": 0.45, "other": 0.15},
        met=lambda rng: rng.uniform(2.0, 5.0),
        new=8.0,
        cost=lambda x, theta, z: -(x - 1.0) * np.asarray(rate(x, theta, z)),
        best=_on(1.0, 12.0),
    )


def staffing() -> Case:
    """Agents for the next hour; calls are Poisson, each hour of four has its own rate."""

    def rate(theta: Any, z: Any) -> Any:
        return jnp.exp(theta[..., z["hour"]] + 0.5 * z["campaign"])

    def cost(x: Any, theta: Any, z: Any) -> np.ndarray:
        # 20 for each agent, 6 for each call beyond 5 for each agent.
        mean, limit = np.asarray(rate(theta, z)), 5.0 * x
        k = np.floor(limit)
        beyond = mean * poisson.sf(k - 1, mean) - limit * poisson.sf(k, mean)
        return 20.0 * x + 6.0 * beyond

    return Case(
        problem=pg.Problem(
            cost=lambda x, xi, z: 20 * x + 6 * jnp.maximum(xi - 5 * x, 0),
            model=lambda x, theta, z: dist.Poisson(rate(theta, z)),
            feasible=pg.feasible.Box(0.0, 60.0),
        ),
        belief=pg.beliefs.Gaussian(3.5 * jnp.ones(4), 0.7),
        x=10.0,
        theta=jnp.asarray([2.5, 3.5, 4.2, 3.0]),
        met=lambda rng: {"hour": int(rng.integers(3)), "campaign": float(rng.random() < 0.3)},
        new={"hour": 3, "campaign": 1.0},
        cost=cost,
        best=_on(0.0, 60.0),
    )


def capacity() -> Case:
    """A truck load; what the truck holds differs from day to day."""
    return Case(
        problem=pg.Problem(
            cost=lambda x, xi, z: 5 * jnp.maximum(xi - x, 0) + 2 * jnp.maximum(x - xi, 0),
            model=lambda x, theta, z: dist.Normal(theta * z["season"], 8.0),
            feasible=lambda z: pg.feasible.Box(0.0, z["holds"]),
        ),
        belief=pg.beliefs.Grid(jnp.linspace(20.0, 120.0, 101)),
        x=20.0,
        theta=jnp.asarray(70.0),
        met=lambda rng: {"season": rng.uniform(0.7, 1.3), "holds": rng.uniform(50.0, 120.0)},
        new={"season": 1.6, "holds": 200.0},
        cost=lambda x, theta, z: _newsvendor(x, np.asarray(theta) * z["season"], 8.0, 5.0, 2.0),
        best=_on(0.0, lambda z: z["holds"]),
    )


def budget() -> Case:
    """Five items on one budget; each has a promotion of its own on some days."""
    under, over = np.asarray([4.0, 6, 3, 5, 8]), np.asarray([1.0, 2, 1, 2, 2])
    scale, n = 5.0, 5

    def mean(theta: Any, z: Any) -> Any:
        return theta["base"] + theta["promotion"] * z["promotion"]

    def best(function: Callable[[Any], float], z: Any) -> Any:
        total = z["budget"]
        room = {"type": "ineq", "fun": lambda x: total - x.sum()}
        starts = [np.full(n, total / n), total * np.asarray([0.1, 0.3, 0.1, 0.2, 0.3])]
        found = [
            minimize(function, s, bounds=[(0, 100)] * n, constraints=[room], method="SLSQP")
            for s in starts
        ]
        return min(found, key=lambda result: result.fun).x

    return Case(
        problem=pg.Problem(
            cost=lambda x, xi, z: jnp.sum(
                under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta, z: dist.Normal(mean(theta, z), scale).to_event(1),
            feasible=lambda z: pg.feasible.Budget(0.0, 100.0, np.ones(n), z["budget"]),
        ),
        belief=pg.beliefs.Gaussian(
            {"base": 25.0 * jnp.ones(n), "promotion": jnp.zeros(n)},
            {"base": 10.0 * jnp.ones(n), "promotion": 10.0 * jnp.ones(n)},
        ),
        x=np.full(n, 10.0),
        theta={
            "base": jnp.asarray([20.0, 30, 15, 25, 35]),
            "promotion": jnp.asarray([10.0, 0, 15, 5, 20]),
        },
        met=lambda rng: {
            "promotion": (rng.random(n) < 0.3).astype(float),
            "budget": rng.uniform(100, 150),
        },
        new={"promotion": np.asarray([1.0, 1, 1, 1, 1]), "budget": 120.0},
        cost=lambda x, theta, z: np.sum(
            _newsvendor(np.asarray(x), np.asarray(mean(theta, z)), scale, under, over), axis=-1
        ),
        best=best,
    )


CASES = {f.__name__: f for f in (regression, price, staffing, capacity, budget)}


def excesses(case: Case, seed: int, batches: tuple[int, ...] = (4, 40)) -> list[float]:
    """How much more than the least each decision costs, as a share of the least."""
    rng, found = np.random.default_rng(seed), []
    agent = pg.Agent(case.problem, case.belief, case.x, context=case.met(rng), seed=seed)
    for t in range(1, max(batches) + 1):
        z = case.met(rng)
        x = agent.decide(z)
        law = case.problem.at(jax.tree.map(jnp.asarray, z)).model(jnp.asarray(x), case.theta)
        agent.observe(np.asarray(law.sample(random.key(1000 * seed + t))), context=z, x=x)
        if t in batches:
            thetas = agent.belief.sample(random.key(77 + seed), (_DRAWS,))
            for z in (case.met(rng), case.new):

                def mean(x: Any, z: Any = z, thetas: Any = thetas) -> float:
                    return float(np.mean(case.cost(x, thetas, z)))

                least = mean(case.best(mean, z))
                found.append((mean(agent.decide(z)) - least) / abs(least))
    return found


def twenty() -> tuple[pg.Agent, Any]:
    """Twenty items on one budget, in contexts."""
    n = 20
    problem = pg.Problem(
        cost=lambda x, xi, z: jnp.sum(4 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0)),
        model=lambda x, theta, z: dist.Normal(theta * z["season"], 5.0).to_event(1),
        feasible=pg.feasible.Budget(0.0, 100.0, np.ones(n), 500.0),
    )
    belief = pg.beliefs.Gaussian(30.0 * jnp.ones(n), 10.0)
    agent = pg.Agent(problem, belief, np.full(n, 10.0), context={"season": 1.0})
    agent.observe(np.linspace(20.0, 40.0, n), context={"season": 1.1})
    return agent, {"season": 0.9}


def scalar() -> tuple[pg.Agent, Any]:
    """A scalar decision in contexts."""
    case = regression()
    agent = pg.Agent(case.problem, case.belief, case.x, context=case.new)
    agent.observe(100.0, context=case.new)
    return agent, case.new


def median_ms(agent: pg.Agent, context: Any, count: int = 200) -> tuple[float, float]:
    """The median time of `decide` after warm-up, and the processor time of one."""
    times, _ = [], agent.decide(context)
    processor = time.process_time()
    for _ in range(count):
        begun = time.perf_counter()
        agent.decide(context)
        times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times), 1e3 * (time.process_time() - processor) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {}
    for name in options.only:
        every = [e for seed in range(options.seeds) for e in excesses(CASES[name](), seed)]
        found[name] = {"worst": max(every), "mean": statistics.mean(every)}
        if not options.json:
            worst, mean = (f"{100 * found[name][what]:.2f} %" for what in ("worst", "mean"))
            print(f"{name:<12} excess: worst {worst}, mean {mean}, {len(every)} decisions")
    found["ms"] = {}
    for function in (scalar, twenty):
        name, (median, processor) = function.__name__, median_ms(*function())
        found["ms"] |= {name: median, f"{name} processor": processor}
        if not options.json:
            print(f"decide, {name}: median {median:.2f} ms, of processor {processor:.2f} ms")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()

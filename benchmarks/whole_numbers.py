"""What whole numbers add: to a stage, in one process; and to a first decision, in fresh ones.

For a scalar order (0 to 500) and for 50 items with a shared budget, the same problem with and
without `Integers`. Stages are timed in turns, one of each, by processor time: the ratio of medians
is printed. First decisions: user and system seconds of a process of their own, nothing cached.

    python benchmarks/whole_numbers.py [--stages 100] [--no-first]
"""

import argparse
import statistics
import sys
import time

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from first_decision import fresh

import postgrad as pg
from postgrad.problem.feasible import Box, Budget, Integers

ITEMS = 50
RATES = np.random.default_rng(0).uniform(2.0, 30.0, ITEMS)
PRICES = np.random.default_rng(1).uniform(2.0, 20.0, ITEMS)


def one(x, xi):
    """A newsvendor's cost."""
    return 4.0 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0)


def many(x, xi):
    """Newsvendors' costs."""
    return jnp.sum(PRICES * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0))


def agent(kind: str, whole: bool) -> tuple[pg.Agent, np.ndarray]:
    """An agent, and the demand's rates."""
    if kind == "scalar":
        box = Box(0.0, 500.0)
        problem = pg.Problem(
            one, lambda x, theta: dist.Poisson(theta), Integers(box) if whole else box
        )
        return pg.Agent(problem, pg.beliefs.Gamma(4.0, 0.1), x=36.0), np.asarray(45.0)
    budget = Budget(0.0, 100.0, np.ones(ITEMS), float(int(0.9 * RATES.sum())))
    problem = pg.Problem(
        many,
        lambda x, theta: dist.Poisson(theta).to_event(1),
        Integers(budget) if whole else budget,
    )
    belief = pg.beliefs.Gamma(jnp.full(ITEMS, 4.0), jnp.full(ITEMS, 0.4))
    return pg.Agent(problem, belief, x=np.zeros(ITEMS)), RATES


def stages(kind: str, count: int) -> None:
    """Print the ratio of a stage with whole numbers over one without."""
    rng = np.random.default_rng(2)
    both = [agent(kind, whole) for whole in (False, True)]
    spent: list[list[float]] = [[], []]
    for stage in range(count + 10):
        for (subject, rates), times in zip(both, spent, strict=True):
            batch = rng.poisson(rates, (5, *rates.shape)).astype(float)
            start = time.process_time()
            subject.observe(batch)
            if stage >= 10:
                times.append(time.process_time() - start)
    plain, whole = (1e3 * statistics.median(times) for times in spent)
    print(
        f"{kind:8} stage: {plain:.2f} ms, whole numbers {whole:.2f} ms, ratio {whole / plain:.2f}"
    )


def first(kind: str) -> None:
    """Print the same of a first decision in a fresh process."""
    command = [sys.executable, __file__, "--decide", kind]
    seconds = [fresh([*command, whole])[1] for whole in ("no", "yes")]
    ratio = seconds[1] / seconds[0]
    print(
        f"{kind:8} first: {seconds[0]:.1f} s, whole numbers {seconds[1]:.1f} s, ratio {ratio:.2f}"
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--stages", type=int, default=100)
    parser.add_argument("--no-first", action="store_true")
    parser.add_argument("--decide", nargs=2)
    asked = parser.parse_args()
    if asked.decide:
        subject, rates = agent(asked.decide[0], asked.decide[1] == "yes")
        subject.observe(np.random.default_rng(2).poisson(rates, (5, *rates.shape)).astype(float))
        return
    for kind in ("scalar", "items"):
        stages(kind, asked.stages)
        if not asked.no_first:
            first(kind)


if __name__ == "__main__":
    main()

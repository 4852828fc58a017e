"""Writes a file with an agent of each kind, to be kept and opened by all later versions.

    python tests/format_agents.py state.db

`tests/formats/` has what this wrote at each format, compressed by gzip.
"""

import sys

import numpy as np
import numpyro.distributions as dist

import postgrad as pg


def cost(x, xi):
    """What the agents of these files minimise."""
    return (x - 5.0) ** 2 + 0.5 * xi * x


def model(x, theta):
    """The data of all but one of them."""
    return dist.Normal(x + theta, 4.0, validate_args=False)


def student(x, theta):
    """Data without sufficient statistics, which particles have to keep."""
    return dist.StudentT(5.0, theta, 4.0, validate_args=False)


BOX = pg.feasible.Box(-20.0, 20.0)
PROBLEM, STUDENT = pg.Problem(cost, model, BOX), pg.Problem(cost, student, BOX)
PAPER = pg.presets.paper()


def parts():
    """Problem, belief and options of each stream."""
    grid = pg.beliefs.Grid(np.arange(1.0, 9.0))
    return {
        "conjugate": (PROBLEM, pg.beliefs.Normal(3.0, 5.0), PAPER),
        "grid": (PROBLEM, grid, PAPER),
        "particles": (STUDENT, pg.beliefs.Particles(dist.Normal(3.0, 5.0), 16), PAPER),
        "search": (PROBLEM, grid, {}),
    }


CHANGED = pg.Problem(cost, model, pg.feasible.Box(-20.0, 4.0))


def make(path, name):
    problem, belief, options = parts()[name]
    return pg.Agent(problem, belief, 0.0, path=path, name=name, **options)


def batch(stage):
    return np.random.default_rng(stage).normal(6.0, 2.0, 2)


TRUCKS = pg.Problem(
    cost=lambda x, xi, z: (x - xi) ** 2 * z["price"],
    model=lambda x, theta, z: dist.Normal(theta["base"] + theta["slope"] * z["heat"], 2.0),
    feasible=lambda z: pg.feasible.Box(0.0, z["truck"]),
)


def make_in_contexts(path):
    """An agent that decides for contexts, from format 4 on."""
    belief = pg.beliefs.Gaussian({"base": 5.0, "slope": 0.0}, 3.0, forget=0.9)
    example = {"price": 1.0, "heat": 0.0, "truck": 30}
    return pg.Agent(TRUCKS, belief, 6.0, context=example, path=path, name="contexts", **PAPER)


def context(stage):
    return {"price": 2.0, "heat": 0.5 * stage, "truck": 20 + stage}


def fed_in_contexts(agent):
    """Decisions under ids, batches that belong to them, and one that came late."""
    for stage in range(3):
        agent.decide(context(stage), id=f"day {stage}", date=f"2026-11-{20 + stage}")
        agent.observe(batch(stage), of=f"day {stage}", id=str(stage), date=f"2026-11-{20 + stage}")
    agent.observe(batch(3), context=context(1), id="late", date="2026-11-20")
    return agent


def main() -> None:
    with pg.Database(sys.argv[1]) as database:
        for name in parts():
            agent = make(database, name)
            for stage in range(3):
                agent.observe(batch(stage), id=str(stage))
            print(name, float(agent.decision))
        agent = pg.Agent(PROBLEM, parts()["grid"][1], 0.0, path=database, name="changed", **PAPER)
        for stage in range(3):
            agent.observe(batch(stage), id=str(stage))
        agent.correct("1", [4.0])
        agent.withdraw("0")
        agent.change(CHANGED)
        print("changed", float(agent.decision))
        print("contexts", float(fed_in_contexts(make_in_contexts(database)).decision))


if __name__ == "__main__":
    main()

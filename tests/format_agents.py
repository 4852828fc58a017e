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


if __name__ == "__main__":
    main()

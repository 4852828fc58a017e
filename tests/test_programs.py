"""Other numbers compile nothing: one set of programs serves all agents of a problem."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg
from postgrad.research.problems.newsvendor import Mismatch


def demand(x, theta):
    return dist.Normal(theta, 2.0)


BELIEFS = {
    "normal": lambda level: pg.beliefs.Normal(level, 5.0),
    "grid": lambda level: pg.beliefs.Grid(np.linspace(level - 5.0, level + 9.0, 40)),
    "mixture": lambda level: pg.beliefs.Mixture(
        [pg.beliefs.Normal(level, 5.0, forget=rate) for rate in (1.0, 0.99, 0.98, 0.96, 0.92)]
    ),
}


def decide(belief, underage=4.0, x=5.0, high=50.0, rows=3):
    cost = Mismatch(jnp.asarray(underage), jnp.asarray(1.0))
    problem = pg.Problem(cost, demand, pg.feasible.Box(0.0, high))
    agent = pg.Agent(problem, belief, x, **pg.presets.paper())
    agent.observe(np.full(rows, 11.0))
    agent.observe(np.full(rows, 12.0))


@contextlib.contextmanager
def lowered():
    """The names of the programs that JAX hands to its compiler, whether kept on disk or not."""
    names, open_ = [], [True]

    def listen(event, seconds, **about):
        if open_[0] and event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            names.append(str(about.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    open_[0] = False


@pytest.mark.parametrize("name", BELIEFS)
def test_other_numbers_compile_nothing(name):
    belief = BELIEFS[name]
    with lowered() as names:
        decide(belief(10.0))
    assert names  # so the events are those of this version of JAX
    others = [{"underage": 6.0}, {"x": 7.0}, {"high": 60.0}, {"rows": 1}, {"rows": 8}]
    with lowered() as names:
        decide(belief(11.0))
        for numbers in others:
            decide(belief(10.0), **numbers)
    assert names == []
    with lowered() as names:
        decide(belief(10.0), rows=12)
    assert len(names) == 1  # Bayes' rule for twice as many rows; not the descent
    assert "learn" in names[0]

"""Decisions of which some entries are given: the others are the best that go with these."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from test_programs import lowered

import postgrad as pg
from postgrad.errors import DecisionError, SettingError
from postgrad.numerics.validate import on_device
from postgrad.problem.fixed import ByTurns, Given, given

pytestmark = pytest.mark.sample(4, of="given entries")

UNDER = np.array([4.0, 3.0, 2.0])
DATA = np.random.default_rng(0).normal([60.0, 40.0, 80.0], 10.0, (4, 4, 3))
POLYHEDRON = [[1, 2, -1], [1, 0, 0], [0, 1, 0], [-1, -1, 0], [0, 0, 1], [1, 1, 0], [0, 0, -1]]
SETS = {
    "box": pg.feasible.Box(0.0, 5.0),
    "budget": pg.feasible.Budget(0.0, 9.0, [1.0, 2.0, 4.0], 12.0),
    "ball": pg.feasible.Ball([1.0, 0.0, 2.0], 4.0),
    "simplex": pg.feasible.Simplex(5.0),
    "reals": pg.feasible.Reals(),
    "polyhedron": pg.feasible.Polyhedron(POLYHEDRON, [6, 5, 5, 2, 5, 4, 5]),
    "product": pg.feasible.Product((pg.feasible.Simplex(3.0), pg.feasible.Box(0.0, 2.0)), (2, 1)),
}


@pytest.mark.parametrize("name", SETS)
def test_the_projection_is_that_onto_both(name):
    rng, feasible = np.random.default_rng(1), SETS[name]
    for mask in ([True, False, False], [False, True, True], [True, True, True]):
        mask = np.array(mask)
        inside = np.asarray(feasible.project(rng.normal(1.0, 3.0, 3)))
        values = np.where(mask, inside, 0.0)
        found = given(feasible, mask, values)
        turns = ByTurns(feasible, on_device(mask), on_device(values))
        for metric in (None, np.array([1.0, 4.0, 0.5])):
            x = rng.normal(1.0, 4.0, 3)
            near = np.asarray(found.project(x, metric))
            assert float(found.violation(near)) < 1e-9
            np.testing.assert_array_equal(near[mask], inside[mask])
            other = Given(feasible, turns, on_device(mask), on_device(values))
            np.testing.assert_allclose(near, other.project(x, metric), atol=1e-5)


def cost(x, xi):
    short = jnp.asarray(UNDER) * jnp.maximum(xi - x, 0.0) + jnp.maximum(x - xi, 0.0)
    return jnp.sum(short) + 0.01 * (jnp.sum(x) - 150.0) ** 2


def agent(cost, feasible, x):
    problem = pg.Problem(cost, lambda x, theta: dist.Normal(theta, 10.0).to_event(1), feasible)
    made = pg.Agent(problem, pg.beliefs.Normal([50.0] * 3, [20.0] * 3), x)
    for batch in DATA:
        made.observe(batch)
    return made


@pytest.mark.parametrize(
    ("feasible", "reduced", "start"),
    [
        pytest.param(
            pg.feasible.Box(0.0, 200.0),
            lambda v: pg.feasible.Box(0.0, 200.0),
            50.0,
            marks=pytest.mark.slow,
        ),
        (
            pg.feasible.Budget(0.0, 200.0, [1.0, 1.0, 2.0], 200.0),
            lambda v: pg.feasible.Budget(0.0, 200.0, [1.0, 2.0], 200.0 - v),
            30.0,
        ),
    ],
    ids=["box", "budget"],
)
def test_others_are_those_of_the_reduced_problem(feasible, reduced, start):
    whole, value = agent(cost, feasible, np.full(3, start)), 25.0
    before = whole.decision
    found = whole.decide(fixed={1: value})
    part = agent(
        lambda x, xi: cost(jnp.stack([x[0], value, x[1]]), xi), reduced(value), np.full(2, start)
    )
    x = part.decision
    expected = np.array([x[0], value, x[1]])
    assert found[1] == value
    np.testing.assert_allclose(found, expected, atol=0.6)
    gap = whole.compare(found, expected).difference
    assert abs(gap.mean) < 2e-3 * whole.cost(expected).cost.mean
    with lowered() as names:
        again = whole.decide(fixed={0: 55.0, -1: 70.0})
        assert whole.decide(fixed={1: value}).tolist() == found.tolist()
    assert names == []
    assert again[[0, 2]].tolist() == [55.0, 70.0]
    np.testing.assert_array_equal(whole.decision, before)
    assert whole.decide(fixed={0: 1.0, 1: 2.0, 2: 3.0}).tolist() == [1.0, 2.0, 3.0]


@pytest.fixture(scope="module")
def paper():
    problem = pg.Problem(
        cost,
        lambda x, theta: dist.Normal(theta, 10.0).to_event(1),
        pg.feasible.Budget(0.0, 200.0, [1.0, 1.0, 2.0], 200.0),
    )
    belief = pg.beliefs.Normal([50.0] * 3, [20.0] * 3)
    return pg.Agent(problem, belief, np.full(3, 30.0), **pg.presets.paper())


@pytest.mark.parametrize(
    ("fixed", "words"),
    [
        ({1: 250.0}, "violates it by 50"),
        ({1: 120.0, 2: 60.0}, "violates it by 40"),
        ({3: 1.0}, "no entry 3"),
        ({"a": 1.0}, "no entry 'a'"),
        ({0: np.nan}, "finite"),
        ({0: [1.0, 2.0]}, "one number"),
        ({}, "by index"),
        ([1.0], "by index"),
    ],
)
def test_entries_that_do_not_fit_are_refused(paper, fixed, words):
    with pytest.raises(DecisionError, match=words):
        paper.decide(fixed=fixed)


def test_a_question_has_no_id(paper):
    with pytest.raises(SettingError, match="cannot have an id"):
        paper.decide(fixed={0: 1.0}, id="a")

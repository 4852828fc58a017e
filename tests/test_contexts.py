"""Contexts: functions of what is known before a decision, and the beliefs that learn in them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad import errors
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import InContext, as_context, takes_context, trial_contexts

BOX = pg.feasible.Box(0.0, 100.0)
ROWS = [(1.0, 12.0), (2.0, 17.5), (0.5, 9.0), (3.0, 26.0)]


def cost(x, xi, z):
    return 4 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0) + 0.0 * z["size"]


def mean_of(theta, z):
    return theta * z["size"]


def scaled(x, theta, z):
    return dist.Normal(mean_of(theta, z), 2.0)


PROBLEM = pg.Problem(cost, scaled, BOX)


def z_of(size):
    return {"size": jnp.asarray(size)}


class Priced(eqx.Module):
    price: jax.Array

    def __call__(self, x, xi, z):
        return self.price * x - xi * z


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, xi: 0.0, False),
        (lambda x, xi, z: 0.0, True),
        (lambda x, xi, price=2.0: 0.0, False),
        (lambda x, xi, z, price=2.0: 0.0, True),
        (lambda x, xi, *, price: 0.0, False),
        (Priced(jnp.ones(())), True),
        (jax.jit(lambda x, xi, z: 0.0), True),
        (pg.Items(lambda x, theta, z: dist.Normal(theta, z)), True),
        (pg.Items(lambda x, theta: dist.Normal(theta, 1.0)), False),
        (max, False),
    ],
)
def test_functions_of_three_arguments_take_a_context(function, expected):
    assert takes_context(function) is expected


def test_a_problem_in_a_context_is_one_of_two_arguments():
    calls = pg.Problem(
        cost=lambda x, xi: xi - x,
        model=lambda x, theta, z: dist.Normal(theta + z, 1.0),
        feasible=lambda z: pg.feasible.Box(0.0, z),
        observation=lambda x, theta, z: dist.Poisson(jnp.exp(z) + theta),
    )
    assert calls.takes_context
    here = calls.at(jnp.asarray(3.0))
    assert not here.takes_context
    assert here.context == 3.0
    assert here.cost(1.0, 5.0) == 4.0
    assert here.model(0.0, 2.0).loc == 5.0
    assert here.likelihood(0.0, 0.0).rate == jnp.exp(3.0)
    assert here.feasible.high == 3.0
    again = here.at(jnp.asarray(1.0))  # of the functions, not of what they gave
    assert again.model(0.0, 2.0).loc == 3.0
    assert pg.Problem(lambda x, xi: x, lambda x, theta: dist.Normal(theta, 1.0)).context is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"size": np.nan}, "finite"),
        ({"size": [1.0, 2.0], "day": 2}, "shape"),
        ({"sise": 1.0, "day": 2}, r"context\['size'\] is missing; context\['sise'\] is not known"),
        ({"size": 1.0, "day": 2, "more": 1}, "not known"),
        ({"size": 1.0}, r"context\['day'\] is missing"),
        ({"size": 1.0, "day": 2.5}, "whole numbers"),
        ({"size": "big", "day": 2}, "a number"),
        (None, "needed"),
        ([1.0, 2], "first context has"),
    ],
)
def test_contexts_are_like_the_first_one(given, said):
    problem = pg.Problem(cost, scaled, BOX)
    agent = pg.Agent(problem, pg.beliefs.Gaussian(5.0, 3.0), 10.0, context={"size": 1.0, "day": 2})
    with pytest.raises(errors.ContextError, match=said):
        agent.decide(given)
    with pytest.raises(errors.ContextError, match=said):
        agent.observe(5.0, context=given)
    assert agent.stage == 0


def test_numbers_keep_their_kind():
    like = as_context({"n": 3, "on": True, "x": np.float32(2.0)})
    assert [leaf.dtype for leaf in jax.tree.leaves(like)] == ["int64", "bool", "float64"]
    assert as_context({"n": 4.0, "on": 1, "x": 3}, like)["n"].dtype == np.int64
    tried = trial_contexts(as_context({"day": 3, "on": True, "x": 2.0}))
    assert {leaf["on"].item() for leaf in tried} == {True, False}
    assert all(len({leaf[name].item() for leaf in tried}) > 4 for name in ("day", "x"))


def test_contexts_that_are_missing_or_too_many_are_refused():
    belief = pg.beliefs.Gaussian(5.0, 3.0)
    with pytest.raises(errors.ContextError, match="give an example"):
        pg.Agent(PROBLEM, belief, 10.0)
    plain = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0), BOX)
    with pytest.raises(errors.ContextError, match="take none"):
        pg.Agent(plain, belief, 10.0, context=1.0)
    moving = pg.Problem(lambda x, xi: (x - xi) ** 2, plain.model, lambda z: BOX)
    with pytest.raises(errors.ContextError, match="give an example"):
        pg.Agent(moving, belief, 10.0)
    agent = pg.Agent(plain, belief, 10.0, **pg.presets.paper())
    with pytest.raises(errors.ContextError, match="takes none"):
        agent.observe(5.0, context=1.0)
    with pytest.raises(errors.FeasibleSetError, match="must return a feasible set"):
        pg.Agent(pg.Problem(cost, scaled, lambda z: 3.0), belief, 10.0, context={"size": 1.0})


def test_sets_of_one_kind_whatever_the_context():
    def either(z):
        return BOX if float(z["size"]) < 2 else pg.feasible.Ball(jnp.zeros(()), 9.0)

    agent = pg.Agent(
        pg.Problem(cost, scaled, either), pg.beliefs.Gaussian(5.0, 3.0), 1.0, context={"size": 1.0}
    )
    with pytest.raises(errors.ContextError, match="sets of one kind"):
        agent.decide({"size": 3.0})


POINTS = np.linspace(4.0, 12.0, 401)


def exact():
    """The posterior on a fine grid, a normal prior around 8, by hand."""
    log_f = -0.5 * ((POINTS - 8.0) / 2.0) ** 2
    for size, y in ROWS:
        log_f += -0.5 * ((y - POINTS * size) / 2.0) ** 2
    weights = np.exp(log_f - log_f.max())
    weights /= weights.sum()
    mean = weights @ POINTS
    return mean, np.sqrt(weights @ (POINTS - mean) ** 2)


@pytest.mark.parametrize(
    ("belief", "rounding"),
    [
        (pg.beliefs.Grid(POINTS, prior=np.exp(-0.5 * ((POINTS - 8) / 2) ** 2)), 1e-9),
        (pg.beliefs.Normal(8.0, 2.0), 1e-6),
        (pg.beliefs.Gaussian(8.0, 2.0), 1e-6),
        (pg.beliefs.Particles(dist.Normal(8.0, 2.0), 2000), 0.1),
    ],
    ids=["grid", "conjugate", "gaussian", "particles"],
)
def test_beliefs_learn_by_bayes_rule_each_batch_in_its_context(belief, rounding):
    problem = PROBLEM.at(z_of(1.0))
    bound = belief.bind(problem, jnp.asarray(10.0))
    for i, (size, y) in enumerate(ROWS):
        likelihood = PROBLEM.at(z_of(size)).likelihood
        assert isinstance(likelihood, InContext)
        bound = bound.update(likelihood, jnp.asarray(10.0), jnp.asarray([y]), key=random.key(i))
    mean, spread = exact()
    np.testing.assert_allclose(bound.mean(), mean, rtol=rounding)
    np.testing.assert_allclose(bound.spread(), spread, rtol=rounding + 0.15 * (rounding > 1e-3))


def test_rows_that_are_kept_keep_their_context():
    belief = pg.beliefs.Particles(dist.Normal(8.0, 2.0), 64)
    kept = belief.bind(PROBLEM.at(z_of(1.0)), jnp.asarray(10.0)).kept
    assert type(kept).__name__ == "KeptRows"  # not sums of statistics: these are of one context
    for size, y in ROWS:
        likelihood = PROBLEM.at(z_of(size)).likelihood
        kept = kept.add(likelihood, Batch(jnp.asarray(10.0), jnp.asarray([y])))
    expected = sum(dist.Normal(7.0 * size, 2.0).log_prob(y) for size, y in ROWS)
    # Whatever the context in which it is asked.
    for asked in (0.1, 50.0):
        found = kept.log_likelihood(PROBLEM.at(z_of(asked)).likelihood, jnp.asarray(7.0))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        grown = kept.with_room(5000)
        again = grown.log_likelihood(PROBLEM.at(z_of(asked)).likelihood, jnp.asarray(7.0))
        np.testing.assert_allclose(again, expected, rtol=1e-12)


def test_formulas_must_hold_in_every_context():
    # Where z is one these are what the beliefs are for, and nowhere else.
    bent = pg.Problem(cost, lambda x, theta, z: dist.Normal(theta ** z["size"], 2.0), BOX)
    with pytest.raises(errors.ModelError, match="another function"):
        pg.beliefs.Normal(8.0, 2.0).bind(bent.at(z_of(1.0)), jnp.asarray(1.0))
    curved = pg.Problem(
        cost, lambda x, theta, z: dist.Normal(theta + jnp.expm1(theta * z["size"]), 2.0), BOX
    )
    belief = pg.beliefs.Gaussian(1.0, 0.1)
    assert not belief.bind(curved.at(z_of(0.0)), jnp.asarray(1.0)).exact
    assert belief.bind(PROBLEM.at(z_of(0.0)), jnp.asarray(1.0)).exact


@pytest.mark.parametrize(
    ("model", "belief", "example", "other"),
    [
        (
            lambda x, t, z: dist.Bernoulli(jnp.where(z["night"], t / 2, t)),
            pg.beliefs.Beta(2.0, 3.0),
            {"night": False},
            {"night": True},
        ),
        (
            lambda x, t, z: dist.Poisson(t + 8.0 * (z["hour"] == 17)),
            pg.beliefs.Gamma(2.0, 1.0),
            {"hour": 8},
            {"hour": 17},
        ),
        (
            lambda x, t, z: dist.Normal(jnp.where(z["hour"] == 17, jnp.exp(t / 4), t), 1.0),
            pg.beliefs.Gaussian(5.0, 2.0),
            {"hour": 8},
            {"hour": 17},
        ),
        (
            lambda x, t, z: dist.Normal(jnp.minimum(t, z["cap"]), 1.0),
            pg.beliefs.Normal(5.0, 2.0),
            {"cap": 1e6},
            {"cap": 4.0},
        ),
        (
            lambda x, t, z: dist.Normal(jnp.minimum(t, z["cap"]), 1.0),
            pg.beliefs.Mixture([pg.beliefs.Normal(m, 2.0) for m in (4.0, 5.0)]),
            {"cap": 1e6},
            {"cap": 4.0},
        ),
    ],
    ids=["beta", "gamma", "gaussian", "normal", "mixture"],
)
def test_no_batch_is_learned_where_a_belief_takes_the_model_for_another(
    model, belief, example, other
):
    """A stranger's: tried in some contexts only, the form failed silently in others."""
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, model, BOX)
    try:
        agent = pg.Agent(problem, belief, 1.0, context=example, **pg.presets.paper())
    except errors.ModelError:
        return  # found out at the start already
    agent.observe([1.0], context=example)
    before = float(agent.belief.mean())
    with pytest.raises(errors.ModelError, match="in the context of this batch"):
        agent.observe([1.0], context=other)
    assert (agent.stage, float(agent.belief.mean())) == (1, before)
    contexts = jax.tree.map(lambda *leaves: np.asarray(leaves), example, other)
    algorithm, truth = pg.BayesianSGD(problem, **pg.presets.paper()), jnp.asarray(0.3)
    with pytest.raises(errors.ModelError, match="in the context of this batch"):
        pg.simulate(algorithm, belief, 1.0, truth, runs=1, horizon=2, contexts=contexts)


def test_costs_must_add_in_every_context():
    # With z = 0 the items do not compete.
    problem = pg.Problem(
        cost=lambda x, xi, z: jnp.sum((x - xi) ** 2) + z * x[0] * x[1],
        model=lambda x, theta, z: dist.Normal(theta, 1.0).to_event(1),
        feasible=BOX,
    )
    belief = pg.beliefs.Gaussian(5.0 * jnp.ones(2), 2.0)
    state = pg.BayesianSGD(problem).at(jnp.asarray(0.0)).init(belief, jnp.ones(2))
    assert not state.additive


def test_items_learn_each_in_its_own_context():
    items = pg.Items(lambda x, theta, z: dist.Normal(theta * z, 2.0))
    problem = pg.Problem(lambda x, xi: jnp.sum((x - xi) ** 2), items, BOX)
    z = jnp.asarray([1.0, 3.0])
    prior = pg.beliefs.Separate(pg.beliefs.Normal(8.0, 2.0), 2)
    with pytest.raises(errors.ContextError, match="one entry for each of 2 items"):
        prior.bind(problem.at(jnp.asarray(1.0)), jnp.ones(2))
    belief = prior.bind(problem.at(z), jnp.ones(2))
    learned = belief.update(problem.at(z).likelihood, jnp.ones(2), jnp.asarray([[9.0, 20.0]]))
    for i, (size, y) in enumerate([(1.0, 9.0), (3.0, 20.0)]):
        precision = 1 / 4 + size**2 / 4
        np.testing.assert_allclose(learned.mean()[i], (8 / 4 + size * y / 4) / precision)


def test_diagnosis_needs_contexts_that_differ():
    problem = pg.Problem(
        cost, lambda x, theta, z: dist.Normal(theta["a"] + theta["b"] * z["size"], 2.0), BOX
    )
    belief = pg.beliefs.Gaussian({"a": 1.0, "b": 1.0}, 1.0)
    one, two = {"size": 1.0}, {"size": 2.0}
    assert not pg.diagnose(problem, belief, 10.0, contexts=[one]).identifiable
    assert pg.diagnose(problem, belief, 10.0, contexts=[one, two]).identifiable
    with pytest.raises(errors.ContextError, match="takes contexts"):
        pg.diagnose(problem, belief, 10.0)

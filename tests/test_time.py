"""What time does to beliefs, for every class that it changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from belief_models import counted, normal, poisson, student
from rooms import first_of_each
from test_beliefs import ALL, POINTS, PRIOR, assert_same, batches, bound, learn

import postgrad as pg
from postgrad import errors
from postgrad.beliefs import (
    DirichletProcess,
    Gamma,
    Gaussian,
    Grid,
    Langevin,
    MaximumLikelihood,
    Mixture,
    Particles,
    PosteriorMean,
    Regression,
    Separate,
    Thompson,
)
from postgrad.numerics.fixed import fixed_leaves

pytestmark = pytest.mark.sample(14, of="time")


def particles():
    return Particles(dist.Normal(3.0, 2.0), 100, forget=0.7)


CASES = [
    (Grid(POINTS, PRIOR, forget=0.8), normal),
    (MaximumLikelihood(POINTS, forget=0.8), normal),
    (Gamma(2.0, 0.5, forget=0.8), poisson),
    (DirichletProcess(dist.Poisson(4.0), 2.0, capacity=32, forget=0.8), counted),
    (PosteriorMean(Gamma(2.0, 0.5, forget=0.8)), poisson),
    (Thompson(Gamma(2.0, 0.5, forget=0.8)), poisson),
    (Separate(Grid(POINTS, PRIOR, forget=0.8), 2), pg.Items(normal)),
    (Mixture([Grid(POINTS, PRIOR, forget=r) for r in (1.0, 0.8, 0.5)], discount=0.7), normal),
    (bound(lambda: Gaussian(4.0, 3.0, forget=0.8), normal), normal),
    (bound(particles, student), student),
    (bound(particles, normal), normal),
    (bound(lambda: Langevin(dist.Normal(3.0, 2.0), 50, forget=0.7), normal), normal),
]


@pytest.fixture
def belief(request):
    made = request.param
    return made if isinstance(made, pg.beliefs.Belief) else made()


@eqx.filter_jit
def advance(belief, elapsed):
    return belief.advance(elapsed)


@pytest.mark.parametrize(("belief", "model"), CASES, indirect=["belief"])
def test_time_that_passes_adds_up(belief, model):
    """In one step or in two; no time changes nothing, and the prior does not fade."""
    learned = learn(belief, model, batches(belief, model))
    assert_same(advance(learned, 0.0), learned, 1e-14)
    later = advance(learned, 2.5)
    assert_same(advance(advance(learned, 1.5), 1.0), later)
    assert later.effective_size < learned.effective_size
    assert jax.tree.map(jax.typeof, later) == jax.tree.map(jax.typeof, belief)
    marks = fixed_leaves(belief)
    assert eqx.tree_equal(*(eqx.filter(b, marks) for b in (belief, later)))


@pytest.mark.parametrize(("belief", "model"), CASES[:8], indirect=["belief"])
def test_learning_itself_lets_no_time_pass(belief, model):
    """So rows that come at one time may come in any order, and in one batch or several."""
    (x, batch), *_ = data = batches(belief, model, size=4)
    before = advance(learn(belief, model, data), 2.0)
    rows = [(x, batch[i : i + 1]) for i in range(4)]
    learned = learn(before, model, rows)
    assert_same(learned, learn(before, model, rows[::-1]))
    if not isinstance(belief, Mixture):  # the rows of a batch are predicted independently
        assert_same(learned, learn(before, model, [(x, batch)]))


# Of a regression the terms say what moves: see test_regression.py.
WITHOUT = [case for case in ALL if not issubclass(case[0], Mixture | Regression)]


@pytest.mark.parametrize(
    ("kind", "belief", "model"), first_of_each(WITHOUT, lambda kind, *_: kind), indirect=["belief"]
)
def test_nothing_is_computed_where_nothing_is_forgotten(kind, belief, model):
    del kind, model
    assert jax.make_jaxpr(lambda b: b.advance(2.0))(belief).eqns == []


def squared(x, xi):
    return (x - xi) ** 2


def counts(x, theta):
    return dist.Poisson(theta)


def test_a_batch_is_foreseen_after_the_time_that_has_passed():
    """By the law of Gamma-Poisson, three units of time after the last batch."""
    algorithm = pg.BayesianSGD(
        pg.Problem(squared, counts, pg.feasible.Box(0.1, 99.0)), **pg.presets.paper()
    )
    step = eqx.filter_jit(algorithm.step)
    state = algorithm.init(Gamma(2.0, 0.5, forget=0.8), 1.0)
    state, _ = step(state, jnp.asarray([7.0, 9.0]), elapsed=5.0)
    after, info = step(state, jnp.asarray([3.0]), elapsed=3.0)
    share = 0.8**3
    belief = Gamma(2.0 + share * 16.0, 0.5 + share * 2.0)
    expected = belief.log_mixture(counts, state.decision, jnp.asarray(3.0))
    assert info.log_predictive[0] == pytest.approx(float(expected))
    assert after.belief.concentration == pytest.approx(5.0 + share * 16.0)
    assert after.belief.effective_size == pytest.approx(1.0 + 2.0 * share)
    once, _ = step(state, jnp.asarray([3.0]))
    same, _ = step(state, jnp.asarray([3.0]), elapsed=1.0)
    late, _ = step(state, jnp.asarray([3.0]), elapsed=0)
    assert eqx.tree_equal(once.belief, same.belief)
    assert late.belief.effective_size == pytest.approx(3.0)


@pytest.mark.parametrize("elapsed", [-1.0, float("nan"), "a day", [1.0, 2.0]])
def test_times_that_are_none_are_refused(elapsed):
    algorithm = pg.BayesianSGD(
        pg.Problem(squared, counts, pg.feasible.Box(0.1, 99.0)), **pg.presets.paper()
    )
    state = algorithm.init(Gamma(2.0, 0.5, forget=0.8), 1.0)
    with pytest.raises(errors.SettingError, match="elapsed must be"):
        algorithm.step(state, jnp.asarray([3.0]), elapsed=elapsed)

"""A belief that learns how fast the world changes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.belief import member_axes
from postgrad.problem.batch import Batch

RATES = (1.0, 0.9, 0.5)
SIZES = [(4, 5), ()]


def poisson(x, theta):
    return dist.Poisson(theta)


def learn(belief, data):
    return learn_all(belief, np.asarray(data, float))


@eqx.filter_jit
def learn_all(belief, data):
    def one(belief, y):
        return belief.update(poisson, jnp.zeros(()), y[None]), None

    return jax.lax.scan(one, belief, data)[0]


@eqx.filter_jit
def foresee(belief, ys):
    """log f_hat of each row."""
    return jax.vmap(lambda y: belief.log_mixture(poisson, jnp.zeros(()), y))(ys)


@eqx.filter_jit
def update(belief, batch):
    return belief.update(poisson, batch.x, batch.y, batch.weight)


@eqx.filter_jit
def foresee_and_update(belief, batch):
    return belief.predict_and_update(poisson, batch)


def test_rates_are_weighed_by_what_they_foresaw():
    """Gamma-Poisson predictions in closed form, with a past that fades."""
    data = [3, 4, 2, 9, 11, 10]
    learned = learn(pg.beliefs.Adaptive(pg.beliefs.Gamma(2.0, 0.5, forget=1.0), RATES), data)
    logs = []
    for rate in RATES:
        total = count = gained = 0.0
        for y in data:
            shape, inverse = 2.0 + total, 0.5 + count
            gained += stats.nbinom.logpmf(y, shape, inverse / (inverse + 1.0))
            total, count = rate * total + y, rate * count + 1.0
        logs.append(gained)
    expected = np.exp(logs - np.max(logs))
    np.testing.assert_allclose(learned.probabilities, expected / expected.sum(), rtol=1e-9)
    np.testing.assert_array_equal(learned.rates, RATES)


def test_the_world_tells_how_fast_it_changes():
    rng = np.random.default_rng(0)
    still = rng.poisson(10.0, 300)
    moving = rng.poisson(np.where(np.arange(300) // 20 % 2, 4.0, 20.0))
    belief = pg.beliefs.Adaptive(pg.beliefs.Gamma(2.0, 0.2, forget=1.0), RATES)
    assert learn(belief, still).probabilities[0] > 0.9
    assert learn(belief, moving).probabilities[0] < 1e-6


def test_one_rate_is_that_belief():
    data = [3.0, 4.0, 2.0]
    alone = learn(pg.beliefs.Gamma(2.0, 0.5, forget=0.8), data)
    among = learn(pg.beliefs.Adaptive(pg.beliefs.Gamma(2.0, 0.5, forget=1.0), (0.8,)), data)
    y = np.array([4.0])
    np.testing.assert_allclose(foresee(among, y), foresee(alone, y), rtol=1e-12)
    assert among.effective_size == pytest.approx(float(alone.effective_size))


@pytest.mark.parametrize(
    ("belief", "rates", "words"),
    [
        (pg.beliefs.Gamma(2.0, 0.5), RATES, "forget=1.0"),
        (pg.beliefs.Known(2.0), RATES, "forget=1.0"),
        (pg.beliefs.Gamma(2.0, 0.5, forget=1.0), (), "rates"),
        (pg.beliefs.Gamma(2.0, 0.5, forget=1.0), (0.5, 1.5), "rates"),
    ],
)
def test_bad_settings_are_refused(belief, rates, words):
    with pytest.raises(errors.PriorError, match=words):
        pg.beliefs.Adaptive(belief, rates)


@pytest.mark.parametrize("rows", [3, 1500])
@pytest.mark.parametrize(
    "belief",
    [pg.beliefs.Gamma(2.0, 0.5, forget=1.0), pg.beliefs.Grid(np.arange(1.0, 200.0), forget=1.0)],
)
def test_what_is_foreseen_is_what_was_believed_before(belief, rows):
    """Learned and foreseen at once is the same as one after the other, member by member."""
    y = np.random.default_rng(0).poisson(9.0, rows).astype(float)
    weight = np.asarray(np.arange(rows) % 3 != 1, float)
    batch = Batch(jnp.zeros(()), jnp.asarray(y), jnp.asarray(weight))
    before = learn(pg.beliefs.Adaptive(belief, RATES), [7, 12, 4])
    after, foreseen = foresee_and_update(before, batch)
    np.testing.assert_allclose(foreseen, foresee(before, y), rtol=1e-12)
    logs = np.array(before.log_weights)
    for r, rate in enumerate(RATES):
        alone = learn(eqx.tree_at(lambda b: b.memory.forget, belief, jnp.asarray(rate)), [7, 12, 4])
        logs[r] += np.asarray(foresee(alone, y)) @ weight
        alone = update(alone, batch)
        member = jax.tree.map(
            lambda leaf, axis, r=r: leaf if axis is None else np.asarray(leaf)[r],
            after.beliefs,
            member_axes(after.beliefs),
        )
        for one, other in zip(jax.tree.leaves(member), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.log_weights, logs - logs.max(), rtol=1e-9, atol=1e-9)


def test_draws_are_those_of_the_members():
    """As many from each as its weight says, and each the member's own with the same key."""
    grid = pg.beliefs.Grid(np.arange(1.0, 200.0), forget=1.0)
    belief = learn(pg.beliefs.Adaptive(grid, RATES), [7, 12, 4, 30, 33])
    which = jnp.asarray(np.random.default_rng(0).integers(0, 3, 400))

    @eqx.filter_jit
    def draws(belief):
        members = belief.beliefs
        one_by_one = super(pg.beliefs.Grid, members).sample_among(which, jax.random.key(1))
        return members.sample_among(which, jax.random.key(1)), one_by_one

    np.testing.assert_array_equal(*draws(belief))
    shapes = eqx.filter_eval_shape(lambda: [belief.sample(jax.random.key(2), n) for n in SIZES])
    assert [drawn.shape for drawn in shapes] == SIZES

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


def poisson(x, theta):
    return dist.Poisson(theta)


def learn(belief, data):
    def one(belief, y):
        return belief.update(poisson, jnp.zeros(()), y[None]), None

    return jax.jit(lambda b, y: jax.lax.scan(one, b, y)[0])(belief, jnp.asarray(data, float))


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
    y = jnp.asarray(4.0)
    assert among.log_mixture(poisson, jnp.zeros(()), y) == pytest.approx(
        float(alone.log_mixture(poisson, jnp.zeros(()), y)), rel=1e-12
    )
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
    y = jnp.asarray(np.random.default_rng(0).poisson(9.0, rows).astype(float))
    weight, x = jnp.asarray(np.arange(rows) % 3 != 1, float), jnp.zeros(())
    before = learn(pg.beliefs.Adaptive(belief, RATES), [7, 12, 4])
    both = jax.jit(lambda b: b.predict_and_update(poisson, Batch(x, y, weight)))
    after, foreseen = both(before)
    stated = jax.vmap(lambda y: before.log_mixture(poisson, x, y))(y)
    np.testing.assert_allclose(foreseen, stated, rtol=1e-12)
    logs = np.array(before.log_weights)
    for r, rate in enumerate(RATES):
        alone = learn(eqx.tree_at(lambda b: b.memory.forget, belief, jnp.asarray(rate)), [7, 12, 4])
        log_f = jax.vmap(lambda y, b=alone: b.log_mixture(poisson, x, y))(y)
        logs[r] += np.asarray(log_f) @ np.asarray(weight)
        alone = alone.update(poisson, x, y, weight)
        member = jax.tree.map(
            lambda leaf, axis, r=r: leaf if axis is None else leaf[r],
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
    drawn = belief.beliefs.sample_among(which, jax.random.key(1))
    one_by_one = super(pg.beliefs.Grid, belief.beliefs).sample_among(which, jax.random.key(1))
    np.testing.assert_array_equal(drawn, one_by_one)
    assert belief.sample(jax.random.key(2), (4, 5)).shape == (4, 5)
    assert belief.sample(jax.random.key(2)).shape == ()

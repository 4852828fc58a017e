"""A belief that learns how fast the world changes."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import postgrad as pg
from postgrad import errors

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

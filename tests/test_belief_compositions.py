"""Beliefs made from beliefs: the posterior mean, and Thompson's single draw."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.research.problems import quadratic

DEPENDENT = quadratic.univariate_dependent()
PSI = np.asarray([[4.0, 1.0], [1.0, 3.0]])
SCALE = stats.invgamma(4.0, scale=3.0).expect(np.sqrt)
# beliefs with their mean, from elsewhere
BELIEFS = {
    "grid": (pg.beliefs.Grid([1.0, 2.0, 4.0], [1.0, 1.0, 2.0]), 2.75),
    "normal": (pg.beliefs.Normal(3.0, 2.0), 3.0),
    "gamma": (pg.beliefs.Gamma(2.0, 0.5), stats.gamma(2.0, scale=2.0).mean()),
    "inverse gamma": (pg.beliefs.InverseGamma(3.0, 8.0), stats.invgamma(3.0, scale=8.0).mean()),
    "beta": (pg.beliefs.Beta(2.0, 3.0), stats.beta(2.0, 3.0).mean()),
    "dirichlet": (pg.beliefs.Dirichlet([1.0, 2.0, 0.5]), stats.dirichlet([1.0, 2.0, 0.5]).mean()),
    "scale": (pg.beliefs.NormalInverseGamma(3.0, 0.5, 4.0, 3.0), {"mean": 3.0, "scale": SCALE}),
    "covariance": (
        pg.beliefs.NormalInverseWishart([1.0, -1.0], 2.0, 9.0, PSI),
        {"covariance": stats.invwishart(9.0, PSI).mean(), "mean": [1.0, -1.0]},
    ),
    "gaussian": (pg.beliefs.Gaussian(4.0, 3.0), 4.0),
    "known": (pg.beliefs.Known(4.0), 4.0),
}


@pytest.mark.parametrize("name", BELIEFS)
def test_posterior_mean_in_closed_form(name):
    belief, exact = BELIEFS[name]
    got = pg.beliefs.PosteriorMean(belief).theta
    leaves = jax.tree.leaves(exact, is_leaf=lambda node: isinstance(node, list))
    for a, b in zip(jax.tree.leaves(got), leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize(
    "belief",
    [
        pg.beliefs.Particles(dist.Normal(3.0, 2.0), 400),
        pg.beliefs.Langevin(dist.Normal(3.0, 2.0), 400),
    ],
)
def test_posterior_mean_by_draws(belief):
    mean = pg.beliefs.PosteriorMean(belief).theta
    assert float(mean) == pytest.approx(3.0, abs=5 * 2.0 / np.sqrt(256))
    assert float(mean) != 3.0


def test_thompson_draws_once_a_stage():
    problem, belief = DEPENDENT.problem, pg.beliefs.Thompson(pg.beliefs.Grid(DEPENDENT.points))
    x, batch = jnp.asarray(0.0), jnp.asarray([6.0])
    update = jax.jit(lambda key: belief.update(problem.model, x, batch, None, key))
    learned = [update(random.key(i)) for i in range(300)]
    draws = np.asarray([b.theta for b in learned])
    again = learned[0].sample(random.key(99), (5,))
    assert np.all(again == draws[0])
    exact = learned[0].belief.probabilities
    mean = float(exact @ DEPENDENT.points)
    assert draws.mean() == pytest.approx(mean, abs=5 * draws.std() / np.sqrt(300))
    with pytest.raises(errors.SettingError, match="key"):
        belief.update(problem.model, x, batch)


@pytest.mark.parametrize("kind", [pg.beliefs.Thompson, pg.beliefs.PosteriorMean])
def test_compositions_need_a_belief(kind):
    with pytest.raises(errors.PriorError):
        kind(3.0)

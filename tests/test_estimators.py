"""On every problem of the testbed, all unbiased estimators of the gradient agree."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

import postgrad as pg
from postgrad.errors import GradientError
from postgrad.research.problems import testbed as problems

DRAWS = 4096
ESTIMATORS = (
    pg.gradients.Pathwise(),
    pg.gradients.Score(),
    pg.gradients.MixtureScore(),
    pg.gradients.Enumerate(),
)


@eqx.filter_jit
def estimates(estimator, problem, belief, x, baseline):
    keys = random.split(random.key(7), (2, DRAWS))
    thetas = jax.vmap(belief.sample)(keys[0])

    def one(theta, key):
        return estimator.estimate(problem, x, pg.gradients.Sample(theta, key, belief, baseline))

    return jax.vmap(one)(thetas, keys[1])


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", list(problems()))
def test_estimators_agree(name):
    instance = problems()[name]()
    large = jax.tree.leaves(instance.points)[0].shape[0] > 4096
    belief = pg.beliefs.Known(instance.theta) if large else instance.belief
    # Between the first decision and the best one: inside the feasible set, and no minimum.
    x = 0.5 * (instance.x + instance.x_star)
    theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
    belief = belief.bind(instance.problem, x)
    baseline = instance.expected_cost(x)  # far less noise, and no other mean
    found = {}
    for estimator in ESTIMATORS:
        try:
            estimator.check(instance.problem, x, theta)
        except GradientError:
            continue
        draws = np.asarray(estimates(estimator, instance.problem, belief, x, baseline))
        found[type(estimator).__name__] = (
            draws.mean(axis=0),
            draws.std(axis=0, ddof=1) / np.sqrt(DRAWS),
        )
    assert len(found) >= 2
    (reference, error), *others = found.values()
    for mean, se in others:
        np.testing.assert_array_less(
            np.abs(mean - reference), 4.5 * np.sqrt(se**2 + error**2) + 1e-9, str(found)
        )
    assert jnp.all(jnp.isfinite(reference))

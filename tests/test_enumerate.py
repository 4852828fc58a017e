"""The sum over all values: exact, and refused where there are too many of them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from looking import noise, read_at

import postgrad as pg
from postgrad import errors
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas

TRIALS = 6  # (model, its probabilities in plain NumPy); the decision moves them all


def chance(x, theta):
    return 1.0 / (1.0 + np.exp(x - theta))


def bernoulli(x, theta):
    p = chance(x, theta)
    return np.asarray([1 - p, p])


def binomial(x, theta):
    p, weight = chance(x, theta), [1, 6, 15, 20, 15, 6, 1]
    return np.asarray([w * p**k * (1 - p) ** (TRIALS - k) for k, w in enumerate(weight)])


MODELS = {
    "Bernoulli": (lambda x, theta: dist.Bernoulli(logits=theta - x), bernoulli),
    "Bernoulli, probs": (
        lambda x, theta: dist.Bernoulli(probs=jax.nn.sigmoid(theta - x)),
        bernoulli,
    ),
    "Binomial": (lambda x, theta: dist.Binomial(TRIALS, logits=theta - x), binomial),
    "Categorical": (
        lambda x, theta: dist.Categorical(logits=jnp.stack([x - theta, jnp.zeros_like(x)])),
        bernoulli,
    ),
}


def cost(x, xi):
    """A fee from two sales on: it jumps in xi, where a derivative along paths would see nothing."""
    return x**2 - x * xi + 3.0 * (xi >= 2) + 0.7 * (xi == 0)


def expected(law, x, theta, power=1):
    return sum(p * float(cost(x, k)) ** power for k, p in enumerate(law(x, theta)))


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_exact(name):
    model, law = MODELS[name]
    problem, x, theta, step = pg.Problem(cost, model), 0.8, 0.3, 1e-5
    exact = (expected(law, x + step, theta) - expected(law, x - step, theta)) / (2 * step)

    @jax.jit
    def look(x, theta, seed):
        gradients = (pg.gradients.Enumerate(), pg.gradients.Automatic())
        arguments = (problem, x, pg.gradients.Sample(theta, random.key(seed)))
        surrogates = [gradient.surrogate(*arguments) for gradient in gradients]
        return [gradient.estimate(*arguments) for gradient in gradients], surrogates

    for seed in (0, 1):
        estimates, surrogates = look(jnp.asarray(x), jnp.asarray(theta), seed)
        np.testing.assert_allclose(estimates, exact, atol=1e-8)
        for value, mean in surrogates:
            np.testing.assert_allclose([value, mean], expected(law, x, theta), atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [
        lambda x, theta: dist.Poisson(theta + x),
        lambda x, theta: dist.Geometric(logits=theta - x),
        lambda x, theta: dist.Normal(theta + x, 1.0),
        lambda x, theta: dist.Bernoulli(logits=jnp.stack([theta, x])).to_event(1),
    ],
    ids=["Poisson", "Geometric", "Normal", "two coordinates"],
)
def test_endless_values_are_refused(model):
    problem = pg.Problem(lambda x, xi: jnp.sum(x * xi), model)
    with pytest.raises(errors.GradientError, match="finitely many values"):
        pg.gradients.Enumerate().check(problem, jnp.asarray(1.0), jnp.asarray(2.0))


def test_an_algorithm_asks_before_it_starts():
    problem = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Normal(theta + x, 1.0))
    with pytest.raises(errors.GradientError, match="finitely many values"):
        pg.BayesianSGD(problem, pg.gradients.Enumerate()).init(pg.beliefs.Known(2.0), 1.0)


def test_automatic_sums_over_few_values_only():
    x, theta = jnp.asarray(1.0), jnp.asarray(0.5)
    for trials, chosen in ((255, pg.gradients.Enumerate), (256, pg.gradients.Score)):
        problem = pg.Problem(
            lambda x, xi: x * xi, lambda x, theta, n=trials: dist.Binomial(n, logits=theta - x)
        )
        assert type(pg.gradients.Automatic().choice(problem, x, theta)) is chosen


def test_a_stage_with_a_sum_has_no_noise_of_xi():
    """All that differs between draws of theta is theta: one of them, and the slope is exact."""
    problem = pg.Problem(cost, MODELS["Binomial"][0])
    objective = SampledObjective(problem, pg.gradients.Automatic(), pg.risks.Mean(), None)
    belief = pg.beliefs.Known(0.3)
    x, step = jnp.asarray(0.8), 1e-5

    @jax.jit
    def look(key):
        reading = read_at(objective, draw_thetas(belief, key, 8), key, 2, x)
        return reading.gradients, noise(objective, reading)

    gradients, error = look(random.key(0))
    exact = (expected(binomial, 0.8 + step, 0.3) - expected(binomial, 0.8 - step, 0.3)) / (2 * step)
    np.testing.assert_allclose(gradients, exact, atol=1e-8)
    np.testing.assert_allclose(error, 0.0, atol=1e-12)

"""For which models a Gaussian belief is exact, and which models and priors it refuses."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from test_gaussian import bernoulli, bound, linear, poisson

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.gaussian.gaussian import Gaussian

MODELS = {
    "linear": (linear, True),
    "expanded": (lambda x, t: dist.Normal(t["base"], 1.0).expand((2,)).to_event(1), True),
    "noise by decision": (lambda x, t: dist.Normal(t["base"] * x, 1.0 + x**2), True),
    "noise by theta": (lambda x, t: dist.Normal(t["base"], jnp.exp(t["slope"])), False),
    "bent": (lambda x, t: dist.Normal(t["base"] + 1e-4 * t["slope"] ** 2, 1.0), False),
    "bent far away": (lambda x, t: dist.Normal(jnp.maximum(t["base"], -50.0), 1.0), False),
    "bent at some x": (
        lambda x, t: dist.Normal(t["base"] + jnp.maximum(x - 1, 0) * t["slope"] ** 2, 1.0),
        False,
    ),
    "heavy tails": (lambda x, t: dist.StudentT(4.0, t["base"], 1.0), False),
    "poisson": (poisson, False),
    "bernoulli": (bernoulli, False),
}


@pytest.mark.parametrize("name", MODELS)
def test_belief_says_whether_it_is_exact(name):
    model, exact = MODELS[name]
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 0.5), model)
    assert belief.exact is exact
    assert f"exact={exact}" in repr(belief)


def test_both_the_model_and_the_observation_count():
    prior = Gaussian({"base": 1.0, "slope": 0.5}, 0.5)
    assert bound(prior, linear, observation=linear).exact
    assert not bound(prior, linear, observation=poisson).exact
    assert not bound(prior, poisson, observation=linear).exact


WRONG = {
    "support by theta": (lambda x, t: dist.Uniform(0.0, jnp.exp(t)), "support"),
    "steps": (lambda x, t: dist.Normal(jnp.round(t), 1.0), "differentiable"),
    "a corner": (lambda x, t: dist.Laplace(t, 1.0), "curvature"),
    "no theta": (lambda x, t: dist.Normal(x, 1.0), "depends on it"),
    "not a number": (
        lambda x, t: dist.Normal(jnp.sqrt(jnp.abs(t) ** 3 - t**3), 1.0),
        "not numbers",
    ),
    "improper": (lambda x, t: dist.Poisson(t), "proper"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_models_are_refused(name):
    model, words = WRONG[name]
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, model)
    with pytest.raises(errors.ModelError, match=words):
        pg.Agent(problem, Gaussian(0.0, 1.0), 1.0)


def test_exact_one_refuses_another_model_later():
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 0.5), linear)
    with pytest.raises(errors.ModelError, match="normal model, but got Poisson"):
        belief.update(poisson, jnp.asarray(1.0), jnp.ones(1))


BAD = {
    "neither": ({}, "either scale or covariance"),
    "both": ({"scale": 1.0, "covariance_matrix": np.eye(2)}, "not both"),
    "zero": ({"scale": 0.0}, "positive"),
    "negative": ({"scale": [1.0, -1.0]}, "positive"),
    "not finite": ({"scale": np.nan}, "finite"),
    "too narrow": ({"scale": 1e-200}, "narrow"),
    "shape": ({"scale": [1.0, 1.0, 1.0]}, "shape"),
    "structure": ({"scale": {"a": 1.0}}, "made like loc"),
    "not square": ({"covariance_matrix": np.ones((2, 3))}, "2 rows"),
    "a number": ({"covariance_matrix": 1.0}, "2 rows"),
    "not symmetric": ({"covariance_matrix": [[1.0, 0.2], [0.1, 1.0]]}, "symmetric"),
    "indefinite": ({"covariance_matrix": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
    "singular": ({"covariance_matrix": [[1.0, 1.0], [1.0, 1.0]]}, "positive definite"),
    "no numbers": ({"covariance_matrix": [["a", "b"], ["c", "d"]]}, "real numbers"),
    "forget": ({"scale": 1.0, "forget": 1.5}, "forget"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_priors_are_refused(name):
    options, words = BAD[name]
    with pytest.raises(errors.PriorError, match=words):
        Gaussian([0.0, 1.0], **options)


@pytest.mark.parametrize("mean", [{}, [], [np.nan], ["a"], None, {"a": True}])
def test_bad_means_are_refused(mean):
    with pytest.raises(errors.PriorError):
        Gaussian(mean, 1.0)

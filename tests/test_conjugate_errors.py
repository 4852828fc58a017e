"""Conjugate beliefs refuse wrong models, bad priors and impossible data, by name."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from test_conjugate import X, problem

import postgrad as pg
from postgrad import errors


@pytest.mark.parametrize(
    ("belief", "model", "message"),
    [
        (
            pg.beliefs.Beta(1.0, 1.0),
            lambda x, t: dist.Poisson(t),
            "Beta .* but the model is Poisson",
        ),
        (
            pg.beliefs.Gamma(1.0, 1.0),
            lambda x, t: dist.Normal(t, 1.0),
            "Gamma .* but the model is Normal",
        ),
        (pg.beliefs.Normal(0.0, 1.0), lambda x, t: dist.StudentT(3.0, t, 1.0), "model is StudentT"),
        (pg.beliefs.Normal(0.0, 1.0), lambda x, t: dist.Normal(t**2, 1.0), "another function"),
        (
            pg.beliefs.Normal(0.0, 1.0),
            lambda x, t: dist.Normal(t, 0.5 + jnp.abs(t)),
            "another function",
        ),
        (
            pg.beliefs.Normal([0.0, 1.0], 1.0),
            lambda x, t: dist.Normal(t.sum(), 1.0),
            "another|read",
        ),
        (pg.beliefs.Gamma(1.0, 1.0), lambda x, t: dist.Exponential(1.0 / t), "another function"),
        (pg.beliefs.InverseGamma(1.0, 1.0), lambda x, t: dist.Exponential(t), "another function"),
        (
            pg.beliefs.InverseGamma(2.0, 1.0),
            lambda x, t: dist.Exponential(1 / (x + t)),
            "another function",
        ),
        (pg.beliefs.Gamma(1.0, 1.0), lambda x, t: dist.Poisson(t + x), "another function"),
        (pg.beliefs.Beta(1.0, 1.0), lambda x, t: dist.Bernoulli(t**2), "another function"),
        (
            pg.beliefs.NormalInverseGamma(0.0, 1.0, 1.0, 1.0),
            lambda x, t: dist.Normal(t["mean"], t["scale"] ** 2),
            "another function",
        ),
        (
            pg.beliefs.NormalInverseWishart([0.0, 0.0], 1.0, 3.0, np.eye(2)),
            lambda x, t: dist.MultivariateNormal(
                t["mean"], t["covariance"] + x * jnp.diag(jnp.arange(2.0))
            ),
            "another function",
        ),
    ],
)
def test_a_wrong_pairing_names_both(belief, model, message):
    with pytest.raises(errors.ModelError, match=message):
        belief.bind(problem(model), X)


def test_a_model_right_at_one_decision_alone_is_refused():
    belief = pg.beliefs.Normal(1.0, 1.0)

    def model(x, theta):
        return dist.Normal(theta ** jnp.where(x == 1.5, 1.0, 2.0), 1.0)

    with pytest.raises(errors.ModelError):
        belief.bind(problem(model), X)


@pytest.mark.parametrize(
    "build",
    [
        lambda: pg.beliefs.Normal(0.0, 0.0),
        lambda: pg.beliefs.Normal(0.0, -1.0),
        lambda: pg.beliefs.Normal(np.nan, 1.0),
        lambda: pg.beliefs.Normal([0.0, 1.0], [1.0, 2.0, 3.0]),
        lambda: pg.beliefs.Gamma(0.0, 1.0),
        lambda: pg.beliefs.Gamma(1.0, np.inf),
        lambda: pg.beliefs.Gamma("a", 1.0),
        lambda: pg.beliefs.InverseGamma(1.0, 0.0),
        lambda: pg.beliefs.Beta(-1.0, 1.0),
        lambda: pg.beliefs.Dirichlet([1.0, 0.0]),
        lambda: pg.beliefs.Dirichlet(1.0),
        lambda: pg.beliefs.Dirichlet([1.0]),
        lambda: pg.beliefs.NormalInverseGamma(0.0, 1.0, 0.0, 1.0),
        lambda: pg.beliefs.NormalInverseWishart([0.0, 0.0], 1.0, 3.0, [[1.0, 2.0], [2.0, 1.0]]),
        lambda: pg.beliefs.NormalInverseWishart([0.0, 0.0], 1.0, 3.0, [[1.0, 2.0], [0.0, 1.0]]),
        lambda: pg.beliefs.NormalInverseWishart([0.0, 0.0], 1.0, 1.0, np.eye(2)),
        lambda: pg.beliefs.NormalInverseWishart([0.0, 0.0], 0.0, 3.0, np.eye(2)),
        lambda: pg.beliefs.NormalInverseWishart([0.0, 0.0], 1.0, 3.0, np.eye(3)),
        lambda: pg.beliefs.Normal(0.0, 1.0, forget=0.0),
        lambda: pg.beliefs.Normal(0.0, 1.0, forget=1.1),
        lambda: pg.beliefs.Normal(0.0, 1.0, forget=[0.9, 0.9]),
        lambda: pg.beliefs.FreeMaximumLikelihood(pg.beliefs.Grid([1.0, 2.0])),
    ],
)
def test_bad_priors_are_refused(build):
    with pytest.raises(errors.PriorError):
        build()


def poisson(x, theta):
    return dist.Poisson(theta * x)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("belief", "model", "bad", "row"),
    [
        (pg.beliefs.Gamma(2.0, 1.0), poisson, [1.0, -1.0], 1),
        (pg.beliefs.Gamma(2.0, 1.0), poisson, [2.5, 2.0], 0),
        (pg.beliefs.Beta(2.0, 1.0), lambda x, t: dist.Bernoulli(t), [0.0, 1.0, 2.0], 2),
        (pg.beliefs.Dirichlet([1.0, 1.0, 1.0]), lambda x, t: dist.Categorical(t), [0.0, 3.0], 1),
        (pg.beliefs.Normal(0.0, 1.0), lambda x, t: dist.LogNormal(t, 1.0), [0.5, 0.0], 1),
    ],
)
def test_data_outside_the_support_are_refused_and_nothing_changes(belief, model, bad, row):
    agent = pg.Agent(problem(model), belief, 1.5, **pg.presets.paper())
    before = agent.state
    with pytest.raises(errors.SupportError, match=f"row {row}"):
        agent.observe(bad)
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(agent.state), strict=True):
        assert np.array_equal(old, new)


def test_one_theta_for_several_coordinates_is_refused_at_once():
    problem = pg.Problem(
        lambda x, xi: jnp.sum((x - xi) ** 2),
        lambda x, theta: dist.Normal(theta * jnp.ones(2), 1.0).to_event(1),
        pg.feasible.Box(-5.0, 5.0),
    )
    with pytest.raises(pg.errors.ModelError, match=r"shape \(2,\).*shape \(\)"):
        pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), np.ones(2))

"""The laws of gradient estimators, and the paper's two lemmas of unbiasedness."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from rooms import members

import postgrad as pg
from postgrad import errors
from postgrad.problems import quadratic

DRAWS = 200_000

# (instance, H(x, theta) in closed form, x)
PROBLEMS = {
    "1d-independent": (
        quadratic.univariate_independent(),
        lambda x, theta: (x - 5) ** 2 + 0.5 * theta * x,
        jnp.asarray(1.7),
    ),
    "2d-independent": (
        quadratic.multivariate_independent(),
        lambda x, theta: (x[0] - 1) ** 2 + (x[1] - 2) ** 2 + theta * (x[0] + x[1]),
        jnp.asarray([0.5, -1.2]),
    ),
    "1d-dependent": (
        quadratic.univariate_dependent(),
        lambda x, theta: (x - 5) ** 2 + 0.5 * (x + theta) * x,
        jnp.asarray(1.7),
    ),
    "2d-dependent": (
        quadratic.multivariate_dependent(),
        lambda x, theta: (x[0] - 1) ** 2 + (x[1] - 2) ** 2 + (x[0] - x[1]) ** 2 + theta,
        jnp.asarray([0.5, 1.9]),
    ),
}
GRADIENTS = members("postgrad.gradients", pg.Gradient)


def finite_difference(average, x, step=1e-4):
    flat = x.reshape(-1)
    moves = step * jnp.eye(flat.size)
    ahead = jnp.stack([average((flat + move).reshape(x.shape)) for move in moves])
    behind = jnp.stack([average((flat - move).reshape(x.shape)) for move in moves])
    return ((ahead - behind) / (2 * step)).reshape(x.shape)


def posterior(instance):
    """A belief with several live points: a prior that is not flat, and one batch."""
    n = instance.points.shape[0]
    prior = pg.Grid(instance.points, jnp.linspace(2.0, 1.0, n))
    return prior.update(instance.problem.likelihood, instance.x, jnp.asarray([6.0, 3.0]))


def mean_and_error(gradient, instance, belief, x, draws=DRAWS):
    def one(key):
        k1, k2 = random.split(key)
        return gradient.estimate(instance.problem, belief, x, belief.sample(k1), k2)

    values = np.asarray(jax.jit(jax.vmap(one))(random.split(random.key(0), draws)))
    # where the cost's own gradient does not know xi, Partial has no noise at all
    return values.mean(0), np.maximum(values.std(0) / np.sqrt(draws), 1e-9)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("member", GRADIENTS, ids=lambda member: member.__name__)
def test_mean_is_the_gradient_of_the_bayesian_average(member, name):
    instance, cost, x = PROBLEMS[name]
    belief = posterior(instance)
    exact = finite_difference(
        lambda x: jnp.dot(belief.probabilities, jax.vmap(lambda t: cost(x, t))(belief.points)), x
    )
    mean, error = mean_and_error(member(), instance, belief, x)
    distance = np.max(np.abs(mean - exact) / error)
    dependent = "-dependent" in name
    if member.unbiased or not dependent:
        assert distance < 4.5
    else:
        assert distance > 20  # it says that it is biased, and it is


@pytest.mark.parametrize("name", PROBLEMS)
def test_mixture_score_has_less_noise_than_the_score(name):
    instance, _, x = PROBLEMS[name]
    belief = posterior(instance)
    errors_of = {
        g: mean_and_error(g(), instance, belief, x)[1] for g in (pg.MixtureScore, pg.Score)
    }
    assert np.all(errors_of[pg.MixtureScore] <= errors_of[pg.Score] * 1.01)


def test_pathwise_refuses_what_it_cannot_differentiate():
    counts = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Poisson(theta * x))
    x, theta = jnp.asarray(1.0), jnp.asarray(2.0)
    with pytest.raises(errors.GradientError, match="Poisson"):
        pg.Pathwise().check(counts, x, theta)
    exogenous = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Poisson(theta))
    pg.Pathwise().check(exogenous, x, theta)  # x does not matter to xi: nothing is lost


def test_automatic_falls_back_to_the_score_for_counts():
    """d/dx E[x xi] = 2 theta x for xi ~ Poisson(theta x): pathwise alone would give half of it."""
    problem = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Poisson(theta * x))
    instance = type("Counts", (), {"problem": problem})
    mean, error = mean_and_error(pg.Automatic(), instance, pg.Known(2.0), jnp.asarray(3.0))
    assert abs(mean - 12.0) < 4.5 * error


def test_automatic_is_pathwise_where_it_can_be():
    instance, _, x = PROBLEMS["1d-dependent"]
    arguments = (instance.problem, pg.Grid(instance.points), x, jnp.asarray(4.0), random.key(5))
    assert pg.Automatic().estimate(*arguments) == pg.Pathwise().estimate(*arguments)
    assert pg.Automatic().estimate(*arguments) != pg.Score().estimate(*arguments)


def test_scores_refuse_a_support_that_moves():
    """d/dx E xi = 1/2 for xi uniform on [0, x + theta]; a score would say -1/2."""
    problem = pg.Problem(lambda x, xi: xi, lambda x, theta: dist.Uniform(0.0, x + theta))
    x, theta = jnp.asarray(2.0), jnp.asarray(1.0)
    for gradient in (pg.Score(), pg.MixtureScore()):
        with pytest.raises(errors.GradientError, match="support"):
            gradient.check(problem, x, theta)
    pg.Automatic().check(problem, x, theta)
    instance = type("Moving", (), {"problem": problem})
    mean, error = mean_and_error(pg.Automatic(), instance, pg.Known(1.0), x)
    assert abs(mean - 0.5) < 4.5 * error

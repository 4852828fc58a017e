"""Models that beliefs are tried on, each of a decision x and of theta."""

import jax.numpy as jnp
import numpyro.distributions as dist

import postgrad as pg
from postgrad.problem.contexts import InContext


def normal(x, theta):
    return dist.Normal(theta + 0.5 * x, 2.0)


def exponential(x, theta):
    return dist.Exponential(1.0 / (theta * (1.0 + x**2)))


def poisson(x, theta):
    return dist.Poisson(theta * (1.0 + x))


def bernoulli(x, theta):
    return dist.Bernoulli(theta)


def mean_and_scale(x, theta):
    return dist.Normal(theta["mean"] + x, theta["scale"])


def binomial(x, theta):
    return dist.Binomial(7 + jnp.floor(x).astype(int), theta)


def geometric(x, theta):
    return dist.Geometric(theta)


def negative_binomial(x, theta):  # as scipy has it: failures before 2.5 + x successes
    return dist.NegativeBinomialProbs(2.5 + x, 1.0 - theta)


def three_coins(x, theta):
    return dist.Bernoulli(theta).to_event(1)


def categorical(x, theta):
    return dist.Categorical(theta)


def multinomial(x, theta):
    return dist.Multinomial(4, theta)


def waiting(x, theta):
    return dist.Exponential(theta * (1.0 + x**2))


def erlang(x, theta):
    return dist.Gamma(2.0 + x, theta / (1.0 + x))


def erlang_of_mean(x, theta):
    return dist.Gamma(2.0 + x, (1.0 + x) / theta)


def two_counts(x, theta):
    return dist.Poisson(theta * jnp.stack([1.0 + x, 2.0])).to_event(1)


def scaled(x, theta):
    return dist.Normal((1.0 + x) * theta - x**2, 1.0 + x)


def lognormal(x, theta):
    return dist.LogNormal(theta + x, 0.5)


def two_normals(x, theta):
    return dist.Normal(theta + x * jnp.asarray([1.0, -1.0]), jnp.asarray([1.0, 2.0])).to_event(1)


def scaled_mean_and_scale(x, theta):
    return dist.Normal((1.0 + x) * theta["mean"] + x**2, (1.0 + x) * theta["scale"])


def lognormal_mean_and_scale(x, theta):
    return dist.LogNormal(theta["mean"] + x, theta["scale"])


def correlated(x, theta):
    return dist.MultivariateNormal(theta["mean"] + x, (1.0 + x) ** 2 * theta["covariance"])


def student(x, theta):
    return dist.StudentT(5.0, theta + x, 2.0)


def counted(x, theta):
    return pg.distributions.Atoms(theta["values"] + x, theta["weights"])


def noisier(x, theta):  # a spread that depends on the decision
    return dist.Normal(theta + x, 0.5 + x)


def uniform(x, theta):  # a support that depends on theta
    return dist.Uniform(0.0, theta + x)


# A model of terms, one of which depends on the decision, in a context.
TERMS = pg.models.Predictor(
    level=pg.models.Level(1.0, 2.0),
    weekday=pg.models.Categorical(3),
    price=pg.models.Feature(lambda x, z: x * z["promo"]),
)
REGRESSIONS = [
    (pg.beliefs.Regression(model, scale=0.7), InContext(model, {"weekday": 1, "promo": 0.5}))
    for model in (pg.models.Normal(TERMS), pg.models.LogNormal(TERMS))
]

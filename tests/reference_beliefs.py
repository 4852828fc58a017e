"""Reference cases of beliefs: decisions over six batches, and what the posterior then says."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import random
from reference_case import Cases, Numbers
from reference_parts import (
    BOX,
    COUNTS,
    MANY,
    PAPER,
    POINTS,
    POSITIVE,
    REAL_NUMBERS,
    REALS,
    SPLITS,
    TWO_REALS,
    grid,
    in_batches,
    squared,
    stepped,
)

import postgrad as pg
from postgrad.problem.contexts import InContext

CASES = Cases()
case = CASES.add


def normal(x, theta):
    return dist.Normal(theta + 0.5 * x, 2.0)


def exponential(x, theta):
    return dist.Exponential(1.0 / (theta * (1.0 + 0.1 * x**2)))


def uniform(x, theta):
    return dist.Uniform(0.0, theta)


def poisson(x, theta):
    return dist.Poisson(theta * (1.0 + 0.1 * x))


def binomial(x, theta):
    return dist.Binomial(9, theta)


GROWING = InContext(
    pg.models.Normal(
        pg.models.Predictor(
            level=pg.models.Level(),
            size=pg.models.Numeric(drift=0.1),
            shown=pg.models.Feature(lambda x, z: 0.1 * x),
        )
    ),
    {"size": 0.5},
)


def multinomial(x, theta):
    return dist.Multinomial(4, theta)


def waiting(x, theta):
    return dist.Exponential(theta * (1.0 + 0.1 * x**2))


def lognormal(x, theta):
    return dist.LogNormal(theta + 0.1 * x, 0.5)


def two_normals(x, theta):
    return dist.Normal(theta + x * jnp.asarray([0.5, -0.2]), jnp.asarray([1.0, 2.0])).to_event(1)


def mean_and_scale(x, theta):
    return dist.Normal(theta["mean"] + 0.5 * x, theta["scale"])


def correlated(x, theta):
    return dist.MultivariateNormal(theta["mean"] + 0.2 * x, theta["covariance"])


def student(x, theta):
    return dist.StudentT(5.0, theta + 0.5 * x, 2.0)


def counted(x, theta):
    return pg.distributions.Atoms(theta["values"], theta["weights"])


PRODUCT = pg.beliefs.product_grid(
    {"mean": np.linspace(0.0, 9.0, 71), "scale": np.linspace(0.5, 5.0, 60)}
)


def posterior(belief: pg.beliefs.Belief, likelihood: Any, x: Any, y: Any) -> Numbers:
    """What is believed: moments of draws, the mixture's density at a point, how many data count."""

    @jax.jit
    def summary(belief: pg.beliefs.Belief) -> Numbers:
        draws = jax.tree.leaves(belief.sample(random.key(11), (64,)))
        return {
            "posterior mean": [jnp.mean(leaf, axis=0) for leaf in draws],
            "posterior square": [jnp.mean(leaf**2, axis=0) for leaf in draws],
            "log mixture": belief.log_mixture(likelihood, jnp.asarray(x), jnp.asarray(y)),
            "one over the effective size": 1.0 / belief.effective_size,
        }

    return {
        name: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(value)])
        for name, value in summary(belief).items()
    }


def observed(agent: pg.Agent, batches: list[np.ndarray]) -> Numbers:
    """What an agent decides after each batch, and what it tells about each stage."""
    told: dict[str, list[Any]] = {"decisions": [], "log predictive": [], "gradients": []}
    for batch in batches:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pg.monitoring.MisspecificationWarning)
            told["decisions"].append(agent.observe(batch))
        told["log predictive"].append(jnp.sum(agent.info.log_predictive))
        told["gradients"].append(agent.info.course.gradient)
    return told


def by_agent(
    belief: Callable[[], pg.beliefs.Belief], model: Any, batches: Any, x: Any = 3.0
) -> Numbers:
    """An agent with that belief."""
    problem = pg.Problem(squared, model, BOX)
    agent = pg.Agent(problem, belief(), x, **PAPER)
    told = observed(agent, batches)
    return told | posterior(agent.belief, problem.likelihood, x, batches[0][0])


def by_steps(
    belief: Callable[[], pg.beliefs.Belief], model: Any, batches: Any, x: Any = 3.0
) -> Numbers:
    """The algorithm with that belief, no agent around it."""
    problem = pg.Problem(squared, model, BOX)
    algorithm = pg.BayesianSGD(problem, **PAPER)
    state, told = stepped(algorithm, algorithm.init(belief(), x), batches)
    return told | posterior(state.belief, problem.likelihood, x, batches[0][0])


# By an agent where the agent has work of its own: it pads batches, makes room for kept data and
# looks for the live points of large grids. The others by steps alone, which compile faster.
around_four = dist.Normal(4.0, 2.0)
mean_and_scale_prior = functools.partial(pg.beliefs.NormalInverseGamma, 3.0, 0.5, 2.0, 3.0)

case("beliefs/Grid/normal", by_agent, grid, normal, REALS)
case(
    "beliefs/Grid/sizes", by_agent, grid, normal, in_batches(REAL_NUMBERS, (1, 3, 2, 4, 1, 2, 4, 4))
)
case("beliefs/Grid/uniform", by_steps, grid, uniform, POSITIVE)
case("beliefs/Grid/forgetting", by_steps, lambda: grid(forget=0.9), poisson, COUNTS)
case("beliefs/Grid/5000 points", by_agent, lambda: pg.beliefs.Grid(MANY), exponential, POSITIVE)
case("beliefs/Grid/product", by_steps, lambda: pg.beliefs.Grid(PRODUCT), mean_and_scale, REALS)
case(
    "beliefs/Mixture/normal",
    by_steps,
    lambda: pg.beliefs.Mixture([grid(forget=1.0), grid(forget=0.8)]),
    normal,
    REALS,
)
case("beliefs/Known/normal", by_steps, lambda: pg.beliefs.Known(4.0), normal, REALS)
case(
    "beliefs/MaximumLikelihood/normal",
    by_steps,
    lambda: pg.beliefs.MaximumLikelihood(POINTS),
    normal,
    REALS,
)
case("beliefs/Beta/binomial", by_steps, lambda: pg.beliefs.Beta(2.0, 3.0), binomial, COUNTS)
case(
    "beliefs/Dirichlet/multinomial",
    by_steps,
    lambda: pg.beliefs.Dirichlet([1.0, 2.0, 0.5]),
    multinomial,
    SPLITS,
)
case("beliefs/Gamma/poisson", by_steps, lambda: pg.beliefs.Gamma(2.0, 0.5), poisson, COUNTS)
case(
    "beliefs/Gamma/forgetting",
    by_steps,
    lambda: pg.beliefs.Gamma(2.0, 0.5, forget=0.8),
    waiting,
    POSITIVE,
)
case(
    "beliefs/InverseGamma/exponential",
    by_steps,
    lambda: pg.beliefs.InverseGamma(3.0, 8.0),
    exponential,
    POSITIVE,
)
case("beliefs/Normal/normal", by_agent, lambda: pg.beliefs.Normal(3.0, 2.0), normal, REALS)
case("beliefs/Normal/lognormal", by_steps, lambda: pg.beliefs.Normal(0.5, 0.7), lognormal, POSITIVE)
case(
    "beliefs/Normal/two",
    by_steps,
    lambda: pg.beliefs.Normal([3.0, 1.0], 2.0),
    two_normals,
    TWO_REALS,
)
case("beliefs/NormalInverseGamma/normal", by_steps, mean_and_scale_prior, mean_and_scale, REALS)
case(
    "beliefs/NormalInverseWishart/normal",
    by_steps,
    lambda: pg.beliefs.NormalInverseWishart([4.0, 3.0], 0.5, 4.0, [[2.0, 0.5], [0.5, 1.0]]),
    correlated,
    TWO_REALS,
)
case("beliefs/Gaussian/student", by_steps, lambda: pg.beliefs.Gaussian(4.0, 3.0), student, REALS)
case("beliefs/Gaussian/normal", by_steps, lambda: pg.beliefs.Gaussian(4.0, 3.0), normal, REALS)
case(
    "beliefs/Regression/normal",
    by_steps,
    lambda: pg.beliefs.Regression(GROWING.function, scale=2.0).advance(1.0),
    GROWING,
    REALS,
)
case(
    "beliefs/Particles/student",
    by_agent,
    lambda: pg.beliefs.Particles(around_four, 16),
    student,
    REALS,
)
case(
    "beliefs/Langevin/normal", by_steps, lambda: pg.beliefs.Langevin(around_four, 16), normal, REALS
)
case(
    "beliefs/DirichletProcess/counted",
    by_steps,
    lambda: pg.beliefs.DirichletProcess(dist.Poisson(4.0), 2.0, atoms=32, capacity=32),
    counted,
    COUNTS,
)
case(
    "beliefs/PosteriorMean/grid", by_steps, lambda: pg.beliefs.PosteriorMean(grid()), normal, REALS
)
case(
    "beliefs/PosteriorMean/normal",
    by_steps,
    lambda: pg.beliefs.PosteriorMean(mean_and_scale_prior()),
    mean_and_scale,
    REALS,
)
case("beliefs/Thompson/grid", by_steps, lambda: pg.beliefs.Thompson(grid()), normal, REALS)
case(
    "beliefs/FreeMaximumLikelihood/normal",
    by_steps,
    lambda: pg.beliefs.FreeMaximumLikelihood(mean_and_scale_prior()),
    mean_and_scale,
    REALS,
)
case(
    "beliefs/Separate/two items",
    by_agent,
    lambda: pg.beliefs.Separate(grid(), 2),
    pg.Items(normal),
    TWO_REALS,
    x=np.asarray([3.0, 2.0]),
)

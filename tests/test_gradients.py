"""The laws of gradient estimators, and the paper's two lemmas of unbiasedness."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import Array, random
from rooms import first_of_each, members
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.research.problems import quadratic

DRAWS = 200_000


class Finite(NamedTuple):
    """How many of ten customers buy: finitely many values, and none to differentiate."""

    problem: pg.Problem
    points: Array = jnp.linspace(-2.0, 2.0, 5)
    x: Array = jnp.asarray(1.0)


among_ten = pg.Problem(
    lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Binomial(10, logits=theta)
)
put_off = pg.Problem(lambda x, xi: -x * xi, lambda x, theta: dist.Binomial(10, logits=theta - x))
visitors = pg.Problem(
    lambda x, xi: -x * xi, lambda x, theta: dist.Poisson(40.0 * jax.nn.sigmoid(theta - x))
)

# A price, in the context of what the goods cost and how the market responds.
in_market = pg.Problem(
    cost=lambda x, xi, z: -(x - z["goods"]) * xi,
    model=lambda x, theta, z: dist.Normal(theta - z["response"] * x, 1.0),
).at({"goods": jnp.asarray(0.5), "response": jnp.asarray(2.0)})

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
    "count-independent": (
        Finite(among_ten),
        lambda x, theta: (x - 10 * jax.nn.sigmoid(theta)) ** 2,  # and what does not depend on x
        jnp.asarray(1.7),
    ),
    "count-dependent": (
        Finite(put_off),
        lambda x, theta: -10 * x * jax.nn.sigmoid(theta - x),
        jnp.asarray(1.7),
    ),
    "poisson-dependent": (
        Finite(visitors),
        lambda x, theta: -40 * x * jax.nn.sigmoid(theta - x),
        jnp.asarray(1.7),
    ),
    "context-dependent": (
        Finite(in_market),
        lambda x, theta: -(x - 0.5) * (theta - 2.0 * x),
        jnp.asarray(1.7),
    ),
}
GRADIENTS = members("postgrad.algorithm.gradients", pg.gradients.Gradient)


def fits(member, name):
    instance, _, x = PROBLEMS[name]
    try:
        member().check(instance.problem, x, instance.points[0])
    except errors.GradientError:
        return False
    return True


PAIRS = [(member, name) for member in GRADIENTS for name in PROBLEMS if fits(member, name)]


def test_every_member_is_tried_where_decisions_matter():
    assert {member for member, name in PAIRS if name.endswith("-dependent")} == set(GRADIENTS)
    # and these are all that do not fit
    rest = {(m, name) for m in GRADIENTS for name in PROBLEMS} - set(PAIRS)
    unfit = {
        pg.gradients.Pathwise: {"count-dependent", "poisson-dependent"},
        pg.gradients.Enumerate: {name for name in PROBLEMS if not name.startswith("count")},
        pg.gradients.Systematic: set(PROBLEMS) - {"poisson-dependent"},
    }
    assert rest == {(member, name) for member, names in unfit.items() for name in names}


@eqx.filter_jit
def finite_difference(average, x, step=1e-4):
    flat = x.reshape(-1)
    moves = step * jnp.eye(flat.size)
    ahead = jnp.stack([average((flat + move).reshape(x.shape)) for move in moves])
    behind = jnp.stack([average((flat - move).reshape(x.shape)) for move in moves])
    return ((ahead - behind) / (2 * step)).reshape(x.shape)


def posterior(instance):
    """A belief with several live points: a prior that is not flat, and one batch."""
    n = instance.points.shape[0]
    prior = pg.beliefs.Grid(instance.points, jnp.linspace(2.0, 1.0, n))
    return eqx.filter_jit(prior.update)(
        instance.problem.likelihood, instance.x, jnp.asarray([6.0, 3.0])
    )


@eqx.filter_jit
def estimates(gradient, problem, belief, x, keys, baseline):
    mixture = belief if gradient.uses_mixture else None  # others must not need one

    def one(key):
        k1, k2 = random.split(key)
        sample = pg.gradients.Sample(belief.sample(k1), k2, mixture)
        if baseline is not None:
            sample = sample._replace(baseline=baseline)
        return gradient.estimate(problem, x, sample)

    return jax.vmap(one)(keys)


@eqx.filter_jit
def estimate(gradient, problem, x, sample):
    return gradient.estimate(problem, x, sample)


@functools.cache  # several laws ask for the same
def mean_and_error(member, name, baseline=None):
    instance, _, x = PROBLEMS[name]
    return summary(member(), instance.problem, posterior(instance), x, baseline)


def summary(gradient, problem, belief, x, baseline=None):
    keys = random.split(random.key(0), DRAWS)
    values = np.asarray(estimates(gradient, problem, belief, x, keys, baseline))
    # where the cost's own gradient does not know xi, Partial has no noise at all
    return values.mean(0), np.maximum(values.std(0) / np.sqrt(DRAWS), 1e-9)


@eqx.filter_jit
def average(belief, cost, x):
    return jnp.dot(belief.probabilities, jax.vmap(lambda theta: cost(x, theta))(belief.points))


def distance(member, name, baseline=None):
    """From the exact gradient, in standard errors."""
    instance, cost, x = PROBLEMS[name]
    belief = posterior(instance)
    exact = finite_difference(eqx.Partial(average, belief, cost), x)
    mean, error = mean_and_error(member, name, baseline)
    return np.max(np.abs(mean - exact) / error)


def name_of(value):
    return value if isinstance(value, str) else value.__name__


def depends(name):
    return name.endswith("-dependent")


def two_each(pairs):
    """`make test` tries each member on a problem of either kind."""
    return first_of_each(pairs, lambda member, name: (member, depends(name)))


@pytest.mark.parametrize(("member", "name"), two_each(PAIRS), ids=name_of)
def test_mean_is_the_gradient_of_the_bayesian_average(member, name):
    if member.unbiased or not name.endswith("-dependent"):
        assert distance(member, name) < 4.5
    else:
        assert distance(member, name) > 20  # it says that it is biased, and it is


def uses_baseline(member, name):
    instance, _, x = PROBLEMS[name]
    return member().uses_baseline(instance.problem, x, instance.points[0])


WITH_BASELINE = [pair for pair in PAIRS if uses_baseline(*pair)]


def test_scores_alone_use_a_baseline_and_only_where_decisions_matter():
    assert set(WITH_BASELINE) == {
        (member, name)
        for member in (pg.gradients.Score, pg.gradients.MixtureScore)
        for name in PROBLEMS
        if name.endswith("-dependent")
    }


@pytest.mark.parametrize(("member", "name"), two_each(WITH_BASELINE), ids=name_of)
def test_baseline_takes_noise_away_and_nothing_else(member, name):
    instance, cost, x = PROBLEMS[name]
    baseline = float(average(posterior(instance), cost, x))
    assert distance(member, name, baseline) < 4.5
    assert np.all(mean_and_error(member, name, baseline)[1] < mean_and_error(member, name)[1])


@pytest.mark.parametrize("name", first_of_each(PROBLEMS, depends))
def test_mixture_score_has_less_noise_than_the_score(name):
    errors_of = {
        member: mean_and_error(member, name)[1]
        for member in (pg.gradients.MixtureScore, pg.gradients.Score)
    }
    assert np.all(errors_of[pg.gradients.MixtureScore] <= errors_of[pg.gradients.Score] * 1.01)


def test_pathwise_refuses_what_it_cannot_differentiate():
    counts = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Poisson(theta * x))
    x, theta = jnp.asarray(1.0), jnp.asarray(2.0)
    with pytest.raises(errors.GradientError, match="Poisson"):
        pg.gradients.Pathwise().check(counts, x, theta)
    exogenous = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Poisson(theta))
    pg.gradients.Pathwise().check(exogenous, x, theta)  # x does not matter to xi: nothing is lost


def test_automatic_falls_back_to_the_score_for_several_counts():
    """d/dx E[x xi] = 2 theta x for xi ~ Poisson(theta x): pathwise alone would give half of it."""
    problem = pg.Problem(
        lambda x, xi: x * jnp.sum(xi),
        lambda x, theta: dist.Poisson(theta * x * jnp.asarray([0.25, 0.75])).to_event(1),
    )
    known, x = pg.beliefs.Known(2.0), jnp.asarray(3.0)
    assert type(pg.gradients.Automatic().choice(problem, x, 2.0)) is pg.gradients.Score
    mean, error = summary(pg.gradients.Automatic(), problem, known, x)
    assert abs(mean - 12.0) < 4.5 * error


@pytest.mark.parametrize("rate", [1e-4, 0.05, 3.0, 50.0, 1e4, 1e6])
def test_automatic_sums_over_the_values_of_one_count(rate):
    """A cost with a kink and a jump: right in the mean over where the sum begins."""

    def cost(x, xi):
        return jnp.abs(xi - rate) - x * xi / rate + 3.0 * (xi > rate)

    problem = pg.Problem(cost, lambda x, theta: dist.Poisson(theta * x))
    gradient, x, theta = pg.gradients.Automatic(), jnp.asarray(1.0), jnp.asarray(rate)
    assert type(gradient.choice(problem, x, theta)) is pg.gradients.Systematic
    still = pg.Problem(cost, lambda x, theta: dist.Poisson(theta))  # is drawn once for all x
    assert type(gradient.choice(still, x, theta)) is pg.gradients.Score

    k = np.arange(max(0.0, rate - 9 * rate**0.5 - 30) // 1, rate + 9 * rate**0.5 + 30)
    costs = np.abs(k - rate) - k / rate + 3.0 * (k > rate)
    p = stats.poisson.pmf(k, rate)
    value, slope = p @ costs, -1.0 + p @ (costs * (k - rate))
    scores = (costs - value) * (k - rate)
    noise = [np.sqrt(p @ (each - p @ each) ** 2) for each in (costs, scores)]  # of one draw

    @jax.jit
    @jax.vmap
    def found(key):
        sample = pg.gradients.Sample(theta, key)
        return gradient.surrogate(problem, x, sample)[1], gradient.estimate(problem, x, sample)

    drawn = found(random.split(random.key(3), 4000))
    for samples, exact, of_a_draw in zip(drawn, (value, slope), noise, strict=True):
        error = np.std(samples) / np.sqrt(4000) + 1e-6 * (1.0 + abs(exact))
        assert abs(np.mean(samples) - exact) < 4.5 * error
        assert np.std(samples) < 0.25 * of_a_draw + 1e-6  # the noise of sixteen draws


def test_enumerate_draws_nothing():
    """A sum over all values: exact for one theta, whatever the key, and what Automatic takes."""
    instance, cost, x = PROBLEMS["count-dependent"]
    theta = jnp.asarray(0.5)
    found = {
        float(estimate(gradient, instance.problem, x, pg.gradients.Sample(theta, random.key(seed))))
        for gradient in (pg.gradients.Enumerate(), pg.gradients.Automatic())
        for seed in (0, 1)
    }
    assert len(found) == 1
    assert found.pop() == pytest.approx(float(jax.jit(jax.grad(cost))(x, theta)), rel=1e-12)


def test_automatic_is_pathwise_where_it_can_be():
    instance, _, x = PROBLEMS["1d-dependent"]
    sample = pg.gradients.Sample(jnp.asarray(4.0), random.key(5))
    automatic, pathwise, score = (
        estimate(gradient, instance.problem, x, sample)
        for gradient in (pg.gradients.Automatic(), pg.gradients.Pathwise(), pg.gradients.Score())
    )
    assert automatic == pathwise
    assert automatic != score


def test_scores_refuse_a_support_that_moves():
    """d/dx E xi = 1/2 for xi uniform on [0, x + theta]; a score would say -1/2."""
    problem = pg.Problem(lambda x, xi: xi, lambda x, theta: dist.Uniform(0.0, x + theta))
    x, theta = jnp.asarray(2.0), jnp.asarray(1.0)
    for gradient in (pg.gradients.Score(), pg.gradients.MixtureScore()):
        with pytest.raises(errors.GradientError, match="support"):
            gradient.check(problem, x, theta)
    pg.gradients.Automatic().check(problem, x, theta)
    mean, error = summary(pg.gradients.Automatic(), problem, pg.beliefs.Known(1.0), x)
    assert abs(mean - 0.5) < 4.5 * error


def trials(x, theta):
    return dist.Binomial(jnp.floor(x).astype(int), theta)


def test_a_number_of_trials_that_is_decided_on_is_learned_from_as_an_observation():
    """The way out that the message names: it is followed here."""

    def cost(x, comes):
        is_sold = jnp.clip(x - jnp.arange(12), 0.0, 1.0)
        return -x + 4.0 * jnp.maximum(comes @ is_sold - 5.0, 0.0)

    feasible, prior = pg.feasible.Box(1.0, 12.0), pg.beliefs.Beta(2.0, 3.0)
    gradient = pg.BayesianSGD(pg.Problem(cost, trials)).gradient
    with pytest.raises(errors.GradientError, match=r"not differentiable either.*`observation`"):
        gradient.check(pg.Problem(cost, trials), jnp.asarray(6.0), jnp.asarray(0.5))
    problem = pg.Problem(
        cost, lambda x, theta: dist.Bernoulli(theta).expand((12,)).to_event(1), feasible, trials
    )
    state = pg.BayesianSGD(problem, steps=0.1).init(prior, 6.0)
    posterior = state.belief.update(problem.likelihood, jnp.asarray(6.0), jnp.asarray([4.0]))
    assert posterior.mean() == pytest.approx((2.0 + 4.0) / (5.0 + 6.0))

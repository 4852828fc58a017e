"""Conjugate beliefs: the posterior of a fine grid, no drift, and no other models."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg

# Each: the belief, the prior's density once more by scipy, the model, data at several decisions.
XS = [0.3, 1.2, 2.0, 0.7]


def draw(model, theta, seed):
    return [
        (x, drawn(model, x, theta, random.key(seed + i)))
        for i, x in enumerate(map(jnp.asarray, XS))
    ]


@eqx.filter_jit
def drawn(model, x, theta, key):
    return jnp.asarray(model(x, theta).sample(key, (3,)), float)


@eqx.filter_jit
def log_mixture(belief, model, x, y):
    return belief.log_mixture(model, x, y)


@eqx.filter_jit
def update(belief, model, x, batch):
    return belief.advance(1.0).update(model, x, batch)


def learn(belief, model, data):
    for x, batch in data:
        belief = update(belief, model, x, batch)
    return belief


LINE = [
    (
        pg.beliefs.Normal(3.0, 2.0),
        stats.norm(3.0, 2.0),
        lambda x, theta: dist.Normal((1.0 + x) * theta - x**2, 2.0 + x),
        2.0,
    ),
    (
        pg.beliefs.Normal(0.5, 0.7),
        stats.norm(0.5, 0.7),
        lambda x, theta: dist.LogNormal(theta + x, 0.5),
        0.9,
    ),
    (
        pg.beliefs.Gamma(2.0, 0.5),
        stats.gamma(2.0, scale=2.0),
        lambda x, theta: dist.Poisson(theta * (1.0 + x)),
        3.0,
    ),
    (
        pg.beliefs.Gamma(2.0, 0.5),
        stats.gamma(2.0, scale=2.0),
        lambda x, theta: dist.Gamma(2.0 + x, theta / (1.0 + x)),
        3.0,
    ),
    (
        pg.beliefs.InverseGamma(3.0, 8.0),
        stats.invgamma(3.0, scale=8.0),
        lambda x, theta: dist.Exponential(1.0 / (theta * (1.0 + x))),
        4.0,
    ),
    (
        pg.beliefs.Beta(2.0, 3.0),
        stats.beta(2.0, 3.0),
        lambda x, theta: dist.NegativeBinomialProbs(2.5 + x, theta),
        0.4,
    ),
    (pg.beliefs.Beta(2.0, 3.0), stats.beta(2.0, 3.0), lambda x, theta: dist.Geometric(theta), 0.4),
]
IDS = ["Normal", "LogNormal", "Poisson", "Gamma", "Exponential", "NegativeBinomial", "Geometric"]


def moments(belief):
    """Mean and standard deviation in closed form, by scipy."""
    law = {
        "Normal": lambda b: stats.norm(b.loc, b.scale),
        "Gamma": lambda b: stats.gamma(b.concentration, scale=1.0 / b.rate),
        "InverseGamma": lambda b: stats.invgamma(b.concentration, scale=b.rate),
        "Beta": lambda b: stats.beta(b.concentration1, b.concentration0),
    }[type(belief).__name__](belief)
    return law.mean(), law.std()


@pytest.mark.parametrize(("belief", "prior", "model", "theta"), LINE, ids=IDS)
@pytest.mark.parametrize("seed", [0, 100])
def test_conjugate_is_a_fine_grid(belief, prior, model, theta, seed):
    data = draw(model, theta, seed)
    exact = learn(belief, model, data)
    mean, deviation = moments(exact)
    lowest = mean - 12 * deviation if prior.support()[0] == -np.inf else 1e-9
    highest = min(mean + 25 * deviation, prior.support()[1] - 1e-9)
    points = jnp.linspace(lowest, highest, 20_001)
    grid = learn(pg.beliefs.Grid(points, np.exp(prior.logpdf(points))), model, data)
    assert float(grid.probabilities @ points) == pytest.approx(mean, abs=1e-6 * deviation)
    second = grid.probabilities @ (points - mean) ** 2
    assert float(second) == pytest.approx(deviation**2, rel=1e-5)
    for y in data[0][1]:
        assert log_mixture(exact, model, 1.1, y) == pytest.approx(
            float(log_mixture(grid, model, 1.1, y)), abs=1e-6
        )


def test_mean_and_scale_are_a_fine_grid():
    def model(x, theta):
        return dist.Normal((1.0 + x) * theta["mean"] + x**2, (2.0 + x) * theta["scale"])

    belief = pg.beliefs.NormalInverseGamma(1.0, 0.5, 3.0, 4.0)
    data = draw(model, {"mean": 2.0, "scale": 1.3}, 0)
    exact = learn(belief, model, data)
    deviation = float(jnp.sqrt(exact.rate / (exact.concentration - 1) / exact.count))
    means = np.linspace(exact.loc - 16 * deviation, exact.loc + 16 * deviation, 401)
    scales = np.linspace(0.15, 9.0, 801)
    points = pg.beliefs.product_grid({"mean": means, "scale": scales})
    # p(mu, sigma): the inverse gamma law of the variance, times 2 sigma
    prior = stats.norm(1.0, points["scale"] / np.sqrt(0.5)).pdf(points["mean"])
    prior = prior * stats.invgamma(3.0, scale=4.0).pdf(points["scale"] ** 2) * 2 * points["scale"]
    grid = learn(pg.beliefs.Grid(points, prior), model, data)
    assert float(grid.probabilities @ points["mean"]) == pytest.approx(
        float(exact.loc), abs=1e-5 * deviation
    )
    variance = grid.probabilities @ points["scale"] ** 2
    assert float(variance) == pytest.approx(float(exact.rate / (exact.concentration - 1)), rel=1e-5)
    y = data[0][1][0]
    assert log_mixture(exact, model, 0.4, y) == pytest.approx(
        float(log_mixture(grid, model, 0.4, y)), abs=1e-5
    )


def test_wishart_in_one_dimension_is_gamma():
    def many(x, theta):
        return dist.MultivariateNormal(theta["mean"] + x, (1.0 + x) ** 2 * theta["covariance"])

    def one(x, theta):
        return dist.Normal(theta["mean"] + x, (1.0 + x) * theta["scale"])

    wishart = pg.beliefs.NormalInverseWishart([1.0], 0.5, 4.0, [[3.0]])
    gamma = pg.beliefs.NormalInverseGamma(1.0, 0.5, 2.0, 1.5)  # a = n / 2, b = Psi / 2
    data = draw(one, {"mean": 2.0, "scale": 1.5}, 0)
    wishart = learn(wishart, many, [(x, batch[:, None]) for x, batch in data])
    gamma = learn(gamma, one, data)
    assert wishart.loc[0] == pytest.approx(float(gamma.loc), rel=1e-12)
    assert wishart.concentration == pytest.approx(2 * float(gamma.concentration))
    assert wishart.rate_matrix[0, 0] == pytest.approx(2 * float(gamma.rate), rel=1e-12)
    assert log_mixture(wishart, many, 0.7, jnp.asarray([2.2])) == pytest.approx(
        float(log_mixture(gamma, one, 0.7, jnp.asarray(2.2))), rel=1e-12
    )


@pytest.mark.slow
def test_wishart_of_a_hundred_dimensions():
    rng = np.random.default_rng(0)
    d = 100
    root = rng.standard_normal((d, d)) / np.sqrt(d) + np.eye(d)
    data = rng.standard_normal((5000, d)) @ root.T

    def model(x, theta):
        return dist.MultivariateNormal(theta["mean"], theta["covariance"])

    belief = pg.beliefs.NormalInverseWishart(np.zeros(d), 1.0, d + 2.0, np.eye(d))
    problem = pg.Problem(lambda x, xi: x * xi.sum(), model)
    belief = belief.bind(problem, jnp.zeros(()))
    learned = jax.jit(lambda b, y: b.update(model, jnp.zeros(()), y))(belief, data)
    around = np.cov(data.T, bias=True) * 5000 + 5000 / 5001 * np.outer(data.mean(0), data.mean(0))
    np.testing.assert_allclose(learned.rate_matrix, np.eye(d) + around, rtol=1e-9, atol=1e-7)
    draws = jax.jit(lambda belief: belief.sample(random.key(0), (200,)))(learned)
    expected = np.asarray(learned.rate_matrix) / (float(learned.concentration) - d - 1)
    spread = np.std(draws["covariance"], axis=0) / np.sqrt(200)
    assert np.abs((draws["covariance"].mean(0) - expected) / spread).max() < 5.5


def test_a_million_batches_do_not_drift():
    """Against exact sums, for data ten thousand standard deviations from zero."""
    n = 1_000_000
    data = np.random.default_rng(0).normal(10_000.0, 1.0, n)

    def run(belief, model):
        def step(belief, y):
            return belief.update(model, jnp.zeros(()), y[None]), None

        return jax.jit(lambda b, y: jax.lax.scan(step, b, y)[0])(belief, jnp.asarray(data))

    mean = math.fsum(data) / n
    normal = run(pg.beliefs.Normal(0.0, 1e5), lambda x, theta: dist.Normal(theta, 1.0))
    exact = math.fsum(data) / (n + 1e-10)
    assert abs(float(normal.loc) - exact) < 1e-8 * float(normal.scale)

    both = run(
        pg.beliefs.NormalInverseGamma(9_990.0, 1.0, 1.0, 1.0),
        lambda x, theta: dist.Normal(theta["mean"], theta["scale"]),
    )
    deviation = 1e-3
    exact = (9_990.0 + math.fsum(data)) / (n + 1)
    assert abs(float(both.loc) - exact) < 1e-8 * deviation
    around = math.fsum((data - mean) ** 2) + n / (n + 1) * (mean - 9_990.0) ** 2
    # The posterior's standard deviation of the variance is about sqrt(2 / n) of it.
    assert float(both.rate) == pytest.approx(1.0 + around / 2, rel=1e-8 * math.sqrt(2 / n))

    rate = run(pg.beliefs.Gamma(1.0, 1.0), lambda x, theta: dist.Exponential(theta))
    assert float(rate.rate) == pytest.approx(1.0 + math.fsum(data), rel=1e-8 / math.sqrt(n))
    assert rate.concentration == n + 1
    assert rate.effective_size == n


def cost(x, xi):  # one for all problems: agents with the same model then share programs
    return jnp.sum(x * xi)


def problem(model, observation=None):
    return pg.Problem(cost, model, pg.feasible.Box(0.1, 5.0), observation)


@pytest.mark.parametrize(
    ("belief", "model", "theta"),
    [
        (pg.beliefs.Normal(3.0, 2.0, forget=0.9), lambda x, t: dist.Normal(t + x, 2.0), 4.0),
        (pg.beliefs.Gamma(2.0, 0.5, forget=0.9), lambda x, t: dist.Poisson(t * x), 3.0),
        (pg.beliefs.Beta(2.0, 3.0, forget=0.9), lambda x, t: dist.Bernoulli(t), 0.3),
    ],
)
def test_forgetting_is_a_power_prior(belief, model, theta):
    """Batch s counts lambda^(t - s): the same as a grid that raises its likelihood to that."""
    data = draw(model, theta, 0)
    learned = learn(belief, model, data)
    count = len(data)
    points = jnp.linspace(1e-3, 0.999 if theta < 1 else 14.0, 20_001)
    unseen = {"Normal": stats.norm(3.0, 2.0), "Gamma": stats.gamma(2.0, scale=2.0)}
    prior = unseen.get(type(belief).__name__, stats.beta(2.0, 3.0))
    log_weights = prior.logpdf(points)

    @jax.jit
    def log_likelihood(x, batch):
        return jax.vmap(lambda theta: model(x, theta).log_prob(batch).sum())(points)

    for s, (x, batch) in enumerate(data):
        log_f = log_likelihood(x, batch)
        log_weights = log_weights + 0.9 ** (count - 1 - s) * np.asarray(log_f)
    weights = np.exp(log_weights - log_weights.max())
    grid = learn(pg.beliefs.Grid(points, np.exp(prior.logpdf(points)), forget=0.9), model, data)
    np.testing.assert_allclose(grid.probabilities, weights / weights.sum(), atol=1e-12)
    mean, deviation = moments(learned)
    assert np.average(points, weights=weights) == pytest.approx(mean, abs=2e-2 * deviation)
    assert learned.effective_size == pytest.approx(3 * sum(0.9**s for s in range(count)))
    assert grid.effective_size == learned.effective_size


X = jnp.asarray(1.5)


def unit(x, theta):
    return dist.Normal(theta, 1.0)


def test_effective_size_settles():
    belief = pg.beliefs.Normal(0.0, 1.0, forget=0.95)
    for _ in range(400):
        belief = update(belief, unit, X, jnp.zeros(2))
    assert belief.effective_size == pytest.approx(2 / 0.05, rel=1e-6)
    assert belief.scale == pytest.approx((1.0 + 2 / 0.05) ** -0.5, rel=1e-6)


def drift(agent, rng):
    for stage in range(120):
        agent.observe(rng.normal(0.0 if stage < 80 else 6.0, 1.0))


@pytest.mark.slow
def test_agents_follow_a_drifting_world_if_they_forget():
    rng = np.random.default_rng(0)
    model = problem(lambda x, t: dist.Normal(t, 1.0))
    means = {}
    for forget in (None, 0.9):
        agent = pg.Agent(
            model, pg.beliefs.Normal(0.0, 5.0, forget=forget), 1.0, **pg.presets.paper()
        )
        with pytest.warns(pg.monitoring.MisspecificationWarning):
            drift(agent, rng)
        means[forget] = float(agent.belief.loc)
    assert means[None] < 3.0
    assert means[0.9] == pytest.approx(6.0, abs=1.2)


def test_conjugates_run_in_simulations():
    """The 1-D quadratic under a continuous prior: errors fall, the posterior finds theta."""
    from postgrad.research.problems import quadratic

    world = quadratic.univariate_dependent()
    for gradient in (pg.gradients.Pathwise(), pg.gradients.MixtureScore()):
        result = pg.simulate(
            pg.BayesianSGD(world.problem, **pg.presets.paper(gradient=gradient)),
            pg.beliefs.Normal(10.0, 6.0),
            world.x,
            world.theta,
            runs=50,
            horizon=300,
            record=lambda state: (state.belief.loc, state.belief.scale),
        )
        mean, scale = result.record
        z = (mean[:, -1] - 4.0) / scale[:, -1]
        assert np.abs(z).max() < 4.5
        assert 0.7 < z.std() < 1.3
        errors_at = result.errors(world.x_star).mean(axis=0)
        assert errors_at[-1] < 0.35 * errors_at[0]

"""The normal belief: exact where the model is linear and normal, close to it elsewhere."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax, random
from scipy import stats

import postgrad as pg
from postgrad.beliefs.gaussian.gaussian import Gaussian


def linear(price, theta):
    return dist.Normal(theta["base"] - theta["slope"] * price, 2.0)


def poisson(price, theta):
    return dist.Poisson(jnp.exp(theta["base"] - theta["slope"] * price))


def bernoulli(price, theta):
    return dist.Bernoulli(logits=theta["base"] - theta["slope"] * price)


def mean_of(x, theta):  # a linear function of three numbers, at a decision with two entries
    return theta[0] + theta[1] * x[0] - theta[2] * x[0] * x[1] + jnp.sin(x[1])


def regression(x, theta):
    return dist.Normal(mean_of(x, theta), 0.5 + x[0] ** 2)


DESIGN = np.random.default_rng(5).normal(size=(2, 3))
NOISE = np.asarray([[2.0, 0.6], [0.6, 1.0]])


def pair(x, theta, **spread):
    spread = spread or {"covariance_matrix": NOISE * (1.0 + x[1] ** 2)}
    return dist.MultivariateNormal(x[0] * DESIGN @ theta + x, **spread)


def bound(belief, model, x=1.0, **options):
    x = jnp.asarray(x)
    return belief.bind(pg.Problem(lambda x, xi: jnp.sum(x * xi), model, **options), x)


@eqx.filter_jit
def update(belief, model, x, batch, weight=None):
    x, batch = jnp.asarray(x), jnp.asarray(batch)
    weight = None if weight is None else jnp.asarray(weight)
    return belief.advance(1.0).update(model, x, batch, weight)


@eqx.filter_jit
def log_mixture(belief, model, x, xi):
    return belief.log_mixture(model, jnp.asarray(x), jnp.asarray(xi))


def learn(belief, model, data):
    for x, batch in data:
        belief = update(belief, model, np.asarray(x), np.asarray(batch))
    return belief


def scan(belief, model, xs, batches):
    """One batch after the other, in one compiled program."""

    def one(belief, data):
        return belief.advance(1.0).update(model, *data), None

    return jax.jit(lambda b, xs, ys: lax.scan(one, b, (xs, ys))[0])(belief, xs, batches)


def flat(belief):
    return np.asarray(jax.flatten_util.ravel_pytree(belief.loc)[0])


def spread(belief):
    return np.sqrt(np.diag(belief.covariance_matrix))


def assert_same(one, other, tolerance=1e-10):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def by_hand(mean, covariance, data):
    """Bayesian linear regression; data are (A, y - g, V), one for each observation."""
    precision = np.linalg.inv(covariance)
    shift = precision @ mean
    for a, y, v in data:
        precision = precision + a.T @ np.linalg.solve(v, a)
        shift = shift + a.T @ np.linalg.solve(v, y)
    return np.linalg.solve(precision, shift), np.linalg.inv(precision)


@pytest.mark.parametrize("seed", range(3))
def test_exact_is_bayesian_linear_regression(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    mean, covariance = rng.normal(size=3), root @ root.T + 0.1 * np.eye(3)
    data = [(rng.normal(size=2), rng.normal(size=4)) for _ in range(5)]
    belief = bound(Gaussian(mean, covariance_matrix=covariance), regression, np.ones(2))
    assert belief.exact
    belief = learn(belief, regression, data)
    rows = [
        (
            np.asarray([[1.0, x[0], -x[0] * x[1]]]),
            y - np.sin(x[1]),
            np.eye(1) * (0.5 + x[0] ** 2) ** 2,
        )
        for x, batch in data
        for y in batch.reshape(-1, 1)
    ]
    m, c = by_hand(mean, covariance, rows)
    np.testing.assert_allclose(flat(belief), m, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(belief.covariance_matrix, c, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_exact_with_correlated_noise(form):
    def model(x, theta):
        v = NOISE * (1.0 + x[1] ** 2)
        forms = {
            "covariance_matrix": lambda: v,
            "precision_matrix": lambda: jnp.linalg.inv(v),
            "scale_tril": lambda: jnp.linalg.cholesky(v),
        }
        return pair(x, theta, **{form: forms[form]()})

    rng = np.random.default_rng(1)
    data = [(rng.normal(size=2), rng.normal(size=(3, 2))) for _ in range(4)]
    belief = bound(Gaussian(np.ones(3), 2.0), model, np.ones(2))
    assert belief.exact
    belief = learn(belief, model, data)
    rows = [(x[0] * DESIGN, y - x, NOISE * (1 + x[1] ** 2)) for x, batch in data for y in batch]
    m, c = by_hand(np.ones(3), 4.0 * np.eye(3), rows)
    np.testing.assert_allclose(flat(belief), m, rtol=1e-9)
    np.testing.assert_allclose(belief.covariance_matrix, c, rtol=1e-9, atol=1e-12)


def test_exact_with_many_parameters():
    """Beyond the size up to which matrices are factored by hand."""
    rng = np.random.default_rng(2)
    design = rng.normal(size=(12, 10))
    theta = {"a": np.zeros((2, 3)), "b": np.ones(4)}

    def model(x, theta):
        numbers = jnp.concatenate([theta["a"].ravel(), theta["b"]])
        return dist.Normal(x * design @ numbers, 3.0).to_event(1)

    belief = bound(Gaussian(theta, {"a": 2.0, "b": np.full(4, 0.5)}), model)
    assert belief.exact
    y = rng.normal(size=12)
    belief = update(belief, model, 2.0, np.asarray([y]))
    prior = np.r_[np.zeros(6), np.ones(4)], np.diag(np.r_[np.full(6, 4.0), np.full(4, 0.25)])
    m, c = by_hand(*prior, [(2.0 * design, y, 9.0 * np.eye(12))])
    np.testing.assert_allclose(flat(belief), m, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(belief.covariance_matrix, c, rtol=1e-9, atol=1e-12)
    exact = stats.multivariate_normal(
        2.0 * design @ m, 9.0 * np.eye(12) + 4.0 * design @ c @ design.T
    )
    found = log_mixture(belief, model, 2.0, y)
    assert float(found) == pytest.approx(exact.logpdf(y), rel=1e-9)


def test_exact_equals_a_fine_grid():
    def model(x, theta):
        return dist.Normal(3.0 * theta * x + x**2, 2.0)

    rng = np.random.default_rng(3)
    data = [(x, rng.normal(2.0 * x, 2.0, 3)) for x in rng.uniform(0.5, 2.0, 6)]
    belief = learn(bound(Gaussian(0.5, 1.5), model), model, data)
    m, s = float(belief.loc), float(spread(belief)[0])
    points = np.linspace(m - 9 * s, m + 9 * s, 4001)
    grid = learn(pg.beliefs.Grid(points, stats.norm.pdf(points, 0.5, 1.5)), model, data)
    p = np.asarray(grid.probabilities)
    centre = p @ points
    assert abs(centre - m) < 1e-6 * s
    assert np.sqrt(p @ (points - centre) ** 2) == pytest.approx(s, rel=1e-6)


def lognormal(x, theta):
    return dist.LogNormal(theta + jnp.asarray([0.0, 1.0]) * x, 0.7).to_event(1)


def test_lognormal_data_are_taken_by_their_logarithms():
    prior = Gaussian([0.0, 1.0], [1.0, 2.0])
    belief = bound(prior, lognormal)
    assert belief.exact
    y = np.asarray([[1.0, 2.0], [0.5, 4.0]])
    belief = update(belief, lognormal, 0.3, y)

    def logarithm(x, theta):
        return dist.Normal(theta + jnp.asarray([0.0, 1.0]) * x, 0.7).to_event(1)

    other = update(bound(prior, logarithm), logarithm, 0.3, np.log(y))
    assert_same(flat(belief), flat(other))
    assert_same(belief.covariance_matrix, other.covariance_matrix)
    # The mixture is lognormal, too, and has no density at negative numbers.
    m, s = flat(belief) + np.asarray([0.0, 0.3]), np.sqrt(0.49 + np.diag(belief.covariance_matrix))
    at = log_mixture(belief, lognormal, 0.3, np.asarray([1.5, 3.0]))
    expected = stats.lognorm.logpdf([1.5, 3.0], s, scale=np.exp(m)).sum()
    assert float(at) == pytest.approx(expected, rel=1e-10)
    outside = log_mixture(belief, lognormal, 0.3, np.asarray([1.5, -3.0]))
    assert float(outside) == -np.inf


def test_order_and_splits_do_not_matter_to_the_exact_one():
    belief = bound(Gaussian({"base": 10.0, "slope": 1.0}, 3.0), linear)
    rng = np.random.default_rng(4)
    data = [(p, rng.normal(10 - p, 2.0, 4)) for p in rng.uniform(1, 3, 6)]
    whole = learn(belief, linear, data)
    assert_same(whole, learn(belief, linear, data[::-1]))
    halves = [(p, part) for p, batch in data for part in (batch[:1], batch[1:])]
    assert_same(whole, learn(belief, linear, halves))


def test_a_million_batches_do_not_drift():
    """Single observations, far from the prior: as if all at once, in higher precision."""
    rng = np.random.default_rng(0)
    n = 1_000_000
    prices = rng.uniform(1.0, 3.0, n)
    sales = 1e4 - 2.0 * prices + 2.0 * rng.normal(size=n)
    belief = bound(Gaussian({"base": 10.0, "slope": 1.0}, {"base": 50.0, "slope": 5.0}), linear)
    belief = scan(belief, linear, prices, sales[:, None])
    r = sales - 10.0 + prices
    sums = [math.fsum(v) / 4.0 for v in (prices, prices**2, r, prices * r)]
    a, b, c = (np.longdouble(v) for v in (n / 4 + 1 / 2500, -sums[0], sums[1] + 1 / 25))
    s = np.asarray([sums[2], -sums[3]], np.longdouble)
    det = a * c - b * b
    mean = np.asarray([10.0, 1.0]) + np.asarray([c * s[0] - b * s[1], a * s[1] - b * s[0]]) / det
    sd = np.sqrt(np.asarray([c, a]) / det)
    assert np.abs((flat(belief) - mean) / sd).max() < 1e-8
    np.testing.assert_allclose(spread(belief), sd.astype(float), rtol=1e-8)
    assert float(belief.effective_size) == n


def test_exact_mixture_is_the_normal_one_and_smooth_in_x():
    belief = bound(Gaussian(np.ones(3), 2.0), pair, np.ones(2))
    belief = learn(belief, pair, [(np.asarray([1.0, 0.5]), np.asarray([[1.0, 2.0]]))])
    xi = jnp.asarray([0.3, -1.0])

    @jax.jit
    def log_f(x):
        return belief.log_mixture(pair, x, xi)

    x = np.asarray([0.7, -0.4])
    a = x[0] * DESIGN
    covariance = a @ belief.covariance_matrix @ a.T + NOISE * (1 + x[1] ** 2)
    expected = stats.multivariate_normal(a @ flat(belief) + x, covariance).logpdf(xi)
    assert float(log_f(jnp.asarray(x))) == pytest.approx(expected, rel=1e-10)
    step = 1e-5 * np.eye(2)
    slope = [(log_f(jnp.asarray(x + e)) - log_f(jnp.asarray(x - e))) / 2e-5 for e in step]
    np.testing.assert_allclose(jax.jit(jax.grad(log_f))(jnp.asarray(x)), slope, rtol=1e-6)


@pytest.mark.parametrize("forget", [0.9, 1.0])
def test_forgetting_fades_the_evidence_and_not_the_prior(forget):
    belief = bound(Gaussian({"base": 10.0, "slope": 1.0}, 3.0, forget=forget), linear)
    rng = np.random.default_rng(7)
    data = [(p, rng.normal(10 - p, 2.0, 2)) for p in rng.uniform(1, 3, 5)]
    learned = learn(belief, linear, data)
    rows = [
        (np.asarray([[1.0, -p]]), batch[k : k + 1], np.eye(1) * 4.0 / forget ** (4 - i))
        for i, (p, batch) in enumerate(data)
        for k in range(2)
    ]
    m, c = by_hand(np.asarray([10.0, 1.0]), 9.0 * np.eye(2), rows)
    np.testing.assert_allclose(flat(learned), m, rtol=1e-10)
    np.testing.assert_allclose(learned.covariance_matrix, c, rtol=1e-10)
    assert float(learned.effective_size) == pytest.approx(2 * sum(forget**i for i in range(5)))


def test_effective_size_settles_and_so_does_the_spread():
    for model in (linear, poisson):
        belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 1.0, forget=0.8), model)
        batches = jnp.ones((200, 3))
        late = scan(belief, model, jnp.asarray(np.tile([0.5, 2.0], 100)), batches)
        later = learn(late, model, [(0.5, batches[0]), (2.0, batches[0])])
        assert float(later.effective_size) == pytest.approx(3 / (1 - 0.8))
        np.testing.assert_allclose(late.covariance_matrix, later.covariance_matrix, rtol=1e-6)
        # Batches without weight: back to the prior.
        empty = later
        for _ in range(150):
            empty = update(empty, model, 0.5, batches[0], np.zeros(3))
        np.testing.assert_allclose(empty.covariance_matrix, np.eye(2), atol=1e-6)
        np.testing.assert_allclose(flat(empty), [1.0, 0.5], atol=1e-6)


@pytest.mark.parametrize("model", [linear, poisson])
def test_weights_count_observations(model):
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 1.0), model)
    x, y = jnp.asarray(1.5), jnp.asarray([3.0, 1.0, 2.0])
    weighted = update(belief, model, x, y, np.asarray([2.0, 0.0, 1.0]))
    assert_same(weighted, update(belief, model, x, np.asarray([3.0, 3.0, 2.0])), 1e-9)
    nothing = update(belief, model, x, y, np.zeros(3))
    assert_same(nothing, belief)


def test_vmap_equals_loop():
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 1.0), poisson)
    x, several = jnp.asarray(1.0), jnp.asarray([[0.0, 1.0], [5.0, 2.0], [40.0, 60.0]])
    stacked = jax.jit(jax.vmap(lambda b: belief.update(poisson, x, b)))(several)
    for i, batch in enumerate(several):
        single = update(belief, poisson, x, batch)
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], stacked), single, 1e-9)


def test_draws_have_the_mean_and_the_covariance():
    covariance = np.asarray([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 0.5]])
    belief = Gaussian({"a": [1.0, 2.0], "b": -3.0}, covariance_matrix=covariance)
    np.testing.assert_allclose(belief.covariance_matrix, covariance, rtol=1e-12)
    draws = belief.sample(random.key(0), (200, 500))
    assert draws["a"].shape == (200, 500, 2)
    assert draws["b"].shape == (200, 500)
    assert belief.sample(random.key(0))["a"].shape == (2,)
    rows = np.column_stack([draws["a"].reshape(-1, 2), np.ravel(draws["b"])])
    np.testing.assert_allclose(rows.mean(axis=0), [1.0, 2.0, -3.0], atol=0.03)
    np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.03)


def test_examples_lie_one_standard_deviation_around_the_mean():
    covariance = np.asarray([[2.0, 0.5], [0.5, 1.0]])
    points = np.asarray(Gaussian([1.0, 2.0], covariance_matrix=covariance).examples())
    assert points.shape == (5, 2)
    off = points - [1.0, 2.0]
    squares = np.einsum("ni,ij,nj->n", off, np.linalg.inv(covariance), off)
    np.testing.assert_allclose(squares, [0, 1, 1, 1, 1], atol=1e-12)

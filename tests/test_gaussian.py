"""The normal belief: exact where the model is linear and normal, close to it elsewhere."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax, random
from scipy import integrate, special, stats

import postgrad as pg
from postgrad import errors
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
    return belief.update(model, x, batch, None if weight is None else jnp.asarray(weight))


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
        return belief.update(model, *data), None

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


def quadrature(model, prior, prices, batches, t):
    """Means and standard deviations of a posterior of two numbers, by brute force."""

    def log_posterior(t):
        theta = {"base": t[0], "slope": t[1]}
        log_f = model(prices[:, None], theta).log_prob(batches)
        return jnp.sum(log_f) - 0.5 * jnp.sum(((t - prior[0]) / prior[1]) ** 2)

    def newton(_, t):  # from a good start
        return t - jnp.linalg.solve(jax.hessian(log_posterior)(t), jax.grad(log_posterior)(t))

    mode = lax.fori_loop(0, 20, newton, t)
    root = jnp.linalg.cholesky(jnp.linalg.inv(-jax.hessian(log_posterior)(mode)))
    u = np.linspace(-8.0, 8.0, 65)
    points = mode + np.stack(np.meshgrid(u, u), axis=-1).reshape(-1, 2) @ root.T
    w = jax.nn.softmax(lax.map(log_posterior, points, batch_size=65))
    mean = w @ points
    return mean, jnp.sqrt(w @ (points - mean) ** 2)


@pytest.mark.parametrize("model", [poisson, bernoulli])
def test_approximation_is_close_to_the_posterior(model):
    """Fifty batches of ten, at twelve truths from the prior.

    Seen: means off by 0.08 standard deviations in the root mean square and 0.3 at most, spreads by
    3 % (Poisson), 2 % (Bernoulli) and 10 % at most. What is left comes from the first batches,
    after which the posterior is not normal yet.
    """
    prior = np.asarray([1.0, 0.7]), np.asarray([1.0, 0.5])
    start = Gaussian({"base": 1.0, "slope": 0.7}, {"base": 1.0, "slope": 0.5})
    start = bound(start, model)
    assert not start.exact
    rng = np.random.default_rng(0)
    truth = prior[0] + prior[1] * rng.normal(size=(12, 2))
    prices = rng.uniform(0.5, 3.0, (12, 50))
    response = (truth[:, :1] - truth[:, 1:] * prices)[..., None] * np.ones(10)
    counts = rng.poisson(np.exp(response))
    batches = (
        counts if model is poisson else rng.uniform(size=(12, 50, 10)) < special.expit(response)
    )

    def one(prices, batches):
        belief, _ = lax.scan(lambda b, d: (b.update(model, *d), None), start, (prices, batches))
        m = jnp.stack([belief.loc["base"], belief.loc["slope"]])
        mean, sd = quadrature(model, prior, prices, batches, m)
        return (m - mean) / sd, jnp.sqrt(jnp.diagonal(belief.covariance_matrix)) / sd - 1.0

    off, wider = jax.jit(jax.vmap(one))(prices, batches.astype(float))
    assert np.sqrt(np.mean(off**2)) < 0.15
    assert np.abs(off).max() < 0.4
    assert np.sqrt(np.mean(wider**2)) < 0.05
    assert np.abs(wider).max() < 0.15


def test_approximation_of_a_linear_model_is_exact():
    prior = Gaussian({"base": 10.0, "slope": 1.0}, 3.0)
    rng = np.random.default_rng(6)
    prices, sales = rng.uniform(1, 3, 30), rng.normal(500.0, 2.0, (30, 2))
    exact, close = (scan(b, linear, prices, sales) for b in (bound(prior, linear), prior))
    assert exact.exact
    assert not close.exact
    assert_same(flat(close), flat(exact), 1e-9)
    assert_same(close.covariance_matrix, exact.covariance_matrix, 1e-9)


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


def test_impossible_data_without_weight_are_no_data():
    weight = jnp.asarray([1.0, 0.0])
    for model, belief in (
        (poisson, Gaussian({"base": 1.0, "slope": 0.5}, 1.0)),
        (lambda x, t: dist.LogNormal(t["base"], 1.0), Gaussian({"base": 1.0}, 1.0)),
    ):
        belief = bound(belief, model)
        y = jnp.asarray([2.0, -1.0])
        learned = update(belief, model, 1.0, y, weight)
        assert_same(learned, update(belief, model, 1.0, y[:1]), 1e-9)
        lost = update(belief, model, 1.0, y)
        assert np.isnan(flat(lost)).all()
        assert np.isnan(jax.tree.leaves(lost.sample(random.key(0), (3,)))[0]).all()


def log_rate(x, theta):
    return dist.Poisson(jnp.exp(theta))


@pytest.mark.parametrize(
    ("mean", "scale", "y"),
    [(0.0, 1.0, 1e6), (0.0, 10.0, 1e6), (30.0, 10.0, 3.0), (0.0, 1.0, 0.0), (60.0, 30.0, 1e9)],
)
def test_mode_is_found_from_far_away(mean, scale, y):
    """Steps that overflow, and slow ones down an exponential."""
    belief = update(Gaussian(mean, scale), log_rate, 0.0, np.asarray([y]))
    mode = float(belief.loc)
    precision = scale**-2 + math.exp(mode)
    slope = y - math.exp(mode) - (mode - mean) / scale**2
    assert abs(slope) < 1e-6 * math.sqrt(precision)
    assert float(belief.covariance_matrix[0, 0]) == pytest.approx(1 / precision, rel=1e-5)


@pytest.mark.parametrize(("mean", "scale"), [(5000.0, 1.0), (720.0, 20.0)])
def test_no_mode_is_no_posterior(mean, scale):
    """Rates beyond all numbers, all around or where the climb starts."""
    belief = update(Gaussian(mean, scale), log_rate, 0.0, np.asarray([3.0]))
    assert np.isnan(float(belief.loc))


def test_curvature_is_never_negative():
    """An outlier under heavy tails: the log-density is convex there."""

    def tails(x, theta):
        return dist.StudentT(3.0, theta, 1.0)

    learned = update(Gaussian(0.0, 1.0), tails, 0.0, np.asarray([30.0]))
    assert float(learned.covariance_matrix[0, 0]) == pytest.approx(1.0, rel=1e-12)
    assert 0.1 < float(learned.loc) < 0.2
    both = update(
        Gaussian([0.0, 0.0], 1.0),
        lambda x, theta: tails(x, theta).to_event(1),
        0.0,
        np.asarray([[30.0, 0.1]]),
    )
    assert np.linalg.eigvalsh(np.asarray(both.covariance_matrix)).max() <= 1.0 + 1e-12


def test_vmap_equals_loop():
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, 1.0), poisson)
    x, several = jnp.asarray(1.0), jnp.asarray([[0.0, 1.0], [5.0, 2.0], [40.0, 60.0]])
    stacked = jax.jit(jax.vmap(lambda b: belief.update(poisson, x, b)))(several)
    for i, batch in enumerate(several):
        single = update(belief, poisson, x, batch)
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], stacked), single, 1e-9)


def test_mixture_by_points_is_close_to_the_integral():
    covariance = np.asarray([[0.3, 0.1], [0.1, 0.2]])
    belief = bound(Gaussian({"base": 1.0, "slope": 0.5}, covariance_matrix=covariance), bernoulli)
    price = jnp.asarray(2.0)
    log_f = [log_mixture(belief, bernoulli, price, xi) for xi in (0.0, 1.0)]
    a = np.asarray([1.0, -2.0])
    sd = float(np.sqrt(a @ covariance @ a))  # the logit is normal with mean 0
    exact, _ = integrate.quad(lambda z: special.expit(0.3 + sd * z) * stats.norm.pdf(z), -10, 10)
    shifted = Gaussian({"base": 1.3, "slope": 0.5}, covariance_matrix=covariance)
    p = np.exp(log_mixture(shifted, bernoulli, price, 1.0))
    assert np.exp(log_f).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.exp(log_f[1]) == pytest.approx(0.5, abs=1e-12)
    assert float(p) == pytest.approx(exact, abs=1e-3)
    counts = jnp.arange(400.0)
    mass = jnp.exp(jax.jit(jax.vmap(lambda xi: belief.log_mixture(poisson, price, xi)))(counts))
    assert float(mass.sum()) == pytest.approx(1.0, abs=1e-3)
    assert float(mass @ counts) == pytest.approx(np.exp(0.5 * sd**2), rel=5e-3)
    assert float(log_mixture(belief, poisson, price, -1.0)) == -np.inf


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


def revenue(price, sales):
    return -price * sales


TRUTH = {"base": 10.0, "slope": 2.0}  # the best price is 2.5


def test_agent_learns_a_price():
    problem = pg.Problem(revenue, linear, pg.feasible.Box(0.5, 5.0))
    prior = Gaussian({"base": 8.0, "slope": 1.0}, {"base": 4.0, "slope": 2.0})
    agent = pg.Agent(problem, prior, 1.0, steps=0.02, samples=4)
    assert agent.belief.exact
    rng = np.random.default_rng(0)
    for _ in range(150):
        agent.observe(rng.normal(10.0 - 2.0 * agent.decision, 2.0, 5))
    assert abs(agent.decision - 2.5) < 0.15
    assert np.all(np.abs(flat(agent.belief) - [10.0, 2.0]) < 4 * spread(agent.belief))
    assert np.isfinite(agent.info.log_predictive).all()


def test_agent_refuses_what_no_theta_explains():
    problem = pg.Problem(revenue, bernoulli, pg.feasible.Box(0.5, 5.0))
    agent = pg.Agent(problem, Gaussian({"base": 2.0, "slope": 1.0}, 0.5), 1.0, steps=0.01)
    assert not agent.belief.exact
    agent.observe([0.0, 1.0])
    before = agent.state
    with pytest.raises(errors.SupportError, match="row 1"):
        agent.observe([1.0, -2.0])
    assert eqx.tree_equal(agent.state, before)
    agent.observe([1.0, 1.0])
    assert float(agent.belief.effective_size) == 4.0


@pytest.mark.parametrize(
    ("model", "gradient"),
    [(linear, pg.gradients.MixtureScore()), (bernoulli, pg.gradients.Score())],
)
def test_simulations_run(model, gradient):
    """A price that moves the demand, learned in closed loops."""
    truth = TRUTH if model is linear else {"base": 2.0, "slope": 1.0}
    prior = Gaussian({k: v + 0.5 for k, v in truth.items()}, 1.0)
    algorithm = pg.BayesianSGD(
        pg.Problem(revenue, model, pg.feasible.Box(0.5, 5.0)), gradient, steps=0.01
    )
    result = pg.simulate(
        algorithm,
        prior,
        1.5,
        truth,
        runs=40,
        horizon=100,
        batch_size=5,
        record=lambda state: (state.belief.loc, state.belief.covariance_matrix),
    )
    assert not result.diverged().any()
    mean, covariance = result.record
    off = np.stack([mean[k][:, -1] - truth[k] for k in ("base", "slope")], axis=-1)
    z = off / np.sqrt(np.diagonal(covariance[:, -1], axis1=1, axis2=2))
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6  # as far off as it says

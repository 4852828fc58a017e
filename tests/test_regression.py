"""The belief about the coefficients of a regression: Bayes' rule, time, outliers, precision."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import integrate, optimize, stats

import postgrad as pg
from postgrad.beliefs.regression.regression import Regression
from postgrad.errors import ModelError, PriorError
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import InContext

pytestmark = pytest.mark.sample(18, of="regression")

X = jnp.asarray(0.0)


def predictor(**terms):
    usual = {
        "level": pg.models.Level(1.0, 2.0, drift=0.1),
        "weekday": pg.models.Categorical(3, scale=0.5, drift=0.02),
        "promo": pg.models.Numeric(scale=0.7),
        "deviation": pg.models.Deviation(0.3, 5.0),
    }
    return pg.models.Predictor(**(usual | terms))


NORMAL = pg.models.Normal(predictor())
POISSON = pg.models.Poisson(predictor())
COUNTS = pg.models.NegativeBinomial(predictor())
ORDER = ["deviation", "level", "promo", *["weekday"] * 3]


def contexts(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"weekday": jnp.asarray(int(day)), "promo": jnp.asarray(promo)}
        for day, promo in zip(rng.integers(0, 3, count), rng.normal(size=count), strict=True)
    ]


def design(z):
    h = np.zeros(6)
    h[[0, 1]], h[2], h[3 + int(z["weekday"])] = 1.0, z["promo"], 1.0
    return h


@jax.jit
def learn(belief, likelihood, y, weight=None):
    return belief.update(likelihood, X, y, weight)


@jax.jit
def foresee(belief, likelihood, y):
    return belief.log_mixture(likelihood, X, y)


@jax.jit
def both(belief, likelihood, y):
    return belief.predict_and_update(likelihood, Batch(X, y))


def test_normal_models_are_learned_exactly():
    """The posterior of a linear normal model in closed form, with several rows a batch."""
    belief = Regression(NORMAL, scale=0.8)
    mean, covariance = (
        np.asarray([0.0, 1.0, 0, 0, 0, 0]),
        np.diag([0.3, 2, 0.7, 0.5, 0.5, 0.5]) ** 2,
    )
    precision, shift = np.linalg.inv(covariance), np.linalg.solve(covariance, mean)
    rng = np.random.default_rng(1)
    for z in contexts(12):
        h, y = design(z), rng.normal(3.0, 40.0, 2)
        expected = stats.norm(h @ mean, np.sqrt(h @ covariance @ h + 0.64)).logpdf(y[0])
        assert foresee(belief, InContext(NORMAL, z), y[0]) == pytest.approx(expected, rel=1e-10)
        belief = learn(belief, InContext(NORMAL, z), jnp.asarray(y))
        precision = precision + 2 * np.outer(h, h) / 0.64
        shift = shift + h * y.sum() / 0.64
        covariance = np.linalg.inv(precision)
        mean = covariance @ shift
    np.testing.assert_allclose(belief.loc, mean, rtol=1e-10)
    np.testing.assert_allclose(belief.covariance_matrix, covariance, rtol=1e-9, atol=1e-12)
    assert float(belief.effective_size) == 24.0
    theta = belief.mean()
    assert set(theta) == {"deviation", "level", "promo", "weekday", "scale"}
    np.testing.assert_allclose(theta["weekday"], mean[3:], rtol=1e-10)
    assert float(theta["scale"]) == 0.8
    assert float(belief.spread()["scale"]) == 0.0
    np.testing.assert_allclose(belief.root @ belief.root.T, covariance, rtol=1e-6, atol=1e-10)


def test_lognormal_models_are_those_of_the_logarithm():
    model = pg.models.LogNormal(predictor())
    of_log, of_y = Regression(NORMAL, scale=0.8), Regression(model, scale=0.8)
    for z, y in zip(contexts(5), (0.1, 2.0, 50.0, 7.0, 1e4), strict=True):
        y = jnp.asarray([y])
        expected = foresee(of_log, InContext(NORMAL, z), jnp.log(y[0])) - jnp.log(y[0])
        assert foresee(of_y, InContext(model, z), y[0]) == pytest.approx(float(expected), rel=1e-10)
        of_log = learn(of_log, InContext(NORMAL, z), jnp.log(y))
        of_y = learn(of_y, InContext(model, z), y)
    np.testing.assert_allclose(of_y.loc, of_log.loc, rtol=1e-9)


def test_time_moves_what_the_terms_say():
    belief = learn(Regression(NORMAL, scale=0.8), InContext(NORMAL, contexts(1)[0]), jnp.ones(1))
    m, P = np.asarray(belief.loc), np.asarray(belief.covariance_matrix)
    later = jax.jit(Regression.advance)(belief, 3.0)
    k = np.diag([2 ** (-3.0 / 5.0), 1, 1, 1, 1, 1])
    walk = np.diag([0.09 * (1 - k[0, 0] ** 2), 0.03, 0, 0.0012, 0.0012, 0.0012])
    np.testing.assert_allclose(later.loc, k @ m, rtol=1e-12)
    np.testing.assert_allclose(later.covariance_matrix, k @ P @ k + walk, rtol=1e-12, atol=1e-16)
    twice = jax.jit(lambda b: b.advance(1.0).advance(2.0))(belief)
    np.testing.assert_allclose(twice.covariance_matrix, later.covariance_matrix, rtol=1e-12)
    now = jax.jit(Regression.advance)(belief, 0.0)
    np.testing.assert_array_equal(now.loc, m)
    np.testing.assert_array_equal(now.covariance_matrix, P)
    forever = jax.jit(Regression.advance)(belief, 1e6)
    assert forever.loc[0] == pytest.approx(0.0, abs=1e-12)
    assert forever.covariance_matrix[0, 0] == pytest.approx(0.09)  # the prior's again


def test_weight_zero_changes_no_bit():
    z, belief = contexts(1)[0], Regression(COUNTS, concentration=4.0)
    observed = InContext(pg.models.WithOutliers(COUNTS), z)
    learned = learn(belief, observed, jnp.asarray([3.0]))
    again = learn(learned, observed, jnp.asarray([7.0, -1.0]), jnp.zeros(2))
    np.testing.assert_array_equal(again.loc, learned.loc)
    np.testing.assert_array_equal(again.covariance_matrix, learned.covariance_matrix)


def test_fractional_weights_are_a_power():
    """Weight 1/2 of two rows that are alike is one such row; of an outlier's law as well."""
    for law in (COUNTS, pg.models.WithOutliers(COUNTS)):
        belief, z = Regression(COUNTS, concentration=4.0), contexts(1)[0]
        half = learn(belief, InContext(law, z), jnp.asarray([9.0, 9.0]), jnp.asarray([0.5, 0.5]))
        whole = learn(belief, InContext(law, z), jnp.asarray([9.0]), jnp.ones(1))
        np.testing.assert_allclose(half.loc, whole.loc, rtol=1e-12)
        np.testing.assert_allclose(half.covariance_matrix, whole.covariance_matrix, rtol=1e-12)


FAMILIES = [
    (COUNTS, {"concentration": 3.0}, [0.0, 1.0, 40.0]),
    (POISSON, {}, [0.0, 5.0, 300.0]),
    (pg.models.Bernoulli(predictor()), {}, [0.0, 1.0]),
    (pg.models.LogNormal(predictor()), {"scale": 0.4}, [0.1, 3.0]),
    (pg.models.WithOutliers(COUNTS), {"concentration": 200.0}, [0.0, 4.0, 20.0]),
]


@pytest.mark.parametrize(("model", "numbers", "values"), FAMILIES)
def test_the_predictive_density_is_the_integral(model, numbers, values):
    """Under a prior of a standard deviation of 2.2 in eta, where seven fixed nodes would miss."""
    belief, z = Regression(model, **numbers), contexts(1, 3)[0]
    h = design(z)
    v = h @ np.asarray(belief.covariance_matrix) @ h
    eta = np.linspace(1.0 - 9 * np.sqrt(v), 1.0 + 9 * np.sqrt(v), 20_001)
    weight = stats.norm(1.0, np.sqrt(v)).pdf(eta)
    law = model.law(jnp.asarray(eta), {k: jnp.asarray(n) for k, n in numbers.items()})
    for y in values:
        expected = integrate.simpson(np.exp(np.asarray(law.log_prob(y))) * weight, x=eta)
        found = np.exp(foresee(belief, InContext(model, z), jnp.asarray(y)))
        assert found == pytest.approx(expected, rel=0.02)
        _, said = both(belief, InContext(model, z), jnp.asarray([y]))
        assert np.exp(said[0]) == pytest.approx(float(found), rel=1e-9)


@pytest.mark.parametrize(("model", "numbers", "values"), FAMILIES[:3])
def test_the_posterior_of_one_row_is_the_mode_and_its_curvature(model, numbers, values):
    """All coefficients at once, by SciPy, which the search along a line replaces."""
    belief, z = Regression(model, **numbers), contexts(1, 3)[0]
    h, m, precision = design(z), np.asarray(belief.loc), np.diag(np.asarray(belief.scale) ** -2.0)

    def energy(beta, y):
        log_f = model.law(jnp.sum(h * beta), belief.numbers).log_prob(y)
        return 0.5 * (beta - m) @ precision @ (beta - m) - log_f

    value, slope, bend = map(jax.jit, (energy, jax.grad(energy), jax.hessian(energy)))
    for y in values:
        found = optimize.minimize(value, m, (y,), jac=slope, options={"gtol": 1e-8})
        learned = learn(belief, InContext(model, z), jnp.asarray([y]))
        np.testing.assert_allclose(learned.loc, found.x, atol=1e-6)
        inverse = np.linalg.inv(bend(jnp.asarray(found.x), y))
        np.testing.assert_allclose(learned.covariance_matrix, inverse, atol=1e-6)


def test_row_by_row_is_close_to_the_mode_of_all_rows():
    """Laplace once for all rows, by SciPy, against 300 updates of rank one."""
    zs, rng = contexts(300, 5), np.random.default_rng(2)
    hs = np.stack([design(z) for z in zs])
    truth = np.asarray([0.2, 2.0, 0.3, 0.4, -0.2, 0.1])
    ys = rng.poisson(np.exp(hs @ truth)).astype(float)
    belief = Regression(POISSON)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *zs)

    @jax.jit
    def through(belief):
        def step(belief, row):
            z, y = row
            return belief.update(InContext(POISSON, z), X, y[None]), None

        return jax.lax.scan(step, belief, (stacked, jnp.asarray(ys)))[0]

    learned = through(belief)
    precision = np.diag(np.asarray(belief.scale) ** -2.0)
    m = np.asarray(belief.loc)

    def energy(beta):
        eta = hs @ beta
        value = 0.5 * (beta - m) @ precision @ (beta - m) + np.sum(np.exp(eta) - ys * eta)
        return value, precision @ (beta - m) + hs.T @ (np.exp(eta) - ys)

    mode = optimize.minimize(energy, m, jac=True, options={"gtol": 1e-8}).x
    covariance = np.linalg.inv(precision + (hs.T * np.exp(hs @ mode)) @ hs)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((learned.loc - mode) / sd).max() < 0.15
    ratio = np.sqrt(np.diag(learned.covariance_matrix)) / sd
    np.testing.assert_allclose(ratio, 1.0, atol=0.02)


def test_a_function_of_ones_own_takes_the_general_update():
    """`Gaussian`, which knows no terms, learns the same from a row in a context."""
    terms = predictor()
    own = {name: jnp.zeros(term.shape) + term.mean for name, term in terms.terms.items()}
    scales = {name: jnp.zeros(term.shape) + term.scale for name, term in terms.terms.items()}
    problem = pg.Problem(
        lambda x, xi: x * xi,
        lambda x, theta, z: dist.Poisson(jnp.exp(terms(theta, z))),
        pg.feasible.Box(0.0, 1.0),
    )
    z, other = contexts(2)
    general = pg.beliefs.Gaussian(own, scales).bind(problem.at(z), X)
    assert not general.exact
    general = eqx.filter_jit(general.update)(problem.at(other).likelihood, X, jnp.asarray([9.0]))
    special = learn(Regression(POISSON), InContext(POISSON, other), jnp.asarray([9.0]))
    for name, value in general.mean().items():
        np.testing.assert_allclose(special.mean()[name], value, atol=1e-7)
    np.testing.assert_allclose(general.covariance_matrix, special.covariance_matrix, atol=1e-7)


@pytest.mark.parametrize("start", [-8.0, 0.0, 12.0])
@pytest.mark.parametrize("y", [0.0, 1.0, 1e5])
def test_the_mode_is_found_from_far_away(start, y):
    """Newton's own step from e^-8 to 1e5 would be 3e8 long."""
    terms = pg.models.Predictor(level=pg.models.Level(start, 6.0))
    for model, numbers in (
        (pg.models.Poisson(terms), {}),
        (pg.models.NegativeBinomial(terms), {"concentration": 0.5}),
        (pg.models.WithOutliers(pg.models.Poisson(terms)), {}),
    ):
        belief = Regression(model, **numbers)
        learned = learn(belief, InContext(model, {}), jnp.asarray([y]))
        eta = learned.loc[0]
        slope = jax.grad(lambda at: model.log_f(jnp.asarray(y), at, belief.numbers))(eta)  # noqa: B023
        assert slope == pytest.approx(float((eta - start) / 36.0), abs=1e-6 * (1 + y))


def test_outliers_are_hardly_learned_from():
    """A closed day among days of 40: the level stays, while without outliers it falls."""
    model = pg.models.NegativeBinomial(pg.models.Predictor(level=pg.models.Level(3.0, 1.0)))
    careful, credulous = pg.models.WithOutliers(model), model
    belief = Regression(model, concentration=200.0)
    for _ in range(20):
        belief = learn(belief, InContext(model, {}), jnp.asarray([40.0]))
    before = float(belief.loc[0])
    kept = float(learn(belief, InContext(careful, {}), jnp.asarray([0.0])).loc[0])
    fell = float(learn(belief, InContext(credulous, {}), jnp.asarray([0.0])).loc[0])
    assert before - kept < 0.003
    assert before - fell > 0.04
    usual = learn(belief, InContext(model, {}), jnp.asarray([44.0]))
    nearly = learn(belief, InContext(careful, {}), jnp.asarray([44.0]))
    np.testing.assert_allclose(nearly.loc, usual.loc, rtol=1e-4)  # an ordinary day counts


def test_the_covariance_stays_positive_definite():
    """100,000 rows a thousand times as precise as the prior, against the closed form."""
    terms = pg.models.Predictor(
        level=pg.models.Level(0.0, 100.0),
        weekday=pg.models.Categorical(7, scale=1.0),
        month=pg.models.Categorical(12, scale=1.0),
        trend=pg.models.Trend(scale=1.0),
    )
    model, count = pg.models.Normal(terms), 100_000

    @jax.jit
    def through(belief):
        def step(belief, day):
            z = {"weekday": day % 7, "month": (day // 30) % 12, "day": jnp.asarray(day, float)}
            h = model.predictor.design(z)
            return belief.update(InContext(model, z), X, jnp.ones(1)), jnp.outer(h, h)

        def block(carry, days):
            belief, total = carry
            belief, outer = jax.lax.scan(step, belief, days)
            return (belief, total + jnp.sum(outer, axis=0)), None

        start = belief, jnp.zeros((21, 21))
        return jax.lax.scan(block, start, jnp.arange(count).reshape(-1, 1000))[0]

    belief = Regression(model, scale=0.1)
    learned, total = through(belief)
    found = np.asarray(learned.covariance_matrix)
    expected = np.linalg.inv(np.diag(np.asarray(belief.scale) ** -2.0) + np.asarray(total) / 0.01)
    assert np.array_equal(found, found.T)
    assert np.linalg.eigvalsh(found).min() > 0
    np.testing.assert_allclose(np.diag(found), np.diag(expected), rtol=1e-6)


def test_a_coefficient_without_variance_stays():
    model = pg.models.Poisson(predictor(deviation=pg.models.Deviation(0.0, 5.0)))
    belief = learn(Regression(model), InContext(model, contexts(1)[0]), jnp.asarray([9.0]))
    assert belief.loc[0] == 0.0
    draws = jax.jit(lambda b: b.sample(random.key(0), (1000,)))(belief)
    assert not np.any(draws["deviation"])
    assert draws["level"].std() == pytest.approx(float(belief.spread()["level"]), rel=0.1)


def test_impossible_data_leave_no_posterior():
    belief = learn(Regression(POISSON), InContext(POISSON, contexts(1)[0]), jnp.asarray([-1.0]))
    assert np.isnan(belief.loc).any()


def test_a_price_that_is_decided_is_learned():
    """A term of the decision: what is sold at prices that vary."""
    terms = pg.models.Predictor(
        level=pg.models.Level(),
        price=pg.models.Feature(lambda price, z: jnp.log(price / z["competitor"]), scale=2.0),
    )
    model, rng = pg.models.Poisson(terms), np.random.default_rng(0)
    belief, update = Regression(model), eqx.filter_jit(Regression.update)
    for price, other in rng.uniform(1.0, 3.0, (200, 2)):
        sold = rng.poisson(np.exp(3.0) * (price / other) ** -1.5)
        likelihood = InContext(model, {"competitor": jnp.asarray(other)})
        belief = update(belief, likelihood, jnp.asarray(price), jnp.asarray([float(sold)]))
    theta, spread = belief.mean(), belief.spread()
    assert theta["price"] == pytest.approx(-1.5, abs=4 * float(spread["price"]))
    assert float(spread["price"]) < 0.1


def test_errors_say_what_to_do():
    with pytest.raises(PriorError, match=r"needs concentration=\.\.\., got none"):
        Regression(COUNTS)
    with pytest.raises(PriorError, match=r"needs no numbers, got \['scale'\]"):
        Regression(POISSON, scale=1.0)
    with pytest.raises(PriorError, match="scale must be a positive number, got -1"):
        Regression(NORMAL, scale=-1.0)
    with pytest.raises(PriorError, match=r"needs a model of pg\.models"):
        Regression(lambda x, theta: None)
    bound = functools.partial(pg.Problem, lambda x, xi: x * xi)
    belief, z = Regression(POISSON), contexts(1)[0]
    other = pg.models.Poisson(pg.models.Predictor(level=pg.models.Level()))
    with pytest.raises(ModelError, match=r"but the model has \{'level': \(\)\}"):
        belief.bind(bound(other).at(z), X)
    with pytest.raises(ModelError, match=r"the model has \['concentration'\]"):
        belief.bind(bound(COUNTS).at(z), X)
    with pytest.raises(ModelError, match="other smooth models take Gaussian"):
        belief.bind(bound(lambda x, theta, z: theta), X)
    assert belief.bind(bound(POISSON, observation=pg.models.WithOutliers(POISSON)).at(z), X)


def test_what_is_foreseen_has_a_derivative_in_the_decision():
    """The paper's gradient for data that depend on the decision reads it."""
    priced = pg.models.NegativeBinomial(
        pg.models.Predictor(
            level=pg.models.Level(3.0, 0.5), price=pg.models.Feature(lambda x, z: x)
        )
    )
    belief, z = Regression(priced, concentration=5.0), {"promo": jnp.asarray(0.0)}

    def log_f(x):
        return belief.log_mixture(InContext(priced, z), x, jnp.asarray(4.0))

    slope = jax.jit(jax.grad(log_f))(1.5)
    difference = (log_f(jnp.asarray(1.5 + 1e-4)) - log_f(jnp.asarray(1.5 - 1e-4))) / 2e-4
    np.testing.assert_allclose(slope, difference, rtol=1e-3)

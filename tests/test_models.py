"""Models of the vocabulary: terms, predictors, families, outliers."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import postgrad as pg
from postgrad.beliefs.regression.regression import Regression
from postgrad.errors import ModelError
from postgrad.models.regression_model import curve_of
from postgrad.problem.contexts import takes_context

ALL = pg.models.Predictor(
    level=pg.models.Level(2.0, 3.0, drift=0.01),
    weekday=pg.models.Categorical(7, drift=0.003),
    event=pg.models.Categorical(2, "holiday", scale=0.4, other=True),
    promo=pg.models.Numeric(scale=0.6),
    rain=pg.models.Numeric("millimetres", scale=0.2, drift=0.05),
    season=pg.models.Harmonic(2, scale=0.3),
    trend=pg.models.Trend(origin=100.0, unit=10.0),
    deviation=pg.models.Deviation(0.2, 30.0),
    price=pg.models.Feature(lambda x, z: x - z["promo"]),
)
Z = {
    "weekday": jnp.asarray(3),
    "holiday": jnp.asarray(2),
    "promo": jnp.asarray(0.5),
    "millimetres": jnp.asarray(4.0),
    "year_share": jnp.asarray(0.25),
    "day": jnp.asarray(120.0),
}
THETA = {
    "level": 1.0,
    "weekday": jnp.arange(7.0),
    "event": jnp.asarray([5.0, 6.0, 7.0]),
    "promo": 2.0,
    "rain": 0.25,
    "season": jnp.asarray([1.0, 10.0, 100.0, 1000.0]),
    "trend": 0.5,
    "deviation": 0.125,
    "price": 3.0,
}


def test_a_predictor_is_the_sum_of_its_terms():
    # level, the fourth weekday, the level that is not listed, promo, rain, trend, deviation, price
    parts = [1.0, 3.0, 7.0, 2.0 * 0.5, 0.25 * 4.0, 0.5 * 2.0, 0.125, 3.0 * (9.0 - 0.5)]
    season = -10.0 + 100.0  # cos and sin of a quarter and of a half: 0, -1, 1, 0
    eta = ALL(THETA, Z, 9.0)
    assert float(eta) == pytest.approx(sum(parts) + season, rel=1e-12)
    flat, _ = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, THETA))
    assert float(ALL.design(Z, 9.0) @ flat) == pytest.approx(float(eta), rel=1e-12)
    assert ALL.shapes == {name: np.shape(THETA[name]) for name in sorted(THETA)}


def test_terms_state_their_priors():
    order = ["deviation", *["event"] * 3, "level", "price", "promo", "rain", *["season"] * 4]
    order += ["trend", *["weekday"] * 7]
    stated = {
        "scale": {"deviation": 0.2, "event": 0.4, "level": 3.0, "price": 0.5, "promo": 0.6}
        | {"rain": 0.2, "season": 0.3, "trend": 0.1, "weekday": 0.5},
        "mean": {"level": 2.0},
        "drift": {"level": 0.01, "rain": 0.05, "weekday": 0.003},
    }
    for attribute, values in stated.items():
        expected = [values.get(name, 0.0) for name in order]
        np.testing.assert_array_equal(ALL.each(attribute), expected)
    expected = [30.0 if name == "deviation" else np.inf for name in order]
    np.testing.assert_array_equal(ALL.each("half_life"), expected)


def test_each_family_has_its_law():
    terms = pg.models.Predictor(level=pg.models.Level())
    theta = {"level": jnp.asarray(1.2), "scale": jnp.asarray(0.5), "concentration": jnp.asarray(4)}
    mean = np.exp(1.2)
    cases = [
        (pg.models.Normal(terms), stats.norm(1.2, 0.5).logpdf, [0.3, 2.0]),
        (pg.models.LogNormal(terms), stats.lognorm(0.5, scale=mean).logpdf, [0.3, 2.0]),
        (pg.models.Poisson(terms), stats.poisson(mean).logpmf, [0.0, 3.0]),
        (pg.models.NegativeBinomial(terms), stats.nbinom(4, 4 / (4 + mean)).logpmf, [0.0, 9.0]),
        (pg.models.Bernoulli(terms), stats.bernoulli(mean / (1 + mean)).logpmf, [0.0, 1.0]),
    ]
    for model, expected, values in cases:
        assert takes_context(model)
        law = model(0.0, theta, {})
        for y in values:
            assert float(law.log_prob(jnp.asarray(y))) == pytest.approx(expected(y), rel=1e-9)


def test_outliers_are_a_mixture_and_its_curve_has_all_derivatives():
    terms = pg.models.Predictor(level=pg.models.Level())
    for model, numbers in (
        (pg.models.NegativeBinomial(terms), {"concentration": jnp.asarray(50.0)}),
        (pg.models.Poisson(terms), {}),
        (pg.models.Normal(terms), {"scale": jnp.asarray(0.7)}),
        (pg.models.LogNormal(terms), {"scale": jnp.asarray(0.03)}),
    ):
        careful = pg.models.WithOutliers(model, 0.02)
        for y in map(jnp.asarray, (1.0, 12.0, 60.0)):
            eta = jnp.asarray(2.5)
            usual, wide = model.law(eta, numbers), model.outlier(eta, numbers)
            expected = 0.98 * np.exp(usual.log_prob(y)) + 0.02 * np.exp(wide.log_prob(y))
            law = careful(0.0, {"level": eta, **numbers}, {})
            assert np.exp(law.log_prob(y)) == pytest.approx(float(expected), rel=1e-9)
            curve = careful.curve(y, eta, numbers)
            plain = curve_of(lambda at, y=y: careful.log_f(y, at, numbers), eta)  # noqa: B023
            for found, known in zip(curve[:3], plain[:3], strict=True):
                assert float(found) == pytest.approx(float(known), rel=1e-6, abs=1e-9)
            assert curve.safe_bend >= max(float(curve.bend), 0.0)


def test_a_family_of_ones_own_is_a_law():
    class Waiting(pg.models.RegressionModel):
        predictor: pg.models.Predictor

        def law(self, eta, numbers):
            return dist.Exponential(jnp.exp(-eta))

    model = Waiting(pg.models.Predictor(level=pg.models.Level(0.0, 1.0)))
    belief = Regression(model)
    z = pg.Problem(lambda x, xi: x * xi, model).at({}).model
    learned = jax.jit(Regression.update)(belief, z, jnp.asarray(0.0), jnp.full(50, 2.0))
    # The mode of -50 eta - 100 e^-eta - eta^2 / 2.
    eta = float(learned.loc[0])
    assert -50.0 + 100.0 * np.exp(-eta) - eta == pytest.approx(0.0, abs=1e-6)


def test_items_have_a_predictor_each():
    terms = pg.models.Predictor(
        level=pg.models.Level(),
        weekday=pg.models.Categorical(3),
        price=pg.models.Feature(lambda x, z: x),
    )
    model = pg.models.Poisson(terms)
    both = pg.Problem(lambda x, xi: jnp.sum(x * xi), pg.Items(model))
    z = {"weekday": jnp.asarray([0, 2])}
    theta = {"level": jnp.asarray([1.0, 2.0]), "weekday": jnp.arange(6.0).reshape(2, 3) / 10}
    theta["price"] = jnp.asarray([0.1, -0.1])
    law = both.at(z).model(jnp.asarray([3.0, 4.0]), theta)
    np.testing.assert_allclose(law.base_dist.rate, np.exp([1.0 + 0.3, 2.0 + 0.5 - 0.4]))


def test_daily_demand_takes_more_terms():
    model = pg.models.daily_demand(origin=5.0, promo=pg.models.Numeric())
    names = {"level", "weekday", "month", "waves", "trend", "deviation", "promo"}
    assert set(model.predictor.terms) == names
    assert float(model.predictor.terms["trend"].origin) == 5.0
    other = pg.models.daily_demand(month=pg.models.Harmonic(2))
    assert isinstance(other.predictor.terms["month"], pg.models.Harmonic)


def test_errors_say_what_to_do():
    models = pg.models
    with pytest.raises(ModelError, match="at least one term"):
        models.Predictor()
    with pytest.raises(ModelError, match=r"level must be a term such as Numeric\(\), got 3.0"):
        models.Predictor(level=3.0)
    with pytest.raises(ModelError, match="scale must be a positive number, got 0"):
        models.Numeric(scale=0)
    with pytest.raises(ModelError, match="drift must be a number of at least 0, got -1"):
        models.Level(drift=-1)
    with pytest.raises(ModelError, match="half_life must be a positive number"):
        models.Deviation(0.1, 0.0)
    with pytest.raises(ModelError, match="levels must be a positive whole number"):
        models.Categorical(0)
    with pytest.raises(ModelError, match="no term may be called 'concentration'"):
        models.NegativeBinomial(models.Predictor(concentration=models.Level()))
    with pytest.raises(ModelError, match="must be a Predictor"):
        models.Poisson(models.Level())
    terms = models.Predictor(level=models.Level())
    bernoulli = models.WithOutliers(models.Bernoulli(terms))
    with pytest.raises(ModelError, match="Bernoulli has no law of outliers"):
        bernoulli(0.0, {"level": jnp.asarray(0.0)}, {})
    with pytest.raises(ModelError, match=r"share must be a number between 0 and 1, got 1.5"):
        models.WithOutliers(models.Poisson(terms), 1.5)
    with pytest.raises(ModelError, match=r"must be one of pg\.models"):
        models.WithOutliers(models.Level())
    with pytest.raises(ModelError, match=r"column 'promo' of the context, which has \['rain'\]"):
        models.Predictor(promo=models.Numeric())({"promo": 1.0}, {"rain": 2.0})
    wrong = models.Predictor(price=models.Feature(lambda x, z: jnp.ones(3)))
    with pytest.raises(ModelError, match=r"must return shape \(\), as `size`"):
        wrong.design({}, 1.0)
    nan = models.Predictor(day=models.Categorical(7))({"day": jnp.zeros(7)}, {"day": 9})
    assert np.isnan(nan)  # a level that does not exist has no effect of zero

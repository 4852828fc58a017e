"""The untuned belief about daily demand against NumPy, and quantiles of what it foresees."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import optimize, special, stats

import postgrad as pg
from postgrad.beliefs.regression.regression import Regression
from postgrad.errors import PriorError, SettingError
from postgrad.problem.contexts import InContext
from postgrad.research.problems.newsvendor import Mismatch, Newsvendor

X = jnp.asarray(0.0)
MODEL = pg.models.daily_demand()
OBSERVED = pg.models.WithOutliers(MODEL)
ROWS = 120


def rows(seed=0):
    """Demand with a weekday, a trend, a closed day, a festival and a gap of ten days."""
    rng = np.random.default_rng(seed)
    day = np.arange(ROWS) + np.where(np.arange(ROWS) > 60, 10, 0)
    weekday, month = day % 7, (day // 30) % 12
    mean = np.exp(3.0 + 0.3 * np.sin(weekday) + 0.1 * np.cos(month) + 0.0005 * day)
    y = rng.negative_binomial(8.0, 8.0 / (8.0 + mean)).astype(float)
    y[[40, 80]] = 0.0, 400.0
    return day, weekday, month, y


def log_count(y, eta, r):
    mean = np.exp(eta)
    terms = special.gammaln(y + r) - special.gammaln(r) - special.gammaln(y + 1)
    return terms - r * np.log1p(mean / r) - y * np.log1p(r / mean)


class Member:
    """One filter, in NumPy.

    Coefficients are deviation, level, 12 months, trend, 4 waves, 7 weekdays.
    """

    def __init__(self, concentration, deviation, half_life, drift, season, waves):
        self.r, self.drift = concentration, drift
        self.deviation, self.half_life = deviation, half_life
        scale = np.r_[deviation, 5.0, np.full(12, season), 0.1, np.full(4, waves), np.full(7, 0.5)]
        self.m, self.P = np.zeros(26), np.diag(scale**2)

    def advance(self, elapsed):
        k = np.ones(26)
        k[0] = 0.5 ** (elapsed / self.half_life)
        self.m, self.P = k * self.m, np.outer(k, k) * self.P
        self.P[0, 0] += self.deviation**2 * (1 - k[0] ** 2)
        self.P[range(19, 26), range(19, 26)] += elapsed * self.drift**2

    def log_f(self, y, eta):
        usual, wide = log_count(y, eta, self.r), log_count(y, eta, 0.5)
        return np.logaddexp(np.log(0.995) + usual, np.log(0.005) + wide)

    def slope(self, y, eta):
        def one(r):
            return (y - np.exp(eta)) * r / (r + np.exp(eta))

        p = 0.995 * np.exp(log_count(y, eta, self.r) - self.log_f(y, eta))
        return p * one(self.r) + (1 - p) * one(0.5)

    def learn(self, h, y):
        m, g = h @ self.m, self.P @ h
        v = h @ g

        def uphill(eta):
            return self.slope(y, eta) - (eta - m) / v

        # The highest mode, from a fine grid between what was foreseen and the data.
        low, high = sorted([m, np.log(y + 0.1)])
        grid = np.linspace(low - 0.1, high + 0.1, 20_001)
        best = np.argmax(self.log_f(y, grid) - (grid - m) ** 2 / (2 * v))
        eta = optimize.brentq(uphill, grid[best - 1], grid[best + 1], xtol=1e-14, rtol=1e-15)
        bend = max(-(self.slope(y, eta + 1e-5) - self.slope(y, eta - 1e-5)) / 2e-5, 0.0)
        new_v = v / (1 + bend * v)
        nodes, shares = np.polynomial.hermite_e.hermegauss(7)
        at = eta + np.sqrt(new_v) * nodes
        density = np.exp(self.log_f(y, at) - (at - m) ** 2 / (2 * v) + nodes**2 / 2)
        self.m = self.m + g * (eta - m) / v
        self.P = self.P - np.outer(g, g) * bend / (1 + bend * v)
        return np.log(density @ shares / shares.sum() * np.sqrt(new_v / v))


@functools.cache
def through():
    """The mixture after each row."""
    day, weekday, month, y = rows()
    context = {"day": day.astype(float), "weekday": weekday, "month": month}

    @jax.jit
    def scan(belief):
        def step(belief, row):
            z, y, elapsed = row
            belief = belief.advance(elapsed).update(InContext(OBSERVED, z), X, y[None])
            kept = belief.beliefs.loc, belief.beliefs.covariance_matrix, belief.log_weights
            return belief, kept

        return jax.lax.scan(step, belief, (context, y, np.diff(day, prepend=0).astype(float)))

    return scan(pg.beliefs.daily_demand())


def test_it_is_the_bank_of_filters_row_by_row():
    day, weekday, month, ys = rows()
    changes = ((0.0, 14.0, 0.0), (0.1, 14.0, 0.003), (0.2, 90.0, 0.003))
    seasons = ((0.05, 0.0), (0.2, 0.0), (0.0, 0.05))
    numbers = itertools.product((0.5, 1.5, 4.0, 10.0, 25.0, 70.0, 300.0, 1e4), changes, seasons)
    members = [Member(r, *change, *season) for r, change, season in numbers]
    some = [0, 13, 26, 33, 71]
    _, (locs, covariances, log_weights) = through()
    found = np.asarray(log_weights)
    assert found.shape == (ROWS, 72)
    expected = np.zeros(5)
    for t in range(ROWS):
        h, year = np.zeros(26), day[t] / 365.25
        h[[0, 1, 2 + month[t], 19 + weekday[t]]], h[14] = 1.0, year
        angles = 2.0 * np.pi * np.asarray([1.0, 2.0]) * year
        h[15:19] = np.r_[np.cos(angles), np.sin(angles)]
        elapsed = day[t] - day[t - 1] if t else 0.0
        expected = expected * 0.995**elapsed
        for i, which in enumerate(some):
            members[which].advance(elapsed)
            expected[i] += members[which].learn(h, ys[t])
            np.testing.assert_allclose(locs[t, which], members[which].m, atol=1e-8)
            np.testing.assert_allclose(covariances[t, which], members[which].P, atol=1e-8)
        gap = found[t, some] - expected
        np.testing.assert_allclose(gap, gap[0], atol=1e-8)


def test_draws_among_members_are_the_members_own():
    belief, _ = through()
    which, key = jnp.asarray([0, 71, 5, 5]), random.key(3)
    found = jax.jit(lambda b: b.beliefs.sample_among(b.axes, which, key))(belief)
    for i, number in enumerate(which.tolist()):
        own = belief.members[number].sample(key, (4,))
        for name, draws in own.items():
            np.testing.assert_allclose(found[name][i], draws[i], rtol=1e-9, atol=1e-12)


LEVELS = np.asarray([0.1, 0.25, 0.5, 0.75, 0.9, 0.999])


@jax.jit
def quantiles(belief, model, levels):
    return pg.beliefs.predictive_quantile(belief, model, levels)


def a_context(**columns):
    return {"day": 140.0, "weekday": jnp.asarray(2), "month": jnp.asarray(7)} | columns


def test_whole_quantiles_are_the_smallest_that_reach_the_level():
    """Against SciPy's distribution function at each node of each member."""
    belief, _ = through()
    found = np.asarray(quantiles(belief, InContext(MODEL, a_context()), LEVELS))
    nodes, shares = np.polynomial.hermite_e.hermegauss(7)
    total = {}
    for y in {*found, *(found - 1)}:
        total[y] = 0.0
        for weight, member in zip(belief.probabilities, belief.members, strict=True):
            eta = member.eta(InContext(MODEL, a_context()), X)
            mean = np.exp(float(eta.mean) + np.sqrt(float(eta.variance)) * nodes)
            r = float(member.numbers["concentration"])
            below = stats.nbinom(r, r / (r + mean)).cdf(y)
            total[y] += float(weight) * below @ shares / shares.sum()
    for level, y in zip(LEVELS, found, strict=True):
        assert total[y] >= level > total[y - 1]


def test_a_context_never_seen_is_foreseen_wider():
    """The seventh month was not among the rows."""
    belief, _ = through()
    seen, unseen = (
        np.asarray(quantiles(belief, InContext(MODEL, a_context(month=jnp.asarray(k))), LEVELS))
        for k in (3, 7)
    )
    assert unseen[5] - unseen[0] > seen[5] - seen[0]
    assert 0.5 < unseen[2] / seen[2] < 2.0


def test_quantiles_of_normal_models_are_in_closed_form():
    terms = pg.models.Predictor(level=pg.models.Level(3.0, 2.0))
    levels = jnp.asarray(LEVELS)
    for kind, inverse in ((pg.models.Normal, lambda q: q), (pg.models.LogNormal, np.log)):
        model = InContext(kind(terms), {})
        one = Regression(kind(terms), scale=0.5)
        found = inverse(np.asarray(quantiles(one, model, levels)))
        expected = stats.norm(3.0, np.hypot(2.0, 0.5)).ppf(LEVELS)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        other = Regression(kind(terms), scale=4.0)
        both = inverse(np.asarray(quantiles(pg.beliefs.Mixture([one, other]), model, levels)))
        cdf = 0.5 * sum(stats.norm(3.0, np.hypot(2.0, s)).cdf(both) for s in (0.5, 4.0))
        np.testing.assert_allclose(cdf, LEVELS, rtol=1e-6)


def test_quantiles_of_bernoulli_and_large_poisson():
    terms = pg.models.Predictor(level=pg.models.Level(0.5, 1e-6))
    model = pg.models.Bernoulli(terms)
    levels = jnp.asarray([0.2, 0.377, 0.378, 0.9])
    found = quantiles(Regression(model), InContext(model, {}), levels)
    assert found.tolist() == [0.0, 0.0, 1.0, 1.0]  # P(0) = .37754
    model = pg.models.Poisson(pg.models.Predictor(level=pg.models.Level(8.0, 1e-6)))
    found = quantiles(Regression(model), InContext(model, {}), jnp.asarray(LEVELS))
    np.testing.assert_array_equal(found, stats.poisson(np.exp(8.0)).ppf(LEVELS))


def test_newsvendors_say_their_level():
    assert Mismatch(jnp.asarray(3.0), jnp.asarray(1.0)).service_level == 0.75
    assert Newsvendor(*jnp.asarray([2.0, 4.0, 1.0])).service_level == pytest.approx(2 / 3)


def test_quantile_errors_say_what_to_do():
    one = Regression(MODEL, concentration=3.0)
    with pytest.raises(SettingError, match=r"levels must be numbers between 0 and 1, got \[0.5, 1"):
        pg.beliefs.predictive_quantile(one, InContext(MODEL, a_context()), [0.5, 1.0])
    with pytest.raises(PriorError, match="are those of a Regression or a Mixture of Regression"):
        pg.beliefs.predictive_quantile(pg.beliefs.Gamma(1.0, 1.0), MODEL, 0.5)

"""The laws of risk measures, and decisions under them against closed forms and brute force."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from looking import read_at
from rooms import examples
from scipy import optimize, stats

import postgrad as pg
from postgrad import errors
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas

RISKS = {
    pg.risks.Mean: [pg.risks.Mean()],
    pg.risks.MeanVariance: [pg.risks.MeanVariance(0.3)],
    pg.risks.VaR: [pg.risks.VaR(0.9), pg.risks.VaR(0.25)],
    pg.risks.CVaR: [pg.risks.CVaR(0.0), pg.risks.CVaR(0.77), pg.risks.CVaR(0.99)],
}
ALL = examples("postgrad.algorithm.risks", pg.risks.Risk, RISKS)
COSTS = np.random.default_rng(0).gamma(2.0, size=40) * 3.0 - 4.0


@pytest.mark.parametrize("risk", ALL, ids=str)
def test_weights_sum_to_one_and_ignore_the_order_of_draws(risk):
    weights = np.asarray(risk.weights(COSTS))
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(risk.weights(COSTS[::-1]), weights[::-1], atol=1e-15)


@pytest.mark.parametrize("risk", ALL, ids=str)
def test_a_sure_cost_adds_itself(risk):
    assert risk.value(COSTS + 7.0) == pytest.approx(float(risk.value(COSTS)) + 7.0, rel=1e-12)
    np.testing.assert_allclose(risk.weights(COSTS + 7.0), risk.weights(COSTS), atol=1e-12)
    assert risk.value(np.full(5, 2.5)) == pytest.approx(2.5, rel=1e-12)


@pytest.mark.parametrize("risk", ALL, ids=str)
def test_weights_are_the_derivative_of_the_value(risk):
    step = 1e-6  # no two costs are that near: their order stays
    assert np.diff(np.sort(COSTS)).min() > 2 * step
    moves = step * np.eye(COSTS.size)
    value = jax.vmap(risk.value)
    difference = (value(COSTS + moves) - value(COSTS - moves)) / (2 * step)
    np.testing.assert_allclose(risk.weights(COSTS), difference, atol=1e-8)


@pytest.mark.parametrize(
    "risk", [r for r in ALL if not isinstance(r, pg.risks.MeanVariance)], ids=str
)
def test_higher_costs_are_a_higher_risk(risk):
    """Of all but MeanVariance, to which luck is a risk, too."""
    assert np.all(np.asarray(risk.weights(COSTS)) >= 0.0)
    higher = COSTS + np.random.default_rng(1).exponential(size=COSTS.size)
    assert risk.value(higher) > risk.value(COSTS)
    assert risk.value(3.0 * COSTS) == pytest.approx(3.0 * float(risk.value(COSTS)))


def test_variance_punishes_luck():
    risk, lucky = pg.risks.MeanVariance(0.3), COSTS - 20.0 * (COSTS.min() == COSTS)
    assert risk.value(lucky) > risk.value(COSTS)
    assert risk.value(COSTS) == pytest.approx(COSTS.mean() + 0.3 * COSTS.var(), rel=1e-12)


@pytest.mark.parametrize("q", [0.0, 0.3, 0.77, 0.975, 0.99])
def test_cvar_is_the_minimum_of_rockafellar_and_uryasev(q):
    """Over v among the costs, where the minimum of a function with kinks there lies."""
    v = COSTS[:, None]
    bound = v[:, 0] + np.mean(np.maximum(COSTS - v, 0.0), axis=1) / (1.0 - q)
    assert pg.risks.CVaR(q).value(COSTS) == pytest.approx(bound.min(), rel=1e-12)


def test_cvar_of_everything_is_the_mean_and_of_little_the_worst():
    assert pg.risks.CVaR(0.0).value(COSTS) == pytest.approx(COSTS.mean(), rel=1e-12)
    assert pg.risks.CVaR(0.99).value(COSTS) == pytest.approx(COSTS.max(), rel=1e-12)


@pytest.mark.parametrize("q", [0.1, 0.5, 0.9])
def test_var_is_the_quantile(q):
    """Harrell and Davis weigh order statistics by a beta law; on many draws it is the quantile."""
    ranks = np.arange(COSTS.size + 1) / COSTS.size
    law = stats.beta(q * (COSTS.size + 1), (1 - q) * (COSTS.size + 1))
    theirs = np.diff(law.cdf(ranks)) @ np.sort(COSTS)
    spread = np.ptp(COSTS)
    assert abs(pg.risks.VaR(q).value(COSTS) - theirs) < 0.005 * spread
    many = stats.gamma(2.0).ppf((np.arange(4096) + 0.5) / 4096)
    assert pg.risks.VaR(q).value(many) == pytest.approx(stats.gamma(2.0).ppf(q), rel=2e-3)


def test_quantiles_out_of_range_are_refused():
    for quantile in (-0.1, 1.0, float("nan"), [0.5, 0.9]):
        with pytest.raises(errors.SettingError):
            pg.risks.CVaR(quantile)
    with pytest.raises(errors.SettingError, match=r"\(0, 1\)"):
        pg.risks.VaR(0.0)
    with pytest.raises(errors.SettingError, match="zero or more"):
        pg.risks.MeanVariance(-1.0)


def test_steps_that_draw_one_theta_are_refused():
    with pytest.raises(errors.SettingError, match="several thetas"):
        pg.BayesianSGD(problem(line=0.1), steps=0.1, risk=pg.risks.CVaR(0.9))


# Problems whose posterior risk is known. One program serves them all.

NOISE, PRIOR, BATCH = 3.0, (20.0, 2.5), (17.0, 21.0)
PRECISION = PRIOR[1] ** -2 + len(BATCH) * NOISE**-2
MEAN = (PRIOR[0] * PRIOR[1] ** -2 + sum(BATCH) * NOISE**-2) / PRECISION
SCALE = PRECISION**-0.5
PRICE = (2.0, 4.0, 1.0)
KEYS = random.split(random.key(5))


class Cost(eqx.Module):
    """line (x^2 / 2 - x xi) + square (x - xi)^2 + shop h(x, xi), h that of a newsvendor."""

    line: jax.Array
    square: jax.Array
    shop: jax.Array

    def __call__(self, x, xi):
        cost, price, salvage = PRICE
        order = cost * x - price * jnp.minimum(x, xi) - salvage * jnp.maximum(x - xi, 0.0)
        return self.line * (0.5 * x**2 - x * xi) + self.square * (x - xi) ** 2 + self.shop * order


def demand(x, theta):
    return dist.Normal(theta, NOISE, validate_args=False)


def problem(line=0.0, square=0.0, shop=0.0):
    cost = Cost(*(jnp.asarray(number) for number in (line, square, shop)))
    return pg.Problem(cost, demand, pg.feasible.Box(0.0, 50.0))


@eqx.filter_jit
def stage(algorithm, state, weight):
    """The state after a stage, less what would need programs of its own."""
    return algorithm.step(state, jnp.asarray(BATCH), weight=weight)[0]


@eqx.filter_jit
def risk_at(algorithm, belief, x, keys):
    objective = SampledObjective(algorithm.problem, pg.gradients.Pathwise(), algorithm.risk, None)
    reading = read_at(objective, draw_thetas(belief, keys[0], 1024), keys[1], 64, x)
    return algorithm.risk.value(reading.costs)


def solve(risk, at=None, **numbers):
    """The decision after a batch and a stage without data, and the risk of it, or at a point."""
    algorithm = pg.BayesianSGD(problem(**numbers), risk=risk)
    state = algorithm.init(pg.beliefs.Normal(*PRIOR), 15.0)
    for weight in (jnp.ones(2), jnp.zeros(2)):
        state = stage(algorithm, state, weight)
    x = state.x if at is None else jnp.asarray(at)
    return float(state.x), float(risk_at(algorithm, state.belief, x, KEYS))


# Equally likely values of a normal variable, for brute force.
THETAS = MEAN + SCALE * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
NOISES = NOISE * stats.norm.ppf((np.arange(400) + 0.5) / 400)


def brute_force(measure):
    """The least risk of a newsvendor: a mean over noise, inside a measure over theta."""
    cost, price, salvage = PRICE
    demand = THETAS[:, None] + NOISES

    def risk(x):
        left = np.maximum(x - demand, 0.0)
        return measure(np.mean(cost * x - price * (x - left) - salvage * left, axis=1))

    best = optimize.minimize_scalar(risk, bounds=(5.0, 40.0), options={"xatol": 1e-4})
    return best.x, best.fun


Z = stats.norm.ppf(0.9)
TAIL = stats.norm.pdf(Z) / 0.1  # the mean of a normal variable beyond Z
PENALTY = 0.05
KINDS = {
    # (risk, least of line (x^2 / 2 - x theta), the measure itself)
    "MeanVariance": (
        pg.risks.MeanVariance(PENALTY),
        MEAN / (1 + 0.2 * PENALTY * SCALE**2),  # line = 0.1: variance line^2 x^2 s^2
        lambda costs: costs.mean() + PENALTY * costs.var(),
    ),
    "VaR": (pg.risks.VaR(0.9), MEAN - SCALE * Z, lambda costs: np.quantile(costs, 0.9)),
    "CVaR": (pg.risks.CVaR(0.9), MEAN - SCALE * TAIL, lambda costs: np.sort(costs)[-400:].mean()),
}
kinds = pytest.mark.parametrize("name", KINDS)


@kinds
def test_linear_in_theta(name):
    """H = 0.1 (x^2 / 2 - x theta) is normal: mean and spread are known, so all risks are."""
    risk, best, measure = KINDS[name]
    x, value = solve(risk, line=0.1)
    assert x == pytest.approx(best, rel=0.01)
    exact = measure(0.1 * (0.5 * best**2 - best * THETAS))
    assert value == pytest.approx(exact, rel=0.01)


@kinds
def test_square_of_theta(name):
    """H = (x - theta)^2 + 9: least at the mean, by symmetry; a noncentral chi^2 elsewhere."""
    risk, _, _ = KINDS[name]
    at = MEAN + 2.0
    x, value = solve(risk, at=at, square=1.0)
    assert x == pytest.approx(MEAN, rel=0.01)
    law = stats.ncx2(1, (2.0 / SCALE) ** 2, loc=NOISE**2 / SCALE**2)  # times SCALE^2
    quantile = law.ppf(0.9)
    exact = {
        "MeanVariance": law.mean() + PENALTY * SCALE**2 * law.var(),
        "VaR": quantile,
        "CVaR": quantile + law.expect(lambda h: h - quantile, lb=quantile) / 0.1,
    }[name]
    assert value == pytest.approx(SCALE**2 * exact, rel=0.01)


@kinds
def test_newsvendor_by_brute_force(name):
    risk, _, measure = KINDS[name]
    best, least = brute_force(measure)
    x, value = solve(risk, shop=1.0)
    assert x == pytest.approx(best, rel=0.01)
    assert value == pytest.approx(least, rel=0.01)
    neutral = brute_force(np.mean)[0]
    assert x < neutral - 0.2  # and it is another decision than that of the mean


def test_of_few_thetas_noise_is_not_risk():
    """A point of a grid has one H, however often it is drawn: half of the draws have each here.

    With revenue and a fine for a stock-out, 16 draws of xi say little about H. The worst tenth of
    these draws would be that of noise, and the order far too careful.
    """
    levels = np.array([60.0, 80.0])
    problem = pg.Problem(
        lambda x, xi: 10 * x - 12 * jnp.minimum(x, xi) + 400.0 * (xi > x),
        lambda x, theta: dist.Normal(theta, 8.0),
        pg.feasible.Box(0.0, 150.0),
    )

    def expected(x):
        z = (x - levels) / 8.0
        short = 8.0 * (stats.norm.pdf(z) - z * stats.norm.sf(z))
        return 10 * x - 12 * (levels - short) + 400.0 * stats.norm.sf(z)

    agent = pg.Agent(problem, pg.beliefs.Grid(levels), x=70.0, risk=pg.risks.CVaR(0.9))
    for _ in range(3):
        agent.observe([70.0])  # as likely under both
    # Both are likely: the worst tenth is that of the worse theta.
    places = np.linspace(50.0, 120.0, 7001)
    least = min(expected(x).max() for x in places)
    assert expected(float(agent.decision)).max() <= least + 0.01 * abs(least)

"""What is seen of a number up to a limit, and what comes of ignoring the limit."""

import contextlib
import io
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import integrate, special, stats

import postgrad as pg
from postgrad import errors
from postgrad.distributions.censored import Censored
from postgrad.distributions.density import log_density
from postgrad.distributions.tail_probabilities import log_tails
from postgrad.research.problems import sales

DOCS = Path(__file__).parents[1] / "docs" / "censoring.md"

# The family, the same as scipy has it, and limits from one tail to the other.
WHOLE = [-1.0, -0.5, 0.0, 0.5, 1.0, 6.7, 7.0, 30.0, 100.0]
POSITIVE = [-1.0, 0.0, 0.01, 0.7, 2.0, 20.0]
LINE = [-60.0, -3.0, 1.0, 4.0, 70.0]
FAMILIES = {
    "normal": (dist.Normal(1.0, 2.0), stats.norm(1.0, 2.0), LINE),
    "logistic": (dist.Logistic(1.0, 2.0), stats.logistic(1.0, 2.0), LINE),
    "lognormal": (dist.LogNormal(1.0, 0.5), stats.lognorm(0.5, scale=np.e), POSITIVE),
    "exponential": (dist.Exponential(2.0), stats.expon(scale=0.5), POSITIVE),
    "weibull": (dist.Weibull(2.0, 1.5), stats.weibull_min(1.5, scale=2.0), POSITIVE),
    "gamma": (dist.Gamma(3.0, 2.0), stats.gamma(3.0, scale=0.5), POSITIVE),
    "gamma-small": (dist.Gamma(0.02, 1.0), stats.gamma(0.02), POSITIVE),
    "gamma-large": (dist.Gamma(1e4, 1.0), stats.gamma(1e4), [9e3, 1e4, 10_001.0, 1.2e4]),
    "uniform": (dist.Uniform(0.0, 4.0), stats.uniform(0.0, 4.0), POSITIVE),
    "poisson": (dist.Poisson(7.0), stats.poisson(7.0), WHOLE),
    "geometric": (dist.Geometric(probs=0.2), stats.geom(0.2, loc=-1), WHOLE),
    "geometric-logits": (dist.Geometric(logits=-1.0), stats.geom(special.expit(-1), loc=-1), WHOLE),
    "negative-binomial": (dist.NegativeBinomial2(7.0, 2.0), stats.nbinom(2, 2 / 9), WHOLE),
    "overdispersed": (dist.GammaPoisson(0.1, 0.001), stats.nbinom(0.1, 0.001 / 1.001), WHOLE),
    "dice": (dist.DiscreteUniform(1, 6), stats.randint(1, 7), WHOLE),
}


tails = jax.jit(log_tails)


@pytest.mark.parametrize("family", FAMILIES)
def test_tails_are_those_of_scipy(family):
    base, reference, limits = FAMILIES[family]
    at = np.asarray(limits)
    above, below = tails(base, at)
    discrete = base.support.is_discrete  # P(xi >= at) is 1 - P(xi <= the whole number before it)
    with np.errstate(divide="ignore"):
        exact_above = reference.logsf(np.ceil(at) - 1.0 if discrete else at)
        exact_below = reference.logcdf(np.floor(at) if discrete else at)
    np.testing.assert_allclose(above, exact_above, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(below, exact_below, rtol=1e-9, atol=1e-9)


def test_tails_have_no_end():
    """Thousands of nats out, where probabilities are zero in float64."""
    for rate, k in ((7.0, 600.0), (100.0, 1000.0)):
        exact = special.logsumexp(stats.poisson(rate).logpmf(np.arange(k, k + 2000)))
        assert log_tails(dist.Poisson(rate), k)[0] == pytest.approx(exact, rel=1e-12)
    exact = special.logsumexp(stats.nbinom(2, 2 / 9).logpmf(np.arange(9000, 12_000)))
    assert log_tails(dist.NegativeBinomial2(7.0, 2.0), 9000.0)[0] == pytest.approx(exact, rel=1e-11)
    for shape, at in ((3.3, 2000.0), (100.0, 3000.0)):
        log_f = stats.gamma(shape).logpdf
        beyond = integrate.quad(lambda t, at=at, f=log_f: np.exp(f(at + t) - f(at)), 0.0, 100.0)
        exact = log_f(at) + np.log(beyond[0])
        assert log_tails(dist.Gamma(shape, 1.0), at)[0] == pytest.approx(exact, rel=1e-10)
    exact = stats.norm.logpdf(200.0) - np.log(200.0)  # Mills
    assert log_tails(dist.Normal(0.0, 1.0), 200.0)[0] == pytest.approx(exact, rel=1e-8)


# Families as functions of one parameter.
PARAMETERS = {
    "normal": (lambda t: dist.Normal(t, 2.0), 3.0),
    "normal-scale": (lambda t: dist.Normal(1.0, t), 3.0),
    "lognormal": (lambda t: dist.LogNormal(t, 0.5), 1.0),
    "exponential": (dist.Exponential, 1.0),
    "gamma-shape": (lambda t: dist.Gamma(t, 2.0), 3.0),  # the fraction for Q(3, z) ends by itself
    "gamma-rate": (lambda t: dist.Gamma(3.0, t), 2.0),
    "weibull": (lambda t: dist.Weibull(2.0, t), 1.5),
    "poisson": (dist.Poisson, 4.0),
    "nb-mean": (lambda t: dist.NegativeBinomial2(t, 2.0), 4.0),
    "nb-shape": (lambda t: dist.NegativeBinomial2(4.0, t), 2.3),
    "geometric": (lambda t: dist.Geometric(probs=t), 0.3),
    "uniform": (lambda t: dist.Uniform(0.0, t), 10.0),
}


def slope(function, at, step=1e-5):
    return (function(at + step) - function(at - step)) / (2 * step)


@pytest.mark.parametrize("family", PARAMETERS)
def test_gradients_are_slopes_at_the_limit_and_below(family):
    make, theta = PARAMETERS[family]

    @jax.jit
    def total(theta, upper, data):
        return jnp.sum(log_density(Censored(make(theta), upper=upper), data))

    gradient = jax.jit(jax.grad(total, argnums=(0, 1)))
    for upper, last in ((2.5, 2.5), (4.5, 1.0), (400.0, 1.0)):  # at the limit, or far below it
        rest = (upper, jnp.asarray([1.0, 2.0, last]))
        in_theta, in_upper = gradient(theta, *rest)
        expected = float(slope(lambda t, rest=rest: total(t, *rest), theta))
        assert in_theta == pytest.approx(expected, rel=1e-6)
        assert np.isfinite(in_upper)


@pytest.mark.sample(1)
@pytest.mark.parametrize("family", ["normal", "gamma-shape", "nb-shape"])
def test_second_derivatives_are_there(family):
    """For approximations by a curvature; loops that end when they are done have none in JAX."""
    make, theta = PARAMETERS[family]

    @jax.jit
    def gradient(theta):
        return jax.grad(lambda t: log_tails(make(t), jnp.asarray(2.5))[0])(theta)

    bent = float(slope(gradient, theta))
    assert jax.jit(jax.jacfwd(gradient))(theta) == pytest.approx(bent, rel=1e-6)
    if family == "gamma-shape":
        assert jax.jit(jax.grad(gradient))(theta) == pytest.approx(bent, rel=1e-6)


def test_gradient_in_the_limit_is_minus_the_hazard():
    def at_limit(upper):
        return Censored(dist.Normal(3.0, 2.0), upper=upper).log_prob(jnp.asarray(4.0))

    hazard = stats.norm.pdf(4.0, 3.0, 2.0) / stats.norm.sf(4.0, 3.0, 2.0)
    assert jax.grad(at_limit)(4.0) == pytest.approx(-hazard, rel=1e-12)


@pytest.mark.parametrize(
    "limits", [{"upper": 2.0}, {"lower": -1.0}, {"lower": -1.0, "upper": 2.5}, {"upper": -60.0}]
)
def test_everything_adds_up_to_one(limits):
    seen = Censored(dist.Normal(0.5, 1.5), **limits)
    low, high = limits.get("lower", -12.0), limits.get("upper", 12.0)
    middle = np.linspace(low, high, 20_001)[1:-1]
    total = np.trapezoid(np.exp(seen.log_prob(middle)), middle) if high > -12.0 else 0.0
    total += sum(np.exp(seen.log_prob(limit)) for limit in limits.values())
    assert total == pytest.approx(1.0, abs=2e-3)

    counts = Censored(dist.Poisson(4.0), **limits)
    places = [*np.arange(60.0), *limits.values()]
    inside = [place for place in set(places) if counts.support(place)]
    assert sum(np.exp(counts.log_prob(place)) for place in inside) == pytest.approx(1.0)


def test_stock_that_is_not_a_whole_number():
    """min(demand, 7.3) is 7.3 whenever demand is 8 or more."""
    seen = Censored(dist.Poisson(7.0), upper=7.3)
    values = jnp.asarray([7.0, 7.2, 7.3, 8.0])
    assert seen.support(values).tolist() == [True, False, True, False]
    assert seen.log_prob(7.3) == pytest.approx(stats.poisson.logsf(7, 7.0))
    assert seen.log_prob(7.0) == pytest.approx(stats.poisson.logpmf(7, 7.0))
    whole = Censored(dist.Poisson(7.0), upper=7.0)  # at 7, P(xi >= 7)
    assert whole.log_prob(7.0) == pytest.approx(stats.poisson.logsf(6, 7.0))
    almost = Censored(dist.Poisson(7.0), upper=7.0 + 1e-14)  # 7, but for rounding
    assert almost.log_prob(7.0) == pytest.approx(stats.poisson.logsf(6, 7.0))


def test_equal_to_the_limit_but_for_rounding():
    limit = 0.1 + 0.2
    seen = Censored(dist.Normal(0.0, 1.0), upper=limit)
    for value in (0.3, limit, 0.3 + 1e-15):
        assert log_density(seen, jnp.asarray(value)) == pytest.approx(stats.norm.logsf(0.3))
    assert log_density(seen, jnp.asarray(0.3 + 1e-6)) == -jnp.inf
    assert log_density(seen, jnp.asarray(0.3 - 1e-6)) == pytest.approx(stats.norm.logpdf(0.3))


def test_draws_follow_the_density():
    for base in (dist.Normal(1.0, 2.0), dist.Poisson(4.0)):
        seen = Censored(base, upper=3.5, lower=0.5)
        draws = np.asarray(seen.sample(random.key(0), (100_000,)))
        assert draws.min() == 0.5
        assert draws.max() == 3.5
        assert np.all(seen.support(draws))
        for limit in (0.5, 3.5):
            p = np.exp(seen.log_prob(limit))
            assert np.mean(draws == limit) == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 1e5))
    assert Censored(dist.Normal(1.0, 2.0), upper=3.0).has_rsample
    assert not Censored(dist.Poisson(4.0), upper=3.0).has_rsample


def test_it_is_a_distribution_like_others():
    """Batches, independent coordinates, and crossing jit and vmap as a tree."""
    several = Censored(dist.Normal(jnp.zeros(3), 1.0), upper=jnp.asarray([0.0, 1.0, 9.0]))
    assert several.batch_shape == (3,)
    whole = several.to_event(1)
    rows = jax.jit(lambda: whole.sample(random.key(0), (5,)))()
    density = jax.jit(lambda rows: log_density(whole, rows))

    @jax.jit
    def expected(rows):
        parts = [Censored(dist.Normal(0.0, 1.0), upper=u).log_prob for u in (0.0, 1.0, 9.0)]
        return sum(part(rows[:, i]) for i, part in enumerate(parts))

    np.testing.assert_allclose(density(rows), expected(rows))
    assert density(rows.at[0, 0].set(0.5))[0] == -jnp.inf

    wide = Censored(dist.Normal(0.0, 1.0), upper=jnp.asarray([0.0, 1.0]))  # one base, two limits
    assert jax.jit(lambda: wide.sample(random.key(0), (4,)))().shape == (4, 2)

    seen = Censored(dist.Weibull(2.0, 1.0), upper=3.0)
    made = jax.jit(lambda d: d.log_prob(3.0))(seen)
    assert made == pytest.approx(float(seen.log_prob(3.0)))
    stack = jax.vmap(lambda shape: Censored(dist.Weibull(2.0, shape), upper=3.0))(jnp.ones(4))
    each = jax.jit(jax.vmap(lambda d: d.log_prob(3.0)))(stack)
    np.testing.assert_allclose(each, np.full(4, made))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "needs a limit"),
        ({"upper": np.nan}, "upper must be finite"),
        ({"upper": "much"}, "upper must be real numbers"),
        ({"upper": 1.0, "lower": 2.0}, "lower must be below upper"),
        ({"base": dist.Normal(jnp.zeros(2), 1.0).to_event(1), "upper": 1.0}, "single numbers"),
        ({"base": dist.Binomial(4, 0.5), "upper": 1.0}, "BinomialProbs has no cdf"),
        ({"base": 3.0, "upper": 1.0}, "single numbers"),
    ],
)
def test_bad_censoring_is_refused(arguments, words):
    with pytest.raises(errors.ModelError, match=words):
        Censored(**({"base": dist.Normal(0.0, 1.0)} | arguments))


def newsvendor(observation):
    return pg.Problem(
        cost=lambda x, xi: 2.0 * x - 3.0 * jnp.minimum(x, xi),
        model=lambda x, theta: dist.Normal(theta, 3.0),
        observation=observation,
        feasible=pg.feasible.Box(1.0, 50.0),
    )


def test_grid_with_some_sales_at_the_stock_is_bayes_rule():
    problem = newsvendor(lambda x, theta: Censored(dist.Normal(theta, 3.0), upper=x))
    theta = np.arange(5.0, 26.0)
    agent = pg.Agent(problem, pg.beliefs.Grid(theta), x=12.0, **pg.presets.paper())
    weights = np.ones(len(theta))
    for batch in ([np.inf, 9.5, np.inf], [11.0, 9.0, np.inf], 4 * [np.inf], [7.0, 8.0, np.inf]):
        x = float(agent.decision)
        seen = np.minimum(batch, x)
        for y in seen:
            at_limit = y == x
            weights *= stats.norm.sf(x, theta, 3.0) if at_limit else stats.norm.pdf(y, theta, 3.0)
        agent.observe(seen)
    np.testing.assert_allclose(agent.belief.probabilities, weights / weights.sum(), rtol=1e-9)
    with pytest.raises(errors.SupportError, match="row 1"):
        agent.observe([3.0, agent.decision + 0.1, 4.0])
    assert agent.stage == 4


def ranks(observation, replications=4000, batch=30, x=9.0):
    """Where the true theta lies in its posterior, at a stock that sells out on 95 % of days."""
    points = jnp.linspace(10.0, 25.0, 76)
    grid = pg.beliefs.Grid(points)

    def one(key):
        key_theta, key_y, key_u = random.split(key, 3)
        theta = grid.sample(key_theta)
        y = Censored(dist.Normal(theta, 3.0), upper=x).sample(key_y, (batch,))
        p = grid.update(observation, jnp.asarray(x), y).probabilities
        below = jnp.sum(jnp.where(points < theta, p, 0.0))
        here = jnp.sum(jnp.where(points == theta, p, 0.0))
        return below + random.uniform(key_u) * here

    pit = jax.jit(jax.vmap(one))(random.split(random.key(0), replications))
    return stats.chisquare(np.histogram(pit, 20, (0.0, 1.0))[0]).pvalue


@pytest.mark.slow
def test_little_is_seen_but_nothing_is_distorted():
    """Where nearly all is censored the posterior is wide, and calibrated."""
    assert ranks(lambda x, theta: Censored(dist.Normal(theta, 3.0), upper=x)) > 1e-3
    assert ranks(lambda x, theta: dist.Normal(theta, 3.0)) < 1e-9


def simulated(instance, runs, horizon):
    algorithm = pg.BayesianSGD(instance.problem, steps=pg.step_sizes.Harmonic(10.0, 10.0))
    return pg.simulate(
        algorithm,
        pg.beliefs.Grid(instance.points),
        instance.x,
        instance.theta,
        runs=runs,
        horizon=horizon,
    )


@pytest.mark.slow
def test_ignoring_the_limit_spirals_down():
    right = simulated(sales.censored(), 50, 300).decisions
    wrong = simulated(sales.ignored(), 50, 300).decisions
    x_star = float(sales.censored().x_star)
    assert x_star == pytest.approx(stats.lognorm(0.5, scale=20.0).ppf(1 / 3), abs=1e-6)
    error = right[:, -1].std() / np.sqrt(50)
    assert right[:, -1].mean() == pytest.approx(x_star, abs=4 * error + 0.1)
    means = wrong[:, [0, 10, 50, 100, 300]].mean(axis=0)
    assert np.all(np.diff(means) < 0)
    assert means[-1] < 0.35 * x_star


@pytest.mark.slow
def test_the_page_prints_what_it_says():
    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (said,) = re.findall(r"```text\n(.*?)```", DOCS.read_text(), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example, "censoring.md", "exec"), {})
    assert printed.getvalue().split() == said.split()

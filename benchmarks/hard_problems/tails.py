"""Heavy tails, rare events and high service levels."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special, stats

import postgrad as pg
from hard_problems.base import Hard, register
from hard_problems.laws import (
    cdf,
    lognormal_shortage,
    over_normal,
    poisson_shortage,
    shortage,
    surplus,
)
from hard_problems.search import line

Box = pg.feasible.Box


def _newsvendor(over: float, under: float):
    return lambda x, xi: under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)


@register("tails")
def spare_part() -> Hard:
    """Poisson demand of 0.05 and a critical ratio of 0.9 in a box up to a million; best 0."""

    def expected(x, theta):
        short = poisson_shortage(x, theta)
        return 9 * short + (x - theta + short)

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 9.0), lambda x, theta: dist.Poisson(theta), Box(0.0, 1e6)
        ),
        belief=lambda: pg.beliefs.Gamma(5.0, 100.0),
        starts=[0.5, 10.0, 1e4],
        batch=lambda rng, t, x: rng.poisson(0.05, 8),
        expected_cost=expected,
        search=line(0.0, 1e6, marks=np.arange(20.0), log=True),
    )


@register("tails")
def prevention() -> Hard:
    """A loss of a million if any event happens, at a rate of 1e-4 that prevention lowers."""
    price = 500 * np.exp(-2.0)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, events: price * x + 1e6 * (events > 0),
            model=lambda x, theta: dist.Poisson(theta * jnp.exp(-5 * x)),
            feasible=Box(0.0, 5.0),
        ),
        belief=lambda: pg.beliefs.Gamma(10.0, 1e5),
        starts=[0.1, 0.4, 3.0],
        batch=lambda rng, t, x: rng.poisson(1e-4 * np.exp(-5 * x), 8),
        expected_cost=lambda x, theta: price * x - 1e6 * np.expm1(-theta * np.exp(-5 * x)),
        search=line(0.0, 5.0),
    )


@register("tails")
def four_nines() -> Hard:
    """A lognormal newsvendor at the critical level of 0.9999."""

    def expected(x, theta):
        short = lognormal_shortage(x, theta, 1.0)
        return 9999 * short + (x - np.exp(theta + 0.5) + short)

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 9999.0), lambda x, theta: dist.LogNormal(theta, 1.0), Box(0.0, 1e5)
        ),
        belief=lambda: pg.beliefs.Normal(3.0, 0.3),
        starts=[20.0, 1000.0, 5e4],
        batch=lambda rng, t, x: rng.lognormal(3.0, 1.0, 6),
        expected_cost=expected,
        search=line(0.0, 1e5, log=True),
    )


@register("tails")
def fat_demand() -> Hard:
    """Demand of Student's t with 2.5 degrees of freedom, at a critical ratio of 0.99."""
    df, spread = 2.5, 10.0

    def expected(x, theta):
        z = (x - theta) / spread
        tail = (df + z**2) / (df - 1) * stats.t.pdf(z, df) - z * stats.t.sf(z, df)
        return 99 * spread * tail + spread * (z + tail)

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 99.0),
            lambda x, theta: dist.StudentT(df, theta, spread),
            Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.Grid(jnp.arange(50.0, 151.0, 2.0)),
        starts=[10.0, 100.0, 900.0],
        batch=lambda rng, t, x: 100.0 + spread * rng.standard_t(df, 5),
        expected_cost=expected,
        search=line(0.0, 1000.0),
    )


@register("tails")
def reserves() -> Hard:
    """Claims of Pareto with a tail index near 1.6: the variance is infinite."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, claim: x + 20 * jnp.maximum(claim - x, 0),
            model=lambda x, theta: dist.Pareto(1.0, theta),
            feasible=Box(1.0, 1e4),
        ),
        belief=lambda: pg.beliefs.Grid(jnp.linspace(1.3, 2.5, 25)),
        starts=[1.5, 10.0, 5e3],
        batch=lambda rng, t, x: 1.0 + rng.pareto(1.6, 8),
        expected_cost=lambda x, theta: x + 20 * x ** (1 - theta) / (theta - 1),
        search=line(1.0, 1e4, log=True),
    )


@register("tails")
def dike() -> Hard:
    """How high a dike: a flood above it costs 5000, and the year's highest water is Gumbel."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, water: 2 * x + 5000.0 * (water > x),
            model=lambda x, theta: dist.Gumbel(theta, 3.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Grid(jnp.linspace(5.0, 15.0, 41)),
        starts=[5.0, 30.0, 90.0],
        batch=lambda rng, t, x: rng.gumbel(10.0, 3.0, 5),
        expected_cost=lambda x, theta: 2 * x - 5000 * np.expm1(-np.exp(-(x - theta) / 3)),
        search=line(0.0, 100.0),
    )


@register("tails")
def three_nines_counts() -> Hard:
    """Negative binomial demand with an unknown probability, at a critical ratio of 0.999."""
    counts = np.arange(400)

    def expected(x, theta):
        p = np.asarray(theta)[:, None]
        mass = special.gammaln(counts + 4) - special.gammaln(4.0) - special.gammaln(counts + 1)
        mass = np.exp(mass + counts * np.log(p) + 4 * np.log1p(-p))  # (m, k)
        cost = 999 * np.maximum(counts - x, 0) + np.maximum(x - counts, 0)  # (n, k)
        return cost @ mass.T

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 999.0),
            lambda x, theta: dist.NegativeBinomialProbs(4.0, theta),
            Box(0.0, 300.0),
        ),
        belief=lambda: pg.beliefs.Beta(5.0, 5.0),
        starts=[1.0, 20.0, 250.0],
        batch=lambda rng, t, x: rng.negative_binomial(4, 0.5, 6),
        expected_cost=expected,
        search=line(0.0, 300.0, marks=np.arange(120.0)),
    )


@register("tails")
def rare_rush() -> Hard:
    """One day in a hundred demand is ten times as large; the critical ratio is 0.995."""

    def expected(x, theta):
        total = 0.0
        for share, mean, spread in ((0.99, theta, 5.0), (0.01, 10 * theta, 30.0)):
            total = total + share * (199 * shortage(x, mean, spread) + surplus(x, mean, spread))
        return total

    def model(x, theta):
        parts = dist.Normal(jnp.stack([theta, 10 * theta]), jnp.array([5.0, 30.0]))
        return dist.MixtureSameFamily(dist.Categorical(jnp.array([0.99, 0.01])), parts)

    def batch(rng, t, x):
        rush = rng.random(8) < 0.01
        return np.where(rush, rng.normal(400.0, 30.0, 8), rng.normal(40.0, 5.0, 8))

    return Hard(
        problem=pg.Problem(_newsvendor(1.0, 199.0), model, Box(0.0, 2000.0)),
        belief=lambda: pg.beliefs.Grid(jnp.arange(30.0, 51.0)),
        starts=[10.0, 60.0, 1500.0],
        batch=batch,
        expected_cost=expected,
        search=line(0.0, 2000.0),
    )


@register("tails")
def linex() -> Hard:
    """Too low is exponentially dear, and the first decision is where it costs 1e10."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.exp(0.5 * (xi - x)) + 0.2 * (x - xi),
            model=lambda x, theta: dist.Normal(theta, 2.0),
            feasible=Box(-50.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 5.0),
        starts=[-40.0, 0.0, 90.0],
        batch=lambda rng, t, x: rng.normal(5.0, 2.0, 4),
        expected_cost=lambda x, theta: np.exp(0.5 * (theta - x) + 0.5) + 0.2 * (x - theta),
        search=line(-50.0, 100.0),
    )


@register("tails")
def blackout() -> Hard:
    """Reserve power: a smooth but steep penalty of 1e4 five standard deviations out."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, load: 3 * x + 1e4 / (1 + jnp.exp((x - load) / 0.5)),
            model=lambda x, theta: dist.Normal(theta, 4.0),
            feasible=Box(0.0, 300.0),
        ),
        belief=lambda: pg.beliefs.Normal(80.0, 5.0),
        starts=[20.0, 80.0, 280.0],
        batch=lambda rng, t, x: rng.normal(80.0, 4.0, 5),
        expected_cost=over_normal(
            lambda x, load: 3 * x + 1e4 * special.expit((load - x) / 0.5),
            4.0,
            np.linspace(-6.5, 6.5, 201),
        ),
        search=line(0.0, 300.0),
    )


@register("tails")
def insurance_lottery() -> Hard:
    """A claim of 1e5 with a probability near 1e-3, less the more is spent on care."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, claim: x + 1e5 * claim,
            model=lambda x, theta: dist.Poisson(theta / (1 + x)),
            feasible=Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.Gamma(3.0, 3000.0),
        starts=[0.0, 9.0, 500.0],
        batch=lambda rng, t, x: rng.poisson(1e-3 / (1 + x), 10),
        expected_cost=lambda x, theta: x + 1e5 * theta / (1 + x),
        search=line(0.0, 1000.0, log=True),
    )


@register("tails")
def overtime() -> Hard:
    """A log-logistic job: the squared delay has a heavy tail, the deadline costs little."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, job: x + 0.05 * jnp.maximum(job - x, 0) ** 2,
            model=lambda x, theta: dist.LogNormal(theta, 0.8),
            feasible=Box(0.0, 1e4),
        ),
        belief=lambda: pg.beliefs.Normal(3.0, 0.4),
        starts=[1.0, 50.0, 5000.0],
        batch=lambda rng, t, x: rng.lognormal(3.2, 0.8, 5),
        expected_cost=_squared_delay,
        search=line(0.0, 1e4, log=True),
    )


def _squared_delay(x, mu, s=0.8):
    with np.errstate(divide="ignore"):
        z = (mu - np.log(np.maximum(x, 0.0))) / s
    second = np.exp(2 * mu + 2 * s**2) * cdf(z + 2 * s)
    first = np.exp(mu + s**2 / 2) * cdf(z + s)
    return x + 0.05 * (second - 2 * x * first + x**2 * cdf(z))

"""Costs that jump, in the decision or in the data."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

import postgrad as pg
from hard_problems.base import Hard, register
from hard_problems.laws import over_normal, shortage, surplus
from hard_problems.search import line

Box = pg.feasible.Box
cdf = special.ndtr


def _demand(mean: float, spread: float, count: int = 4):
    return lambda rng, t, x: rng.normal(mean, spread, count)


@register("jumps")
def stockout_jump() -> Hard:
    """Running out costs 100 at once, however little is missing; best about 60.6."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x + 100.0 * (xi > x),
            model=lambda x, theta: dist.Normal(theta, 5.0),
            feasible=Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.Normal(50.0, 5.0),
        starts=[30.0, 50.0, 70.0],
        batch=_demand(50.0, 5.0),
        expected_cost=lambda x, theta: x + 100 * cdf((theta - x) / 5),
        search=line(0.0, 200.0),
    )


@register("jumps")
def smoothed_stockout() -> Hard:
    """The same with a penalty that rises within a few units; best 61.4."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x + 100.0 / (1 + jnp.exp((x - xi) / 1.65)),
            model=lambda x, theta: dist.Normal(theta, 5.0),
            feasible=Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.Normal(50.0, 5.0),
        starts=[70.0, 20.0],
        batch=_demand(50.0, 5.0),
        expected_cost=over_normal(lambda x, xi: x + 100 * special.expit((xi - x) / 1.65), 5.0),
        search=line(0.0, 200.0),
    )


@register("jumps")
def fixed_cost() -> Hard:
    """A second lorry costs 30 for every order above 20; best 20."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                30.0 * (x > 20) + 3 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, 4.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(25.0, 2.0),
        starts=[10.0, 20.0, 40.0],
        batch=_demand(25.0, 4.0),
        expected_cost=lambda x, theta: (
            30.0 * (x > 20) + 3 * shortage(x, theta, 4.0) + surplus(x, theta, 4.0)
        ),
        search=line(0.0, 100.0, marks=[20.0]),
    )


@register("jumps")
def whole_lots() -> Hard:
    """Whole lots of 12 are delivered and paid, so the cost is flat between them; best 48."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                12.0 * jnp.ceil(x / 12) + 4 * jnp.maximum(xi - 12 * jnp.ceil(x / 12), 0)
            ),
            model=lambda x, theta: dist.Normal(theta, 5.0),
            feasible=Box(0.0, 120.0),
        ),
        belief=lambda: pg.beliefs.Normal(45.0, 5.0),
        starts=[10.0, 30.0, 46.0, 90.0],
        batch=_demand(45.0, 5.0),
        expected_cost=lambda x, theta: (
            12 * np.ceil(x / 12) + 4 * shortage(12 * np.ceil(x / 12), theta, 5.0)
        ),
        search=line(0.0, 120.0, marks=np.arange(0.0, 121.0, 12.0)),
    )


@register("jumps")
def broken_lots() -> Hard:
    """What is paid is x, what can be sold the full lots of 12 in it; best exactly 48."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x + 4 * jnp.maximum(xi - 12 * jnp.floor(x / 12), 0),
            model=lambda x, theta: dist.Normal(theta, 5.0),
            feasible=Box(0.0, 120.0),
        ),
        belief=lambda: pg.beliefs.Normal(45.0, 5.0),
        starts=[10.0, 30.0, 50.0, 90.0],
        batch=_demand(45.0, 5.0),
        expected_cost=lambda x, theta: x + 4 * shortage(12 * np.floor(x / 12), theta, 5.0),
        search=line(0.0, 120.0, marks=np.arange(0.0, 121.0, 12.0)),
    )


@register("jumps")
def machines() -> Hard:
    """A machine makes ten units and costs 15 as soon as it is started."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 15 * jnp.ceil(x / 10) + 6 * jnp.maximum(xi - x, 0),
            model=lambda x, theta: dist.Normal(theta, 6.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(40.0, 5.0),
        starts=[5.0, 33.0, 75.0],
        batch=_demand(42.0, 6.0),
        expected_cost=lambda x, theta: 15 * np.ceil(x / 10) + 6 * shortage(x, theta, 6.0),
        search=line(0.0, 100.0, marks=np.arange(0.0, 101.0, 10.0)),
    )


@register("jumps")
def all_units_discount() -> Hard:
    """From 50 on, and from 100 on, every unit is cheaper: the bill falls where a step begins."""

    def bill(x, where):
        return x * where(x >= 100, 2.2, where(x >= 50, 2.6, 3.2))

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                bill(x, jnp.where) + 8 * jnp.maximum(xi - x, 0) - 2.0 * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, 15.0),
            feasible=Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.Normal(75.0, 10.0),
        starts=[20.0, 60.0, 180.0],
        batch=_demand(75.0, 15.0),
        expected_cost=lambda x, theta: (
            bill(x, np.where) + 8 * shortage(x, theta, 15.0) - 2.0 * surplus(x, theta, 15.0)
        ),
        search=line(0.0, 200.0, marks=[50.0, 100.0]),
    )


@register("jumps")
def sealed_bid() -> Hard:
    """A bid wins 100 less itself if it is above the rival's; far below no slope tells so."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, rival: -(100.0 - x) * (x > rival),
            model=lambda x, theta: dist.Normal(theta, 6.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(60.0, 8.0),
        starts=[10.0, 60.0, 95.0],
        batch=_demand(60.0, 6.0),
        expected_cost=lambda x, theta: -(100 - x) * cdf((x - theta) / 6),
        search=line(0.0, 100.0),
    )


@register("jumps")
def trips() -> Hard:
    """A lorry of size x drives as often as it takes: one minimum for each number of trips."""

    def expected(x, theta):
        drives = sum(cdf((theta - k * x) / 3) for k in range(16))
        return 2.2 * x + 25 * drives

    return Hard(
        problem=pg.Problem(
            cost=lambda x, load: 2.2 * x + 25 * jnp.clip(jnp.ceil(load / x), 0, 16),
            model=lambda x, theta: dist.Normal(theta, 3.0),
            feasible=Box(5.0, 80.0),
        ),
        belief=lambda: pg.beliefs.Normal(60.0, 5.0),
        starts=[8.0, 26.0, 60.0, 78.0],
        batch=_demand(60.0, 3.0),
        expected_cost=expected,
        search=line(5.0, 80.0),
    )


@register("jumps")
def service_level() -> Hard:
    """A penalty of 60 for every day on which less than 95 % of the demand is served."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 0.8 * x + 60.0 * (x < 0.95 * xi) + jnp.maximum(xi - x, 0),
            model=lambda x, theta: dist.Normal(theta, 8.0),
            feasible=Box(0.0, 300.0),
        ),
        belief=lambda: pg.beliefs.Normal(90.0, 10.0),
        starts=[40.0, 85.0, 250.0],
        batch=_demand(100.0, 8.0),
        expected_cost=lambda x, theta: (
            0.8 * x + 60 * cdf((theta - x / 0.95) / 8) + shortage(x, theta, 8.0)
        ),
        search=line(0.0, 300.0),
    )


@register("jumps")
def credit_cutoff() -> Hard:
    """Who scores above x gets a loan; the cost of a customer has no slope in x at all."""

    def expected(x, theta):
        # above x: E [0.1 - exp(-xi)] over xi > x, and every refusal costs nothing
        z = (x - theta) / 1.0
        return -0.1 * cdf(-z) + np.exp(-theta + 0.5) * cdf(-z - 1.0)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, score: jnp.where(score > x, jnp.exp(-score) - 0.1, 0.0),
            model=lambda x, theta: dist.Normal(theta, 1.0),
            feasible=Box(-2.0, 8.0),
        ),
        belief=lambda: pg.beliefs.Normal(2.0, 0.5),
        starts=[-1.0, 2.0, 7.0],
        batch=_demand(2.5, 1.0),
        expected_cost=expected,
        search=line(-2.0, 8.0),
    )


@register("jumps")
def promised_days() -> Hard:
    """Days are promised whole and cost 3 each; being late costs 50."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, days: 3 * jnp.ceil(x) + 50.0 * (days > x),
            model=lambda x, theta: dist.Gamma(4.0, 4.0 / theta),
            feasible=Box(0.5, 40.0),
        ),
        belief=lambda: pg.beliefs.InverseGamma(6.0, 25.0),
        starts=[1.0, 6.3, 30.0],
        batch=lambda rng, t, x: rng.gamma(4.0, 5.0 / 4, 5),
        expected_cost=lambda x, theta: 3 * np.ceil(x) + 50 * special.gammaincc(4.0, 4 * x / theta),
        search=line(0.5, 40.0, marks=np.arange(1.0, 41.0)),
    )


@register("jumps")
def option_digital() -> Hard:
    """A bonus of 40 if sales, lifted by a discount x, reach 100; then nothing more is gained."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, sales: 1.5 * x - 40.0 * (sales >= 100.0),
            model=lambda x, theta: dist.Normal(theta + 3 * x, 8.0),
            feasible=Box(0.0, 50.0),
        ),
        belief=lambda: pg.beliefs.Normal(70.0, 5.0),
        starts=[0.0, 12.0, 45.0],
        batch=lambda rng, t, x: rng.normal(68.0 + 3 * x, 8.0, 4),
        expected_cost=lambda x, theta: 1.5 * x - 40 * cdf((theta + 3 * x - 100) / 8),
        search=line(0.0, 50.0),
        scale=10.0,
    )

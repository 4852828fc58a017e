"""Units from 1e-6 to 1e6, boxes far wider than the problem, sets without an end."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

import postgrad as pg
from hard_problems.base import Hard, joint, register
from hard_problems.laws import over_normal, poisson_shortage, shortage, surplus
from hard_problems.search import closed, line, separable

Box = pg.feasible.Box


def _newsvendor(over: float, under: float):
    return lambda x, xi: under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)


@register("scales")
def unlike_units() -> Hard:
    """A convex quadratic in two numbers whose units differ by 1e5."""
    units, truth = np.array([1.0, 1e5]), np.array([3.0, 4e5])

    def expected(x, theta):
        gap = (x - theta) / units
        noise = 1.0 + 1.0
        return (gap**2).sum(axis=-1) + gap[..., 0] * gap[..., 1] + noise

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(((x - xi) / units) ** 2) + jnp.prod((x - xi) / units),
            model=lambda x, theta: dist.Normal(theta, units).to_event(1),
            feasible=Box(-100 * units, 100 * units),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(2), 10 * units),
        starts=[[0.0, 0.0], [-50.0, 5e6], [3.0, -4e5]],
        batch=lambda rng, t, x: rng.normal(truth, units, (4, 2)),
        expected_cost=expected,
        search=closed(lambda theta, weights: weights @ theta),
        support=joint(5),
    )


@register("scales")
def screws_and_machines() -> Hard:
    """Screws by the 200,000 beside machines by the 20; the demand of both changes at stage 3."""
    spread = np.array([2e4, 3.0])
    under, over = np.array([0.03, 900.0]), np.array([0.01, 100.0])

    def batch(rng, t, x):
        return rng.normal([2e5, 20.0] if t < 3 else [1.4e5, 32.0], spread, (4, 2))

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(
                under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, spread).to_event(1),
            feasible=Box(0.0, jnp.array([1e6, 1e3])),
        ),
        belief=lambda: pg.beliefs.Normal(
            jnp.array([2e5, 20.0]), jnp.array([5e4, 10.0]), forget=0.5
        ),
        starts=[[1e5, 10.0], [9e5, 500.0], [2e5, 20.0]],
        batch=batch,
        expected_cost=None,
        parts=lambda x, theta: (
            under * shortage(x, theta, spread) + over * surplus(x, theta, spread)
        ),
        search=separable([0.0, 0.0], [1e6, 1e3], points=2001),
    )


@register("scales")
def wide_box() -> Hard:
    """A newsvendor with a demand near 30 in a box up to a million."""
    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 3.0), lambda x, theta: dist.Normal(theta, 4.0), Box(0.0, 1e6)
        ),
        belief=lambda: pg.beliefs.Normal(30.0, 10.0),
        starts=[5e5, 1.0, 1e6],
        batch=lambda rng, t, x: rng.normal(30.0, 4.0, 4),
        expected_cost=lambda x, theta: 3 * shortage(x, theta, 4.0) + surplus(x, theta, 4.0),
        search=line(0.0, 1e6, log=True),
    )


@register("scales")
def micrograms() -> Hard:
    """A demand of two millionths, in a box up to one."""
    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 9.0), lambda x, theta: dist.Normal(theta, 3e-7), Box(0.0, 1.0)
        ),
        belief=lambda: pg.beliefs.Normal(2e-6, 1e-6),
        starts=[0.5, 1e-3, 0.0],
        batch=lambda rng, t, x: rng.normal(2e-6, 3e-7, 4),
        expected_cost=lambda x, theta: 9 * shortage(x, theta, 3e-7) + surplus(x, theta, 3e-7),
        search=line(0.0, 1.0, log=True),
    )


@register("scales")
def cauchy_loss() -> Hard:
    """log(1 + distance^2) on the whole line: far away the slope vanishes."""
    return Hard(
        problem=pg.Problem(
            lambda x, xi: jnp.log1p((x - xi) ** 2), lambda x, theta: dist.Normal(theta, 0.5)
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 10.0),
        starts=[1000.0, 0.0, -50.0],
        batch=lambda rng, t, x: rng.normal(3.0, 0.5, 4),
        expected_cost=over_normal(lambda x, xi: np.log1p((x - xi) ** 2), 0.5),
        search=line(-50.0, 60.0),
    )


@register("scales")
def dose() -> Hard:
    """A dose between 0.001 and 10,000: below ten nothing helps, above a thousand it harms."""

    def effect(x, sensitivity, log, expit):
        level = log(x) - sensitivity
        return -100 * expit(2 * level) + 150 * expit(2 * (level - 2.5)) + 20

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: effect(x, xi, jnp.log, lambda z: 1 / (1 + jnp.exp(-z))),
            model=lambda x, theta: dist.Normal(theta, 0.3),
            feasible=Box(1e-3, 1e4),
        ),
        belief=lambda: pg.beliefs.Normal(3.0, 1.0),
        starts=[2e-3, 1.0, 40.0, 5e3],
        batch=lambda rng, t, x: rng.normal(3.0, 0.3, 4),
        expected_cost=over_normal(
            lambda x, xi: effect(x, xi, np.log, special.expit), 0.3, np.linspace(-6, 6, 49)
        ),
        search=line(1e-3, 1e4, log=True),
    )


@register("scales")
def billions() -> Hard:
    """A newsvendor counted in 1e-9 of the usual money; and one side dearer than the other."""
    return Hard(
        problem=pg.Problem(
            lambda x, xi: 1e-9 * _newsvendor(1.0, 19.0)(x, xi),
            lambda x, theta: dist.Normal(theta, 10.0),
            Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.Normal(100.0, 20.0),
        starts=[10.0, 100.0, 900.0],
        batch=lambda rng, t, x: rng.normal(110.0, 10.0, 4),
        expected_cost=lambda x, theta: (
            1e-9 * (19 * shortage(x, theta, 10.0) + surplus(x, theta, 10.0))
        ),
        search=line(0.0, 1000.0),
    )


@register("scales")
def standing_charge() -> Hard:
    """A newsvendor whose cost stands on 1e9 that no decision changes."""
    return Hard(
        problem=pg.Problem(
            lambda x, xi: 1e9 + _newsvendor(1.0, 4.0)(x, xi),
            lambda x, theta: dist.Normal(theta, 10.0),
            Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.Normal(100.0, 20.0),
        starts=[10.0, 100.0, 900.0],
        batch=lambda rng, t, x: rng.normal(110.0, 10.0, 4),
        expected_cost=lambda x, theta: 1e9 + 4 * shortage(x, theta, 10.0) + surplus(x, theta, 10.0),
        search=line(0.0, 1000.0),
        scale=14.0,
    )


@register("scales")
def elastic_price() -> Hard:
    """A constant elasticity on [1, infinity): far above the best price of 1.67 all is flat."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -(price - 1.0) * sold,
            model=lambda price, theta: dist.LogNormal(theta - 2.5 * jnp.log(price), 0.3),
            feasible=Box(1.0, jnp.inf),
        ),
        belief=lambda: pg.beliefs.Normal(5.0, 0.5),
        starts=[1.1, 30.0, 1e4],
        batch=lambda rng, t, x: rng.lognormal(5.0 - 2.5 * np.log(x), 0.3, 4),
        expected_cost=lambda x, theta: -(x - 1) * np.exp(theta + 0.045) * x**-2.5,
        search=line(1.0, 1e5, log=True),
    )


@register("scales")
def lot_size() -> Hard:
    """Setups against stock on nine decades: 100 xi / x + x, best near 70."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, demand: 100 * demand / x + x,
            model=lambda x, theta: dist.Poisson(theta),
            feasible=Box(1e-3, 1e6),
        ),
        belief=lambda: pg.beliefs.Gamma(10.0, 0.2),
        starts=[1e-2, 70.0, 1e5],
        batch=lambda rng, t, x: rng.poisson(50.0, 4),
        expected_cost=lambda x, theta: 100 * theta / x + x,
        search=line(1e-3, 1e6, log=True),
    )


@register("scales")
def half_line_counts() -> Hard:
    """Poisson demand near 3000 on [0, infinity) from a first order of one."""

    def expected(x, theta):
        short = poisson_shortage(x, theta)
        return 4 * short + (x - theta + short)

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 4.0),
            lambda x, theta: pg.distributions.Poisson(theta),
            Box(0.0, jnp.inf),
        ),
        belief=lambda: pg.beliefs.Gamma(4.0, 0.002),
        starts=[1.0, 1e5],
        batch=lambda rng, t, x: rng.poisson(3000.0, 4),
        expected_cost=expected,
        search=line(1000.0, 6000.0, marks=np.arange(2500.0, 3500.0)),
    )


@register("scales")
def log_prices() -> Hard:
    """Demand that falls with log10 of the price: two valleys, three decades apart."""

    def share(x, log10, exp):
        mass = 2000.0 / (1 + exp(12 * (log10(x) - 0.3)))
        luxury = 4.0 / (1 + exp(12 * (log10(x) - 3.3)))
        return mass + luxury

    return Hard(
        problem=pg.Problem(
            cost=lambda x, sold: -x * sold,
            model=lambda x, theta: dist.Normal(theta * share(x, jnp.log10, jnp.exp), 1.0),
            feasible=Box(0.1, 1e5),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.1),
        starts=[0.5, 1.5, 100.0, 5e4],
        batch=lambda rng, t, x: rng.normal(share(x, np.log10, np.exp), 1.0, 4),
        expected_cost=lambda x, theta: -x * theta * share(x, np.log10, np.exp),
        search=line(0.1, 1e5, log=True),
    )

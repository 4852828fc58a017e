"""Every kind of belief, several of them where the decision changes the data."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

import postgrad as pg
from hard_problems.base import Hard, averaged, drawn, joint, register
from hard_problems.laws import shortage, surplus
from hard_problems.search import line, many_starts

Box = pg.feasible.Box


def _newsvendor(over: float, under: float):
    return lambda x, xi: under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)


@register("beliefs")
def pricing_64() -> Hard:
    """Linear demand with two unknown coefficients, and only 64 draws a stage."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -price * sold,
            model=lambda price, theta: dist.Normal(theta["base"] - theta["slope"] * price, 2.0),
            feasible=Box(0.5, 20.0),
        ),
        belief=lambda: pg.beliefs.Gaussian(
            {"base": 20.0, "slope": 2.5}, {"base": 4.0, "slope": 0.5}
        ),
        starts=[1.0, 4.0, 19.0],
        batch=lambda rng, t, x: rng.normal(22.0 - 2.0 * x, 2.0, 4),
        expected_cost=lambda x, theta: -x * (theta["base"] - theta["slope"] * x),
        support=joint(5),
        options={"samples": 64},
        search=line(0.5, 20.0),
    )


@register("beliefs")
def poisson_pricing_64() -> Hard:
    """Poisson sales around an exponential price response, Laplace's belief, 64 draws a stage."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -price * sold,
            model=lambda price, theta: dist.Poisson(
                jnp.exp(theta["base"] - theta["slope"] * price)
            ),
            feasible=Box(1.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Gaussian(
            {"base": 3.0, "slope": 0.3}, {"base": 0.5, "slope": 0.05}
        ),
        starts=[1.5, 4.0, 9.5],
        batch=lambda rng, t, x: rng.poisson(np.exp(3.2 - 0.3 * x), 5),
        expected_cost=lambda x, theta: -x * np.exp(theta["base"] - theta["slope"] * x),
        support=joint(21),
        options={"samples": 64},
        search=line(1.0, 10.0),
    )


@register("beliefs")
def grid_of_slopes() -> Hard:
    """A grid of levels and slopes of demand, and a price that must not go above the choke."""
    points = pg.beliefs.product_grid(
        {"level": np.linspace(10.0, 30.0, 21), "slope": np.linspace(0.5, 3.0, 11)}
    )
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -(price - 2.0) * sold,
            model=lambda price, theta: dist.Poisson(
                jnp.maximum(theta["level"] - theta["slope"] * price, 0.01)
            ),
            feasible=Box(0.0, 60.0),
        ),
        belief=lambda: pg.beliefs.Grid(points),
        starts=[1.0, 10.0, 55.0],
        batch=lambda rng, t, x: rng.poisson(np.maximum(20.0 - 1.5 * x, 0.01), 4),
        expected_cost=lambda x, theta: (
            -(x - 2) * np.maximum(theta["level"] - theta["slope"] * x, 0.01)
        ),
        search=line(0.0, 60.0),
    )


@register("beliefs")
def stock_on_show() -> Hard:
    """Stock on show sells: the order itself raises demand."""

    def expected(x, theta):
        mean = theta + np.sqrt(np.maximum(x, 0.0))
        return 2 * x - 4 * (x - surplus(x, mean, 3.0)) - surplus(x, mean, 3.0)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 2 * x - 4 * jnp.minimum(x, xi) - jnp.maximum(x - xi, 0),
            model=lambda x, theta: dist.Normal(theta + jnp.sqrt(x), 3.0),
            feasible=Box(1.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Grid(jnp.arange(5.0, 26.0)),
        starts=[1.0, 15.0, 90.0],
        batch=lambda rng, t, x: rng.normal(12.0 + np.sqrt(x), 3.0, 4),
        expected_cost=expected,
        search=line(1.0, 100.0),
    )


@register("beliefs")
def unknown_spread() -> Hard:
    """Mean and spread of demand are both unknown, and so is the best order at 0.98."""

    def expected(x, theta):
        m, s = theta["mean"], theta["scale"]
        return 49 * shortage(x, m, s) + surplus(x, m, s)

    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 49.0),
            lambda x, theta: dist.Normal(theta["mean"], theta["scale"]),
            Box(0.0, 500.0),
        ),
        belief=lambda: pg.beliefs.NormalInverseGamma(40.0, 1.0, 3.0, 100.0),
        starts=[5.0, 60.0, 450.0],
        batch=lambda rng, t, x: rng.normal(50.0, 8.0, 5),
        expected_cost=expected,
        support=joint(15),
        search=line(0.0, 500.0),
    )


@register("beliefs")
def sale_price() -> Hard:
    """Poisson sales at a rate that falls with the price: the rate's level is unknown."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -(price - 3.0) * sold + 0.2 * price,
            model=lambda price, theta: dist.Poisson(theta * jnp.exp(-price / 5)),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Gamma(4.0, 0.1),
        starts=[1.0, 8.0, 80.0],
        batch=lambda rng, t, x: rng.poisson(40.0 * np.exp(-x / 5), 4),
        expected_cost=lambda x, theta: -(x - 3) * theta * np.exp(-x / 5) + 0.2 * x,
        search=line(0.0, 100.0),
    )


@register("beliefs")
def maintenance() -> Hard:
    """Exponential lifetimes: a failure costs 30, an early renewal wastes the rest of the life."""

    def expected(x, theta):
        # 30 P(life < x) + E max(life - x, 0) / 2 + 2 x
        return 30 * -np.expm1(-x / theta) + 0.5 * theta * np.exp(-x / theta) + 0.4 * x

    return Hard(
        problem=pg.Problem(
            cost=lambda x, life: 30.0 * (life < x) + 0.5 * jnp.maximum(life - x, 0) + 0.4 * x,
            model=lambda x, theta: dist.Exponential(1.0 / theta),
            feasible=Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.InverseGamma(5.0, 400.0),
        starts=[1.0, 100.0, 800.0],
        batch=lambda rng, t, x: rng.exponential(100.0, 5),
        expected_cost=expected,
        search=line(0.0, 1000.0, log=True),
    )


@register("beliefs")
def kelly() -> Hard:
    """A share of one's money on a bet that is won with probability near 0.6: best 0.2."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, won: -jnp.log(1 + x * (2 * won - 1)),
            model=lambda x, theta: dist.Bernoulli(theta),
            feasible=Box(0.0, 0.999),
        ),
        belief=lambda: pg.beliefs.Beta(30.0, 20.0),
        starts=[0.0, 0.5, 0.99],
        batch=lambda rng, t, x: (rng.random(8) < 0.6).astype(float),
        expected_cost=lambda x, theta: -theta * np.log1p(x) - (1 - theta) * np.log1p(-x),
        search=line(0.0, 0.999),
        scale=0.02,
    )


@register("beliefs")
def three_sites() -> Hard:
    """One van, three sites, and customers who come only if it stands near: probabilities."""
    sites = np.array([[1.0, 1.0], [8.0, 2.0], [5.0, 9.0]])

    def expected(x, theta):
        near = np.exp(-0.5 * ((x[..., None, :] - sites) ** 2).sum(axis=-1))  # (n, 1, 3)
        return -(near * theta).sum(axis=-1)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, site: (
                -jnp.exp(-0.5 * jnp.sum((x - jnp.asarray(sites)[jnp.asarray(site, int)]) ** 2))
            ),
            model=lambda x, theta: dist.Categorical(theta),
            feasible=Box(0.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Dirichlet(jnp.ones(3)),
        starts=[[1.0, 1.0], [8.0, 3.0], [5.0, 5.0]],
        batch=lambda rng, t, x: rng.choice(3, 10, p=[0.2, 0.2, 0.6]).astype(float),
        expected_cost=expected,
        support=averaged,
        search=many_starts([0.0, 0.0], [10.0, 10.0], guess=lambda s: sites),
    )


@register("beliefs")
def weibull_particles() -> Hard:
    """Weibull demand of unknown shape and scale, with particles, at 0.98."""

    def expected(x, theta):
        a, c = theta["scale"], theta["shape"]
        mean = a * special.gamma(1 + 1 / c)
        u = (np.maximum(x, 0) / a) ** c
        short = mean * special.gammaincc(1 + 1 / c, u) - x * np.exp(-u)
        return 49 * short + (x - mean + short)

    prior = {"scale": dist.LogNormal(3.0, 0.5), "shape": dist.LogNormal(0.3, 0.3)}
    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 49.0),
            lambda x, theta: dist.Weibull(theta["scale"], theta["shape"]),
            Box(0.0, 1000.0),
        ),
        belief=lambda: pg.beliefs.Particles(prior, 500),
        starts=[1.0, 60.0, 900.0],
        batch=lambda rng, t, x: 25.0 * rng.weibull(1.4, 6),
        expected_cost=expected,
        support=drawn(20_000),
        search=line(0.0, 1000.0),
    )


@register("beliefs")
def waves_of_langevin() -> Hard:
    """The bowl with waves, believed in by Langevin chains."""
    damp = np.exp(-0.5 * 9 * 0.04)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (x - xi) ** 2 / 50 - jnp.cos(3 * (x - xi)),
            model=lambda x, theta: dist.Normal(theta, 0.2),
            feasible=Box(-10.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Langevin(dist.Normal(0.0, 3.0), 200),
        starts=[-8.0, 2.5],
        batch=lambda rng, t, x: rng.normal(2.0, 0.2, 8),
        expected_cost=lambda x, theta: (
            ((x - theta) ** 2 + 0.04) / 50 - damp * np.cos(3 * (x - theta))
        ),
        support=drawn(10_000),
        search=line(-10.0, 10.0),
        scale=1.0,
    )

"""More kinds of belief: those that forget, stacks of them, and distributions of any form."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import stats

import postgrad as pg
from hard_problems.base import Hard, drawn, register
from hard_problems.laws import distance, shortage, surplus
from hard_problems.search import line, many_starts, separable

Box = pg.feasible.Box


def _newsvendor(over: float, under: float):
    return lambda x, xi: under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)


@register("beliefs")
def adaptive_change() -> Hard:
    """Demand doubles at stage 4, and how fast to forget is learned."""
    return Hard(
        problem=pg.Problem(
            _newsvendor(1.0, 9.0), lambda x, theta: dist.Normal(theta, 5.0), Box(0.0, 1000.0)
        ),
        belief=lambda: pg.beliefs.Mixture(
            [pg.beliefs.Normal(50.0, 20.0, forget=rate) for rate in (1.0, 0.99, 0.98, 0.96, 0.92)]
        ),
        starts=[5.0, 60.0, 900.0],
        batch=lambda rng, t, x: rng.normal(50.0 if t < 4 else 100.0, 5.0, 4),
        expected_cost=lambda x, theta: 9 * shortage(x, theta, 5.0) + surplus(x, theta, 5.0),
        search=line(0.0, 1000.0),
    )


@register("beliefs")
def adaptive_bumps() -> Hard:
    """The bump, with a mixture of posteriors that lie apart after a change at stage 4."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: -jnp.exp(-0.5 * (x - xi) ** 2),
            model=lambda x, theta: dist.Normal(theta, 0.5),
            feasible=Box(-20.0, 20.0),
        ),
        belief=lambda: pg.beliefs.Mixture(
            [pg.beliefs.Normal(0.0, 10.0, forget=rate) for rate in (1.0, 0.9, 0.5, 0.2)]
        ),
        starts=[5.0, -15.0],
        batch=lambda rng, t, x: rng.normal(5.0 if t < 4 else -12.0, 0.5, 4),
        expected_cost=lambda x, theta: -np.exp(-0.4 * (x - theta) ** 2) / np.sqrt(1.25),
        search=line(-20.0, 20.0),
    )


def _mean_distribution(base):
    """E F of a Dirichlet process: the values seen, and quantiles of the base."""
    quantiles = base.ppf((np.arange(400) + 0.5) / 400)

    def support(belief):
        a = float(belief.concentration)
        seen, times = np.asarray(belief.values), np.asarray(belief.weights)
        values = np.concatenate([seen[times > 0], quantiles])
        weights = np.concatenate([times[times > 0], np.full(400, a / 400)])
        return {"values": values[None], "weights": weights[None] / weights.sum()}, np.ones(1)

    return support


@register("beliefs")
def two_kinds_of_days() -> Hard:
    """Quiet days near 20 and busy ones near 80, of any form: a Dirichlet process, at 0.7."""

    def expected(x, theta):
        gap = theta["values"] - x[..., None]
        cost = 7 * np.maximum(gap, 0) + 3 * np.maximum(-gap, 0)
        return (theta["weights"] * cost).sum(axis=-1)

    def batch(rng, t, x):
        busy = rng.random(6) < 0.5
        return np.where(busy, rng.normal(80.0, 4.0, 6), rng.normal(20.0, 4.0, 6))

    return Hard(
        problem=pg.Problem(
            _newsvendor(3.0, 7.0),
            lambda x, theta: pg.distributions.Atoms(theta["values"], theta["weights"]),
            Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.DirichletProcess(dist.Normal(50.0, 30.0), 1.0),
        starts=[5.0, 50.0, 190.0],
        batch=batch,
        expected_cost=expected,
        support=_mean_distribution(stats.norm(50.0, 30.0)),
        search=line(0.0, 200.0),
    )


@register("beliefs")
def reserve_price() -> Hard:
    """Bids of any form, and a reserve price: what is above it pays, what is below is lost."""

    def expected(x, theta):
        sold = theta["values"] >= x[..., None]
        return -x * (theta["weights"] * sold).sum(axis=-1)

    def batch(rng, t, x):
        rich = rng.random(8) < 0.25
        return np.where(rich, rng.normal(90.0, 3.0, 8), rng.normal(30.0, 3.0, 8))

    return Hard(
        problem=pg.Problem(
            lambda x, bid: jnp.where(bid >= x, -x, 0.0),
            lambda x, theta: pg.distributions.Atoms(theta["values"], theta["weights"]),
            Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.DirichletProcess(dist.Normal(50.0, 20.0), 1.0),
        starts=[5.0, 85.0, 190.0],
        batch=batch,
        expected_cost=expected,
        support=_mean_distribution(stats.norm(50.0, 20.0)),
        search=_at_values(0.0, 200.0),
    )


def _at_values(low, high):
    """The best of the values themselves, at which the cost jumps, and of a dense grid."""

    def search(stage):
        values = stage.theta["values"].ravel()
        tried = np.concatenate([np.linspace(low, high, 2001), values])
        tried = tried[(tried >= low) & (tried <= high)]
        return np.asarray(tried[np.argmin(stage.many(tried))])

    return search


@register("beliefs")
def three_grids() -> Hard:
    """Three items with a grid each, and a fixed cost for stocking any of them above 30."""

    def parts(x, theta):
        each = 4 * shortage(x, theta, 4.0) + surplus(x, theta, 4.0)
        return each + 25.0 * (x > 30)

    def support(belief):
        points = np.asarray(belief.beliefs.points).T  # (m, items)
        log_weights = np.asarray(belief.beliefs.log_weights).T
        weights = np.exp(log_weights - log_weights.max(axis=0))
        return points, weights / weights.sum(axis=0)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(
                4 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0) + 25.0 * (x > 30)
            ),
            model=pg.Items(lambda x, theta: dist.Normal(theta, 4.0)),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Separate(pg.beliefs.Grid(jnp.arange(10.0, 61.0)), 3),
        starts=[[5.0, 5.0, 5.0], [90.0, 90.0, 90.0]],
        batch=lambda rng, t, x: rng.normal([20.0, 32.0, 50.0], 4.0, (4, 3)),
        expected_cost=None,
        parts=parts,
        support=support,
        search=separable(np.zeros(3), np.full(3, 100.0), points=1001),
    )


@register("beliefs")
def known_steps() -> Hard:
    """Theta is known, and yet the cost is a staircase with a slope against it."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 0.5 * x + 4 * jnp.maximum(jnp.ceil((xi - x) / 5), 0),
            model=lambda x, theta: dist.Normal(theta, 1.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Known(40.0),
        starts=[2.0, 38.0, 95.0],
        batch=lambda rng, t, x: rng.normal(40.0, 1.0, 4),
        expected_cost=lambda x, theta: (
            0.5 * x + 4 * sum(stats.norm.cdf(theta - x - 5 * k) for k in range(12))
        ),
        search=line(0.0, 100.0),
    )


@register("beliefs")
def unknown_covariance() -> Hard:
    """Two goods of which one stands in for the other; mean and covariance are unknown."""
    truth, cov = np.array([30.0, 50.0]), np.array([[25.0, 18.0], [18.0, 36.0]])

    def expected(x, theta):
        mean, matrix = theta["mean"], theta["covariance"]
        spread = np.sqrt(np.diagonal(matrix, axis1=-2, axis2=-1))
        each = (surplus(x, mean, spread) + 2 * shortage(x, mean, spread)).sum(axis=-1)
        total = np.sqrt(matrix.sum(axis=(-2, -1)))
        return each + 10 * distance(x.sum(axis=-1), mean.sum(axis=-1), total)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                jnp.sum(jnp.maximum(x - xi, 0) + 2 * jnp.maximum(xi - x, 0))
                + 10 * jnp.abs(jnp.sum(x) - jnp.sum(xi))
            ),
            model=lambda x, theta: dist.MultivariateNormal(theta["mean"], theta["covariance"]),
            feasible=Box(0.0, 300.0),
        ),
        belief=lambda: pg.beliefs.NormalInverseWishart(
            jnp.array([40.0, 40.0]), 1.0, 5.0, 100.0 * jnp.eye(2)
        ),
        starts=[[5.0, 5.0], [250.0, 0.0]],
        batch=lambda rng, t, x: rng.multivariate_normal(truth, cov, 5),
        expected_cost=expected,
        support=drawn(3000),
        search=many_starts(
            [0.0, 0.0], [120.0, 120.0], tries=256, polished=2, guess=lambda s: [truth]
        ),
    )

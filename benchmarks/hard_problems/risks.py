"""Decisions that are careful about theta."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from hard_problems.base import Hard, joint, marginals, register
from hard_problems.laws import shortage, surplus
from hard_problems.search import line, many_starts

Box = pg.feasible.Box


def mean_variance(c: float):
    """E H + c Var H."""

    def risk(costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        mean = costs @ weights
        return mean + c * ((costs - mean[:, None]) ** 2 @ weights)

    return risk


def tail(quantile: float):
    """The mean of H over the worst share 1 - quantile of the thetas."""

    def risk(costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(-costs, axis=1)
        sorted_costs = np.take_along_axis(costs, order, axis=1)
        cumulated = np.cumsum(weights[order], axis=1)
        share = np.clip(1 - quantile - (cumulated - weights[order]), 0.0, weights[order])
        return (share * sorted_costs).sum(axis=1) / (1 - quantile)

    return risk


def value_at_risk(quantile: float):
    """The quantile of H, between thetas by a straight line."""

    def risk(costs: np.ndarray, weights: np.ndarray) -> np.ndarray:
        order = np.argsort(costs, axis=1)
        sorted_costs = np.take_along_axis(costs, order, axis=1)
        middle = np.cumsum(weights[order], axis=1) - weights[order] / 2
        pairs = zip(middle, sorted_costs, strict=True)
        return np.array([np.interp(quantile, at, cost) for at, cost in pairs])

    return risk


def dense(belief):
    """Many thetas, since a quantile among few is coarse."""
    return marginals(belief, np.linspace(-6.0, 6.0, 401))


def _newsvendor(risk, own, prior: float = 3.0) -> Hard:
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 3 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0),
            model=lambda x, theta: dist.Normal(theta, 3.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(20.0, prior),
        starts=[2.0, 20.0, 90.0],
        batch=lambda rng, t, x: rng.normal(22.0, 3.0, 2),
        expected_cost=lambda x, theta: 3 * shortage(x, theta, 3.0) + surplus(x, theta, 3.0),
        options={"risk": risk},
        risk=own,
        support=dense,
        search=line(0.0, 100.0),
    )


@register("risks")
def newsvendor_mean_variance() -> Hard:
    """A newsvendor who pays for a small spread over theta."""
    return _newsvendor(pg.risks.MeanVariance(0.3), mean_variance(0.3))


@register("risks")
def newsvendor_var() -> Hard:
    """A newsvendor who looks at the 0.9-quantile over theta."""
    return _newsvendor(pg.risks.VaR(0.9), value_at_risk(0.9))


@register("risks")
def newsvendor_cvar() -> Hard:
    """A newsvendor who looks at the worst tenth of the thetas."""
    return _newsvendor(pg.risks.CVaR(0.9), tail(0.9))


@register("risks")
def careful_advertising() -> Hard:
    """The advertising of many, with the worst fifth of the thetas in mind."""

    def sold(x):
        return 100 * x**2 / (x**2 + 25)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x - xi * sold(x),
            model=lambda x, theta: dist.Normal(theta, 0.3),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.2),
        starts=[60.0, 1.0, 16.0],
        batch=lambda rng, t, x: rng.normal(1.0, 0.3, 2),
        expected_cost=lambda x, theta: x - theta * sold(x),
        options={"risk": pg.risks.CVaR(0.8)},
        risk=tail(0.8),
        support=dense,
        search=line(0.0, 100.0),
    )


@register("risks")
def careful_bump() -> Hard:
    """The bump with a price on the variance: far away nothing varies, and nothing is won."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: -jnp.exp(-0.5 * (x - xi) ** 2),
            model=lambda x, theta: dist.Normal(theta, 0.5),
            feasible=Box(-10.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Normal(3.0, 1.0),
        starts=[0.5, 3.0, 8.0],
        batch=lambda rng, t, x: rng.normal(3.0, 0.5, 2),
        expected_cost=lambda x, theta: -np.exp(-0.4 * (x - theta) ** 2) / np.sqrt(1.25),
        options={"risk": pg.risks.MeanVariance(1.0)},
        risk=mean_variance(1.0),
        support=dense,
        search=line(-10.0, 10.0),
    )


@register("risks")
def careful_pair() -> Hard:
    """Two newsvendors whose sum is looked at in the worst tenth of the thetas."""
    under, over = np.array([3.0, 8.0]), np.array([1.0, 2.0])

    def expected(x, theta):
        each = under * shortage(x, theta, 3.0) + over * surplus(x, theta, 3.0)
        return each.sum(axis=-1)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(
                under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, 3.0).to_event(1),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(2, 20.0), jnp.full(2, 3.0)),
        starts=[[2.0, 2.0], [80.0, 10.0]],
        batch=lambda rng, t, x: rng.normal([22.0, 17.0], 3.0, (2, 2)),
        expected_cost=expected,
        options={"risk": pg.risks.CVaR(0.9)},
        risk=tail(0.9),
        support=joint(31),
        search=many_starts(np.zeros(2), np.full(2, 60.0), tries=256, polished=3),
    )


@register("risks")
def careful_bid() -> Hard:
    """A sealed bid under the 0.8-quantile over theta: a cost that jumps, and a quantile."""
    from scipy.special import ndtr

    return Hard(
        problem=pg.Problem(
            cost=lambda x, rival: -(100.0 - x) * (x > rival),
            model=lambda x, theta: dist.Normal(theta, 6.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(60.0, 8.0),
        starts=[10.0, 60.0, 95.0],
        batch=lambda rng, t, x: rng.normal(60.0, 6.0, 3),
        expected_cost=lambda x, theta: -(100 - x) * ndtr((x - theta) / 6),
        options={"risk": pg.risks.VaR(0.8)},
        risk=value_at_risk(0.8),
        support=dense,
        search=line(0.0, 100.0),
    )

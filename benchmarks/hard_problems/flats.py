"""Costs that are flat where one stands, and costs with kinks."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from hard_problems.base import Hard, joint, register
from hard_problems.laws import cdf, distance, over_normal, shortage, surplus
from hard_problems.search import line, many_starts

Box = pg.feasible.Box


@register("flats")
def choke_price() -> Hard:
    """Above 12 nobody buys, and the first price is above; best 6."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, size: -price * jnp.maximum(size - 5 * price, 0),
            model=lambda price, theta: dist.Normal(theta, 2.0),
            feasible=Box(0.0, 50.0),
        ),
        belief=lambda: pg.beliefs.Normal(60.0, 5.0),
        starts=[20.0, 40.0, 3.0],
        batch=lambda rng, t, x: rng.normal(60.0, 2.0, 4),
        expected_cost=lambda x, theta: -x * shortage(5 * x, theta, 2.0),
        search=line(0.0, 50.0),
    )


@register("flats")
def choke_price_seen() -> Hard:
    """The same, where sales are seen: at a price of 20 they are always zero, but for noise."""

    def mean(price, maximum):
        return maximum(60.0 - 5 * price, 0.0)

    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -price * sold,
            model=lambda price, theta: dist.Normal(theta * mean(price, jnp.maximum), 2.0),
            feasible=Box(0.0, 50.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.1),
        starts=[20.0, 40.0, 3.0],
        batch=lambda rng, t, x: rng.normal(mean(x, np.maximum), 2.0, 4),
        expected_cost=lambda x, theta: -x * theta * mean(x, np.maximum),
        search=line(0.0, 50.0),
    )


@register("flats")
def dead_zone() -> Hard:
    """A thermostat: within 10 of the wish nothing matters, and much of it is as good."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.maximum(jnp.abs(x - xi) - 10.0, 0),
            model=lambda x, theta: dist.Normal(theta, 2.0),
            feasible=Box(-100.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 20.0),
        starts=[-80.0, 20.0, 95.0],
        batch=lambda rng, t, x: rng.normal(30.0, 2.0, 4),
        expected_cost=lambda x, theta: shortage(x + 10, theta, 2.0) + surplus(x - 10, theta, 2.0),
        search=line(-100.0, 100.0),
        scale=1.0,
    )


@register("flats")
def bounded_loss() -> Hard:
    """A square that is capped at 25: far away all decisions are equally bad."""
    nodes = np.linspace(-6, 6, 161)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.minimum((x - xi) ** 2, 25.0),
            model=lambda x, theta: dist.Normal(theta, 1.5),
            feasible=Box(-100.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 30.0),
        starts=[-60.0, 26.0, 90.0],
        batch=lambda rng, t, x: rng.normal(30.0, 1.5, 4),
        expected_cost=over_normal(lambda x, xi: np.minimum((x - xi) ** 2, 25.0), 1.5, nodes),
        search=line(-100.0, 100.0),
    )


@register("flats")
def sharp_kink() -> Hard:
    """A newsvendor who knows demand to a thousandth: a kink, and a curvature that is nowhere."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 3 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0),
            model=lambda x, theta: dist.Normal(theta, 0.001),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(50.0, 10.0),
        starts=[5.0, 42.0, 90.0],
        batch=lambda rng, t, x: rng.normal(42.0, 0.001, 4),
        expected_cost=lambda x, theta: 3 * shortage(x, theta, 0.001) + surplus(x, theta, 0.001),
        search=line(0.0, 100.0),
        scale=0.1,
    )


@register("flats")
def block_tariff() -> Hard:
    """The first 30 cost 3 each, the next 30 cost 2, the rest 0.5: concave, with kinks."""

    def bill(x, minimum, maximum):
        first, rest = minimum(x, 30.0), maximum(x - 60.0, 0.0)
        return 3 * first + 2 * maximum(minimum(x, 60.0) - 30.0, 0.0) + 0.5 * rest

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: bill(x, jnp.minimum, jnp.maximum) - 3.2 * jnp.minimum(x, xi),
            model=lambda x, theta: dist.Normal(theta, 15.0),
            feasible=Box(0.0, 150.0),
        ),
        belief=lambda: pg.beliefs.Normal(75.0, 10.0),
        starts=[10.0, 50.0, 140.0],
        batch=lambda rng, t, x: rng.normal(80.0, 15.0, 4),
        expected_cost=lambda x, theta: (
            bill(x, np.minimum, np.maximum) - 3.2 * (x - surplus(x, theta, 15.0))
        ),
        search=line(0.0, 150.0, marks=[30.0, 60.0]),
    )


@register("flats")
def price_effect_above_20() -> Hard:
    """Up to a price of 20 demand stays 30, above it falls; the first price is 5, the best 25."""

    def features(price, maximum):
        return maximum(price - 20.0, 0.0)

    def expected(x, theta):
        return -x * (theta["level"] - theta["slope"] * features(x, np.maximum))

    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -price * sold,
            model=lambda price, theta: dist.Normal(
                theta["level"] - theta["slope"] * features(price, jnp.maximum), 1.0
            ),
            feasible=Box(0.0, 60.0),
        ),
        belief=lambda: pg.beliefs.Gaussian(
            {"level": 30.0, "slope": 1.0}, {"level": 3.0, "slope": 0.1}
        ),
        starts=[5.0, 22.0, 55.0],
        batch=lambda rng, t, x: rng.normal(30.0 - features(x, np.maximum), 1.0, 4),
        expected_cost=expected,
        support=joint(5),
        search=line(0.0, 60.0, marks=[20.0]),
    )


@register("flats")
def ridge() -> Hard:
    """Two absolute values of sums: along neither coordinate does the cost fall at the kink."""
    truth = np.array([10.0, -4.0])

    def expected(x, theta):
        total, gap = x[..., 0] + x[..., 1], x[..., 0] - x[..., 1]
        one = distance(total, theta[:, 0], 0.5)
        return 10 * one + distance(gap, theta[:, 1], 0.5)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 10 * jnp.abs(x[0] + x[1] - xi[0]) + jnp.abs(x[0] - x[1] - xi[1]),
            model=lambda x, theta: dist.Normal(theta, 0.5).to_event(1),
            feasible=Box(-50.0, 50.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(2), jnp.full(2, 10.0)),
        starts=[[-40.0, 45.0], [0.0, 0.0], [30.0, -30.0]],
        batch=lambda rng, t, x: rng.normal(truth, 0.5, (4, 2)),
        expected_cost=expected,
        support=joint(15),
        search=many_starts([-50.0, -50.0], [50.0, 50.0], guess=_ridge_guess),
    )


def _ridge_guess(stage):
    a, b = stage.weights @ stage.theta
    return [[(a + b) / 2, (a - b) / 2]]


@register("flats")
def worst_of_three() -> Hard:
    """The largest of three weighted gaps: only one coordinate has a slope at a time."""
    weights, truth = np.array([1.0, 3.0, 10.0]), np.array([20.0, 5.0, 1.0])
    levels = np.linspace(0.0, 1.0, 300) ** 2 * 600

    def expected(x, theta):
        # E max = integral of P(max > t) dt
        total, before, last = 0.0, None, 0.0
        for t in levels:
            inside = 1.0
            for i in range(3):
                gap, span = x[..., i] - theta[:, i], t / weights[i]
                inside = inside * (cdf((gap + span) / 0.5) - cdf((gap - span) / 0.5))
            here = 1.0 - inside
            if before is not None:
                total = total + (t - last) * (before + here) / 2
            before, last = here, t
        return total

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.max(weights * jnp.abs(x - xi)),
            model=lambda x, theta: dist.Normal(theta, 0.5).to_event(1),
            feasible=Box(0.0, 40.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.array([15.0, 8.0, 3.0]), jnp.full(3, 2.0)),
        starts=[[0.0, 0.0, 0.0], [35.0, 10.0, 30.0]],
        batch=lambda rng, t, x: rng.normal(truth, 0.5, (6, 3)),
        expected_cost=expected,
        support=joint(3),
        search=many_starts(
            np.zeros(3),
            np.full(3, 40.0),
            tries=64,
            polished=1,
            guess=lambda s: [s.weights @ s.theta],
        ),
    )


@register("flats")
def censored_newsvendor() -> Hard:
    """Sales are seen, not demand, and the first order is far below; a grid of means."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 3 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0),
            model=lambda x, theta: dist.Normal(theta, 4.0),
            observation=lambda x, theta: pg.distributions.Censored(
                dist.Normal(theta, 4.0), upper=x
            ),
            feasible=Box(1.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Grid(jnp.arange(5.0, 61.0)),
        starts=[2.0, 30.0, 90.0],
        batch=lambda rng, t, x: np.minimum(rng.normal(40.0, 4.0, 3), x),
        expected_cost=lambda x, theta: 3 * shortage(x, theta, 4.0) + surplus(x, theta, 4.0),
        search=line(1.0, 100.0),
    )


@register("flats")
def saturated_channel() -> Hard:
    """A channel that is full at 100 and does nothing below 40: flat, steep, flat, and a price."""

    def reach(x, exp):
        return 60.0 / (1 + exp(-(x - 55.0) / 3))

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: 0.3 * x - xi * reach(x, jnp.exp),
            model=lambda x, theta: dist.Normal(theta, 0.2),
            feasible=Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.2),
        starts=[5.0, 60.0, 190.0],
        batch=lambda rng, t, x: rng.normal(1.0, 0.2, 4),
        expected_cost=lambda x, theta: 0.3 * x - theta * reach(x, np.exp),
        search=line(0.0, 200.0),
    )

"""Costs with several minima, of which one is best."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from hard_problems.base import Hard, joint, register
from hard_problems.laws import over_normal
from hard_problems.search import line, many_starts, separable

Box = pg.feasible.Box


def _response(x):
    """What advertising for x sells, of 100 that can be sold."""
    return 100 * x**2 / (x**2 + 25)


@register("valleys")
def advertising() -> Hard:
    """Little advertising is lost money, and none at all a local minimum; best 16."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x - xi * _response(x),
            model=lambda x, theta: dist.Normal(theta, 0.3),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.2),
        starts=[60.0, 1.0, 16.0],
        batch=lambda rng, t, x: rng.normal(1.0, 0.3, 4),
        expected_cost=lambda x, theta: x - theta * _response(x),
        search=line(0.0, 100.0),
    )


@register("valleys")
def advertising_seen() -> Hard:
    """The same, where sales are seen, which tell little at low expense."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, sales: x - sales,
            model=lambda x, theta: dist.Normal(theta * _response(x), 5.0),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.2),
        starts=[60.0, 1.0, 16.0],
        batch=lambda rng, t, x: rng.normal(_response(x), 5.0, 4),
        expected_cost=lambda x, theta: x - theta * _response(x),
        search=line(0.0, 100.0),
    )


def _bump(x, xi):
    return -jnp.exp(-0.5 * (x - xi) ** 2)


def _mean_bump(x, theta):
    return -np.exp(-0.5 * (x - theta) ** 2 / 1.25) / np.sqrt(1.25)


def _bump_problem() -> pg.Problem:
    return pg.Problem(_bump, lambda x, theta: dist.Normal(theta, 0.5), Box(-10.0, 10.0))


@register("valleys")
def bump() -> Hard:
    """A reward for being near, and none for being less far; best near 3."""
    return Hard(
        problem=_bump_problem(),
        belief=lambda: pg.beliefs.Normal(3.0, 1.0),
        starts=[1.0, 2.0, 3.0, 4.0, 5.0],
        batch=lambda rng, t, x: rng.normal(3.0, 0.5, 4),
        expected_cost=_mean_bump,
        search=line(-10.0, 10.0),
    )


@register("valleys")
def far_bump() -> Hard:
    """The same from where the slope is nearly zero."""
    return Hard(
        problem=_bump_problem(),
        belief=lambda: pg.beliefs.Normal(0.0, 4.0),
        starts=[-9.0, -3.0, 10.0],
        batch=lambda rng, t, x: rng.normal(3.0, 0.5, 4),
        expected_cost=_mean_bump,
        search=line(-10.0, 10.0),
    )


@register("valleys")
def two_worlds() -> Hard:
    """Theta is -3 or 3, and 40 data say 3."""
    return Hard(
        problem=_bump_problem(),
        belief=lambda: pg.beliefs.Grid(jnp.array([-3.0, 3.0])),
        starts=[-3.0, 0.0, 3.0],
        batch=lambda rng, t, x: np.full(40, 3.0),
        expected_cost=_mean_bump,
        search=line(-10.0, 10.0),
    )


def _two_segments(price, exp):
    """Many customers who pay about 6, and few who pay about 30."""
    return 59.7 / (1 + exp(price - 6.395)) + 8.0 / (1 + exp((price - 30.0) / 2))


@register("valleys")
def two_segments() -> Hard:
    """Revenue has two peaks: 280 at a price of 5.17, 185 at 25.1."""
    return Hard(
        problem=pg.Problem(
            cost=lambda price, sold: -price * sold,
            model=lambda price, theta: dist.Normal(theta * _two_segments(price, jnp.exp), 3.0),
            feasible=Box(1.0, 60.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.0, 0.1),
        starts=[3.0, 8.0, 15.0, 25.0, 40.0, 50.0],
        batch=lambda rng, t, x: rng.normal(_two_segments(x, np.exp), 3.0, 4),
        expected_cost=lambda x, theta: -x * theta * _two_segments(x, np.exp),
        search=line(1.0, 60.0),
    )


@register("valleys")
def waves() -> Hard:
    """A shallow bowl with waves on it; nine local minima, one of them at theta = 2."""
    spread = 0.2
    damp = np.exp(-0.5 * 9 * spread**2)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (x - xi) ** 2 / 50 - jnp.cos(3 * (x - xi)),
            model=lambda x, theta: dist.Normal(theta, spread),
            feasible=Box(-10.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 3.0),
        starts=[-8.0, 0.0, 9.0],
        batch=lambda rng, t, x: rng.normal(2.0, spread, 8),
        expected_cost=lambda x, theta: (
            ((x - theta) ** 2 + spread**2) / 50 - damp * np.cos(3 * (x - theta))
        ),
        search=line(-10.0, 10.0),
        scale=1.0,
    )


@register("valleys")
def narrow_valley() -> Hard:
    """A wide valley at 20, and at 70 one that is three times as deep and 4 % of the box wide."""
    width = np.hypot(1.5, 0.5)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                -jnp.exp(-0.5 * ((x - 20) / 15) ** 2) - 3 * jnp.exp(-0.5 * ((x - xi) / 1.5) ** 2)
            ),
            model=lambda x, theta: dist.Normal(theta, 0.5),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(60.0, 10.0),
        starts=[20.0, 50.0, 95.0],
        batch=lambda rng, t, x: rng.normal(70.0, 0.5, 4),
        expected_cost=lambda x, theta: (
            -np.exp(-0.5 * ((x - 20) / 15) ** 2)
            - 3 * 1.5 / width * np.exp(-0.5 * ((x - theta) / width) ** 2)
        ),
        search=line(0.0, 100.0),
    )


@register("valleys")
def twin_valleys() -> Hard:
    """Two equally good minima at -3 and 3, and a maximum at the first start."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (x**2 - xi) ** 2,
            model=lambda x, theta: dist.Normal(theta, 1.0),
            feasible=Box(-10.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Normal(9.0, 2.0),
        starts=[0.0, -0.1, 7.0],
        batch=lambda rng, t, x: rng.normal(9.0, 1.0, 4),
        expected_cost=lambda x, theta: (x**2 - theta) ** 2 + 1.0,
        search=line(-10.0, 10.0),
    )


@register("valleys")
def moving_valley() -> Hard:
    """The bump moves from 4 to -6 at stage 4, and the belief forgets."""
    return Hard(
        problem=_bump_problem(),
        belief=lambda: pg.beliefs.Normal(0.0, 5.0, forget=0.3),
        starts=[4.0, 0.0],
        batch=lambda rng, t, x: rng.normal(4.0 if t < 4 else -6.0, 0.5, 8),
        expected_cost=_mean_bump,
        search=line(-10.0, 10.0),
    )


@register("valleys")
def all_or_nothing() -> Hard:
    """A concave cost: nothing is a local minimum, everything the best."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: xi * x - 0.02 * x**2,
            model=lambda x, theta: dist.Normal(theta, 0.5),
            feasible=Box(0.0, 100.0),
        ),
        belief=lambda: pg.beliefs.Normal(1.5, 0.2),
        starts=[1.0, 30.0, 80.0],
        batch=lambda rng, t, x: rng.normal(1.5, 0.5, 4),
        expected_cost=lambda x, theta: theta * x - 0.02 * x**2,
        search=line(0.0, 100.0),
    )


@register("valleys")
def egg_tray() -> Hard:
    """Waves on a bowl in two dimensions: some eighty local minima."""
    spread, damp = 0.2, np.exp(-0.5 * 4 * 0.2**2)
    truth = np.array([1.0, -2.0])

    def parts(x, theta):
        gap = x - theta
        return (gap**2 + spread**2) / 20 - damp * np.cos(2 * gap)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum((x - xi) ** 2 / 20 - jnp.cos(2 * (x - xi))),
            model=lambda x, theta: dist.Normal(theta, spread).to_event(1),
            feasible=Box(-10.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(2), jnp.full(2, 3.0)),
        starts=[[-8.0, 8.0], [0.0, 0.0]],
        batch=lambda rng, t, x: rng.normal(truth, spread, (8, 2)),
        expected_cost=None,
        parts=parts,
        search=separable([-10.0, -10.0], [10.0, 10.0]),
        scale=2.0,
    )


@register("valleys")
def meeting_place() -> Hard:
    """A stand on a square with two crowds; near neither nothing is sold. The larger is best."""
    crowds = np.array([[2.0, 2.0], [8.0, 7.0]])

    def expected(x, theta):
        # the first crowd stands still, the second is where theta says, with a spread of 0.5
        first = np.exp(-0.5 * ((x - crowds[0]) ** 2).sum(axis=-1))
        second = np.exp(-0.5 * ((x - theta) ** 2).sum(axis=-1) / 1.25) / 1.25
        return -4 * first - 10 * second

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                -4 * jnp.exp(-0.5 * jnp.sum((x - crowds[0]) ** 2))
                - 10 * jnp.exp(-0.5 * jnp.sum((x - xi) ** 2))
            ),
            model=lambda x, theta: dist.Normal(theta, 0.5).to_event(1),
            feasible=Box(0.0, 10.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.array([7.0, 7.0]), jnp.ones(2)),
        starts=[[2.0, 2.0], [5.0, 0.5], [8.0, 7.0]],
        batch=lambda rng, t, x: rng.normal(crowds[1], 0.5, (6, 2)),
        expected_cost=expected,
        support=joint(15),
        search=many_starts(
            [0.0, 0.0], [10.0, 10.0], guess=lambda s: [crowds[0], s.weights @ s.theta]
        ),
    )


@register("valleys")
def two_seasons() -> Hard:
    """When to open: early rain and late frost, a sine of the day with noise in its phase."""

    def cost(day, shift):
        angle = 2 * np.pi * (day - shift) / 73
        return 10 + 4 * jnp.sin(angle) + 3 * jnp.cos(angle / 5) - 0.01 * day

    plain = over_normal(
        lambda day, shift: (
            10
            + 4 * np.sin(2 * np.pi * (day - shift) / 73)
            + 3 * np.cos(2 * np.pi * (day - shift) / 365)
            - 0.01 * day
        ),
        6.0,
    )
    return Hard(
        problem=pg.Problem(cost, lambda day, theta: dist.Normal(theta, 6.0), Box(0.0, 365.0)),
        belief=lambda: pg.beliefs.Normal(0.0, 15.0),
        starts=[10.0, 130.0, 340.0],
        batch=lambda rng, t, x: rng.normal(12.0, 6.0, 5),
        expected_cost=plain,
        search=line(0.0, 365.0),
    )

"""More costs with several minima or bent valleys."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from hard_problems.base import Hard, register
from hard_problems.laws import over_normal
from hard_problems.search import line, many_starts

Box = pg.feasible.Box


def _rosenbrock(x, xi):
    """A bent valley: each entry after the first should be the square of the one before."""
    return 100 * jnp.sum((x[1:] - x[:-1] ** 2) ** 2) + jnp.sum((xi - x[:-1]) ** 2)


def _bent(dimension: int, starts: list) -> Hard:
    def expected(x, theta):
        bend = 100 * ((x[..., 1:] - x[..., :-1] ** 2) ** 2).sum(axis=-1)
        square = (x[..., :-1] - np.asarray(theta)[:, None]) ** 2 + 0.25
        return bend + square.sum(axis=-1)

    return Hard(
        problem=pg.Problem(_rosenbrock, lambda x, theta: dist.Normal(theta, 0.5), Box(-3.0, 3.0)),
        belief=lambda: pg.beliefs.Normal(0.5, 1.0),
        starts=starts,
        batch=lambda rng, t, x: rng.normal(1.0, 0.5, 8),
        expected_cost=expected,
        search=many_starts(
            np.full(dimension, -3.0),
            np.full(dimension, 3.0),
            guess=lambda s: [
                np.clip((s.weights @ s.theta) ** (2.0 ** np.arange(dimension)), -3, 3)
            ],
        ),
    )


@register("valleys")
def rosenbrock_2() -> Hard:
    """Rosenbrock's bent valley in two dimensions."""
    return _bent(2, [[-1.5, 2.0], [2.0, -2.0], [0.0, 0.0]])


@register("valleys")
def rosenbrock_5() -> Hard:
    """Rosenbrock's bent valley in five."""
    return _bent(5, [[-1.5, 2.0, -1.0, 2.0, 1.0], [0.0] * 5])


@register("valleys")
def steep_and_shallow() -> Hard:
    """A shallow valley before a steep one, on the way of a downhill walk from either side."""

    def softly(x, log1p, exp):
        return 2 * log1p(exp(x - 6)) - 14 / (1 + exp(-4 * (x - 9.0))) + 0.05 * (x - 2) ** 2

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: softly(x - xi, jnp.log1p, jnp.exp),
            model=lambda x, theta: dist.Normal(theta, 0.2),
            feasible=Box(-15.0, 25.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 0.5),
        starts=[-10.0, 3.0, 20.0],
        batch=lambda rng, t, x: rng.normal(0.3, 0.2, 4),
        expected_cost=over_normal(lambda x, xi: softly(x - xi, np.log1p, np.exp), 0.2),
        search=line(-15.0, 25.0),
    )

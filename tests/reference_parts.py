"""What reference cases have in common: data, a grid, problems of the testbed, stages by hand."""

import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from reference_case import Numbers

import postgrad as pg

# Data: waves, so that no random number generator has a part in them. Batches have three or four
# rows, which share one compiled program of four rows.

SIZES = (3, 4, 4, 3, 4, 3)
WAVE = np.sin(1.7 * np.arange(sum(SIZES)) + 0.3)
OTHER = np.cos(2.3 * np.arange(sum(SIZES)))


def in_batches(rows: np.ndarray, sizes: tuple[int, ...] = SIZES) -> list[np.ndarray]:
    """The rows, cut into batches of these sizes."""
    return np.split(rows, np.cumsum(sizes)[:-1])


REAL_NUMBERS = 5.0 + 2.0 * WAVE
REALS = in_batches(REAL_NUMBERS)
POSITIVE = in_batches(np.exp(1.0 + 0.8 * WAVE))
COUNTS = in_batches(np.floor(4.0 + 3.9 * WAVE))
SPLITS = in_batches(np.eye(3)[np.floor(1.5 + 1.49 * WAVE).astype(int)] * 3 + [1.0, 0.0, 0.0])
TWO_REALS = in_batches(np.stack([5.0 + 2.0 * WAVE, 4.0 + 1.5 * OTHER], axis=1))
FEW = in_batches(REAL_NUMBERS[:12], (2,) * 6)


def squared(x, xi):
    return (jnp.sum(x) - 0.8 * jnp.sum(xi)) ** 2


BOX = pg.feasible.Box(0.1, 30.0)
POINTS = jnp.linspace(1.0, 10.0, 19)
WEIGHTS = jnp.linspace(1.0, 2.0, 19)
MANY = jnp.linspace(0.2, 9.0, 5000)  # so many points have sufficient statistics
# Steps small enough for iterates to stay inside the box, where nothing hides a wrong gradient.
PAPER = pg.presets.paper(steps=pg.step_sizes.Harmonic(0.1, 5.0))
grid = functools.partial(pg.beliefs.Grid, POINTS, WEIGHTS)
TESTBED = pg.problems.testbed()
QUADRATICS = {
    name: TESTBED[f"quadratic-{name}"]()
    for name in ("1d-independent", "2d-independent", "1d-dependent", "2d-dependent")
}


@eqx.filter_jit
def stage(algorithm: pg.BayesianSGD, state: Any, batch: Any, weight: Any) -> Any:
    """A stage without what is not recorded: a quarter of an agent's compile time."""
    new, info = algorithm.step(state, batch, weight=weight)
    return new, jnp.sum(jnp.where(weight > 0, info.log_predictive, 0.0)), info.course.gradient


def stepped(algorithm: pg.BayesianSGD, state: Any, batches: Any) -> tuple[Any, Numbers]:
    """The same by hand: batches of three have a fourth row that does not count."""
    told: dict[str, list[Any]] = {"decisions": [], "log predictive": [], "gradients": []}
    for batch in batches:
        missing = -len(batch) % 2
        rows = np.concatenate([batch, batch[:missing]])
        weight = np.concatenate([np.ones(len(batch)), np.zeros(missing)])
        state, log_predictive, gradient = stage(algorithm, state, rows, weight)
        told["decisions"].append(state.decision)
        told["log predictive"].append(log_predictive)
        told["gradients"].append(gradient)
    return state, told

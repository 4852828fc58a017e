"""The posterior of one number eta, from a normal prior and any log f(y | eta)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from postgrad.models.regression_model import Curve

# The last step of Newton's method is shorter than this, in posterior standard deviations; the mode
# is then right to about its square. So many steps are taken at most.
_CLOSE, _STEPS = 1e-8, 60
# Steps shorter than this, in the same unit, use the full curvature.
_NEAR = 0.1
# A variance of zero would be divided by.
_LEAST = 1e-30
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
# Of a standard normal number.
LOG_SHARES = np.log(_WEIGHTS / _WEIGHTS.sum())


class Mode(NamedTuple):
    """The maximum of log f(eta) - (eta - m)^2 / 2v, and the curvature of log f there.

    Attributes:
        eta: The mode.
        bend: Minus the second derivative of log f at the mode; zero where it is negative.
        slope: (eta - m) / v.
        variance: 1 / (1/v + bend), v without data.
    """

    eta: Float[Array, ""]
    bend: Float[Array, ""]
    slope: Float[Array, ""]
    variance: Float[Array, ""]


def find_mode(
    curve: Callable[[Array], Curve],
    mean: Array,
    variance: Array,
    longest_step: float,
    start: Array | None = None,
) -> Mode:
    """Newton's method, kept within the bracket that slopes have shown; NaN if y is impossible.

    Where log f is not concave, steps rely on its `safe_bend` until the mode is near.

    Args:
        curve: log f and its derivatives.
        mean: m.
        variance: v.
        longest_step: See `RegressionModel`.
        start: Where to begin if that is higher than the prior's mean, which is tried first.
    """
    v = jnp.maximum(variance, _LEAST)
    reach = jnp.maximum(jnp.sqrt(v), longest_step)

    def step_from(eta: Array, here: Curve) -> tuple[Array, Array]:
        """Newton's step, and its length in posterior standard deviations."""
        slope = here.slope - (eta - mean) / v
        safe, full = 1.0 / v + here.safe_bend, 1.0 / v + here.bend
        length = jnp.abs(slope) / jnp.sqrt(safe)
        use_full = (length < _NEAR) & (full > 0.5 * safe)
        return jnp.clip(slope / jnp.where(use_full, full, safe), -reach, reach), length

    def move(
        state: tuple[Array, Curve, Array, Array, Array, Array],
    ) -> tuple[Array, Curve, Array, Array, Array, Array]:
        eta, _, step, low, high, count = state
        low, high = jnp.where(step > 0, eta, low), jnp.where(step < 0, eta, high)
        new = eta + step
        new = jnp.where((new > low) & (new < high), new, 0.5 * (low + high))
        there = curve(new)
        step, _ = step_from(new, there)
        return new, there, step, low, high, count + 1

    def go_on(state: tuple[Array, Curve, Array, Array, Array, Array]) -> Array:
        eta, here, *_, count = state
        return (step_from(eta, here)[1] > _CLOSE) & (count < _STEPS)

    eta, here = mean, curve(mean)
    if start is not None:
        there = curve(start)
        higher = there.value - 0.5 * (start - mean) ** 2 / v > here.value
        eta, here = jax.tree.map(
            lambda new, old: jnp.where(higher, new, old), (start, there), (eta, here)
        )
    infinite = jnp.full_like(mean, jnp.inf)
    first = (eta, here, step_from(eta, here)[0], -infinite, infinite, jnp.zeros((), int))
    eta, here, step, *_ = lax.while_loop(go_on, move, first)
    eta, bend = eta + step, jnp.maximum(here.bend, 0.0)
    eta = jnp.where(here.value > -jnp.inf, eta, jnp.nan)
    return Mode(eta, bend, (eta - mean) / v, v / (1.0 + bend * v))


def log_average(
    log_f: Callable[[Array], Array], mean: Array, variance: Array, mode: Mode
) -> Float[Array, ""]:
    """log E f(eta) for eta ~ N(mean, variance), by Gauss-Hermite nodes around the mode."""
    v = jnp.maximum(variance, _LEAST)
    eta = mode.eta + jnp.sqrt(mode.variance) * NODES
    log_ratio = 0.5 * (NODES**2 - (eta - mean) ** 2 / v + jnp.log(mode.variance / v))
    return logsumexp(log_f(eta) + log_ratio + LOG_SHARES)

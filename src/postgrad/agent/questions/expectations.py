"""Expectations, their intervals and their errors, from what was drawn under each theta."""

import numpy as np
from jaxtyping import Float

from postgrad.records.questions.expectation import Expectation

_TAIL = 0.025  # of probability, on either side of an interval
_GROUPS = 8  # of thetas, to tell the error of simulation


def expectation(
    means: Float[np.ndarray, " L"],
    common: Float[np.ndarray, " L"],
    shares: Float[np.ndarray, " L"],
    event: bool = False,
    limits: tuple[float, float] = (-np.inf, np.inf),
) -> Expectation:
    """The expectation of a number.

    Args:
        means: Its expectation under each theta.
        common: The same, by draws that all thetas have in common: see `Valued`.
        shares: The probability of each theta.
        event: Whether the number is a chance.
        limits: Between which ends the number lies.
    """
    mean = float(means @ shares)
    true = np.clip(without_noise(means, common, shares), *limits)
    order: np.ndarray = np.argsort(true)
    cumulated = np.cumsum(shares[order])
    ends = [
        float(true[order[min(int(np.searchsorted(cumulated, p)), len(order) - 1)]])
        for p in (_TAIL, 1.0 - _TAIL)
    ]
    groups = [slice(i, None, _GROUPS) for i in range(_GROUPS)]
    # Every eighth draw is a coarser lattice: all of them together are more even than that.
    each = [means[g] @ shares[g] / max(shares[g].sum(), 1e-300) for g in groups]
    error = float(np.std(each, ddof=1) / np.sqrt(_GROUPS))
    return Expectation(float(np.clip(mean, *limits)), ends[0], ends[1], error, event)


def without_noise(
    means: Float[np.ndarray, " L"],
    common: Float[np.ndarray, " L"],
    shares: Float[np.ndarray, " L"],
) -> Float[np.ndarray, " L"]:
    """Expectations under each theta, as far apart from each other as they are but for drawing.

    How they differ is told by the draws that all thetas have in common.
    """
    return np.asarray(means @ shares + common - common @ shares)


def deviations(
    means: Float[np.ndarray, " L"],
    common: Float[np.ndarray, " L"],
    squares: Float[np.ndarray, " L"],
    shares: Float[np.ndarray, " L"],
) -> tuple[float, float]:
    """The standard deviation of the cost with theta known, and of its expectation over theta."""
    chance = shares @ np.maximum(squares - means**2, 0.0)
    true = without_noise(means, common, shares)
    return float(np.sqrt(chance)), float(np.sqrt(shares @ (true - shares @ true) ** 2))

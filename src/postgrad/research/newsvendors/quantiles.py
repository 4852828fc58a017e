"""Quantiles of mixtures, of very many at once, on the host: the decisions of newsvendors.

`postgrad.beliefs.predictive_quantile` finds the same numbers, one mixture at a time: JAX has no
fast distribution function of counts on a CPU.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betainc, ndtr, ndtri

from postgrad.beliefs.regression.mode import LOG_SHARES, NODES

# Members with less than this share of the weight are left out.
_LEAST = 1e-3
# So many steps by interpolation, then as many halvings as it takes.
_QUICK, _MOST = 12, 200
_CLOSE = 1e-7


class Parts:
    """Mixtures, one a row, as a list of components that names the row of each.

    Attributes:
        row: The row of each component.
        share: The weight of each component; those of a row sum to one.
        mean: The mean of each mixture.
        sd: The standard deviation of each mixture.
        whole: Whether values are whole numbers.
    """

    def __init__(
        self,
        row: np.ndarray,
        share: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        below: Callable[[np.ndarray, np.ndarray], np.ndarray],
        whole: bool,
    ):
        self.row, self.share, self.whole, self._below = row, share, whole, below
        self.rows = int(row[-1]) + 1
        self.mean = self.averaged(mean)
        squares = self.averaged(variance + (mean - self.mean[row]) ** 2)
        self.sd = np.sqrt(squares)
        self._starts = np.searchsorted(row, np.arange(self.rows + 1))

    def averaged(self, each: np.ndarray) -> np.ndarray:
        """The averages over components, of each row."""
        return np.bincount(self.row, self.share * each, self.rows)

    def cdf(self, rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        """P(y <= value), of a value for each of some rows, which may come again."""
        counts = self._starts[rows + 1] - self._starts[rows]
        of = np.repeat(np.arange(len(rows)), counts)
        first = np.cumsum(counts) - counts
        which = np.arange(len(of)) - first[of] + self._starts[rows][of]
        return np.bincount(of, self.share[which] * self._below(values[of], which), len(rows))


def counts(mean: Any, variance: Any, log_weights: Any, concentration: Any) -> Parts:
    """Negative-binomial mixtures: eta ~ N(mean, variance) of each member, in each row."""
    row, member, weight = _kept(log_weights)
    eta = mean[row, member][:, None] + np.sqrt(variance[row, member])[:, None] * NODES
    rate = np.exp(np.clip(eta, -300.0, 300.0)).ravel()
    r = np.repeat(np.asarray(concentration)[member], len(NODES))
    share = (weight[:, None] * np.exp(LOG_SHARES)).ravel()
    chance = r / (r + rate)

    def below(values: np.ndarray, which: np.ndarray) -> np.ndarray:
        found = betainc(r[which], np.maximum(values, 0.0) + 1.0, chance[which])
        return np.where(values < 0, 0.0, found)

    return Parts(np.repeat(row, len(NODES)), share, rate, rate + rate**2 / r, below, True)


def normals(mean: Any, variance: Any, log_weights: Any, scale: Any) -> Parts:
    """Normal mixtures: y ~ N(mean, variance + scale^2) of each member, in each row."""
    row, member, weight = _kept(log_weights)
    m = mean[row, member]
    v = variance[row, member] + np.asarray(scale)[member] ** 2
    sd = np.sqrt(v)

    def below(values: np.ndarray, which: np.ndarray) -> np.ndarray:
        return ndtr((values - m[which]) / sd[which])

    return Parts(row, weight, m, v, below, False)


def _kept(log_weights: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows and members of all weights that count, and these weights."""
    weight = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
    weight *= weight > _LEAST * weight.sum(axis=1, keepdims=True)
    weight /= weight.sum(axis=1, keepdims=True)
    row, member = np.nonzero(weight)
    return row, member, weight[row, member]


def quantiles(parts: Parts, levels: Any) -> np.ndarray:
    """The smallest y with P(y' <= y) >= level, rows by levels.

    By the bounds of Cantelli's inequality, then by interpolation in which a normal distribution
    function is a line.
    """
    p = np.tile(np.asarray(levels, float), parts.rows)
    row = np.repeat(np.arange(parts.rows), len(levels))
    mean, sd, z = parts.mean[row], parts.sd[row], ndtri(p)
    low, high = mean - sd * np.sqrt((1.0 - p) / p), mean + sd * np.sqrt(p / (1.0 - p))
    guess = mean + sd * z
    if parts.whole:
        low, high = np.maximum(np.floor(low) - 1.0, -1.0), np.ceil(high) + 1.0
        least, guess = 1.0, np.ceil(guess)
    else:
        low, high = low - 1e-6 * sd, high + 1e-6 * sd
        least = _CLOSE
    ends = [low, high]
    at_ends = [np.full_like(p, np.nan), np.full_like(p, np.nan)]  # the ends' normal quantiles
    for step in range(_MOST):
        gap = ends[1] - ends[0]
        open_ = np.flatnonzero(gap > least * (1.0 if parts.whole else sd) * (1.0 + 1e-12))
        if not open_.size:
            break
        guess[open_] = _inside(guess, ends, parts.whole, halve=step >= _QUICK)[open_]
        f = parts.cdf(row[open_], guess[open_])
        found = ndtri(np.clip(f, 1e-300, 1.0 - 1e-16))
        for end, reached in enumerate((f < p[open_], f >= p[open_])):
            ends[end][open_[reached]] = guess[open_[reached]]
            at_ends[end][open_[reached]] = found[reached]
        slope = (ends[1] - ends[0]) / (at_ends[1] - at_ends[0])
        known = np.isfinite(slope) & (slope > 0)
        new = guess[open_] + np.where(known, slope, sd)[open_] * (z[open_] - found)
        guess[open_] = np.ceil(new) if parts.whole else new
    return ends[1].reshape(parts.rows, len(levels))


def _inside(guess: np.ndarray, ends: list[np.ndarray], whole: bool, *, halve: bool) -> np.ndarray:
    """The guess, brought between both ends; their middle, where halving is surer."""
    low, high = ends
    middle = 0.5 * (low + high)
    if whole:
        middle = np.floor(middle)
        return middle if halve else np.clip(guess, low + 1.0, high - 1.0)
    edge = 1e-3 * (high - low)
    return middle if halve else np.clip(guess, low + edge, high - edge)

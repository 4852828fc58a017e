"""Expectations in closed form, or by rules of integration."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from hard_problems.base import NODES, WEIGHTS

cdf, pdf, sf = special.ndtr, stats.norm.pdf, lambda z: special.ndtr(-z)


def density(z: np.ndarray) -> np.ndarray:
    """The standard normal density."""
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


def shortage(x: Any, mean: Any, spread: Any) -> np.ndarray:
    """E max(xi - x, 0) of a normal xi."""
    z = (x - mean) / spread
    return spread * (density(z) - z * special.ndtr(-z))


def surplus(x: Any, mean: Any, spread: Any) -> np.ndarray:
    """E max(x - xi, 0) of a normal xi."""
    return shortage(-x, -mean, spread)


def distance(x: Any, mean: Any, spread: Any) -> np.ndarray:
    """E |x - xi| of a normal xi."""
    return shortage(x, mean, spread) + surplus(x, mean, spread)


def lognormal_shortage(x: Any, mu: Any, sigma: Any) -> np.ndarray:
    """E max(xi - x, 0) of a lognormal xi."""
    with np.errstate(divide="ignore"):
        z = (mu - np.log(np.maximum(x, 0.0))) / sigma
    return np.exp(mu + sigma**2 / 2) * special.ndtr(z + sigma) - x * special.ndtr(z)


def poisson_shortage(x: Any, rate: Any) -> np.ndarray:
    """E max(xi - x, 0) of a Poisson xi: rate P(xi >= k) - x P(xi > k) with k = floor(x)."""
    k = np.floor(x)
    above = np.where(k >= 0, special.pdtrc(np.maximum(k, 0), rate), 1.0)
    from_k = np.where(k >= 1, special.pdtrc(np.maximum(k - 1, 0), rate), 1.0)
    return rate * from_k - x * above


def over_normal(
    cost: Callable[[Any, Any], Any], spread: float, nodes: np.ndarray = NODES
) -> Callable[[Any, Any], np.ndarray]:
    """H(x, theta) = E cost(x, theta + spread z) by the trapezoidal rule."""
    weights = WEIGHTS if nodes is NODES else density(nodes) / density(nodes).sum()

    def expected(x: Any, theta: Any) -> np.ndarray:
        total = 0.0
        for z, w in zip(nodes, weights, strict=True):
            total = total + w * cost(x, theta + spread * z)
        return total

    return expected

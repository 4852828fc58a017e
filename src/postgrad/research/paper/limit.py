"""The limit that the data allow: argmin_x E_{pi_t} H(x, theta), to high precision.

No simulation and no gradient steps: expected costs are in closed form, the sum over Theta is exact,
and the minimum is bracketed. In five of the six problems the posterior does not depend on the
decisions (a shift of the data by x tells nothing about theta), in the sixth the minimum does not
depend on theta; so the minima can be computed from the posteriors of any run, stage by stage.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import ndtr, stdtr

from postgrad.algorithm.bayesian_sgd import State
from postgrad.beliefs.conjugate.normal_inverse_wishart import NormalInverseWishart
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights
from postgrad.research.paper.records import estimate
from postgrad.research.problems import Instance
from postgrad.research.problems.newsvendor import Newsvendor

# The stages at which the limit is computed where a sum over Theta takes long.
STAGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
# Decisions at which the minimum is searched, and halvings of the interval around the best one.
_TRIALS, _HALVINGS = 400, 50
# Points this many nats below the best are left out (1e-14 all together); runs summed at once.
_NEGLIGIBLE, _TOGETHER = 46.0, 8


class Limit(NamedTuple):
    """How to find the limit of one experiment.

    Attributes:
        record: The few numbers of a state that the decision depends on.
        decide: (the instance, the initial state, many records) -> decisions.
        everywhere: Whether `decide` is fast enough to be called for every stage.
    """

    record: Callable[[State], Any]
    decide: Callable[[Instance, State, Any], Float[np.ndarray, "runs ..."]]
    everywhere: bool


def from_mean(decision: Callable[[np.ndarray], np.ndarray]) -> Limit:
    """Where the minimum is a function of E_pi theta."""

    def decide(instance: Instance, start: State, means: np.ndarray) -> np.ndarray:
        del start
        return np.asarray(jax.vmap(instance.problem.feasible.project)(jnp.asarray(decision(means))))

    return Limit(estimate, decide, True)


def newsvendor(alpha: float, beta: float) -> Limit:
    """Where demand for each item is a mixture of normals, or Student's t, around alpha x^beta."""

    def record(state: State) -> Any:
        belief = state.belief
        if isinstance(belief, Grid):  # with fewer points, weights are kept without statistics
            weights = belief.weights
            return weights.statistics if isinstance(weights, SufficientWeights) else ()
        assert isinstance(belief, NormalInverseWishart)
        return belief.loc, belief.count, belief.concentration, belief.rate_matrix

    def decide(instance: Instance, start: State, records: Any) -> np.ndarray:
        cost = instance.problem.cost
        assert isinstance(cost, Newsvendor)
        if isinstance(start.belief, Grid):
            shares = _shares(start.belief, np.asarray(records))
            return _minima(cost, _mixture(shares), len(shares), alpha, beta)
        return _minima(cost, _student(*records), len(records[0]), alpha, beta)

    return Limit(record, decide, False)


# The distribution function of demand less alpha x^beta, for each run and item.
_Law = Callable[[Float[np.ndarray, "runs 3"]], Float[np.ndarray, "runs 3"]]


def _sufficient(belief: Grid) -> SufficientWeights:
    """The weights of a grid that is bound to a newsvendor."""
    assert isinstance(belief.weights, SufficientWeights)  # 5^9 points of an exponential family
    return belief.weights


def _shares(belief: Grid, records: Float[np.ndarray, "runs k"]) -> Float[np.ndarray, "runs 3 5 5"]:
    """pi_t(mean_i, variance_i) of each item, summed over everything else."""
    rows = _sufficient(belief).everything
    natural = np.asarray(rows.table())[: 5**9]
    shares = []
    for some in np.array_split(records[:, :-1], -(-len(records) // _TOGETHER)):
        for log_weights in some @ natural.T:  # the prior is uniform
            best = log_weights.max()
            near = np.flatnonzero(log_weights > best - _NEGLIGIBLE)
            weights = np.exp(log_weights[near] - best)
            shares.append([np.bincount(_pair(near, i), weights, 25) for i in range(3)])
    table = np.asarray(shares).reshape(-1, 3, 5, 5)
    return table / table.sum(axis=(2, 3), keepdims=True)


def _pair(points: np.ndarray, item: int) -> np.ndarray:
    """Which of the 25 pairs (mean, variance) of an item each point has.

    Points are in the order of the names, three digits each: correlations, means, variances.
    """
    return 5 * (points // 5 ** (5 - item) % 5) + points // 5 ** (2 - item) % 5


def _mixture(shares: Float[np.ndarray, "runs 3 5 5"]) -> _Law:
    means = np.asarray([5.0, 10.0, 15.0, 20.0, 25.0])[:, None]
    spreads = np.sqrt([1.0, 3.0, 6.0, 9.0, 12.0])
    return lambda z: np.sum(shares * ndtr((z[..., None, None] - means) / spreads), axis=(-1, -2))


def _student(mean: np.ndarray, count: np.ndarray, degrees: np.ndarray, scale: np.ndarray) -> _Law:
    """Each item's predictive distribution under a normal-inverse-Wishart belief."""
    n = (degrees - mean.shape[-1] + 1.0)[:, None]
    spread = np.sqrt(np.diagonal(scale, axis1=1, axis2=2) * (1.0 + 1.0 / count[:, None]) / n)
    return lambda z: stdtr(n, (z - mean) / spread)


def _minima(cost: Newsvendor, law: _Law, runs: int, alpha: float, beta: float) -> np.ndarray:
    """The best order of each item in each run.

    With F the distribution function of demand at x and k = alpha beta x^(beta - 1),

        d E h / dx  =  (c - p)(1 - F(x)) + (c - s) F(x) + k (s F(x) - p (F(x) - F(0))).
    """
    c, p, s = (np.asarray(part) for part in (cost.cost, cost.price, cost.salvage))

    def slope(x: Float[np.ndarray, "runs 3"]) -> np.ndarray:
        moved = alpha * x**beta
        at, at_zero = law(x - moved), law(-moved)
        k = alpha * beta * x ** (beta - 1.0)
        return (c - p) * (1.0 - at) + (c - s) * at + k * (s * at - p * (at - at_zero))

    trials = np.linspace(1.0, 100.0, _TRIALS)
    slopes = np.stack([slope(np.full((runs, 3), trial)) for trial in trials])
    climbed = np.cumsum(0.5 * (slopes[1:] + slopes[:-1]), axis=0)
    best = np.concatenate([np.zeros((1, runs, 3)), climbed]).argmin(axis=0)
    left = trials[np.maximum(best - 1, 0)]
    right = trials[np.minimum(best + 1, _TRIALS - 1)]
    for _ in range(_HALVINGS):
        middle = 0.5 * (left + right)
        uphill = slope(middle) > 0
        left, right = np.where(uphill, left, middle), np.where(uphill, middle, right)
    return left


LIMITS = {
    "quadratic-1d-independent": from_mean(lambda m: 5.0 - m / 4.0),
    "quadratic-2d-independent": from_mean(lambda m: np.stack([1.0 - m / 2, 2.0 - m / 2], -1)),
    "quadratic-1d-dependent": from_mean(lambda m: (10.0 - m / 2.0) / 3.0),
    "quadratic-2d-dependent": from_mean(lambda m: np.full((*m.shape, 2), [4.0 / 3.0, 5.0 / 3.0])),
    "newsvendor-independent": newsvendor(0.0, 1.0),
    "newsvendor-dependent": newsvendor(1.0, 0.5),
}

"""What a hard problem is, and what its posterior looks like to a brute force."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import numpy as np
from jax import random
from scipy import stats

import postgrad as pg

Support = tuple[Any, np.ndarray]

# The nodes of the trapezoidal rule on the standard normal line, and their weights.
NODES = np.linspace(-6.0, 6.0, 101)
WEIGHTS = stats.norm.pdf(NODES) / stats.norm.pdf(NODES).sum()

# How many pairs of a decision and a theta are computed at a time.
_PAIRS = 50_000

GALLERY: dict[str, Callable[[], "Hard"]] = {}


@dataclasses.dataclass
class Hard:
    """A decision problem with a brute force.

    Attributes:
        problem: As postgrad sees it.
        belief: Makes a fresh prior.
        starts: The first decisions to begin from.
        batch: The data of stage t from a fixed truth, as batch(rng, t, x) with x in force.
        expected_cost: H(x, theta). Decisions have the shape (n, 1) or (n, 1, d), thetas lie along
            the leading axis of each leaf; the result is (n, m).
        search: Finds the minimiser of a `Stage` by brute force.
        options: Further arguments of the agent.
        scale: What an excess is divided by; |min F| if None.
        parts: H_i(x_i, theta_i) of the shape (n, m, d), where H is their sum.
        support: Turns a belief into values of theta and their weights.
        risk: Turns costs (n, m) and weights (m,) into what is minimised; the mean if None.
        name: Set by `register`.
        theme: Set by `register`.
    """

    problem: pg.Problem
    belief: Callable[[], Any]
    starts: list
    batch: Callable[[np.random.Generator, int, np.ndarray], np.ndarray]
    expected_cost: Callable[[np.ndarray, Any], np.ndarray] | None
    search: Callable[["Stage"], np.ndarray]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    scale: float | None = None
    parts: Callable[[np.ndarray, Any], np.ndarray] | None = None
    support: Callable[[Any], Support] | None = None
    risk: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    name: str = ""
    theme: str = ""

    def __post_init__(self) -> None:
        if self.expected_cost is None:
            parts = self.parts
            self.expected_cost = lambda x, theta: parts(x, theta).sum(axis=-1)
        self.support = self.support or marginals

    @property
    def dimension(self) -> int:
        """The number of entries of a decision."""
        return int(np.size(self.starts[0]))

    def stage(self, belief: Any) -> "Stage":
        """F_t, from the agent's own posterior."""
        theta, weights = self.support(belief)
        theta = jax.tree.map(lambda leaf: np.asarray(leaf, float), theta)
        return Stage(self, theta, np.asarray(weights, float))


class Stage:
    """F_t(x) = sum_j w_j H(x, theta_j), or the risk of it over theta."""

    def __init__(self, hard: Hard, theta: Any, weights: np.ndarray):
        self.hard, self.theta, self.weights = hard, theta, weights

    @property
    def key(self) -> bytes:
        """What tells one posterior from another."""
        leaves = [*jax.tree.leaves(self.theta), self.weights]
        return b"".join(np.ascontiguousarray(leaf).tobytes() for leaf in leaves)

    def many(self, xs: np.ndarray) -> np.ndarray:
        """F at each of several decisions along the leading axis."""
        xs = np.asarray(xs, float)
        rows = max(1, _PAIRS // len(self.weights) // max(1, xs[0].size))
        return np.concatenate([self._some(xs[i : i + rows]) for i in range(0, len(xs), rows)])

    def __call__(self, x: np.ndarray) -> float:
        """F at one decision."""
        return float(self.many(np.asarray(x, float)[None])[0])

    def _some(self, xs: np.ndarray) -> np.ndarray:
        if self.weights.ndim == 2:  # each coordinate has weights of its own
            return self.each(xs).sum(axis=1)
        with np.errstate(over="ignore", under="ignore"):
            costs = np.asarray(self.hard.expected_cost(xs[:, None], self.theta))
        costs = np.broadcast_to(costs, (len(xs), len(self.weights)))
        if self.hard.risk is not None:
            return self.hard.risk(costs, self.weights)
        return costs @ self.weights

    def each(self, xs: np.ndarray) -> np.ndarray:
        """The parts of F at decisions (n, d), coordinate by coordinate: (n, d)."""
        rows = max(1, _PAIRS // len(self.weights) // xs.shape[1])
        out = []
        for i in range(0, len(xs), rows):
            costs = self.hard.parts(xs[i : i + rows, None], self.theta)
            if self.weights.ndim == 2:
                out.append((costs * self.weights).sum(axis=1))
            else:
                out.append(np.einsum("nmd,m->nd", costs, self.weights))
        return np.concatenate(out)


def register(theme: str) -> Callable[[Callable[[], Hard]], Callable[[], Hard]]:
    """Put a function that makes a problem into the gallery, under its own name."""

    def add(make: Callable[[], Hard]) -> Callable[[], Hard]:
        name = make.__name__.strip("_").replace("_", "-")

        def build() -> Hard:
            hard = make()
            hard.name, hard.theme = name, theme
            return hard

        build.theme = theme
        assert name not in GALLERY, name
        GALLERY[name] = build
        return make

    return add


def marginals(belief: Any, nodes: np.ndarray = NODES) -> Support:
    """Quantiles of theta at fixed nodes, with their weights.

    Coordinates that are independent move together here: right for single numbers, and for costs
    that are sums over coordinates.
    """
    weights = stats.norm.pdf(nodes) / stats.norm.pdf(nodes).sum()
    kinds = pg.beliefs
    if isinstance(belief, kinds.Grid):
        probabilities = np.asarray(belief.probabilities)
        kept = probabilities > 1e-14
        points = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], belief.points)
        return points, probabilities[kept] / probabilities[kept].sum()
    if isinstance(belief, kinds.Known):
        return jax.tree.map(lambda leaf: np.asarray(leaf)[None], belief.theta), np.ones(1)
    if isinstance(belief, kinds.Normal):
        return _normal(belief.loc, belief.scale, nodes), weights
    if isinstance(belief, kinds.Gamma):
        return _gamma(belief, nodes), weights
    if isinstance(belief, kinds.InverseGamma):
        return 1.0 / _gamma(belief, -nodes), weights
    if isinstance(belief, kinds.Beta):
        a, b = np.asarray(belief.concentration1), np.asarray(belief.concentration0)
        return _quantile(stats.beta(a, b), nodes), weights
    if isinstance(belief, kinds.Mixture):
        locs, scales = np.asarray(belief.beliefs.loc), np.asarray(belief.beliefs.scale)
        shares = np.asarray(belief.probabilities)
        points = [_normal(m, s, nodes) for m, s in zip(locs, scales, strict=True)]
        return np.concatenate(points), np.concatenate([share * weights for share in shares])
    raise TypeError(f"no marginals for {type(belief).__name__}")


def joint(nodes: int) -> Callable[[Any], Support]:
    """All combinations of Gauss-Hermite nodes for a normal vector theta; for mean and spread."""
    z, w = np.polynomial.hermite_e.hermegauss(nodes)
    w = w / w.sum()

    def support(belief: Any) -> Support:
        if isinstance(belief, pg.beliefs.NormalInverseGamma):
            a, b, count = (float(v) for v in (belief.concentration, belief.rate, belief.count))
            scale = np.sqrt(b / _quantile(stats.gamma(a), -NODES[::2]))
            mean = float(belief.loc) + z[:, None] * scale / np.sqrt(count)
            weights = w[:, None] * WEIGHTS[::2] / WEIGHTS[::2].sum()
            theta = {"mean": mean.ravel(), "scale": np.broadcast_to(scale, mean.shape).ravel()}
            return theta, weights.ravel()
        if isinstance(belief, pg.beliefs.Normal):
            loc, root = np.asarray(belief.loc), np.diag(np.asarray(belief.scale))
            unravel = np.asarray
        else:
            loc, unravel = jax.flatten_util.ravel_pytree(belief.loc)
            root = np.linalg.cholesky(np.asarray(belief.covariance_matrix))
            unravel = jax.vmap(unravel)
        mesh = np.stack(np.meshgrid(*[z] * loc.size, indexing="ij"), axis=-1).reshape(-1, loc.size)
        shares = np.stack(np.meshgrid(*[w] * loc.size, indexing="ij"), axis=-1)
        weights = shares.reshape(-1, loc.size).prod(axis=1)
        return unravel(np.asarray(loc) + mesh @ root.T), weights

    return support


def drawn(count: int) -> Callable[[Any], Support]:
    """Draws of the belief with a fixed seed, equal ones together."""

    def support(belief: Any) -> Support:
        draws = belief.sample(random.key(12345), (count,))
        leaves, tree = jax.tree.flatten(draws)
        rows = np.concatenate([np.asarray(leaf).reshape(count, -1) for leaf in leaves], axis=1)
        _, first, times = np.unique(rows, axis=0, return_index=True, return_counts=True)
        kept = [np.asarray(leaf)[first] for leaf in leaves]
        return jax.tree.unflatten(tree, kept), times / count

    return support


def averaged(belief: Any) -> Support:
    """The posterior mean alone: enough where H is linear in theta."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], belief.mean()), np.ones(1)


def _normal(loc: Any, scale: Any, nodes: np.ndarray) -> np.ndarray:
    loc, scale = np.asarray(loc), np.asarray(scale)
    return loc + scale * nodes.reshape(-1, *(1,) * loc.ndim)


def _gamma(belief: Any, nodes: np.ndarray) -> np.ndarray:
    a, rate = np.asarray(belief.concentration), np.asarray(belief.rate)
    return _quantile(stats.gamma(a), nodes) / rate


def _quantile(law: Any, nodes: np.ndarray) -> np.ndarray:
    """The quantiles at which the law is as far in its tail as the nodes are in the normal's."""
    shape = np.shape(law.mean())
    z = nodes.reshape(-1, *(1,) * len(shape))
    return np.where(z < 0, law.ppf(stats.norm.cdf(z)), law.isf(stats.norm.sf(z)))

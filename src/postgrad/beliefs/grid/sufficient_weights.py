"""Weights of very many points, from a few sufficient statistics of the data.

Where the model is of an exponential family, the log-weight of point i is linear in the sum S of the
statistics of all data,

    log w_i  =  log pi_0(theta_i)  +  phi_i . S,

so S is all that has to be kept, and log-weights are computed when they are needed. After a few
batches nearly all weight lies on few points. `SufficientWeights.focused` searches all points for
them, and from then on these *live* points alone are computed, together with an upper bound on the
weight of the others. With S_0 the statistics at the time of the search, any share l in [0, 1] and
v = S - (1 - l) S_0,

    sum_out w_i  =  sum_out pi_0(theta_i) exp((1 - l) phi_i . S_0) exp(phi_i . v)
                <=  [ sum_out pi_0(theta_i) exp((1 - l) phi_i . S_0) ]  sup_phi exp(phi . v).

The sum is taken during the search. The supremum is over all members of the family, on the grid or
not, and has a closed form: the likelihood of the best member for the data since the search and a
share l of those before. By Wilks' theorem its logarithm exceeds that of the truth by half a
chi-square, a few nats, however many data arrive: a bound that is small once stays small. Should it
exceed `TOLERANCE`, the stage is computed again with all points, so that no result depends on it.
"""

import functools
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import first
from postgrad.beliefs.decision_shift import Shift, agrees, batch_statistics, find_shift
from postgrad.beliefs.grid.natural_parameters import (
    LEAF,
    SEARCHED,
    SHARE,
    Rows,
    Tally,
    average,
    log_normaliser,
    sort_out,
    sweep,
    sweep_runs,
    take,
)
from postgrad.beliefs.grid.picking import pick
from postgrad.beliefs.grid.weights import LogWeights, Weights, first_mark
from postgrad.distributions.density import log_density
from postgrad.distributions.exponential_families import ExponentialFamily, family_of
from postgrad.numerics.cache_by_shape import compiled
from postgrad.numerics.fixed import fixed
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem, has_proper_parameters

# The weight that the points left out may have together, relative to the live points.
TOLERANCE = 1e-10
# From how many points on statistics are used, and how many points an assumption is tried on.
LARGE, _TRIALS = 4096, 512
# Points this many nats below the best are left out: (1 - SHARE) gap = 48 nats, of which the
# tolerance takes 23, are ample for the supremum's excess.
_GAP = 60.0
# How many points a block has: few enough for a CPU's caches, many enough to keep a GPU busy.
_BLOCK = {"cpu": SEARCHED // 8, "elsewhere": SEARCHED}


class SufficientWeights(Weights):
    """Weights from statistics: of all points, or of the live ones alone.

    Attributes:
        family: The model's family.
        shift: What the decision does to the family; None if nothing.
        everything: All points.
        live: The points that are computed.
        size: n.
        statistics: S, and a term that all points share.
        since: v, and the logarithm of the bracket above.
        tally: The weights of the live points.
        missing: The bound on the weight of the other points together, relative to the live ones:
            the largest since the search.
    """

    family: ExponentialFamily = fixed()
    shift: Shift | None = fixed()
    everything: Rows = fixed()
    live: Rows = fixed()
    size: int = eqx.field(static=True)
    statistics: Float[Array, " k"]
    since: Float[Array, " k"]
    tally: Tally
    missing: Float[Array, ""]

    @property
    def log_weights(self) -> Array:
        """Of all points, live or not."""
        values = self.everything.table() @ self.statistics[:-1] + self.everything.log_prior.ravel()
        return (values - jnp.max(values))[: self.size]

    def update(self, likelihood: Model, points: PyTree, batch: Batch) -> Self:
        """Adds the batch's statistics, and computes the weights of the live points."""
        step, inside = self._observe(likelihood, points, batch)
        step = jnp.where(inside, step, jnp.nan)  # no point explains the data
        statistics, since = self.statistics + step, self.since + step.at[-1].set(0.0)
        tally = sweep(self.live, statistics[:-1], self.tally)
        missing = jnp.maximum(self.missing, _bound(self.family, since, tally))
        return eqx.tree_at(_moving, self, (statistics, since, tally, missing))

    def _observe(
        self, model: Model, points: PyTree, batch: Batch
    ) -> tuple[Float[Array, " k"], Bool[Array, ""]]:
        """The batch's statistics as if seen at x_0, and whether it lies inside the support."""
        return batch_statistics(self.family, self.shift, model, first(points), batch)

    def pick(self, u: Array) -> tuple[Array, Array]:
        """Of live points, by inversion."""
        top = jnp.max(self.tally.blocks)

        def one(u: Array) -> Array:
            return pick(self.live, self.tally, self.statistics[:-1], u)

        picked = one(u[0])[None] if u.shape[0] == 1 else jax.vmap(one)(u)
        return picked, top > -jnp.inf

    def mode(self) -> tuple[Array, Array]:
        """The leaf of the largest weight, and the point of the largest weight in it."""
        peaks = self.tally.peaks.ravel()
        top = jnp.max(peaks)
        leaf = jnp.minimum(first_mark(peaks >= top), peaks.size - 1)
        values = self.live.leaf_log_weights(leaf, self.statistics[:-1])
        row = jnp.minimum(first_mark(values >= jnp.max(values)), LEAF - 1)
        return self.live.point(leaf * LEAF + row), top > -jnp.inf

    def average(self, values: PyTree) -> PyTree:
        """Over the live points."""
        return average(self.live, self.statistics[:-1], self.tally.log_total, values)

    def log_mixture(self, model: Model, points: PyTree, x: Decision, xi: Array) -> Array:
        """log Z(S + T(xi)) - log Z(S)."""
        step, inside = self._observe(model, points, Batch(x, xi[None]))
        tilted = log_normaliser(self.live, self.statistics[:-1] + step[:-1])
        return tilted - self.tally.log_total + step[-1] + jnp.where(inside, 0.0, -jnp.inf)

    def serves(self, problem: Problem, points: PyTree, x: Decision) -> bool:
        """Whether the natural parameters are the problem's, judging by some of the points."""
        trials = sample(self.size)
        thetas = jax.tree.map(lambda leaf: leaf[trials], points)
        theta = first(thetas)
        has_family = problem.observation is None and problem.context is None
        family = family_of(problem.model(x, theta)) if has_family else None
        moves = problem.kind(x, theta).depends_on_decision
        if type(family) is not type(self.family) or moves != (self.shift is not None):
            return False
        table = self.everything.table()
        return agrees(self.family, problem.model, x, thetas, self.shift, table[trials])

    @property
    def live_count(self) -> int:
        """How many points are computed, in whole blocks."""
        return int(self.live.blocks) * self.live.log_prior.shape[1]

    @property
    def is_sound(self) -> bool:
        """Whether the points left out weigh less than the tolerance, in all runs of a stack."""
        return bool(np.all(np.asarray(self.missing) <= TOLERANCE))

    def unfocused(self) -> Self:
        """All points are computed again. Works on a stack of runs along the leading axis, too."""
        tally = _sweep(self.everything, self.statistics[..., :-1])
        since = self.since.at[..., -1].set(-jnp.inf)
        return self._looking_at(self.everything, since, tally, jnp.zeros_like(self.missing))

    def focused(self) -> Self:
        """Searches all points, and keeps those within `_GAP` nats of the best as live.

        Works on a stack of runs along the leading axis, too: a point is live if it is in any run.
        If the bound on the others is not small, all points are live.
        """
        near, rest = _sort_out(self.everything, self.statistics, self.tally, jnp.asarray(_GAP))
        index = np.flatnonzero(near)
        padded = np.resize(index, self.live.index.shape).astype(np.int32)
        chosen = jnp.asarray(padded), jnp.asarray(len(index))  # arrays: one program for all numbers
        new = self._looking_at(*_keep(self.family, self.everything, *chosen, self.statistics, rest))
        return new if new.is_sound else self.unfocused()

    def _looking_at(self, live: Rows, *moving: PyTree) -> Self:
        new = (live, self.statistics, *moving)
        return eqx.tree_at(lambda self: (self.live, *_moving(self)), self, new)


def _moving(weights: SufficientWeights) -> tuple[PyTree, ...]:
    """The fields that data change."""
    return weights.statistics, weights.since, weights.tally, weights.missing


def _bound(family: ExponentialFamily, since: Float[Array, " k"], tally: Tally) -> Array:
    """The largest possible weight of the points left out, relative to the live ones."""
    bound = jnp.exp(family.supremum(since[:-1]) + since[-1] - tally.log_total)
    return jnp.where(since[-1] > -jnp.inf, bound, 0.0)  # zero if no point is left out


# Programs for one run or a stack of them along the leading axis.
_sweep = compiled(sweep_runs)


@compiled
def _sort_out(rows: Rows, statistics: Array, tally: Tally, gap: Array) -> tuple[Array, Array]:
    """Which points become live, and for each run the logarithm of the bracket of the others."""
    # The points left out weigh next to nothing, so the best of all points is a live one.
    peak = jnp.max(tally.peaks, axis=(-2, -1))
    runs = statistics[..., :-1].reshape(-1, statistics.shape[-1] - 1)
    near, rest = sort_out(rows, runs.T, peak.reshape(-1), gap)
    return near, rest.reshape(peak.shape)


@compiled
def _keep(
    family: ExponentialFamily,
    rows: Rows,
    index: Array,
    count: Array,
    statistics: Array,
    rest: Array,
) -> tuple[Rows, Array, Tally, Array]:
    """The first `count` of the indexed points as live, and what follows: see `_looking_at`."""
    live = take(rows, index, count)
    tally = sweep_runs(live, statistics[..., :-1])
    since = jnp.concatenate([SHARE * statistics[..., :-1], rest[..., None]], axis=-1)
    bound = functools.partial(_bound, family)
    missing = bound(since, tally) if since.ndim == 1 else jax.vmap(bound)(since, tally)
    return live, since, tally, missing


def sufficient(log_prior: Array, problem: Problem, points: PyTree, x: Decision) -> Weights:
    """Weights with the given log-prior, in the form that is fastest for the problem.

    Statistics, if there are many points, the data are the xi of the model, and the model is of an
    exponential family that the decision shifts or scales at most; else log-weights.

    Raises:
        ModelError: If the model is no proper distribution at one of many points.
    """
    plain, n = LogWeights(log_prior), log_prior.shape[0]
    if n <= LARGE:
        return plain
    middle = jax.tree.map(lambda leaf: leaf[n // 2], points)
    # What a context does to the statistics is not known.
    has_family = problem.observation is None and problem.context is None
    family = family_of(problem.model(x, middle)) if has_family else None
    moves = problem.kind(x, middle).depends_on_decision
    shift = find_shift(family, problem, some(points), x) if family is not None and moves else None
    if family is None or (moves and shift is None):
        problem.check_models(x, points)
        return plain
    block = _BLOCK["cpu" if jax.default_backend() == "cpu" else "elsewhere"]
    pad = -n % SEARCHED
    blocks = jax.tree.map(lambda leaf: _in_blocks(leaf, pad, block), points)
    natural, wrong = _tabulate(family, problem.model, x, blocks)
    if bool(jnp.any(wrong)):
        worst = min(int(jnp.argmax(wrong)), n - 1)
        problem.check_models(x, jax.tree.map(lambda leaf: leaf[worst : worst + 1], points))
        return plain  # proper, but with another density than its class
    prior = np.pad(np.asarray(log_prior), (0, pad), constant_values=-np.inf).reshape(-1, block)
    index = np.arange(prior.size, dtype=np.int32).reshape(prior.shape)
    everything = Rows(
        natural, jnp.asarray(prior), jnp.asarray(index), jnp.asarray(len(prior), jnp.int32)
    )
    nothing = jnp.zeros(natural.shape[1] + 1)
    return SufficientWeights(
        family=family,
        shift=shift,
        everything=everything,
        live=everything,
        size=n,
        statistics=nothing,
        since=nothing.at[-1].set(-jnp.inf),
        tally=_prior_tally(prior),
        missing=jnp.zeros(()),
    )


def _prior_tally(log_prior: Float[np.ndarray, "blocks rows"]) -> Tally:
    """The tally before any data, in NumPy since that compiles nothing."""
    leaves = log_prior.reshape(len(log_prior), -1, LEAF)
    sums = np.exp(leaves).sum(axis=-1)
    with np.errstate(divide="ignore"):
        logs = np.log(sums.sum(axis=-1)), np.log(sums), leaves.max(axis=-1)
    return Tally(*(jnp.asarray(array) for array in logs))


def _in_blocks(leaf: Array, pad: int, block: int) -> Array:
    """Points in blocks, padded with copies of the last point."""
    padded = jnp.concatenate([leaf, jnp.broadcast_to(leaf[-1:], (pad, *leaf.shape[1:]))])
    return padded.reshape(-1, block, *leaf.shape[1:])


@eqx.filter_jit
def _tabulate(
    family: ExponentialFamily, model: Model, x: Decision, blocks: PyTree
) -> tuple[Float[Array, "blocks m rows"], Bool[Array, " n"]]:
    """phi_i(x), and whether point i is no proper member of the family."""
    middle = jax.tree.map(lambda leaf: leaf[leaf.shape[0] // 2, 0], blocks)
    y = model(x, middle).sample(random.key(0))

    def one(theta: PyTree) -> tuple[Array, Array]:
        law = model(x, theta)
        natural = family.natural(law)
        exact = log_density(law, y)
        linear = natural @ family.statistics(y) + family.log_base(y)
        equal = jnp.abs(linear - exact) <= 1e-9 * (1.0 + jnp.abs(exact))
        return natural, ~(equal & has_proper_parameters(law))

    natural, wrong = lax.map(jax.vmap(one), blocks)
    return jnp.swapaxes(natural, 1, 2), wrong.reshape(-1)


def sample(n: int) -> np.ndarray:
    """Some of n indices, at random: a regular choice from a product grid would miss levels."""
    return np.random.default_rng(0).choice(n, min(n, _TRIALS), replace=False)


def some(points: PyTree) -> PyTree:
    """Some of many points; of few, all."""
    n = jax.tree.leaves(points)[0].shape[0]
    return points if n <= LARGE else jax.tree.map(lambda leaf: leaf[sample(n)], points)

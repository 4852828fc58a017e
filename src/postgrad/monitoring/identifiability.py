"""Whether data can tell values of theta apart: the paper's identifiability assumption, tried."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import Belief, as_rows, check_belief
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.maximum_likelihood import MaximumLikelihood
from postgrad.beliefs.known import Known
from postgrad.distributions.density import log_density
from postgrad.errors import ContextError, DecisionError, GradientError, ModelError, SettingError
from postgrad.monitoring.unnoticed_directions import Direction, DirectionSpace, rounded
from postgrad.numerics.validate import as_count, as_key, as_numbers
from postgrad.problem.contexts import as_context
from postgrad.problem.problem import Decision, Model, Problem, kind_of

# The number of values of theta that are compared, at most, and of densities whose rank is found.
_VALUES, _RANKED = 256, 128
# The number of draws of xi, at least.
_DRAWS = 1024
# In a large grid: the number of neighbours along each entry that a point is compared with.
_NEAR = 4
# The number of values at which the information is computed.
_LOCAL = 6
# Squared Hellinger distance below which 1e12 observations cannot tell two distributions apart.
_SAME = 1e-12
# Singular values of densities count as zero below this share of the largest.
_ZERO_DENSITY = 1e-10
# The number of pairs in a diagnosis, at most.
_LISTED = 100


@dataclass(frozen=True)
class Pair:
    """Two values of theta under which the data have the same distribution."""

    first: PyTree
    second: PyTree

    def __str__(self) -> str:
        return f"theta = {rounded(self.first)} and theta = {rounded(self.second)}"


@dataclass(frozen=True)
class Diagnosis:
    """What data can tell about theta.

    Attributes:
        identifiable: Whether, with data from all decisions tried, no two values look the same.
        needs_variation: Whether some values can be told apart at some decisions only, or by
            comparing decisions only: data from one decision do not identify theta.
        confounded: What cannot be told apart at any decision tried: pairs of values (the first
            hundred) and directions.
        blind: Decisions at which less can be told apart than at all decisions tried together.
        at_blind: What cannot be told apart at the first of the blind decisions.
        hardest: Of the pairs that can be told apart, the pair that takes most observations.
        observations: About how many observations tell the hardest pair apart, 95 % sure.
        rank: The numerical rank of the densities at the decision where it is lowest.
        ranked: The number of densities whose rank that is.
        decisions: The decisions tried, along the leading axis.
    """

    identifiable: bool
    needs_variation: bool
    confounded: tuple[Pair | Direction, ...]
    blind: tuple[np.ndarray, ...]
    at_blind: tuple[Pair | Direction, ...]
    hardest: Pair | None
    observations: float
    rank: int
    ranked: int
    decisions: Float[np.ndarray, "k ..."]

    def __str__(self) -> str:
        verdict = "identifiable" if self.identifiable else "not identifiable"
        lines = [f"theta is {verdict} (decisions tried: {len(self.decisions)})"]
        lines += _listed(self.confounded)
        if self.needs_variation:
            lines.append(f"decisions must vary: at x = {rounded(self.blind[0])} alone")
            lines += [f"  {line}" for line in _listed(self.at_blind)]
        if self.hardest is not None:
            lines.append(
                f"hardest to tell apart: {self.hardest}, about {self.observations:.0f} observations"
            )
        if self.ranked > 1:
            lines.append(
                f"linear independence: numerical rank {self.rank} of {self.ranked} densities "
                f"(no verdict: smooth families on a fine grid look dependent)"
            )
        return "\n".join(lines)


def diagnose(
    problem: Problem,
    belief: Belief,
    x: Any = None,
    *,
    contexts: Sequence[PyTree] | None = None,
    decisions: int = 5,
    seed: int | Array = 0,
) -> Diagnosis:
    """Tries whether data can tell all values of theta apart, and names the values they cannot.

    Consistency of the posterior needs more than a prior that contains the truth: the paper assumes
    that the densities f(.; x, theta_i) are linearly independent at almost every x. Three things are
    computed, at x and at some decisions near it and far from it:

    *Pairs.* The squared Hellinger distance of every two densities,

        H^2  =  1/2 int (sqrt f_i - sqrt f_j)^2  =  E_m (sqrt(f_i / m) - sqrt(f_j / m))^2 / 2,

    from draws of xi ~ m, the average of all densities. Two values with H = 0 at every decision
    cannot be told apart by any amount of data. With H = 0 at some decisions they can, if decisions
    vary.

    *Directions.* The information matrix E s s' with s = grad_theta log f(xi; x, theta), at a few
    values of theta. It is averaged over xi ~ m, which has more draws in the tails than f and the
    same null vectors as Fisher's: directions in which theta can move unnoticed. On a finite support
    pairs decide and directions explain, since a direction may lead past all of the values. Where
    the model rounds theta, derivatives are zero, and directions may mislead.

    *Rank.* The singular values of the matrix f_i(xi_j) / m(xi_j), rows normalised, relative to the
    largest. This is the paper's assumption itself, but numerically it is information, not a
    verdict: densities of a smooth family on a fine grid are so nearly dependent that their rank to
    ten digits is low though they are all distinct, and if xi takes k values, rank k is the most,
    though a coin's probability can be learned.

    Of a large grid, some values are tried: points at random, and for each of them the nearest
    points that differ in one entry.

    Args:
        problem: The problem; data follow `problem.likelihood`.
        belief: Its support, or draws where the support is not finite, are the values of theta.
        x: A decision, such as the initial one; guessed from the feasible set, if not given.
        contexts: Some contexts in which data will arise, if the problem takes contexts. A value is
            told apart from another if that is possible in any of them.
        decisions: How many decisions to try, from 1 to 17.
        seed: A number or a JAX key.

    Raises:
        ContextError: If the problem takes contexts and none are given, or the reverse.
        DecisionError: If x is not finite numbers, or is not given and cannot be guessed.
        ModelError: If the model is no proper distribution at x.
        SettingError: If a setting is out of range.
    """
    key_theta, key_xi = random.split(as_key(seed, SettingError))
    thetas, finite = _values(check_belief(belief), key_theta)
    met = _in_contexts(problem, contexts)
    problem = met[0]
    x = _guess(problem, thetas) if x is None else jnp.asarray(as_numbers(x, DecisionError, "x"))
    for one in met:
        one.check_models(x, thetas)
    xs = _decisions(problem, x, thetas, as_count(decisions, SettingError, "decisions"))

    n, space = len(as_rows(thetas)), DirectionSpace(thetas)
    local = _take(thetas, np.linspace(0, n - 1, min(n, _LOCAL)).astype(int))
    draws = max(4, -(-_DRAWS // n))
    try:
        found = [_look(one.likelihood, x, thetas, local, key_xi, draws) for x in xs for one in met]
    except GradientError:  # a density without derivatives, such as that of Atoms: pairs only
        space = DirectionSpace(thetas, smooth=False)
        found = [_look(one.likelihood, x, thetas, None, key_xi, draws) for x in xs for one in met]
    compared = [_compare(np.asarray(log_f)) for log_f, _ in found]
    # What some context tells apart at a decision is told apart there: (decision, context, ...).
    each = np.stack([distance for distance, _ in compared])
    distances = each.reshape(len(xs), len(met), *each.shape[1:]).max(axis=1)
    scores = np.stack([space.project(np.asarray(s)) for _, s in found])
    at_each = np.split(scores, len(xs))

    same = np.triu(distances <= _SAME, 1)  # (decision, value, value)
    always = np.logical_and.reduce(same)
    pairs = _pairs(always, thetas)
    lost = space.nullities(scores)
    # On a finite support a direction may lead past all values: there it only explains pairs.
    directions = space.directions(scores, _take(thetas, 0)) if pairs or not finite else ()

    blind: list[tuple[np.ndarray, tuple[Pair | Direction, ...]]] = []
    for x, alike, s in zip(xs, same, at_each, strict=True):
        less: tuple[Pair | Direction, ...] = _pairs(alike & ~always, thetas)
        if np.all(space.nullities(s) > lost):
            less += space.directions(s, _take(thetas, 0))
        if less:
            blind.append((np.asarray(x), less))
    hardest, observations = _hardest(distances, always, thetas) if finite else (None, np.nan)
    return Diagnosis(
        identifiable=not (pairs or directions),
        needs_variation=bool(blind),
        confounded=directions + pairs,
        blind=tuple(x for x, _ in blind),
        at_blind=blind[0][1] if blind else (),
        hardest=hardest,
        observations=observations,
        rank=min(rank for _, rank in compared),
        ranked=min(n, _RANKED),
        decisions=np.stack([np.asarray(x) for x in xs]),
    )


def _in_contexts(problem: Problem, contexts: Sequence[PyTree] | None) -> list[Problem]:
    """The problem in each of the contexts; itself, if there are none."""
    if problem.takes_context != (contexts is not None):
        needed = "takes contexts" if problem.takes_context else "takes no contexts"
        raise ContextError(f"the problem {needed}, and contexts were {contexts!r}")
    if contexts is None:
        return [problem]
    first = [as_context(z) for z in contexts[:1]]
    if not first:
        raise ContextError("contexts must have at least one context, got none")
    return [problem.at(as_context(z, first[0])) for z in contexts]


def _values(belief: Belief, key: Array) -> tuple[PyTree, bool]:
    """Distinct values of theta along a leading axis, and whether the support has no others."""
    belief = belief.belief if isinstance(belief, MaximumLikelihood) else belief
    if isinstance(belief, Grid):
        possible = np.flatnonzero(np.asarray(belief.log_weights) > -np.inf)
        return _some(_take(belief.points, possible), key), True
    thetas = belief.examples()
    if isinstance(belief, Known):
        return thetas, True
    draws = belief.sample(key, (min(_VALUES, max(24, 2 * as_rows(thetas).shape[1])),))
    thetas = jax.tree.map(lambda *leaves: np.concatenate(leaves), thetas, draws)
    rows = as_rows(thetas)
    _, first = np.unique(rows, axis=0, return_index=True)
    return _take(thetas, [i for i in np.sort(first) if np.isfinite(rows[i]).all()]), False


def _some(points: PyTree, key: Array) -> PyTree:
    """At most `_VALUES` of the points, each with neighbours that differ from it in one entry.

    Two neighbours of a point differ in two entries: a pair that data cannot tell apart if a change
    in one entry makes up for a change in the other.
    """
    rows = as_rows(points)
    if len(rows) <= _VALUES:
        return points
    rng = np.random.default_rng(np.asarray(random.key_data(key)))
    shuffled = rng.permutation(len(rows))
    chosen: list[int] = []
    while len(chosen) < _VALUES // 2:
        base, shuffled = shuffled[0], shuffled[1:]
        chosen.append(base)
        differs = rows != rows[base]
        single = np.flatnonzero(np.count_nonzero(differs, axis=1) == 1)
        for k in range(rows.shape[1]):
            near = single[differs[single, k]]
            near = near[np.argsort(np.abs(rows[near, k] - rows[base, k]), kind="stable")]
            chosen.extend(near[:_NEAR])
    return _take(points, np.unique([*chosen, *shuffled[:_VALUES]][:_VALUES]))


def _guess(problem: Problem, thetas: PyTree) -> Decision:
    """A feasible decision, in the first shape that the problem accepts."""
    sizes = [leaf.shape for leaf in jax.tree.leaves(problem.feasible)]
    for shape in dict.fromkeys([(), *sizes, *(size[-1:] for size in sizes)]):
        try:
            x = problem.feasible.project(jnp.full(shape, 0.5))
            problem.check(x, _take(thetas, [0]))
        except Exception:  # a cost or a model may raise anything at a wrong shape
            continue
        return x
    raise DecisionError(f"x must be given: its shape cannot be guessed from {problem.feasible}")


def _decisions(problem: Problem, x: Decision, thetas: PyTree, count: int) -> list[Decision]:
    """The decision, and others near and far at which the model is proper."""
    if not kind_of(problem.likelihood, x, _take(thetas, 0)).depends_on_decision:
        return [x]
    chosen, others = [x], np.asarray(problem.near(x))
    if count > 1 + len(others):
        raise SettingError(f"decisions must be at most {1 + len(others)}, got {count}")
    for other in others[np.linspace(len(others) - 1, 0, count - 1).astype(int)]:
        try:
            problem.check_models(jnp.asarray(other), thetas)
        except ModelError:
            continue
        if not any(np.array_equal(other, before) for before in chosen):
            chosen.append(jnp.asarray(other))
    return chosen


@eqx.filter_jit
def _look(
    likelihood: Model, x: Decision, thetas: PyTree, local: PyTree | None, key: Array, draws: int
) -> tuple[Float[Array, "n J"], Float[Array, "m J p"]]:
    """log f(xi_j; x, theta_i) for all theta_i, and s at `local`; each theta_i draws `draws` xi."""
    keys = random.split(key, jax.tree.leaves(thetas)[0].shape[0])
    xi = jax.vmap(lambda theta, key: likelihood(x, theta).sample(key, (draws,)))(thetas, keys)
    xi = xi.reshape(-1, *xi.shape[2:])

    def log_f(theta: PyTree) -> Float[Array, " J"]:
        return log_density(likelihood(x, theta), xi)

    def score(theta: PyTree) -> Float[Array, "J p"]:
        flat, unravel = ravel_pytree(theta)
        # Forward mode: JAX cannot differentiate while loops, as in some densities, in reverse.
        s = jax.jacfwd(lambda flat: log_f(unravel(flat)))(flat)
        return jnp.where(jnp.isfinite(log_f(theta))[:, None], s, 0.0)

    scores = jnp.zeros((1, 1, 1)) if local is None else jax.vmap(score)(local)
    return jax.vmap(log_f)(thetas), scores


def _compare(log_f: Float[np.ndarray, "n J"]) -> tuple[Float[np.ndarray, "n n"], int]:
    """H^2 of all pairs, and the numerical rank of at most `_RANKED` densities."""
    highest = log_f.max(axis=0)
    log_m = highest + np.log(np.mean(np.exp(log_f - highest), axis=0))
    ratio = np.exp(log_f - log_m)
    root = np.sqrt(ratio)
    affinity = root @ root.T / root.shape[1]
    norms = np.diag(affinity)
    distance = np.maximum((norms[:, None] + norms) / 2 - affinity, 0.0)

    n = len(ratio)
    some = ratio[np.linspace(0, n - 1, min(n, _RANKED)).astype(int)]
    values = np.linalg.svd(some / np.linalg.norm(some, axis=1, keepdims=True), compute_uv=False)
    return distance, int(np.sum(values > _ZERO_DENSITY * values[0]))


def _pairs(marked: Bool[np.ndarray, "n n"], thetas: PyTree) -> tuple[Pair, ...]:
    places = np.argwhere(marked)[:_LISTED].tolist()
    return tuple(Pair(_take(thetas, i), _take(thetas, j)) for i, j in places)


def _hardest(
    distances: Float[np.ndarray, "k n n"], always: Bool[np.ndarray, "n n"], thetas: PyTree
) -> tuple[Pair | None, float]:
    """The pair of smallest H^2 > 0; n observations tell it apart: (1 - H^2)^n / 2 = 5 % errors."""
    mean = np.where(np.triu(~always, 1), distances.mean(axis=0), np.inf)
    i, j = divmod(int(mean.argmin()), len(mean))
    if not np.isfinite(mean[i, j]):
        return None, np.nan
    count = np.log(0.1) / np.log1p(-min(mean[i, j], 1 - 1e-16))
    return Pair(_take(thetas, i), _take(thetas, j)), max(1.0, count)


def _take(thetas: PyTree, index: Any) -> PyTree:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], thetas)  # NumPy compiles nothing


def _listed(items: tuple[Pair | Direction, ...], most: int = 4) -> list[str]:
    lines = [str(item) for item in items if isinstance(item, Direction)]
    pairs = [f"cannot be told apart: {item}" for item in items if isinstance(item, Pair)]
    rest = [f"and {len(pairs) - most} more pairs"] if len(pairs) > most else []
    return lines + pairs[:most] + rest

"""What a decision does to the statistics of the data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.distributions.density import settle
from postgrad.distributions.exponential_families import ExponentialFamily
from postgrad.numerics.fixed import fixed
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Model, Problem

# On how many thetas a shift is tried at decisions in force, and how closely, relative to the
# numbers' size: rounding must not look like a failure.
_TRIALS, _IN_FORCE = 32, 1e-6


class Shift(eqx.Module):
    """Statistics of data that arose at x, as if they had arisen at x_0.

    If phi_i(x) = sum_p W_ip phi_p(x) for all points i, with a few pivots p and weights W_ip that do
    not depend on x and sum to one, then the log-likelihoods of all points are affine functions of
    those of the pivots, the same for all x: the pivots' phi_p(x) . T(y) are sufficient, and
    determine the statistics that would have given the same log-likelihoods at x_0. Means
    theta + g(x), scales theta s(x) and rates theta s(x) are of this kind.

    Attributes:
        pivots: theta_p along the leading axis.
        lift: The matrix from the pivots' log-likelihoods to statistics.
        rest: The projection of statistics on what the pivots' log-likelihoods do not depend on.
        trials: Some theta_i along the leading axis, to try the assumption on at other decisions.
        here: Their phi_i(x_0), and a one for the term that all points share.
    """

    pivots: PyTree = fixed()
    lift: Float[Array, "k r"] = fixed()
    rest: Float[Array, "k k"] = fixed()
    trials: PyTree = fixed()
    here: Float[Array, "n k"] = fixed()

    def undo(
        self, family: ExponentialFamily, model: Model, x: Decision, total: Float[Array, " m"]
    ) -> Float[Array, " k"]:
        """The statistics at x_0, and a term that all points share (k = m + 1)."""
        natural = jax.vmap(lambda theta: family.natural(model(x, theta)))(self.pivots)
        return self.lift @ (natural @ total) + self.rest @ jnp.append(total, 0.0)

    def holds(self, family: ExponentialFamily, model: Model, x: Decision) -> Bool[Array, ""]:
        """Whether all that x does to the trials is what it does to the pivots.

        Numbers that are not finite say nothing.
        """
        natural = jax.vmap(lambda theta: family.natural(model(x, theta)))
        there, pivots = (_with_one(natural(thetas)) for thetas in (self.trials, self.pivots))
        found = self.here @ (self.lift @ pivots + self.rest)
        size = jnp.max(jnp.abs(there)) + jnp.max(jnp.abs(found))
        return ~jnp.any(jnp.abs(found - there) > _IN_FORCE * size)


def batch_statistics(
    family: ExponentialFamily, shift: Shift | None, model: Model, theta: PyTree, batch: Batch
) -> tuple[Float[Array, " k"], Bool[Array, ""]]:
    """The sums of a batch's statistics as if it had arisen at x_0.

    Args:
        family: The family of the model.
        shift: What the decision does to the family; None if nothing.
        model: f.
        theta: Any value: all members of a family have one support.
        batch: The observations.

    Returns:
        The sums, with the term that all theta share as the last entry, and whether all
        observations of positive weight lie inside the support.
    """
    safe, inside = settle(model(batch.x, theta), batch.y)
    if batch.weight is not None:
        inside |= batch.weight == 0
    total = batch.total(jax.vmap(family.statistics)(safe))
    shared = batch.total(jax.vmap(family.log_base)(safe))
    if shift is None:
        return jnp.append(total, shared), jnp.all(inside)
    return shift.undo(family, model, batch.x, total).at[-1].add(shared), jnp.all(inside)


def find_shift(
    family: ExponentialFamily, problem: Problem, thetas: PyTree, x: Decision
) -> Shift | None:
    """Pivots among the thetas; None if the decision does something else to the family."""
    here = _features(family, problem.model, x[None], thetas)[0]
    chosen = _pivots(here)
    lift = np.linalg.pinv(here[chosen])
    pivots = jax.tree.map(lambda leaf: leaf[np.asarray(chosen)], thetas)
    rest = np.eye(here.shape[1]) - lift @ here[chosen]
    some = np.linspace(0, len(here) - 1, min(len(here), _TRIALS)).astype(int)
    trials = jax.tree.map(lambda leaf: leaf[some], thetas)
    shift = Shift(pivots, jnp.asarray(lift), jnp.asarray(rest), trials, jnp.asarray(here[some]))
    places = problem.decisions(x, thetas)
    return shift if _explains(shift, family, problem.model, places, thetas, here) else None


def agrees(
    family: ExponentialFamily,
    model: Model,
    x: Decision,
    thetas: PyTree,
    shift: Shift | None,
    natural: Float[Array, "n m"],
) -> bool:
    """Whether the model at x has the given natural parameters, up to the shift."""
    if shift is None:
        found = _features(family, model, x[None], thetas)[0, :, :-1]
        return _close(found, np.asarray(natural))
    here = np.column_stack([natural, np.ones(len(natural))])
    return _explains(shift, family, model, x[None], thetas, here)


def _explains(
    shift: Shift,
    family: ExponentialFamily,
    model: Model,
    places: Float[Array, "k ..."],
    thetas: PyTree,
    here: Float[np.ndarray, "n m"],
) -> bool:
    """Whether all that decisions do to the natural parameters is what they do to the pivots'."""
    there = _features(family, model, places, thetas)
    pivots = _features(family, model, places, shift.pivots)
    lift, rest = np.asarray(shift.lift), np.asarray(shift.rest)
    return all(_close(here @ (lift @ p + rest), f) for p, f in zip(pivots, there, strict=True))


def _close(one: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


def _pivots(features: Float[np.ndarray, "n k"]) -> list[int]:
    """Rows that span all rows, greedily: each is the farthest from the span of those before."""
    rest = features / np.abs(features).max(axis=0)
    chosen: list[int] = []
    for _ in range(rest.shape[1]):
        lengths = np.linalg.norm(rest, axis=1)
        farthest = int(lengths.argmax())
        if lengths[farthest] < 1e-9:
            break
        chosen.append(farthest)
        direction = rest[farthest] / lengths[farthest]
        rest = rest - np.outer(rest @ direction, direction)
    return chosen


def _features(
    family: ExponentialFamily, model: Model, xs: Float[Array, "k ..."], thetas: PyTree
) -> Float[np.ndarray, "k n m"]:
    """phi(x, theta), and a one for the term that all points share."""
    return np.asarray(_with_one(natural_parameters(family, model, xs, thetas)))


def _with_one(natural: Float[Array, "... m"]) -> Float[Array, "... k"]:
    return jnp.concatenate([natural, jnp.ones((*natural.shape[:-1], 1))], axis=-1)


@eqx.filter_jit
def natural_parameters(
    family: ExponentialFamily, model: Model, xs: Float[Array, "k ..."], thetas: PyTree
) -> Float[Array, "k n m"]:
    """phi(x, theta) for each decision and each theta."""
    at = jax.vmap(lambda x, theta: family.natural(model(x, theta)), in_axes=(None, 0))
    return jax.vmap(at, in_axes=(0, None))(xs, thetas)

"""What a decision does to the statistics of the data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from postgrad.distributions.exponential_families import ExponentialFamily
from postgrad.numerics.fixed import fixed
from postgrad.problem.problem import Decision, Model, Problem


class Shift(eqx.Module):
    """Statistics of data that arose at x, as if they had arisen at x_0.

    If phi_i(x) = sum_p W_ip phi_p(x) for all points i, with a few pivots p and weights W_ip that do
    not depend on x and sum to one, then the log-likelihoods of all points are affine functions of
    those of the pivots, the same for all x: the pivots' phi_p(x) . T(y) are sufficient, and tell
    which statistics would have given them at x_0. Means theta + g(x), scales theta s(x) and rates
    theta s(x) are of this kind.

    Attributes:
        pivots: theta_p along the leading axis.
        lift: From the pivots' log-likelihoods to statistics.
        rest: What the pivots do not see, from statistics to statistics.
    """

    pivots: PyTree = fixed()
    lift: Float[Array, "k r"] = fixed()
    rest: Float[Array, "k k"] = fixed()

    def undo(
        self, family: ExponentialFamily, model: Model, x: Decision, total: Float[Array, " m"]
    ) -> Float[Array, " k"]:
        """The statistics, and a term that all points share (k = m + 1)."""
        natural = jax.vmap(lambda theta: family.natural(model(x, theta)))(self.pivots)
        return self.lift @ (natural @ total) + self.rest @ jnp.append(total, 0.0)


def find_shift(
    family: ExponentialFamily, problem: Problem, thetas: PyTree, x: Decision
) -> Shift | None:
    """Pivots among the thetas; None if the decision does something else to the family."""
    here = _features(family, problem.model, x[None], thetas)[0]
    chosen = _pivots(here)
    lift = np.linalg.pinv(here[chosen])
    pivots = jax.tree.map(lambda leaf: leaf[np.asarray(chosen)], thetas)
    rest = np.eye(here.shape[1]) - lift @ here[chosen]
    shift = Shift(pivots, jnp.asarray(lift), jnp.asarray(rest))
    places = problem.decisions(x)
    return shift if _explains(shift, family, problem.model, places, thetas, here) else None


def agrees(
    family: ExponentialFamily,
    model: Model,
    x: Decision,
    thetas: PyTree,
    shift: Shift | None,
    natural: Float[Array, "n m"],
) -> bool:
    """Whether the model at x has these natural parameters, but for the shift."""
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
    natural = np.asarray(_naturals(family, model, xs, thetas))
    return np.concatenate([natural, np.ones((*natural.shape[:2], 1))], axis=-1)


@eqx.filter_jit
def _naturals(
    family: ExponentialFamily, model: Model, xs: Float[Array, "k ..."], thetas: PyTree
) -> Float[Array, "k n m"]:
    at = jax.vmap(lambda x, theta: family.natural(model(x, theta)), in_axes=(None, 0))
    return jax.vmap(at, in_axes=(0, None))(xs, thetas)

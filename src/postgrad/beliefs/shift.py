"""What a decision does to the statistics of the data."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Float, PyTree

from postgrad.exponential import ExponentialFamily
from postgrad.problem import Decision, Model, Problem

# How many decisions an assumption about the model is tried on.
_DECISIONS = 16


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

    pivots: PyTree
    lift: Float[Array, "k r"]
    rest: Float[Array, "k k"]

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
    places = jnp.concatenate([x[None], _decisions(problem, x)])
    natural = np.asarray(_naturals(family, problem.model, places, thetas))
    # The last entry of the statistics is the term that all points share.
    features = np.concatenate([natural, np.ones((*natural.shape[:2], 1))], axis=-1)
    here = features[0]
    chosen = _pivots(here)
    lift = np.linalg.pinv(here[chosen])
    rest = np.eye(here.shape[1]) - lift @ here[chosen]
    for there in features[1:]:
        implied = here @ (lift @ there[chosen] + rest)
        if not np.allclose(implied, there, rtol=1e-8, atol=1e-8 * np.abs(there).max()):
            return None
    pivots = jax.tree.map(lambda leaf: leaf[np.asarray(chosen)], thetas)
    return Shift(pivots, jnp.asarray(lift), jnp.asarray(rest))


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


def _decisions(problem: Problem, x: Decision) -> Float[Array, "k ..."]:
    """Decisions near and far, to try an assumption on."""
    noise = random.normal(random.key(0), (_DECISIONS, *x.shape))
    scales = np.geomspace(0.01, 1.0, _DECISIONS).reshape(-1, *(1,) * x.ndim)
    return jax.vmap(problem.feasible.project)(x + (1.0 + jnp.max(jnp.abs(x))) * scales * noise)


@eqx.filter_jit
def _naturals(
    family: ExponentialFamily, model: Model, xs: Float[Array, "k ..."], thetas: PyTree
) -> Float[Array, "k n m"]:
    """phi(x, theta) at several decisions."""
    at = jax.vmap(lambda x, theta: family.natural(model(x, theta)), in_axes=(None, 0))
    return jax.vmap(at, in_axes=(0, None))(xs, thetas)

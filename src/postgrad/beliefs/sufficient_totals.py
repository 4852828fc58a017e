"""The likelihood of all data from sums of sufficient statistics, where the model has them."""

from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.beliefs.belief import as_rows, first, log_likelihood
from postgrad.beliefs.decision_shift import (
    Shift,
    batch_statistics,
    find_shift,
    natural_parameters,
)
from postgrad.beliefs.forgetting import Memory, fade
from postgrad.beliefs.kept_likelihood import KeptLikelihood, KeptRows
from postgrad.distributions.exponential_families import (
    ExponentialFamily,
    family_of,
    may_have_family,
)
from postgrad.errors import ModelError
from postgrad.numerics.cache_by_shape import compiled_at_once
from postgrad.numerics.compensated_sum import Sum
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import is_concrete, on_device
from postgrad.problem.batch import Batch
from postgrad.problem.problem import NEAR, Decision, Model, Problem

# How many values of theta statistics are tried on, and by how many nats for each observation they
# may differ from the densities, whether by rounding or because the model is no such family. A
# million observations then are off by a hundredth of a nat. At decisions far from the first one it
# is so much of the size of the numbers, as rounding is.
_THETAS, _TOLERANCE = 256, 1e-8


class SufficientTotals(KeptLikelihood):
    """Sums of sufficient statistics: l_t(theta) = phi(x_0, theta) . S_t + s_t.

    Attributes:
        family: The model's family.
        shift: What the decision does to the family; None if nothing.
        x: x_0, the decision at which the data are as if seen.
        theta: Any value, from which the support of the data is known.
        sums: S_t, and s_t as the last entry; NaN after data outside the support.
    """

    family: ExponentialFamily = fixed()
    shift: Shift | None = fixed()
    x: Decision = fixed()
    theta: PyTree = fixed()
    sums: Sum

    def add(self, likelihood: Model, batch: Batch) -> Self:
        """Adds the batch's statistics."""
        step, inside = batch_statistics(self.family, self.shift, likelihood, self.theta, batch)
        return replaced(self, sums=self.sums.add(jnp.where(inside, step, jnp.nan)))

    def log_likelihood(self, likelihood: Model, theta: PyTree) -> Array:
        """phi(x_0, theta) . S_t + s_t."""
        natural, sums = self.family.natural(likelihood(self.x, theta)), self.sums.value
        return natural @ sums[:-1] + sums[-1]

    def faded(self, share: Array) -> Self:
        """All sums multiplied by the share."""
        return replaced(self, sums=fade(self.sums, share))

    @property
    def is_whole(self) -> Array:
        """False after data outside the support."""
        return ~jnp.any(jnp.isnan(self.sums.value))

    def is_like(self, other: KeptLikelihood) -> bool:
        """Sums of the same statistics."""
        return eqx.tree_equal(*(jax.tree.map(jnp.shape, kept) for kept in (self, other))) is True


def choose(problem: Problem, thetas: PyTree, x: Decision) -> KeptLikelihood:
    """No data yet: `SufficientTotals` if the model has them, else `KeptRows`.

    Args:
        problem: The problem, already tried on the thetas.
        thetas: Draws from the prior along the leading axis.
        x: The initial decision.
    """
    thetas = _central(thetas)
    data = Problem(problem.cost, problem.likelihood, problem.feasible)
    kind, family = data.kind(x, first(thetas)), None
    # What a context does to the statistics is not known.
    if problem.context is None and may_have_family(kind.family, kind.coordinate_family):
        family = family_of(data.model(x, first(thetas)))
    totals = None if family is None else _totals(data, thetas, x, family)
    return KeptRows.empty(data.model, x, first(thetas)) if totals is None else totals


def renewed(
    kept: KeptLikelihood | None, memory: Memory, problem: Problem, thetas: PyTree, x: Decision
) -> KeptLikelihood:
    """The likelihood that a belief keeps when it is bound to a problem: the present one, if any.

    Raises:
        ModelError: If the present one is of data that the problem's model does not have.
    """
    fresh = choose(problem, thetas, x)
    empty = is_concrete(memory.size) and not float(memory.size) > 0
    worth_keeping = isinstance(kept, KeptRows) or not empty  # rows, for the room that they have
    if kept is not None and worth_keeping and kept.is_like(fresh):
        return kept
    if kept is None or empty:
        return fresh
    raise ModelError(
        f"the belief has learned from data of another kind: it keeps {type(kept).__name__}, and "
        f"the problem's model needs {type(fresh).__name__} of another family or other shapes"
    )


def _totals(
    problem: Problem, thetas: PyTree, x: Decision, family: ExponentialFamily
) -> SufficientTotals | None:
    """Sums of no statistics yet; None if they do not determine the likelihood."""
    natural = np.asarray(natural_parameters(family, problem.model, x[None], thetas)[0])
    finite = np.flatnonzero(np.isfinite(natural).all(axis=1))
    if len(finite) == 0:
        return None
    thetas = jax.tree.map(lambda leaf: leaf[finite], thetas)
    shift = None
    if problem.kind(x, first(thetas)).depends_on_decision:
        try:
            with np.errstate(all="ignore"):  # parameters may be infinite at other decisions
                shift = find_shift(family, problem, thetas, x)
        except np.linalg.LinAlgError:
            return None
        if shift is None:
            return None
    sums = Sum.zeros_like(jnp.zeros(natural.shape[1] + 1))
    x_0 = jnp.full(x.shape, x, jnp.float64)
    totals = SufficientTotals(family, shift, x_0, first(thetas), sums)
    others = problem.near(x) if shift is None else problem.decisions(x, thetas)
    places = jnp.concatenate([x_0[None], others])
    return totals if bool(_agree(totals, problem.model, places, thetas)) else None


def _central(thetas: PyTree) -> PyTree:
    """The half of some draws that is nearest to their median, the nearest first.

    A model is of a family for all theta or for none, but far out in a prior's tails rounding would
    hide which.
    """
    # On the host, where nothing is to be compiled.
    thetas = jax.tree.map(lambda leaf: np.asarray(leaf)[: 2 * _THETAS], thetas)
    flat = as_rows(thetas)
    distance = np.abs(flat - np.median(flat, axis=0))
    distance /= np.median(distance, axis=0) + np.finfo(float).tiny
    nearest = np.argsort(distance.max(axis=1), kind="stable")[: (len(flat) + 1) // 2]
    return jax.tree.map(lambda leaf: on_device(leaf[nearest]), thetas)


@compiled_at_once
def _agree(
    totals: SufficientTotals, model: Model, places: Float[Array, "k ..."], thetas: PyTree
) -> Bool[Array, ""]:
    """Whether statistics and densities say the same of data at several decisions, x_0 first."""
    data = model(totals.x, totals.theta).sample(random.key(0), (len(places), 1))
    is_far = jnp.arange(len(places)) > NEAR

    def one(batch: Batch, is_far: Array) -> Array:
        added = totals.add(model, batch)

        def at(theta: PyTree) -> Array:
            exact, found = log_likelihood(model, theta, batch), added.log_likelihood(model, theta)
            natural = jnp.append(totals.family.natural(model(totals.x, theta)), 1.0)
            size = jnp.abs(natural) @ jnp.abs(added.sums.value)
            # False if a number is NaN.
            return jnp.abs(found - exact) <= _TOLERANCE * jnp.where(is_far, 1.0 + size, 1.0)

        return jnp.all(jax.vmap(at)(thetas))

    return jnp.all(jax.vmap(one)(Batch(places, data), is_far))

"""What is uncertain about the decision, and what it costs not to know."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.beliefs.belief import first, log_likelihood
from postgrad.distributions.inversion import by_inversion
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.lattice_keys import even_keys, quick_keys
from postgrad.numerics.small_matrices import positive_solve
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision, Problem
from postgrad.records.outlook import Outlook as Outlook

# A further batch is simulated with so many rows at most, whatever its size, so that the size of a
# batch is a number in the program and not a shape.
_ROWS = 4
_TAIL = 0.025  # of probability, on either side of an interval
_DRAWS = 32  # of xi for each theta, to see how much the cost varies


# A tree of arrays in programs, and of NumPy's in records, which need no JAX.
jax.tree_util.register_dataclass(Outlook)


class Scouted(NamedTuple):
    """What single thetas say at the decision.

    Attributes:
        slopes: grad H(x, theta_k), which average to that of all draws.
        costs: H(x, theta_k).
    """

    slopes: Float[Array, "L d"]
    costs: Float[Array, " L"]


def unknown(x: Decision) -> Outlook:
    """Where nothing was looked for."""
    nan, each = jnp.asarray(jnp.nan), jnp.full_like(x, jnp.nan)
    return Outlook(each, each, each, nan, nan, nan)


def outlook(
    x: Decision,
    ideal: Float[Array, "L d"],
    least: Float[Array, " L"],
    told: Scouted,
    aleatoric: Float[Array, ""],
    value_of_a_batch: Float[Array, ""],
) -> Outlook:
    """The outlook from x.

    Args:
        x: The decision.
        ideal: x*(theta_k).
        least: H(x*(theta_k), theta_k).
        told: What the thetas say at x.
        aleatoric: See `cost_deviation`.
        value_of_a_batch: See `worth`.
    """
    savings = jnp.maximum(jnp.mean(told.costs - least), 0.0)
    # Ends are optima themselves: where these are whole numbers, nothing lies between.
    ordered, count = jnp.sort(ideal, axis=0), ideal.shape[0]
    cut = max(int(_TAIL * count - 0.5), 0)
    low, high = ordered[cut].reshape(x.shape), ordered[count - 1 - cut].reshape(x.shape)
    return Outlook(
        epistemic=jnp.std(ideal, axis=0).reshape(x.shape),
        low=low,
        high=high,
        aleatoric=aleatoric,
        cost_of_not_knowing=savings,
        value_of_a_batch=jnp.minimum(value_of_a_batch, savings),
    )


def cost_deviation(problem: Problem, x: Decision, thetas: PyTree, key: Array) -> Float[Array, ""]:
    """The standard deviation of the cost with theta known: the root of its mean variance."""

    def variance(theta: PyTree, key: Array) -> Array:
        drawn = computed_once(by_inversion(problem.model(x, theta)).sample(key, (_DRAWS,)), key)
        return jnp.var(jax.vmap(lambda xi: problem.cost(x, xi))(drawn), ddof=1)

    draw = by_inversion(problem.model(x, first(thetas))).sample
    keys = quick_keys([draw], key, jax.tree.leaves(thetas)[0].shape[0])
    return jnp.sqrt(jnp.mean(jax.vmap(variance)(thetas, keys)))


def worth(
    problem: Problem,
    x: Decision,
    thetas: PyTree,
    slopes: Float[Array, "L d"],
    curvature: Float[Array, "d d"],
    rows: Float[Array, ""],
    size: Float[Array, ""],
    key: Array,
) -> Float[Array, ""]:
    """What one more batch is expected to save, to second order in x.

    F is taken as quadratic around x, with curvature A, and H(., theta) as that quadratic with
    another slope g(theta). Then a belief under which the mean slope is g moves the decision by
    s = -A^-1 g, as far as it stays feasible, and saves -(g's + s'A s / 2). The next batch is drawn
    under each theta; by Bayes' rule it re-weighs all of them, and so tells the slope that would be
    believed after it. Of a batch with more than four rows four are drawn, and what these save is
    scaled by D (N + 4) / (4 (N + D)): data save about D / (N + D).

    Args:
        problem: Cost, model and feasible set.
        x: The decision.
        thetas: Draws from the belief.
        slopes: g(theta) for each.
        curvature: A.
        rows: D, how many observations the next batch has: as many as the last.
        size: N, how many observations the belief counts.
        key: Randomness.
    """
    likelihood = problem.likelihood
    slopes = slopes - jnp.mean(slopes, axis=0)
    weight = (jnp.arange(_ROWS) < rows).astype(float)

    def believed_after(theta: PyTree, key: Array) -> Array:
        drawn = computed_once(by_inversion(likelihood(x, theta)).sample(key, (_ROWS,)), key)
        seen = Batch(x, drawn, weight)
        log_f = jax.vmap(lambda other: log_likelihood(likelihood, other, seen))(thetas)
        return jnp.exp(log_f - logsumexp(log_f)) @ slopes

    def saved(slope: Array) -> Array:
        ideal = (x.ravel() - positive_solve(curvature, slope)).reshape(x.shape)
        move = problem.feasible.project(ideal).ravel() - x.ravel()
        return jnp.maximum(-(slope @ move + 0.5 * move @ curvature @ move), 0.0)

    drawn = jnp.minimum(rows, _ROWS)
    ratio = rows * (size + drawn) / (jnp.maximum(drawn, 1.0) * (size + rows))
    larger = jnp.where(jnp.isfinite(size), ratio, 1.0)  # theta is known: nothing can be saved
    keys = even_keys(likelihood(x, first(thetas)).sample, key, (slopes.shape[0],))
    later = jax.vmap(believed_after)(thetas, keys)
    return larger * jnp.mean(jax.vmap(saved)(later))

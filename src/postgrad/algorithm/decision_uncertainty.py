"""What is uncertain about the decision, and what it costs not to know."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, PyTree

from postgrad.algorithm.sampled_objective import SCOUTS, SampledObjective
from postgrad.beliefs.belief import log_likelihood
from postgrad.numerics.draw_barrier import computed_once
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision

_DRAWS = 32  # of xi for each theta, to see how much the cost varies
# A further batch is simulated with so many rows at most, whatever its size, so that the size of a
# batch is a number in the program and not a shape.
_ROWS = 4


class Outlook(eqx.Module):
    """Uncertainty about theta, in terms of the decision and its cost.

    F is taken as quadratic around x, with curvature A, and H(., theta) as that quadratic with
    another slope g(theta). To second order, then, knowing theta would move the decision by
    s(theta) = -A^-1 g(theta), as far as it stays feasible, and save
    -(g(theta)'s + s'A s / 2). All are NaN where the descent measured no curvature.

    Attributes:
        epistemic: The posterior standard deviation of the optimal decision: what more data narrow.
        aleatoric: The standard deviation of the cost with theta known: what no data change.
        cost_of_not_knowing: The expected saving if theta were known from now on, for each decision.
        value_of_a_batch: What one more batch, of the size of the last and seen under x, is expected
            to save of that.
    """

    epistemic: Float[Array, "..."]
    aleatoric: Float[Array, ""]
    cost_of_not_knowing: Float[Array, ""]
    value_of_a_batch: Float[Array, ""]


def unknown(x: Decision) -> Outlook:
    """Where no curvature was measured."""
    nan = jnp.asarray(jnp.nan)
    return Outlook(jnp.full_like(x, jnp.nan), nan, nan, nan)


def outlook(
    objective: SampledObjective,
    x: Decision,
    curvature: Float[Array, "d d"],
    thetas: PyTree,
    rows: Float[Array, ""],
    size: Float[Array, ""],
    key: Array,
) -> Outlook:
    """The outlook from x.

    The next batch is drawn under each of some thetas; by Bayes' rule it re-weighs all of them, and
    so tells the slope that would be believed after it. Of a batch with more than four rows four are
    drawn, and what these save is scaled by D (N + 4) / (4 (N + D)): data save about D / (N + D).

    Args:
        objective: The posterior-averaged cost.
        x: The decision.
        curvature: A.
        thetas: Draws from the belief.
        rows: D, how many observations the next batch has: as many as the last.
        size: N, how many observations the belief counts.
        key: Randomness.
    """
    key_same, key_cost, key_batch = random.split(key, 4)[1:]
    point = objective.side_by_side(thetas, key_same, x)
    slopes = point.gradients
    # Where x is the minimum the slopes average to zero, but for the noise of few draws.
    slopes = slopes - jnp.mean(slopes, axis=0)
    inverse = jnp.linalg.inv(curvature)

    def saved(slope: Decision) -> tuple[Decision, Array]:
        ideal = x - (inverse @ slope.ravel()).reshape(x.shape)
        move = objective.problem.feasible.project(ideal) - x
        bend = move.ravel() @ curvature @ move.ravel()
        return move, jnp.maximum(-(jnp.sum(slope * move) + 0.5 * bend), 0.0)

    moves, savings = jax.vmap(saved)(slopes)
    problem, likelihood = objective.problem, objective.problem.likelihood

    def spread(theta: PyTree, key: Array) -> Array:
        draws = computed_once(problem.model(x, theta).sample(key, (_DRAWS,)), key)
        return jnp.var(jax.vmap(lambda xi: problem.cost(x, xi))(draws), ddof=1)

    def believed_after(theta: PyTree, key: Array) -> Decision:
        rows = computed_once(likelihood(x, theta).sample(key, (_ROWS,)), key)
        seen = Batch(x, rows, weight)
        log_f = jax.vmap(lambda other: log_likelihood(likelihood, other, seen))(thetas)
        return jnp.tensordot(jnp.exp(log_f - logsumexp(log_f)), slopes, axes=1)

    weight = (jnp.arange(_ROWS) < rows).astype(float)
    drawn = jnp.minimum(rows, _ROWS)
    ratio = rows * (size + drawn) / (drawn * (size + rows))
    larger = jnp.where(jnp.isfinite(size), ratio, 1.0)  # theta is known: nothing can be saved
    later = jax.vmap(believed_after)(thetas, random.split(key_batch, SCOUTS))
    return Outlook(
        epistemic=jnp.sqrt(jnp.mean(jnp.square(moves - jnp.mean(moves, axis=0)), axis=0)),
        aleatoric=jnp.sqrt(jnp.mean(jax.vmap(spread)(thetas, random.split(key_cost, SCOUTS)))),
        cost_of_not_knowing=jnp.mean(savings),
        value_of_a_batch=jnp.minimum(
            larger * jnp.mean(jax.vmap(saved)(later)[1]), jnp.mean(savings)
        ),
    )

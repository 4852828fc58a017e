"""The second derivative of the averaged cost, measured by differences of its gradient."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.descents.descent import Stage
from postgrad.algorithm.sampled_objective import Point
from postgrad.problem.problem import Decision

# Curvature is measured over this share of the distance at which draws disagree about the optimum:
# wide enough to see through kinks, narrow enough to be local; with few draws, wider.
_PROBE, _WIDE_PROBE = 0.1, 1.0
# As long as no curvature is known, draws are taken to disagree by this share of 1 + |x|.
_GUESS = 0.3
# From so many stages on a curvature is believed, however small.
_ENOUGH = 32.0
# And until then not one below this share of the guess.
_FLAT = 0.1
# A curvature with a larger relative error than this is not believed.
_VAGUE = 0.5
# Coordinates probed each stage; where there are more, they take turns.
_PROBES = 8
# With n draws, a curvature measured before counts like so many of them.
_PATIENCE = 256.0
_LEAST_CURVATURE = 1e-4  # relative to the largest
# So many evenly spread draws are a rule of integration rather than a sample. They do not depend on
# the seed: the same data lead to the same decision, and the runs of a simulation share them.
FINE = 1024
FAR = 1e150  # no limit; and a square that is still a number

Look = Callable[[Decision], Point]


class Track(eqx.Module):
    """What is remembered.

    Attributes:
        curvature: The second derivative of F, averaged over stages.
        bends: The mean square of its diagonal, as each stage saw it.
        squares: The mean square of the gradient of a single draw, likewise.
        count: How many draws these are worth.
        looks: How many stages.
        reach: No step is longer than this.
        variance: E |x_t - x_t^opt|^2, what simulation noise has left in x_t.
    """

    curvature: Float[Array, "d d"]
    bends: Float[Array, " d"]
    squares: Float[Array, " d"]
    count: Float[Array, ""]
    looks: Float[Array, ""]
    reach: Float[Array, ""]
    variance: Float[Array, ""]


def positive(curvature: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The matrix with its curvatures made positive: downhill is downhill on a ridge, too."""
    if curvature.shape == (1, 1):
        value = jnp.abs(curvature)
        return jnp.where(value > 0, value, 1.0)
    values, vectors = jnp.linalg.eigh(curvature)
    values = jnp.abs(values)
    top = jnp.max(values)
    values = jnp.where(top > 0, jnp.maximum(values, _LEAST_CURVATURE * top), 1.0)
    return (vectors * values) @ vectors.T


def inverse(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """A^-1. One by one it is a division, which a simulation vectorises over runs."""
    return 1.0 / matrix if matrix.shape == (1, 1) else jnp.linalg.inv(matrix)


def guess(known: Track, bends: Float[Array, "d d"], x: Decision) -> Float[Array, " d"]:
    """Curvatures for coordinates in which none was seen: what the spread of gradients suggests.

    Nor is a curvature believed that varied so much from stage to stage that its mean says little.
    """
    usual = jnp.sqrt(known.squares) / (_GUESS * (1.0 + jnp.abs(x).ravel()))
    bend = jnp.diagonal(bends)
    variance = jnp.maximum(known.bends - jnp.square(jnp.diagonal(known.curvature)), 0.0)
    vague = variance > _VAGUE**2 * jnp.square(bend) * known.looks
    # A ridge is believed only if it was seen by many draws.
    ridge = (bend < 0.0) & (known.count < FINE)
    flat = jnp.abs(bend) < jnp.where(known.looks < _ENOUGH, _FLAT, 0.1 * _FLAT) * usual
    return jnp.where(vague | ridge | flat, jnp.maximum(usual - bend, 0.0), 0.0)


def distance_apart(known: Track, x: Decision) -> Float[Array, " d"]:
    """How far apart single draws put the optimum, in each coordinate.

    In the first stages no farther than the guess: a curvature that happens to be small
    must not send x away.
    """
    bend = jnp.abs(jnp.diagonal(known.curvature)) + guess(known, known.curvature, x)
    distance = jnp.sqrt(known.squares) / jnp.where(bend > 0, bend, 1.0)
    most = jnp.where(known.looks < _ENOUGH, _GUESS * (1.0 + jnp.abs(x).ravel()), FAR)
    return jnp.minimum(distance, most)


def measured(
    stage: Stage, look: Look, here: Point, squares: Decision, x: Decision, state: Track
) -> Track:
    """What is remembered, with the second derivative of F and the spread of gradients anew.

    The derivative comes from differences of the gradient with the same draws; `squares` is the mean
    square of the gradient of a single draw.
    """
    d, fresh, objective = x.size, float(stage.plan.total), stage.objective
    fine = fresh >= FINE
    before = jnp.minimum(state.count, _PATIENCE)
    weight = jnp.where(state.count > 0, fresh / (fresh + before), 1.0)
    slope = objective.slope(here).ravel()
    squares = state.squares + weight * (squares.ravel() - state.squares)
    if fine:  # then the mean is known, and what is left is spread
        squares = jnp.maximum(squares - jnp.square(slope), 0.0)
    state = eqx.tree_at(lambda track: track.squares, state, squares)

    probes = min(d, _PROBES)
    index = (stage.plan.number * probes + jnp.arange(probes)) % d
    scale = 1.0 + jnp.abs(x).ravel()
    width = (_PROBE if fine else _WIDE_PROBE) * distance_apart(state, x)
    # Between two counts a cost such as a newsvendor's is straight, and its slope jumps at them.
    width = jnp.maximum(width, objective.spacing(stage.thetas, x))
    width = jnp.clip(width, 1e-5 * scale, scale)

    def probe(i: Array) -> tuple[Array, Array]:
        move = jnp.where(jnp.arange(d) == i, width, 0.0).reshape(x.shape)
        ways = jax.vmap(objective.problem.feasible.project)(jnp.stack([x + move, x - move])) - x
        far = jnp.sum(jnp.square(ways.reshape(2, -1)), axis=1)
        way = jnp.where(far[0] >= far[1], ways[0], ways[1])
        return way.ravel(), objective.slope(look(x + way)).ravel() - slope

    ways, changes = jax.vmap(probe)(index)
    # Least squares: A way_k = change_k, nearest to what is known already.
    lengths = jnp.sum(jnp.square(ways), axis=1)
    units = ways / jnp.sqrt(jnp.where(lengths > 0, lengths, 1.0))[:, None]
    rates = changes / jnp.sqrt(jnp.where(lengths > 0, lengths, 1.0))[:, None]
    gram = units @ units.T + 1e-9 * jnp.eye(probes)
    wrong = rates - units @ state.curvature
    new = state.curvature + units.T @ (inverse(gram) @ wrong)
    new = 0.5 * (new + new.T)
    blended = state.curvature + weight * (new - state.curvature)
    bends = state.bends + weight * (jnp.square(jnp.diagonal(new)) - state.bends)
    good = jnp.all(jnp.isfinite(blended))
    after = eqx.tree_at(
        lambda track: (track.curvature, track.bends, track.count, track.looks),
        state,
        (blended, bends, state.count + fresh, state.looks + 1.0),
    )
    return jax.tree.map(lambda new, old: jnp.where(good, new, old), after, state)

"""For budgets of a few draws a stage: Newton steps with a curvature that stages share.

A few draws do not tell one place from another, so every step is taken: to choose steps by the light
of these draws would be to choose among draws, and the mean would be wrong.
"""

from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import Outlook, unknown
from postgrad.algorithm.descents.descent import Course, Descent, Plan, Stage
from postgrad.algorithm.descents.search.local_step import FAR, Lane, quadratic_step
from postgrad.algorithm.sampled_objective import Reading, draw_thetas
from postgrad.beliefs.belief import Belief, first
from postgrad.problem.problem import Decision

# No step is longer than this many times the distance at which draws disagree.
_LONGEST = 3.0
# As long as no curvature is known, draws are taken to disagree by this share of 1 + |x|.
_GUESS = 0.3
# From so many stages on a curvature is believed, however small; until then not one below a share of
# the guess.
_ENOUGH, _FLAT = 32.0, 0.1
# A curvature with a larger relative error than this is not believed.
_VAGUE = 0.5
# Coordinates probed each stage; where there are more, they take turns.
_PROBES = 8
# A curvature measured before counts like so many draws, at most.
_PATIENCE = 256.0
_LEAST_CURVATURE = 1e-4  # relative to the largest


class Track(eqx.Module):
    """What is remembered.

    Attributes:
        curvature: The second derivative of F, averaged over stages.
        bends: The mean square of its diagonal, as each stage saw it.
        squares: The mean square of the gradient of a single draw, likewise.
        count: How many draws these are worth.
        looks: How many stages.
        variance: E |x_t - x_t^opt|^2, what simulation noise has left in x_t, in its own unit.
    """

    curvature: Float[Array, "d d"]
    bends: Float[Array, " d"]
    squares: Float[Array, " d"]
    count: Float[Array, ""]
    looks: Float[Array, ""]
    variance: Float[Array, ""]


class Newton(Descent):
    """K Newton steps on fixed draws, then as much of the way as the noise allows.

    Curvature A comes from differences of the gradient over a stretch of x, with the same draws, and
    is averaged over stages. A step minimises g's + s'A s / 2 over feasible x + s. A draw tells as
    much about the minimum as an observation does, so with n draws the gain is that of Kalman's
    filter (see `Search`) with R = Sigma N / n: about 1.6/t with one draw, the golden ratio.
    """

    usual_iterations: ClassVar[int] = 6
    usual_samples: ClassVar[tuple[int, int]] = (1, 1)
    fixes_draws: ClassVar[bool] = True

    def init(self, x: Decision, theta: PyTree, additive: bool) -> Track:
        """Nothing known."""
        del theta, additive
        none, d = jnp.zeros(()), x.size
        return Track(
            jnp.zeros((d, d)), jnp.zeros(d), jnp.zeros(d), none, none, jnp.asarray(FAR, float)
        )

    def step_size(self, number: Int[Array, ""]) -> Array:
        """None."""
        del number
        return jnp.ones(())

    def sample_thetas(self, belief: Belief, plan: Plan) -> PyTree:
        """The same draws for all steps, evenly spread."""
        return draw_thetas(belief, random.fold_in(plan.key, 0), plan.samples[0])

    def descend(
        self, stage: Stage, x: Decision, state: Track
    ) -> tuple[Decision, Track, Course, Outlook]:
        """From the last decision towards the minimum for this posterior."""
        objective, plan, d = stage.objective, stage.plan, x.size
        feasible, (m, count) = objective.problem.feasible, plan.samples
        scout = jax.tree.map(lambda leaf: leaf[None], first(stage.thetas))
        rows = objective.rows(stage.thetas, scout, random.fold_in(plan.key, 2), count, x)

        def look(at: Array) -> Reading:
            return rows(jnp.asarray(False))(jnp.broadcast_to(at, (m, d)))

        alike = objective.alike(stage.thetas)
        here = look(x.ravel())
        known = _measured(stage, look, here, x, state)
        # Few draws make the same error in slope and curvature: rather what was known before.
        bends = jnp.where(state.count > 0, state.curvature, known.curvature)
        metric = _positive(bends + jnp.diag(_guess(known, bends, x)))
        longest = _LONGEST * _distance_apart(known, x)

        def body(i: Array, carry: PyTree) -> PyTree:
            at, last, most, slopes = carry
            slope = objective.slope(look(at), alike)
            # The last step of a coordinate led beyond the minimum: the next one is shorter.
            most = jnp.where(slope * last > 0.0, 0.5 * jnp.abs(last), most)
            far = jnp.full(d, FAR)
            lane = Lane(at, jnp.zeros(()), slope, jnp.diagonal(metric), far)
            step = jnp.clip(quadratic_step(feasible, x.shape, lane, metric), -most, most)
            there = feasible.project((at + step).reshape(x.shape)).ravel()
            there = jnp.where(jnp.all(jnp.isfinite(there)), there, at)
            return there, there - at, most, slopes.at[i].set(slope)

        none = jnp.zeros((plan.iterations, d))
        start = (x.ravel(), jnp.zeros(d), longest, none)
        solution, _, _, slopes = lax.fori_loop(0, plan.iterations, body, start)
        before = jnp.maximum(stage.size - stage.rows, 0.0)
        moved = jnp.where(jnp.isfinite(stage.size), stage.rows / (stage.size * before), 0.0)
        expected, noise = state.variance + moved, 1.0 / plan.total
        gain = jnp.where(expected < FAR, expected / (expected + noise), 1.0)
        left = jnp.where(gain < 1.0, (1.0 - gain) * expected, noise)
        goal = (x.ravel() + gain * (solution - x.ravel())).reshape(x.shape)
        # A posterior that is none has no slope.
        x_next = jnp.where(jnp.any(jnp.isnan(slopes[0])), jnp.nan, feasible.project(goal))
        known = eqx.tree_at(lambda track: track.variance, known, left)
        slopes = slopes.reshape(plan.iterations, *x.shape)
        nan, zero = jnp.asarray(jnp.nan), jnp.zeros(())
        course = Course(
            slopes, jnp.full_like(slopes, jnp.nan), metric, gain, nan, zero, zero, 1.0 + zero
        )
        return x_next, known, course, unknown(x)


def _positive(curvature: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The matrix with its curvatures made positive: downhill is downhill on a ridge, too."""
    if curvature.shape == (1, 1):
        value = jnp.abs(curvature)
        return jnp.where(value > 0, value, 1.0)
    values, vectors = jnp.linalg.eigh(curvature)
    values = jnp.abs(values)
    top = jnp.max(values)
    values = jnp.where(top > 0, jnp.maximum(values, _LEAST_CURVATURE * top), 1.0)
    return (vectors * values) @ vectors.T


def _guess(known: Track, bends: Float[Array, "d d"], x: Decision) -> Float[Array, " d"]:
    """Curvatures for coordinates in which none was seen: what the spread of gradients suggests.

    Nor is a curvature believed that varied so much from stage to stage that its mean says little.
    """
    usual = jnp.sqrt(known.squares) / (_GUESS * (1.0 + jnp.abs(x).ravel()))
    bend = jnp.diagonal(bends)
    variance = jnp.maximum(known.bends - jnp.square(jnp.diagonal(known.curvature)), 0.0)
    vague = variance > _VAGUE**2 * jnp.square(bend) * known.looks
    flat = jnp.abs(bend) < jnp.where(known.looks < _ENOUGH, _FLAT, 0.1 * _FLAT) * usual
    return jnp.where(vague | (bend < 0.0) | flat, jnp.maximum(usual - bend, 0.0), 0.0)


def _distance_apart(known: Track, x: Decision) -> Float[Array, " d"]:
    """How far apart single draws put the optimum, in each coordinate.

    In the first stages no farther than the guess: a curvature that happens to be small
    must not send x away.
    """
    bend = jnp.abs(jnp.diagonal(known.curvature)) + _guess(known, known.curvature, x)
    distance = jnp.sqrt(known.squares) / jnp.where(bend > 0, bend, 1.0)
    most = jnp.where(known.looks < _ENOUGH, _GUESS * (1.0 + jnp.abs(x).ravel()), FAR)
    return jnp.minimum(distance, most)


def _measured(
    stage: Stage, look: Callable[[Array], Reading], here: Reading, x: Decision, state: Track
) -> Track:
    """What is remembered, with the second derivative of F and the spread of gradients anew.

    The derivative comes from differences of the gradient with the same draws.
    """
    d, fresh, objective = x.size, float(stage.plan.total), stage.objective
    before = jnp.minimum(state.count, _PATIENCE)
    weight = jnp.where(state.count > 0, fresh / (fresh + before), 1.0)
    alike = objective.alike(stage.thetas)
    slope = objective.slope(here, alike)
    squares = jnp.mean(jnp.square(here.gradients), axis=0) * stage.plan.samples[1]
    squares = state.squares + weight * (squares - state.squares)
    state = eqx.tree_at(lambda track: track.squares, state, squares)

    probes = min(d, _PROBES)
    index = (stage.plan.number * probes + jnp.arange(probes)) % d
    scale = 1.0 + jnp.abs(x).ravel()
    width = jnp.clip(_distance_apart(state, x), 1e-5 * scale, scale)

    def probe(i: Array) -> tuple[Array, Array]:
        move = jnp.where(jnp.arange(d) == i, width, 0.0).reshape(x.shape)
        ways = jax.vmap(objective.problem.feasible.project)(jnp.stack([x + move, x - move])) - x
        far = jnp.sum(jnp.square(ways.reshape(2, -1)), axis=1)
        # Downhill, where the minimum is and costs bend, unless the feasible set ends there.
        down = (slope[i] <= 0.0) == (jnp.arange(2) == 0)
        way = ways[jnp.argmax(jnp.where(down, 1.0, 0.5) * far)].ravel()
        return way, objective.slope(look(x.ravel() + way), alike) - slope

    ways, changes = jax.vmap(probe)(index)
    # Least squares: A way_k = change_k, nearest to what is known already.
    lengths = jnp.sum(jnp.square(ways), axis=1)
    units = ways / jnp.sqrt(jnp.where(lengths > 0, lengths, 1.0))[:, None]
    rates = changes / jnp.sqrt(jnp.where(lengths > 0, lengths, 1.0))[:, None]
    gram = units @ units.T + 1e-9 * jnp.eye(probes)
    wrong = rates - units @ state.curvature
    new = state.curvature + units.T @ jnp.linalg.solve(gram, wrong)
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

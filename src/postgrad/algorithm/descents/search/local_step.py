"""Steps downhill from one place: curvature by secants, a reach that keeps them honest."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from postgrad.numerics.every_run import in_every_run
from postgrad.numerics.small_matrices import positive_inverse, positive_solve, times
from postgrad.problem.feasible.feasible_set import FeasibleSet

NOTHING = 1e-9  # what is not worth a step, as a share of the cost
FAR = 1e150  # no limit; and a square that is still a number
FLATTEST = 1e-200  # the least curvature of a cost that is flat everywhere, as of whole numbers
# One look changes a curvature by this factor at most.
_FASTEST = 100.0
_SHORTEST = 1e-9  # the shortest reach, relative to x
_ROUNDING = 1e-12  # steps shorter than this, relative to x, tell nothing
_SAME_KINK = 1e-6  # at a kink two tangents meet, but for rounding
_STRAIGHT = 1e-6  # the least curvature, relative to one that stops a step at the end of the reach
# The smallest curvature, relative to the largest: of a matrix, and of costs that add up.
_LEAST, _ROUNDED = 1e-8, 1e-16
# Where a constraint is active: steps of the quadratic programme at most, and the relative change
# from which on it has converged.
_PROJECTIONS, _CONVERGED = 40, 1e-6


class Across(NamedTuple):
    """A place on the other side of a minimum; NaN while none is known.

    Attributes:
        x: The place.
        value: F there.
        slope: Its gradient there.
    """

    x: Float[Array, " 1"]
    value: Float[Array, ""]
    slope: Float[Array, " 1"]


class Between(NamedTuple):
    """Where the minimum is in each coordinate, as the slopes met so far say.

    Attributes:
        low: A place below it.
        high: A place above it.
    """

    low: Float[Array, " d"]
    high: Float[Array, " d"]


class Lane(NamedTuple):
    """The best place of a descent, and what is known around it.

    Attributes:
        x: The place.
        value: F there.
        slope: Its gradient there.
        bend: Its curvature in each coordinate, positive.
        reach: No step is longer than this, in each coordinate.
        between: Where each coordinate is taken or left by itself: what is known of the minimum.
        across: Of one coordinate whose cost has kinks: the last place beyond the minimum.
    """

    x: Float[Array, " d"]
    value: Float[Array, ""]
    slope: Float[Array, " d"]
    bend: Float[Array, " d"]
    reach: Float[Array, " d"]
    between: Between | None = None
    across: Across | None = None


def after_look(
    lane: Lane,
    at: Float[Array, " d"],
    value: Float[Array, ""],
    slope: Float[Array, " d"],
    error: Float[Array, " d"],
    blur: Float[Array, " d"],
    taken: Bool[Array, ""] | Bool[Array, " d"],
    learns: Bool[Array, ""],
    *,
    alone: bool,
) -> Lane:
    """What is known after a look at another place.

    The curvature becomes that of the secant, |change of slope| / |change of x|, as far as that
    change of slope exceeds its standard error. A place that is not taken halves the reach, where
    curvature was more than twice what it was thought to be; one that is taken at the end of the
    reach, or held back by it, makes it four times as long.

    Args:
        lane: What was known.
        at: Where the look went.
        value: F there.
        slope: Its gradient there.
        error: The standard error of the change of slope; NaN or zero if unknown.
        blur: The standard error of the slope itself, likewise.
        taken: Whether the place becomes the lane's; or which of its coordinates do, and then
            `value` is that of the place so made.
        learns: Whether the look was a step of a descent, so that curvature and reach change.
        alone: Whether each coordinate has a reach of its own, rather than all a common one.
    """
    move, change = at - lane.x, slope - lane.slope
    # At the minimum, steps are as long as rounding makes them.
    away = jnp.abs(move) > _ROUNDING * (jnp.abs(lane.x) + jnp.abs(at))
    moved = away & jnp.isfinite(value) & learns
    # Between two kinks of few draws a cost is straight: too short a step tells nothing.
    moved = moved & ~(jnp.maximum(jnp.abs(change), lane.bend * jnp.abs(move)) < blur)
    secant = jnp.abs(change) / jnp.where(moved, jnp.abs(move), 1.0)
    clear = jnp.square(jnp.maximum(jnp.abs(change), lane.bend * jnp.abs(move)))
    doubt = clear + 4.0 * jnp.square(error)
    clear = jnp.where((error > 0.0) & (doubt > 0.0), clear / doubt, 1.0)
    bend = lane.bend * jnp.clip(secant / lane.bend, 1.0 / _FASTEST, _FASTEST)
    bend = jnp.where(moved, lane.bend + clear * (bend - lane.bend), lane.bend)
    # A straight cost has no curvature, and steps to the end of the reach; less would underflow.
    steepness = jnp.minimum(jnp.abs(slope), jnp.abs(lane.slope))
    bend = jnp.where(moved, jnp.maximum(bend, _STRAIGHT * steepness / lane.reach), bend)
    # A constraint may have shortened a step that the reach had shortened before.
    held_back = jnp.abs(lane.slope) >= lane.bend * lane.reach
    far = jnp.abs(move) >= jnp.where(held_back, 0.25, 0.99) * lane.reach
    longer = jnp.where(far if alone else jnp.any(far), 4.0 * lane.reach, lane.reach)
    # To blame are coordinates that bend more than was thought; if there are none, all.
    beyond = jnp.abs(change) > 2.0 * lane.bend * jnp.abs(move)
    beyond = (beyond | ~jnp.any(beyond) | ~jnp.isfinite(value)) & away
    # but never to where a step would be lost in rounding
    shorter = jnp.maximum(0.5 * jnp.abs(move), _SHORTEST * jnp.abs(lane.x))
    shorter = jnp.where(beyond, jnp.minimum(shorter, lane.reach), lane.reach)
    reach = jnp.where(learns, jnp.where(taken, longer, shorter), lane.reach)
    return Lane(
        jnp.where(taken, at, lane.x),
        jnp.where(jnp.any(taken), value, lane.value),
        jnp.where(taken, slope, lane.slope),
        jnp.clip(bend, FLATTEST, FAR),
        jnp.minimum(reach, FAR),
        lane.between,
        lane.across and _crossed(lane, Across(at, value, slope), taken, learns),
    )


def _crossed(lane: Lane, look: Across, taken: Bool[Array, ""], learns: Bool[Array, ""]) -> Across:
    """The last place beyond the minimum, after a look; none in a valley that is new."""
    before = Across(lane.x, lane.value, lane.slope)
    best = jax.tree.map(lambda new, old: jnp.where(taken, new, old), look, before)
    other = jax.tree.map(lambda new, old: jnp.where(taken, old, new), look, before)
    opposite = learns & (best.slope[0] * other.slope[0] < 0.0) & jnp.isfinite(other.value)
    elsewhere = taken & ~learns
    return jax.tree.map(
        lambda new, old: jnp.where(elsewhere, jnp.nan, jnp.where(opposite, new, old)),
        other,
        lane.across,
    )


def cut(lane: Lane) -> tuple[Float[Array, " 1"], Float[Array, ""]]:
    """The step to where two tangents meet, one at each side of the minimum, and what it may save.

        F(x) + g s  =  F(x') + g' (x + s - x')

    A convex F is nowhere below its tangents (Kelley, 1960), so that no step saves more than -g s;
    and of a cost that is straight but for kinks, the tangents meet at one. NaN while no place is
    known at the other side.
    """
    assert lane.across is not None  # kept where this is asked
    x, value, slope = lane.across
    way = x - lane.x
    share = (value - lane.value - slope * way) / ((lane.slope - slope) * way)
    between = (share >= -_SAME_KINK) & (share <= 1.0 + _SAME_KINK) & (lane.slope * way <= 0.0)
    step = jnp.where(between, jnp.clip(share, 0.0, 1.0) * way, jnp.nan)
    return step, -jnp.sum(lane.slope * step)


def taken_by_coordinate(
    lane: Lane, at: Float[Array, " d"], slope: Float[Array, " d"]
) -> tuple[Bool[Array, " d"], Float[Array, ""]]:
    """Which coordinates of a place to take, if F adds over coordinates, and what that changes.

    Those that go on downhill, or in which the slope becomes less steep. In coordinate i, F changes
    by about (g_i + g_i') s_i / 2, with g and g' the slopes at both ends.
    """
    move = at - lane.x
    onward = (lane.slope * move <= 0.0) & (slope * move <= 0.0)
    good = (jnp.abs(move) > 0.0) & (onward | (jnp.abs(slope) < jnp.abs(lane.slope)))
    change = 0.5 * (lane.slope + slope) * move
    return good, jnp.sum(jnp.where(good, change, 0.0))


def bracketed(before: Lane, after: Lane, at: Float[Array, " d"], slope: Float[Array, " d"]) -> Lane:
    """With what the slopes at both ends of a step say about where the minimum is."""
    assert before.between is not None  # kept where this is asked
    low, high = before.between
    for place, g in ((before.x, before.slope), (at, slope)):
        inside = (place > low) & (place < high)
        low = jnp.where(inside & (g < 0.0), place, low)
        high = jnp.where(inside & (g > 0.0), place, high)
    return after._replace(between=Between(low, high))


def next_step(feasible: FeasibleSet, shape: tuple[int, ...], lane: Lane) -> Float[Array, " d"]:
    """argmin_s g's + s'diag(b)s / 2 such that x + s is feasible.

    b is the curvature, or more where the slope alone would lead beyond the reach. A step beyond
    places that are known to lie on either side of the minimum goes halfway between these instead.
    """
    bend = jnp.maximum(lane.bend, jnp.abs(lane.slope) / lane.reach)
    step = -lane.slope / bend
    if lane.between is not None:
        low, high = lane.between
        beyond = (lane.x + step <= low) | (lane.x + step >= high)
        closed = jnp.isfinite(low) & jnp.isfinite(high)
        step = jnp.where(beyond & closed, 0.5 * (low + high) - lane.x, step)
    if lane.across is not None:
        to_kink, _ = cut(lane)
        step = jnp.where(jnp.isnan(to_kink), step, to_kink)
    return _projected(feasible, shape, lane._replace(bend=bend), step)


def saving(lane: Lane, matrix: Float[Array, "k k"], step: Float[Array, " d"]) -> Array:
    """What a step is likely to save: -(g's + s'A s / 2), with A the matrix, or diag(b) if empty."""
    bent = times(matrix, step) if matrix.size else lane.bend * step
    return -jnp.sum((lane.slope + 0.5 * bent) * step)


def step_along(
    feasible: FeasibleSet, shape: tuple[int, ...], lane: Lane, way: Float[Array, " d"]
) -> Float[Array, " d"]:
    """As much of `way` as reach and feasible set allow."""
    return _projected(feasible, shape, lane, jnp.clip(way, -lane.reach, lane.reach))


class _Programme(NamedTuple):
    """The state of the quadratic programme.

    Attributes:
        taken: How many steps were taken.
        step: s so far.
        before: The one before it.
        gained: How many steps momentum was gained for.
        rests: Whether s has converged, or is not needed.
    """

    taken: Int[Array, ""] | int
    step: Float[Array, " d"]
    before: Float[Array, " d"]
    gained: Float[Array, ""]
    rests: Bool[Array, ""]


def quadratic_step(
    feasible: FeasibleSet,
    shape: tuple[int, ...],
    lane: Lane,
    matrix: Float[Array, "d d"],
    most: int = _PROJECTIONS,
) -> Float[Array, " d"]:
    """argmin_s g's + s'A s / 2 such that x + s is feasible, shortened to the reach.

    Where a constraint is active: Nesterov's accelerated projected gradient on the quadratic, in the
    metric diag(A) times the largest sum of a row of A in that metric; momentum is given up whenever
    it leads uphill (O'Donoghue and Candes, 2015).

    Args:
        feasible: The feasible set.
        shape: The shape of a decision.
        lane: x, and g, the slope there.
        matrix: A.
        most: How many steps the quadratic programme takes at most.
    """
    root = jnp.sqrt(jnp.diagonal(matrix))
    unit = jnp.abs(matrix) / (root[:, None] * root)
    metric = jnp.diagonal(matrix) * jnp.max(jnp.sum(unit, axis=0))
    scaled = lane._replace(bend=metric)

    free = -positive_solve(matrix, lane.slope)
    inside = feasible.violation((lane.x + free).reshape(shape)) <= 0.0

    def improve(carry: _Programme) -> _Programme:
        ahead = carry.step + carry.gained / (carry.gained + 3.0) * (carry.step - carry.before)
        push = lane.slope + times(matrix, ahead)
        new = _projected(feasible, shape, scaled, ahead - push / metric)
        change = new - carry.step
        overshoots = jnp.sum((ahead - new) * metric * change) > 0.0
        whole = jnp.max(jnp.abs(new) * root) + _SHORTEST * jnp.max(jnp.abs(lane.x) * root)
        small = jnp.max(jnp.abs(change) * root) <= _CONVERGED * whole
        return _Programme(
            carry.taken + 1,
            jnp.where(carry.rests, carry.step, new),
            carry.step,
            jnp.where(overshoots, 0.0, carry.gained + 1.0),
            carry.rests | small,
        )

    start = _projected(feasible, shape, scaled, free)
    # A projection in one metric may lead uphill in another.
    start = jnp.where(saving(lane, matrix, start) > 0.0, start, 0.0)
    bound = lax.while_loop(
        lambda carry: (carry.taken < most) & ~in_every_run(carry.rests),
        improve,
        _Programme(0, start, start, jnp.zeros(()), inside),
    ).step
    step = jnp.where(inside, free, bound)
    over = jnp.max(jnp.abs(step) / lane.reach)
    return step / jnp.maximum(over, 1.0)


def raised(
    bend: Float[Array, "*n d"], reach: Float[Array, "*n d"], *, alone: bool
) -> Float[Array, "*n d"]:
    """Curvatures, none of which is less than a small share of the largest, as costs over the reach.

    Beyond the price at which nobody buys, a coordinate has neither slope nor curvature, and a
    matrix of curvatures would be singular. Of a cost that adds over coordinates, each has a scale
    of its own, and only what is lost in rounding is raised: a set that the coordinates share is
    projected on in this metric, and one over no curvature is no number.

    Args:
        bend: The curvature of each coordinate.
        reach: How far steps go.
        alone: Whether the cost adds over coordinates.
    """
    square = jnp.square(reach)
    least = _ROUNDED if alone else _LEAST
    return jnp.maximum(bend, least * jnp.max(bend * square, axis=-1, keepdims=True) / square)


def secant_update(
    matrix: Float[Array, "d d"],
    move: Float[Array, " d"],
    change: Float[Array, " d"],
    error: Float[Array, ""],
    learns: Bool[Array, ""],
) -> Float[Array, "d d"]:
    """A after a step: BFGS, damped so that A stays positive (Powell, 1978).

    Args:
        matrix: A.
        move: s.
        change: y, the change of slope over s.
        error: The standard error of y's.
        learns: Whether to update at all.
    """
    along = times(matrix, move)
    expected = jnp.sum(move * along)
    found = jnp.sum(move * change)
    damping = jnp.where(
        found >= 0.2 * expected,
        1.0,
        0.8 * expected / jnp.where(expected > found, expected - found, 1.0),
    )
    change = damping * change + (1.0 - damping) * along
    top = jnp.sum(move * change)
    usable = learns & (expected > 0) & (top > 0) & jnp.all(jnp.isfinite(change))
    usable = usable & (jnp.abs(found) > 4.0 * jnp.nan_to_num(error))
    expected, top = (jnp.where(usable, each, 1.0) for each in (expected, top))
    new = matrix - along[:, None] * along / expected + change[:, None] * change / top
    # Damped, no curvature falls to less than a fifth; what falls further is rounding.
    sound = jnp.all(jnp.diagonal(new) >= 1e-3 * jnp.diagonal(matrix))
    return jnp.where(usable & sound, new, matrix)


def measured_update(
    matrix: Float[Array, "d d"], moves: Float[Array, "n d"], changes: Float[Array, "n d"]
) -> Float[Array, "d d"]:
    """The matrix nearest to A that maps moves to changes of slope, made symmetric and positive.

    In the metric of A's diagonal, so that no unit of x matters.
    """
    root = jnp.sqrt(jnp.diagonal(matrix))
    lengths = jnp.sqrt(jnp.sum(jnp.square(moves * root), axis=1))
    lengths = jnp.where(lengths > 0, lengths, 1.0)[:, None]
    units, rates = moves * root / lengths, changes / root / lengths
    scaled = matrix / (root[:, None] * root)
    gram = units @ units.T + 1e-9 * jnp.eye(moves.shape[0])
    new = scaled + units.T @ (positive_inverse(gram) @ (rates - units @ scaled))
    values, vectors = jnp.linalg.eigh(0.5 * (new + new.T))
    values = jnp.maximum(jnp.abs(values), _LEAST * jnp.max(jnp.abs(values)))
    new = (vectors * values) @ vectors.T * (root[:, None] * root)
    sound = jnp.all(jnp.isfinite(new)) & jnp.all(jnp.diagonal(new) >= FLATTEST)
    return jnp.where(sound, new, matrix)


def _projected(
    feasible: FeasibleSet, shape: tuple[int, ...], lane: Lane, step: Float[Array, " d"]
) -> Float[Array, " d"]:
    goal = (lane.x + step).reshape(shape)
    return feasible.project(goal, lane.bend.reshape(shape)).ravel() - lane.x

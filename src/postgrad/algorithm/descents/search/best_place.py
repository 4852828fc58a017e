"""The best place by all draws, and what is known around it."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.judgement import Judgement
from postgrad.algorithm.descents.search.local_step import (
    Lane,
    after_look,
    bracketed,
    measured_update,
    raised,
    secant_update,
)
from postgrad.algorithm.descents.search.looks import Kind, Look, Seen, known_error, standard_error
from postgrad.algorithm.descents.search.places import in_turn
from postgrad.algorithm.descents.search.promising import others_after, promising_after
from postgrad.algorithm.descents.search.state import Carry, Held
from postgrad.numerics.every_run import in_every_run

# Where the cost jumps and coordinates interact: of how many places around the middle is taken, and
# how long the next step is, after one that was taken or failed.
_BEST = (1, 8)
_LONGER, _SHORTER = 1.5, 0.6


def with_best_place(on: Ground, carry: Carry, seen: Seen, judgement: Judgement) -> Carry:
    """The best place by all draws, and what is known around it."""
    look, held, lanes, candidate = carry.look, carry.held, carry.lanes, carry.candidate
    good, taken = judgement.good, judgement.taken
    explores = on.explores(look, carry)
    near, judge = look.is_of(Kind.NEAR) & ~explores, look.is_of(Kind.JUDGE)
    move = look.at[0] - held.lane.x
    lane = after_look(
        held.lane,
        look.at[0],
        judgement.value,
        seen.slope,
        standard_error(seen.slopes - held.slopes),
        standard_error(seen.slopes),
        taken,
        near & carry.explained,
        alone=on.objective.additive,
    )
    if on.by_coordinate:
        known = bracketed(held.lane, lane, look.at[0], seen.slope)
        told = near & jnp.isfinite(seen.value)
        lane = jax.tree.map(lambda new, old: jnp.where(told, new, old), known, lane)
    composes, composed, gains = look.is_of(Kind.COMPOSE), carry.composed, carry.gains
    if on.x.size > 1:
        composed, gains = _best_of_lines(on, carry, seen)
        wider = jnp.maximum(lane.reach, 0.5 * jnp.abs(move))
        lane = lane._replace(reach=jnp.where(composes & good, wider, lane.reach))
    lane = lane._replace(bend=jnp.where(_knows_nothing(on, look), _guess(lane, seen), lane.bend))
    from_lane = judge & good
    theirs = raised(lanes.bend[candidate], lanes.reach[candidate], alone=on.objective.additive)
    lane = lane._replace(
        bend=jnp.where(from_lane, theirs, lane.bend),
        reach=jnp.where(from_lane, lanes.reach[candidate], lane.reach),
    )
    tried, aside, better = near & ~carry.explained, carry.aside, carry.better
    if on.roams:
        found, gain = lax.cond(
            in_every_run(~explores),
            lambda: (aside, jnp.zeros(())),
            lambda: _best_around(carry, seen),
        )
        aside = jnp.where(explores, found, aside)
        better = jnp.where(explores, gain, 0.0)
        failed = (tried & ~good) | (explores & (better >= 0.0))
        compass = carry.compass * jnp.where(failed, _SHORTER, jnp.where(tried, _LONGER, 1.0))
    else:
        tried = tried & (np.arange(on.x.size) == in_turn(look.turn, on.x.size))
        compass = jnp.where(tried, carry.compass * jnp.where(good, 1.5, -0.5), carry.compass)
    compass = jnp.where(look.is_of(Kind.HOME, Kind.COMPOSE) | from_lane, 0.5 * lane.reach, compass)
    away = look.is_of(Kind.OTHER, Kind.COMPOSE, Kind.AGAIN) | (judge & (candidate > 0))
    switched = good & away & judgement.elsewhere
    promising = promising_after(on, carry, seen)
    others = others_after(on, carry, promising, switched)
    matrix = carry.matrix
    if not on.objective.additive:
        unknown_yet = from_lane & (on.stage.plan.number == 1)
        afresh = (switched & judge) | unknown_yet | _knows_nothing(on, look)
        matrix = _matrix_after(on, carry, seen, jnp.where(afresh, lane.bend, jnp.nan))
        probe = look.is_of(Kind.PROBE)
        lane = lane._replace(bend=jnp.where(probe, jnp.diagonal(matrix), lane.bend))
    held = Held(
        lane,
        jnp.where(good, judgement.values, held.values),
        jnp.where(taken, seen.slopes, held.slopes),
        jnp.where(taken, seen.plain, held.plain),
        jnp.where(good, seen.parts, held.parts),
        jnp.where(good, seen.each, held.each),
    )
    return carry._replace(
        held=held, slack=judgement.slack, matrix=matrix, compass=compass, aside=aside,
        better=better, others=others, promising=promising, composed=composed, gains=gains,
        switched=carry.switched | switched,
    )  # fmt: skip


def _best_around(carry: Carry, seen: Seen) -> tuple[Float[Array, " d"], Float[Array, ""]]:
    """The best of the places around, in turns the middle of the best few, and what that saves.

    At a sharp edge one place is best; where each draw has an edge of its own, the best by the few
    draws of one lane may be so by chance.
    """
    look = carry.look
    lower = jnp.where(jnp.isfinite(seen.each), seen.each - carry.held.each, jnp.inf)
    count = jnp.where(look.turn & 2, _BEST[1], _BEST[0])
    weight = (jnp.argsort(jnp.argsort(lower)) < count) / count
    return weight @ look.at, jnp.minimum(jnp.min(lower), 0.0)


def _knows_nothing(on: Ground, look: Look) -> Bool[Array, ""]:
    return look.is_of(Kind.HOME) & (on.stage.plan.number == 1)


def _guess(lane: Lane, seen: Seen) -> Float[Array, " d"]:
    """A first curvature of each coordinate, in the problem's own units of x and of cost."""
    costs = jnp.abs(seen.slope) * lane.reach
    # Where a coordinate has no slope, that of the others; where none has, the size of the cost.
    usual = jnp.mean(costs)
    usual = jnp.where(usual > 0.0, usual, seen.size)
    costs = jnp.where(costs > 0.0, costs, jnp.where(usual > 0.0, usual, 1.0))
    return costs / jnp.square(lane.reach)


def _matrix_after(on: Ground, carry: Carry, seen: Seen, afresh: Float[Array, " d"]) -> Array:
    """The curvature after a look; diagonal where `afresh` is not NaN."""
    look, held = carry.look, carry.held
    changes = seen.slopes - held.slopes
    move = look.at[0] - held.lane.x
    error = known_error(jnp.sum(changes * move, axis=-1))
    learns = look.is_of(Kind.NEAR) & carry.explained
    change = seen.slope - held.lane.slope
    matrix = secant_update(carry.matrix, move, change, error, learns)
    matrix = jnp.where(jnp.isnan(afresh), matrix, jnp.diag(afresh))
    ways = look.at[: on.groups] - held.lane.x
    return lax.cond(
        look.is_of(Kind.PROBE),
        lambda: measured_update(matrix, ways, changes),
        lambda: matrix,
    )


def _best_of_lines(on: Ground, carry: Carry, seen: Seen) -> tuple[Array, Array]:
    """The best values of coordinates so far, and how much each saves.

    Of a cost that adds over coordinates, the best of all lines are put together; of others the
    best of one line is kept.
    """
    look, x = carry.look, carry.held.lane.x
    fresh = look.begins(Kind.LINE)
    composed = jnp.where(fresh, x, carry.composed)
    gains = jnp.where(fresh, 0.0, carry.gains)
    each = jnp.where(jnp.isfinite(seen.values), seen.values - carry.held.values, jnp.inf)
    best = jnp.argmin(each)
    # the coordinate that moved, in units of the window
    moved = jnp.abs(look.at[best] - x) / on.wide
    here = np.arange(x.size) == jnp.argmax(moved)
    better = look.is_of(Kind.LINE) & (each[best] < jnp.min(jnp.where(here, gains, 0.0)))
    if on.by_coordinate:
        composed = jnp.where(better & here, look.at[best], composed)
    else:
        better = better & (each[best] < jnp.min(gains))
        composed = jnp.where(better, look.at[best], composed)
    return composed, jnp.where(better & here, each[best], gains)

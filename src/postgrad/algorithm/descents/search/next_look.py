"""Where to look next."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.judgement import within_steps
from postgrad.algorithm.descents.search.local_step import (
    FAR,
    NOTHING,
    Lane,
    cut,
    next_step,
    quadratic_step,
    saving,
    step_along,
)
from postgrad.algorithm.descents.search.looks import Kind, Look
from postgrad.algorithm.descents.search.places import (
    GROUPS,
    RAY,
    along,
    along_ray,
    around,
    exchanges,
    in_turn,
)
from postgrad.algorithm.descents.search.state import Carry
from postgrad.numerics.every_run import in_every_run
from postgrad.numerics.small_matrices import positive_solve

# What steps may leave undone: as a share of what simulation noise costs; by single thetas, as one
# of what their slopes promised at first.
_LITTLE, _LITTLE_APART = 1e-2, 1e-3
_LITTLE_AFTER_FAILURE = 0.1  # the same of a step that follows one that failed
_AT_KINK = 1e-7  # the same beside a kink, as a share of the cost
_NEARBY = 0.03  # how far the bottom of a remembered valley may have moved, as a share of the window
# Where the cost jumps and coordinates interact: steps too short to go on, as a share of the reach,
# and how the looks of a stage are numbered among those of all stages.
_SHORT, _TURNS = 1e-3, 1 << 16


def _is_idle(on: Ground, carry: Carry) -> Bool[Array, ""]:
    """Whether the look that is about to be taken is needed by other runs only."""
    look = carry.look
    rests = look.is_of(Kind.NEAR, Kind.SCOUT) & carry.rested
    composes = look.is_of(Kind.NEAR) & look.last & (carry.slack > 0.0)
    ahead = within_steps(on, carry)
    hopeless = carry.promising.hope >= -ahead
    idle = (rests & ~composes) | (look.is_of(Kind.OTHER) & hopeless)
    idle = idle | (look.is_of(Kind.RECALL, Kind.WEIGH) & ~on.recalls)
    idle = idle | (
        look.is_of(Kind.WEIGH) & on.one_valley & (jnp.min(carry.promising.lower) >= -ahead)
    )
    idle = idle | (look.is_of(Kind.APART, Kind.JUDGE) & _is_one_valley(on, carry))
    idle = idle | (look.is_of(Kind.AGAIN) & _is_lowest(on, carry))
    return idle | (on.is_for_scans(look) & ~on.scans)


def with_next_look(on: Ground, carry: Carry) -> Carry:
    """Where to look next."""
    look = on.schedule.look(carry.look.number + 1, carry.look.at)
    steps_next = look.is_of(Kind.OTHER, Kind.NEAR) | look.begins(Kind.SCOUT)
    step = lax.cond(steps_next, lambda: _step(on, carry, look), lambda: carry.step)
    rested = _rests(on, carry, step) | _is_patience_over(on, carry, look)
    if on.compares:
        short = jnp.all(jnp.abs(carry.compass) <= _SHORT * on.state.reach)
        rested = jnp.where(carry.explained, rested, short)
    rested = (carry.rested | (look.is_of(Kind.NEAR) & rested)) & ~look.begins(Kind.SCOUT)
    look = on.schedule.look(
        _skipped(on, carry._replace(look=look, step=step, rested=rested)), look.at
    )
    rested = rested & ~look.begins(Kind.SCOUT)
    carry = carry._replace(step=step, rested=rested)
    candidate = lax.cond(
        look.is_of(Kind.JUDGE), lambda: _candidate(on, carry, look), lambda: carry.candidate
    )
    # One place with all draws, or a place for each lane with its own.
    branches: list[tuple[tuple[Kind, ...], Callable[[], Array]]] = [
        ((Kind.HOME,), lambda: _one(on, carry, look, candidate)),
        ((Kind.RECALL,), lambda: _recalled(on, carry, look)),
        ((Kind.WEIGH,), lambda: _weighing(on, carry, look)[on.group]),
        ((Kind.SCAN,), lambda: on.in_scan(on.places.at, look)),
        (
            (Kind.APART, Kind.SCOUT),
            lambda: jnp.where(
                look.begins(Kind.SCOUT),
                carry.held.lane.x,
                carry.lanes.x + _steps_of_lanes(on, carry, look),
            ),
        ),
    ]
    if not on.objective.additive:
        branches.append(((Kind.PROBE,), lambda: _beside(on, carry.held.lane, look)[on.group]))
    if on.x.size > 1:
        branches.append(((Kind.LINE,), lambda: _on_line(on, carry, look)[on.group]))
    which = sum(i * look.is_of(*kinds) for i, (kinds, _) in enumerate(branches))
    look = look._replace(at=lax.switch(which, [branch for _, branch in branches]))
    # The first look of single thetas is at the best place, and so is what they have left to save.
    rested = rested | (look.is_of(Kind.SCOUT) & (look.turn > 0) & _scouts_rest(carry))
    over = look.is_of(Kind.SCOUT) & in_every_run(rested)
    look = look._replace(kind=jnp.where(over, Kind.END, look.kind).astype(jnp.int32))
    carry = carry._replace(look=look, candidate=candidate, rested=rested)
    return carry._replace(idle=_is_idle(on, carry))


def _rests(on: Ground, carry: Carry, step: Float[Array, " d"]) -> Bool[Array, ""]:
    """Whether a step saves next to nothing.

    One that is not shortened, by a curvature that proved right; or one after a step that failed, or
    that saved next to nothing itself: where F is straight between kinks, steps would creep on.
    """
    held, lane = carry.held, carry.held.lane
    ahead = saving(lane, carry.matrix, step)
    off = held.slopes - jnp.mean(held.slopes, axis=0)
    # Steps that failed have shortened the reach; the noise is as large as it was.
    reach = jnp.maximum(lane.reach, on.state.reach)
    wrong = jnp.clip(off / lane.bend, -reach, reach)
    noise = 0.5 * jnp.sum(lane.bend * jnp.square(wrong)) / max(on.groups * (on.groups - 1), 1)
    shortened = jnp.any(jnp.abs(step) >= 0.99 * reach)
    rounding = 1e-12 * jnp.sum(jnp.mean(jnp.abs(held.slopes), axis=0) * jnp.abs(lane.x))
    known = carry.explained & carry.steady & ~shortened
    rests = known & (ahead <= _LITTLE * noise + rounding)
    # Between kinks of single draws slopes promise what steps do not keep.
    rests = rests | (carry.explained & carry.failed & (ahead <= _LITTLE_AFTER_FAILURE * noise))
    if on.has_values:
        nothing = NOTHING * jnp.abs(lane.value)
        rests = rests | (carry.explained & (jnp.maximum(carry.saved, ahead) <= nothing))
    if lane.across is None:
        return rests
    # Beside a kink any curvature can be met, and slopes stay.
    most = cut(lane)[1]
    return jnp.where(
        jnp.isnan(most), rests & (ahead >= 0.0), most <= _AT_KINK * jnp.abs(lane.value)
    )


def _is_patience_over(on: Ground, carry: Carry, look: Look) -> Bool[Array, ""]:
    """Whether there were steps enough for a minimum that is about where it was expected.

    To follow the edge of a jump takes more of them.
    """
    lane = carry.held.lane
    gone, expected = (
        jnp.sum(lane.bend * jnp.square(way)) for way in (lane.x - on.x.ravel(), on.state.reach)
    )
    jumps = carry.jumped & on.compares
    return (look.turn >= on.patience) & (gone <= expected) & ~on.begins & ~jumps


def _scouts_rest(carry: Carry) -> Bool[Array, ""]:
    """Whether single thetas have all but lost the slopes that they had at the best place."""
    before, now = (
        jnp.mean(jnp.square(slopes) / carry.held.lane.bend)
        for slopes in (carry.scouted.slopes, carry.lanes.slope)
    )
    return now <= _LITTLE_APART * before


def _is_lowest(on: Ground, carry: Carry) -> Bool[Array, ""]:
    """Whether steps have led as low as the best of the remembered and new places."""
    return (carry.promising.still >= 0.0) | on.state.convex


def _is_one_valley(on: Ground, carry: Carry) -> Bool[Array, ""]:
    """Whether this scan and the last have met no tangent above F: steps from one place will do.

    Not in the first stages: steps from x_1 would be many.
    """
    return ~carry.bent & on.one_valley & ~on.begins


def _candidate(on: Ground, carry: Carry, look: Look) -> Int[Array, ""]:
    """The part whose best place is looked at by all draws: the one around x_t, then the lowest."""
    lower = carry.lanes.value[: on.parts] - carry.held.parts
    tried = (look.turn > 1) & (np.arange(on.parts) == carry.candidate)
    lowest = jnp.argmin(jnp.where(tried, jnp.inf, lower)).astype(jnp.int32)
    return jnp.where(look.turn == 0, 0, lowest)


def _skipped(on: Ground, carry: Carry) -> Int[Array, ""]:
    """The number of the next look, or of the one after those that no run needs."""
    look, ends = carry.look, on.schedule.ends
    end = ends[jnp.where(in_every_run(_is_lowest(on, carry)), Kind.AGAIN, Kind.NEAR)]
    composed = in_every_run(carry.slack == 0.0) | look.is_of(Kind.AGAIN)
    end = jnp.where(composed, end, ends[Kind.NEAR] - 1)  # the last one: at what was composed
    end = jnp.where(look.is_of(Kind.WEIGH, Kind.OTHER), ends[Kind.OTHER], end)
    end = jnp.where(look.is_of(Kind.APART), ends[Kind.JUDGE], end)
    return jnp.where(in_every_run(_is_idle(on, carry)), end, look.number).astype(jnp.int32)


def _one(on: Ground, carry: Carry, look: Look, candidate: Int[Array, ""]) -> Float[Array, "L d"]:
    """The place at which all draws look."""
    x = carry.held.lane.x
    one = x + carry.step
    # what was put together by coordinates is looked at once more
    one = jnp.where(look.last & (carry.slack > 0.0), x, one)
    one = jnp.where(look.is_of(Kind.JUDGE), carry.lanes.x[candidate], one)
    one = jnp.where(look.is_of(Kind.OTHER, Kind.AGAIN), carry.promising.best, one)
    one = jnp.where(look.is_of(Kind.COMPOSE), carry.composed, one)
    one = jnp.broadcast_to(one, (on.lanes, on.x.size))
    if not on.roams:
        return one
    explores = on.explores(look, carry)
    return lax.cond(
        in_every_run(~explores),
        lambda: one,
        lambda: jnp.where(explores, _around(on, carry, look), one),
    )


def _around(on: Ground, carry: Carry, look: Look) -> Float[Array, "L d"]:
    """Places around the best one, where the cost jumps, in other directions every time."""
    x = carry.held.lane.x.reshape(on.x.shape)
    number = on.stage.plan.number + _TURNS * look.turn
    # A coordinate that could not move may have lost its reach: every other look has a common one.
    wide = on.ends[1] - on.ends[0]
    own = jnp.abs(carry.compass)
    common = wide * jnp.max(own / jnp.where(wide > 0, wide, 1.0))
    lengths = jnp.where(look.turn & 1 == 0, own, common)
    return around(on.feasible, x, lengths, number, on.lanes)


def _recalled(on: Ground, carry: Carry, look: Look) -> Float[Array, "L d"]:
    """Remembered places, new ones, exchanges, the ray: one for each part of the draws."""
    number, count = on.stage.plan.number, GROUPS + on.new
    each = on.listed(look.turn)
    places = jnp.concatenate([carry.others, on.fresh])[in_turn(each, count)]
    if on.compete:
        x = carry.held.lane.x.reshape(on.x.shape)
        more, few = each - count, on.exchanges
        swap = jnp.where(more < few, more, more - RAY)
        swapped = exchanges(on.feasible, x, on.ends, number, swap)
        along_it = along_ray(on.feasible, x, on.ends, number, more - few)
        on_it = (more >= few) & (more < few + RAY)
        places = jnp.where(each[:, None] < count, places, swapped)
        places = jnp.where(on_it[:, None], along_it, places)
    return places[on.part]


def _weighing(on: Ground, carry: Carry, look: Look) -> Float[Array, "G d"]:
    """Promising places, then where a step from each leads, by the curvature around x."""
    lane = carry.held.lane._replace(reach=_NEARBY * on.wide)
    ways = jnp.where(look.turn > 0, -carry.promising.slopes / lane.bend, 0.0)[: on.groups]

    def stepped(place: Array, way: Array) -> Array:
        return place + step_along(on.feasible, on.x.shape, lane._replace(x=place), way)

    return jax.vmap(stepped)(carry.promising.at[: on.groups], ways)


def _on_line(on: Ground, carry: Carry, look: Look) -> Float[Array, "G d"]:
    x = carry.held.lane.x.reshape(on.x.shape)
    return along(on.feasible, x, on.ends, look.turn, on.stage.plan.number)


def _step(on: Ground, carry: Carry, look: Look) -> Float[Array, " d"]:
    """From the best place: by slopes, or along a coordinate where these explain nothing."""
    return jnp.where(carry.explained, _downhill(on, carry), _along_compass(on, carry, look))


def _downhill(on: Ground, carry: Carry) -> Float[Array, " d"]:
    """The step from the best place."""
    if on.objective.additive:
        return next_step(on.feasible, on.x.shape, carry.held.lane)
    return quadratic_step(on.feasible, on.x.shape, carry.held.lane, carry.matrix)


def _along_compass(on: Ground, carry: Carry, look: Look) -> Float[Array, " d"]:
    """The step from the best place where slopes explain nothing.

    Along one coordinate at a time; where coordinates interact, to the best place around.
    """
    x, d = carry.held.lane.x, on.x.size
    if on.roams:
        return carry.aside - x
    goal = x + jnp.where(np.arange(d) == in_turn(look.turn, d), carry.compass, 0.0)
    return on.feasible.project(goal.reshape(on.x.shape)).ravel() - x


def _steps_of_lanes(on: Ground, carry: Carry, look: Look) -> Float[Array, "L d"]:
    """The step from the best place of each lane."""
    shape, lanes, matrix = on.x.shape, carry.lanes, carry.matrix
    if on.objective.additive:
        return jax.vmap(lambda lane: next_step(on.feasible, shape, lane))(lanes)
    ways = jnp.where(
        look.is_of(Kind.SCOUT),
        -positive_solve(matrix, lanes.slope),
        -lanes.slope / lanes.bend,
    )
    return jax.vmap(lambda lane, way: step_along(on.feasible, shape, lane, way))(lanes, ways)


def _beside(on: Ground, lane: Lane, look: Look) -> Float[Array, "G d"]:
    """A place beside the best one for each group, along one coordinate each, taking turns."""
    d = on.x.size
    first_one = (look.turn + on.stage.plan.number) * on.groups
    index = in_turn(first_one + np.arange(on.groups), d)
    width = 0.25 * lane.reach
    width = jnp.where(lane.x + width > on.ends[1], -width, width)
    ways = jnp.where(index[:, None] == np.arange(d), width, 0.0)
    wide = lane._replace(reach=jnp.full(d, FAR))
    return lane.x + jax.vmap(lambda way: step_along(on.feasible, on.x.shape, wide, way))(ways)

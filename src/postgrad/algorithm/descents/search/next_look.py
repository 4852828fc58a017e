"""Where to look next."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.local_step import (
    FAR,
    Lane,
    next_step,
    quadratic_step,
    step_along,
)
from postgrad.algorithm.descents.search.looks import Kind, Look
from postgrad.algorithm.descents.search.places import GROUPS, along
from postgrad.algorithm.descents.search.state import Carry
from postgrad.numerics.positive_solve import positive_solve


def with_next_look(on: Ground, carry: Carry) -> Carry:
    """Where to look next."""
    held, shape, d = carry.held, on.x.shape, on.x.size
    look = on.schedule.look(carry.look.number + 1, carry.look.at)
    step = _downhill(on, carry)
    step = jnp.where(carry.explained, step, _along_compass(on, carry, look))
    begins_scan, begins_scouts = look.begins(Kind.SCAN), look.begins(Kind.SCOUT)
    # Lanes start afresh: those of a scan with nothing but group 0, which starts from here.
    begins = begins_scan | begins_scouts
    at_home = begins_scan & (on.group == 0)
    lanes = Lane(
        jnp.where(begins, held.lane.x, carry.lanes.x),
        jnp.where(begins, jnp.where(at_home, held.values[0], jnp.inf), carry.lanes.value),
        jnp.where(begins, jnp.where(at_home[:, None], held.slopes[0], 0.0), carry.lanes.slope),
        jnp.where(begins, held.lane.bend, carry.lanes.bend),
        jnp.where(begins_scouts, FAR, jnp.where(begins_scan, held.lane.reach, carry.lanes.reach)),
        jnp.where(begins, -jnp.inf, carry.lanes.low),
        jnp.where(begins, jnp.inf, carry.lanes.high),
    )
    steps = _steps_of_lanes(on, lanes, carry.matrix, look)
    lowest = jnp.argmin(lanes.value[: on.groups] - held.values).astype(jnp.int32)
    candidate = jnp.where(look.turn == 0, 0, lowest)

    # One place with all draws, or a place for each lane with its own.
    one = held.lane.x + step
    if on.by_coordinate:  # what was put together by coordinates is looked at once more
        one = jnp.where(look.last, held.lane.x, one)
    one = jnp.where(look.is_of(Kind.JUDGE), lanes.x[candidate], one)
    one = jnp.where(look.is_of(Kind.OTHER), carry.recalled, one)
    listed = on.places.at[jnp.clip(look.turn, 0, on.per_group - 1)][on.group]
    each = jnp.where(look.is_of(Kind.SCAN), listed, lanes.x + jnp.where(begins, 0.0, steps))
    known = carry.others[(on.group + on.stage.plan.number) % GROUPS]  # by other draws every time
    recalled = jnp.where(on.group[:, None] % 2 == 0, known, on.fresh[on.group // 2])
    each = jnp.where(look.is_of(Kind.RECALL), recalled, each)
    if not on.objective.additive:
        beside = _beside(on, held.lane, look)
        each = jnp.where(look.is_of(Kind.PROBE), beside[on.group], each)
    if d > 1:
        line = along(
            on.feasible, held.lane.x.reshape(shape), on.ends, look.turn,
            on.stage.plan.number,
        )  # fmt: skip
        each = jnp.where(look.is_of(Kind.LINE), line[on.group], each)
        one = jnp.where(look.is_of(Kind.COMPOSE), carry.composed, one)
    apart = look.is_of(Kind.RECALL, Kind.SCAN, Kind.APART, Kind.SCOUT, Kind.PROBE, Kind.LINE)
    look = look._replace(at=jnp.where(apart, each, one))
    return carry._replace(look=look, lanes=lanes, candidate=candidate, step=step)


def _downhill(on: Ground, carry: Carry) -> Float[Array, " d"]:
    """The step from the best place."""
    if on.objective.additive:
        return next_step(on.feasible, on.x.shape, carry.held.lane)
    return quadratic_step(on.feasible, on.x.shape, carry.held.lane, carry.matrix)


def _along_compass(on: Ground, carry: Carry, look: Look) -> Float[Array, " d"]:
    """The step from the best place along one coordinate, where slopes explain nothing."""
    x, d = carry.held.lane.x, on.x.size
    goal = x + jnp.where(jnp.arange(d) == look.turn % d, carry.compass, 0.0)
    return on.feasible.project(goal.reshape(on.x.shape)).ravel() - x


def _steps_of_lanes(on: Ground, lanes: Lane, matrix: Array, look: Look) -> Float[Array, "L d"]:
    """The step from the best place of each lane."""
    shape = on.x.shape
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
    index = (first_one + jnp.arange(on.groups)) % d
    width = 0.25 * lane.reach
    width = jnp.where(lane.x + width > on.ends[1], -width, width)
    ways = jnp.where(index[:, None] == jnp.arange(d), width, 0.0)
    wide = lane._replace(reach=jnp.full(d, FAR))
    return lane.x + jax.vmap(lambda way: step_along(on.feasible, on.x.shape, wide, way))(ways)

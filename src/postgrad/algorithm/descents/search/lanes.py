"""Descents side by side: of groups of draws after a scan, of single thetas in the end."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from postgrad.algorithm.decision_uncertainty import Scouted
from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.local_step import (
    FAR,
    FLATTEST,
    Between,
    Lane,
    after_look,
    bracketed,
    raised,
    taken_by_coordinate,
)
from postgrad.algorithm.descents.search.looks import Kind, Seen, tame
from postgrad.algorithm.descents.search.state import Carry
from postgrad.algorithm.sampled_objective import Reading
from postgrad.numerics.every_run import unless_idle

# The least curvature of a single theta's cost, as a share of that of all.
_STRAIGHTEST = 0.25


def with_lanes(on: Ground, carry: Carry, after: Carry, seen: Seen, reading: Reading) -> Carry:
    """What is known of lanes after a look, if it was one of theirs.

    Args:
        on: What all looks share.
        carry: What was known before the look.
        after: What is known after it, but for the lanes.
        seen: What the look saw.
        reading: The same, row by row.
    """
    look, held = carry.look, carry.held

    def changed() -> Carry:
        costs, gradients = jax.tree.map(
            lambda leaf: jnp.mean(leaf.reshape(on.rows, on.lanes, *leaf.shape[1:]), axis=0),
            reading,
        )
        # All scouts see the same noise, that of few draws: their slopes are moved so that they
        # average to the slope by all draws.
        begins, scout, raw = look.begins(Kind.SCOUT), look.is_of(Kind.SCOUT), tame(gradients)
        level = jnp.where(begins, held.plain - jnp.mean(raw, axis=0), carry.level)
        own = costs + (look.at - held.lane.x) @ level
        told = Scouted(raw + level, costs)
        values = jnp.where(scout, own, seen.parts[on.part])
        slopes = jnp.where(scout, told.slopes, seen.part_slopes[on.part])
        lanes = _after(on, carry, values, slopes)
        return after._replace(
            lanes=unless_idle(carry.idle, lanes, carry.lanes),
            level=level,
            scouted=jax.tree.map(lambda new, old: jnp.where(begins, new, old), told, carry.scouted),
        )

    return lax.cond(look.is_of(Kind.SCAN, Kind.APART, Kind.SCOUT), changed, lambda: after)


def _afresh(on: Ground, carry: Carry) -> Lane:
    """Lanes that start with nothing but part 0 of a scan, which starts from the best place."""
    held, every = carry.held, carry.lanes.x.shape
    scan = carry.look.is_of(Kind.SCAN)
    at_home = scan & (on.part == 0)
    return Lane(
        jnp.broadcast_to(held.lane.x, every),
        jnp.where(at_home, held.parts[0], jnp.inf),
        jnp.where(at_home[:, None], held.slopes[0], 0.0),
        jnp.broadcast_to(held.lane.bend, every),
        jnp.broadcast_to(jnp.where(scan, held.lane.reach, FAR), every),
        Between(jnp.full(every, -jnp.inf), jnp.full(every, jnp.inf)) if on.by_coordinate else None,
    )


def _after(on: Ground, carry: Carry, values: Float[Array, " L"], slopes: Array) -> Lane:
    """The best place of each lane, and what is known around it."""
    look = carry.look
    scan, begins = look.is_of(Kind.SCAN), look.begins(Kind.SCOUT)
    lanes = jax.tree.map(
        lambda new, old: jnp.where(begins | look.begins(Kind.SCAN), new, old),
        _afresh(on, carry),
        carry.lanes,
    )
    lower = jnp.isfinite(values) & (values < lanes.value)
    steps = ~scan & ~begins
    taken = lower
    if on.by_coordinate:
        parts, change = jax.vmap(taken_by_coordinate)(lanes, look.at, slopes)
        taken = jnp.where(steps, parts, lower[:, None])
        values = jnp.where(steps, lanes.value + change, values)
    before, exact = lanes, jnp.zeros(on.x.size)
    known_after = functools.partial(after_look, alone=on.objective.additive)
    lanes = jax.vmap(known_after, in_axes=(0, 0, 0, 0, None, None, 0, None))(
        lanes, look.at, values, slopes, exact, exact, taken, steps
    )
    if on.by_coordinate:
        known = jax.vmap(bracketed)(before, lanes, look.at, slopes)
        lanes = jax.tree.map(lambda new, old: jnp.where(steps, new, old), known, lanes)
    spacing = on.in_scan(on.places.apart, look)
    fresh = (scan & lower)[:, None]
    guess = jnp.maximum(jnp.abs(slopes) / spacing, FLATTEST)
    guess = raised(guess, spacing, alone=on.objective.additive)
    bend = jnp.where(fresh, guess, lanes.bend)
    # At a kink any curvature can be met; that of the last steps must not hold thetas fast.
    usual = 8.0 * jnp.sqrt(jnp.mean(jnp.square(slopes), axis=0)) / on.state.reach
    most = jnp.where(begins & (on.stage.plan.number > 1) & (usual > 0), usual, jnp.inf)
    bend = jnp.minimum(bend, most)
    if not on.kinked:
        # Between two kinks of a theta's few draws its cost is straight, where that of all is not.
        least = jnp.where(look.is_of(Kind.SCOUT), _STRAIGHTEST * carry.held.lane.bend, 0.0)
        bend = jnp.maximum(bend, jnp.minimum(least, most))
    return lanes._replace(bend=bend, reach=jnp.where(fresh, spacing, lanes.reach))

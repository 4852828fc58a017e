"""The looks of a stage: one loop, whose body looks at the averaged cost once.

What a look is for depends on its number, and the number of looks on the stage alone, so all runs of
a simulation do the same.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from postgrad.algorithm.decision_uncertainty import Scouted
from postgrad.algorithm.descents.search.best_place import with_best_place
from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.judgement import judged
from postgrad.algorithm.descents.search.local_step import (
    Lane,
    after_look,
    bracketed,
    taken_by_coordinate,
)
from postgrad.algorithm.descents.search.looks import Kind, Seen, standard_error, tame
from postgrad.algorithm.descents.search.next_look import with_next_look
from postgrad.algorithm.descents.search.state import Carry, Held
from postgrad.algorithm.sampled_objective import Draws


def look_around(on: Ground) -> Carry:
    """All looks."""
    x, state, d = on.x.ravel(), on.state, on.x.size
    zeros, none, lanes = jnp.zeros(d), jnp.zeros((on.groups, d)), on.lanes
    nowhere = jnp.full(d, jnp.inf)
    lane = Lane(x, jnp.asarray(jnp.inf), zeros, state.bend, state.reach, -nowhere, nowhere)
    every = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape)), lane)
    held = Held(lane, jnp.full(on.groups, jnp.inf), none, zeros)
    start = Carry(
        look=on.schedule.look(jnp.zeros((), jnp.int32), jnp.broadcast_to(x, (lanes, d))),
        held=held,
        sure=held,
        slack=jnp.zeros(()),
        lanes=every,
        candidate=jnp.zeros((), jnp.int32),
        matrix=state.matrix,
        step=zeros,
        compass=0.5 * state.reach,
        explained=state.explained | on.scans,
        jumped=~state.explained,
        stepped=jnp.asarray(False),
        least=jnp.full(on.groups, jnp.inf),
        others=state.others,
        recalled=x,
        composed=x,
        gains=zeros,
        switched=jnp.asarray(False),
        home=jnp.zeros((2, d)),
        level=zeros,
        scouted=Scouted(jnp.zeros((lanes, d)), *2 * (jnp.zeros(lanes),)),
    )

    def looks(i: Array, carry: Carry) -> Carry:
        # What is drawn does not change within the inner loop, and so is drawn before it.
        draws = on.draws(i > 0)
        end = jnp.where(i > 0, Kind.END, Kind.SCOUT)
        return lax.while_loop(
            lambda carry: carry.look.kind < end, functools.partial(_body, on, draws), carry
        )

    return lax.fori_loop(0, 2, looks, start)


def _body(on: Ground, draws: Draws, carry: Carry) -> Carry:
    """One look, what is made of it, and where to look next."""
    look = carry.look
    seen = _seen(on, draws, carry)
    judgement = judged(on, carry, seen)
    after = with_best_place(on, carry, seen, judgement)
    after = after._replace(lanes=_lanes_after(on, carry, seen))
    begins = look.begins(Kind.SCOUT)
    there = Scouted(seen.lane_slopes, seen.costs, seen.squares)
    here = jnp.stack([seen.slope, standard_error(seen.slopes)])
    values = jnp.where(look.is_of(Kind.SCOUT) | ~jnp.isfinite(seen.values), jnp.inf, seen.values)
    lowest = jnp.argmin(seen.values - carry.held.values)
    after = after._replace(
        recalled=jnp.where(look.is_of(Kind.RECALL), look.at[lowest], carry.recalled),
        explained=judgement.explained,
        jumped=carry.jumped | ~judgement.explained,
        stepped=jnp.where(look.is_of(Kind.NEAR), judgement.good, carry.stepped),
        least=jnp.minimum(carry.least, values),
        home=jnp.where(look.is_of(Kind.HOME), here, carry.home),
        level=seen.level,
        scouted=jax.tree.map(lambda new, old: jnp.where(begins, new, old), there, carry.scouted),
    )
    return with_next_look(on, after)


def _seen(on: Ground, draws: Draws, carry: Carry) -> Seen:
    """What all draws say, what each group says, and what each scout says."""
    look, held = carry.look, carry.held
    scout = look.is_of(Kind.SCOUT)
    reading = draws(jnp.tile(look.at, (on.rows, 1)))
    values, slopes = on.objective.groups(reading, on.groups)
    by_lane = jax.tree.map(
        lambda leaf: jnp.mean(leaf.reshape(on.rows, on.lanes, *leaf.shape[1:]), axis=0),
        reading,
    )
    raw = tame(by_lane.gradients)
    level = jnp.where(look.begins(Kind.SCOUT), held.plain - jnp.mean(raw, axis=0), carry.level)
    own = by_lane.costs + (look.at - held.lane.x) @ level
    slopes = tame(slopes)
    return Seen(
        values=values,
        slopes=slopes,
        value=jnp.mean(values),
        slope=tame(on.objective.slope(reading)),
        plain=tame(jnp.mean(reading.gradients, axis=0)),
        size=jnp.mean(jnp.abs(reading.costs)),
        lane_values=jnp.where(scout, own, values[on.group]),
        lane_slopes=jnp.where(scout, raw + level, slopes[on.group]),
        costs=by_lane.costs,
        squares=by_lane.squares,
        level=level,
    )


def _lanes_after(on: Ground, carry: Carry, seen: Seen) -> Lane:
    """The best place of each lane, and what is known around it."""
    look, lanes = carry.look, carry.lanes
    values, slopes = seen.lane_values, seen.lane_slopes
    scan, begins = look.is_of(Kind.SCAN), look.begins(Kind.SCOUT)
    lower = jnp.isfinite(values) & (values < lanes.value)
    lower = lower & look.is_of(Kind.SCAN, Kind.APART, Kind.SCOUT)
    steps = look.is_of(Kind.APART, Kind.SCOUT) & ~begins
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
    spacing = on.places.apart[jnp.clip(look.turn, 0, on.per_group - 1)][on.group]
    fresh = (scan & lower)[:, None]
    guess = jnp.maximum(jnp.abs(slopes) / spacing, 1e-300)
    bend = jnp.where(fresh, guess, lanes.bend)
    # At a kink any curvature can be met; that of the last steps must not hold thetas fast.
    usual = 4.0 * jnp.sqrt(jnp.mean(jnp.square(slopes), axis=0)) / on.state.reach
    most = jnp.where(begins & (on.stage.plan.number > 1) & (usual > 0), usual, jnp.inf)
    return lanes._replace(
        bend=jnp.minimum(bend, most), reach=jnp.where(fresh, spacing, lanes.reach)
    )

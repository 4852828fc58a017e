"""The looks of a stage: one loop, whose body looks at the averaged cost once.

What a look is for depends on its number, and the number of looks on the stage alone, so all runs of
a simulation do the same.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from postgrad.algorithm.decision_uncertainty import Scouted
from postgrad.algorithm.descents.search.best_place import with_best_place
from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.judgement import judged
from postgrad.algorithm.descents.search.lanes import with_lanes
from postgrad.algorithm.descents.search.local_step import Across, Between, Lane
from postgrad.algorithm.descents.search.looks import Kind, Seen, standard_error, tame
from postgrad.algorithm.descents.search.next_look import with_next_look
from postgrad.algorithm.descents.search.places import GROUPS
from postgrad.algorithm.descents.search.state import Carry, Held, Promising
from postgrad.algorithm.sampled_objective import Draws, Reading
from postgrad.numerics.every_run import unless_idle
from postgrad.numerics.small_matrices import times

_SAME = 0.7  # the logarithm of a factor of two
_FLAT = 1e-6  # how far a tangent must lie above F, as a share of F


def look_around(on: Ground) -> Carry:
    """All looks."""
    x, state, d = on.x.ravel(), on.state, on.x.size
    zeros, none, lanes = jnp.zeros(d), jnp.zeros((on.groups, d)), on.lanes
    anywhere = Between(jnp.full(d, -jnp.inf), jnp.full(d, jnp.inf)) if on.by_coordinate else None
    lane = Lane(x, jnp.asarray(jnp.inf), zeros, state.bend, state.reach, anywhere)
    every = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape)), lane)
    if on.kinked and on.x.size == 1:
        unknown = jnp.asarray(jnp.nan)
        lane = lane._replace(across=Across(unknown[None], unknown, unknown[None]))
    nobody = jnp.zeros(lanes if on.roams else 0)
    held = Held(lane, jnp.full(on.groups, jnp.inf), none, zeros, jnp.zeros(on.parts), nobody)
    start = Carry(
        look=on.schedule.look(jnp.zeros((), jnp.int32), jnp.broadcast_to(x, (lanes, d))),
        held=held,
        slack=jnp.zeros(()),
        lanes=every,
        candidate=jnp.zeros((), jnp.int32),
        matrix=state.matrix,
        step=zeros,
        compass=0.5 * state.reach,
        aside=x,
        better=jnp.zeros(()),
        explained=state.explained | on.scans,
        jumped=~state.explained,
        stepped=jnp.asarray(False),
        steady=jnp.asarray(False),
        failed=jnp.asarray(False),
        saved=jnp.asarray(jnp.inf),
        rested=jnp.asarray(False),
        idle=jnp.asarray(False),
        least=jnp.full(on.parts, jnp.inf),
        least_near=jnp.full(on.groups, jnp.inf),
        lowest=jnp.asarray(jnp.inf),
        others=state.others,
        promising=Promising(
            state.others, jnp.full(GROUPS, jnp.inf), jnp.zeros((GROUPS, d)), x, *jnp.zeros(2)
        ),
        composed=x,
        gains=zeros,
        switched=jnp.asarray(False),
        bent=jnp.asarray(False),
        home=jnp.zeros((2, d)),
        level=zeros,
        scouted=Scouted(jnp.zeros((lanes, d)), jnp.zeros(lanes)),
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
    reading = draws(jnp.tile(look.at, (on.rows, 1)))
    seen = _seen(on, reading)
    judgement = judged(on, carry, seen)
    after = with_best_place(on, carry, seen, judgement)
    here = jnp.stack([seen.slope, standard_error(seen.slopes)])
    values = jnp.where(jnp.isfinite(seen.values), seen.values, jnp.inf)
    parts = jnp.where(look.is_of(Kind.SCOUT) | ~jnp.isfinite(seen.parts), jnp.inf, seen.parts)
    home, near = look.is_of(Kind.HOME), look.is_of(Kind.NEAR) & ~on.explores(look, carry)
    single = home | near | look.is_of(Kind.OTHER, Kind.JUDGE, Kind.COMPOSE, Kind.AGAIN)
    saved = jnp.where(home, 0.0, carry.held.lane.value - after.held.lane.value)
    changed = _change_of_curvature(on, carry, after, seen)
    promising = after.promising
    after = after._replace(
        promising=promising._replace(lower=promising.lower + saved, still=promising.still + saved),
        explained=judgement.explained,
        jumped=carry.jumped | ~judgement.explained,
        stepped=jnp.where(near, judgement.good, carry.stepped),
        failed=near & ~judgement.good,
        saved=jnp.where(near, saved, jnp.inf),
        steady=near & jnp.all(jnp.abs(changed) < _SAME),
        least=jnp.minimum(carry.least, parts),
        least_near=jnp.minimum(carry.least_near, jnp.where(home | near, values, jnp.inf)),
        lowest=jnp.minimum(carry.lowest, jnp.where(single, jnp.mean(values), jnp.inf)),
        bent=carry.bent | _is_bent(on, carry, seen),
        home=jnp.where(home, here, carry.home),
    )
    after = _unless_idle(carry, after)
    after = with_lanes(on, carry, after, seen, reading)
    return with_next_look(on, after)


def _change_of_curvature(on: Ground, carry: Carry, after: Carry, seen: Seen) -> Array:
    """The logarithm by which a step changed what is known of curvature.

    In each coordinate; where coordinates interact, along the step.
    """
    if on.objective.additive:
        return jnp.log(after.held.lane.bend / carry.held.lane.bend)
    lane = carry.held.lane
    move = carry.look.at[0] - lane.x
    known = jnp.sum(move * times(carry.matrix, move))
    return jnp.log(jnp.sum(move * (seen.slope - lane.slope)) / known)


def _unless_idle(carry: Carry, after: Carry) -> Carry:
    """What is known after a look; as before it, if other runs alone needed the look."""
    new, structure = jax.tree.flatten(after)
    old = jax.tree.leaves(carry)
    # What has not changed stays as it is: the number of the look is the same in all runs.
    changed = [i for i, leaf in enumerate(new) if leaf is not old[i]]
    chosen = unless_idle(carry.idle, [new[i] for i in changed], [old[i] for i in changed])
    for i, leaf in zip(changed, chosen, strict=True):
        new[i] = leaf
    return jax.tree.unflatten(structure, new)


def _is_bent(on: Ground, carry: Carry, seen: Seen) -> Bool[Array, ""]:
    """Whether a tangent lies above F, by the same draws, so that F is not convex.

    In a scan: tangents at the places that parts look at, and at the best place of each part so far.
    Along a line: tangents there, and at the best place, by groups; in a scan of several coordinates
    those that bend upwards may hide one that does not. At remembered and new places: there only.
    """
    look, lanes, held = carry.look, carry.lanes, carry.held
    groups, parts = on.groups, on.parts

    def above(here: Array, there: Array, slope: Array, move: Float[Array, "n d"]) -> Array:
        over = here + jnp.sum(slope * move, axis=-1) - there
        size = seen.size + jnp.abs(here) + jnp.abs(there)
        return (over > _FLAT * size) & jnp.isfinite(here) & jnp.isfinite(there)

    def in_scan() -> Bool[Array, ""]:
        best = jax.tree.map(lambda leaf: leaf[:parts], lanes)
        move = look.at[:parts] - best.x
        bent = above(best.value, seen.parts, best.slope, move)
        bent = bent | above(seen.parts, best.value, seen.part_slopes, -move)
        # Part 0 starts from the best place, whose slope is known by its group only.
        return jnp.any(bent & (np.arange(parts) > 0))

    def on_line() -> Bool[Array, ""]:
        move = look.at[:groups] - held.lane.x
        bent = above(held.values, seen.values, held.slopes, move)
        return jnp.any(bent | above(seen.values, held.values, seen.slopes, -move))

    def elsewhere() -> Bool[Array, ""]:
        move = held.lane.x - look.at[:parts]
        return jnp.any(above(seen.parts, held.parts, seen.part_slopes, move))

    branches = [lambda: jnp.asarray(False), elsewhere, in_scan, on_line]
    which = sum(i * look.is_of(k) for i, k in enumerate((Kind.RECALL, Kind.SCAN, Kind.LINE), 1))
    return lax.switch(which, branches if on.x.size > 1 else branches[:3])


def _seen(on: Ground, reading: Reading) -> Seen:
    """What all draws say, and what each group says."""
    values, slopes = on.objective.groups(reading, on.groups, on.alike)
    parts, part_slopes = on.objective.groups(reading, on.parts, on.alike)
    return Seen(
        values=values,
        slopes=tame(slopes),
        value=jnp.mean(values),
        slope=tame(on.objective.slope(reading, on.alike)),
        plain=tame(jnp.mean(reading.gradients, axis=0)),
        size=jnp.mean(jnp.abs(reading.costs)),
        parts=parts,
        part_slopes=tame(part_slopes),
        each=(
            jnp.mean(reading.costs.reshape(on.rows, on.lanes), axis=0) if on.roams else jnp.zeros(0)
        ),
    )

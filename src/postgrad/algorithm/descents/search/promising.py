"""Places that may be lower than the best one: remembered, new, weighed against each other."""

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.looks import Kind, Seen
from postgrad.algorithm.descents.search.places import GROUPS
from postgrad.algorithm.descents.search.state import Carry, Promising

# Places that are nearer than this share of the window are not both remembered: with one decision,
# and with several, where the slopes of one valley have more sides.
_BESIDE, _BESIDE_IN_SEVERAL = 0.03, 0.15
_SAME = 0.01  # nor are nearer ones both weighed


def promising_after(on: Ground, carry: Carry, seen: Seen) -> Promising:
    """The promising places after a look."""
    look = carry.look
    finds = look.is_of(Kind.RECALL) | look.begins(Kind.JUDGE)
    branches = [
        lambda: carry.promising,
        lambda: _best_apart(on, carry, seen),
        lambda: _weighed(on, carry, seen),
    ]
    return lax.switch(finds + 2 * look.is_of(Kind.WEIGH), branches)


def others_after(
    on: Ground, carry: Carry, promising: Promising, switched: Bool[Array, ""]
) -> Float[Array, "8 d"]:
    """What is remembered: the best places of a scan, and what was left for another valley.

    The place that was left takes the room of the one that is gone to, or of the last.
    """
    look = carry.look
    others = jnp.where(look.begins(Kind.JUDGE), promising.at, carry.others)
    near = jnp.all(jnp.abs(others - look.at[0]) <= _beside(on), axis=1)
    slot = jnp.where(jnp.any(near), jnp.argmax(near), GROUPS - 1)
    left = switched & (np.arange(GROUPS) == slot)
    return jnp.where(left[:, None], carry.held.lane.x, others)


def _best_apart(on: Ground, carry: Carry, seen: Seen) -> Promising:
    """The best eight places so far, best first.

    Of those that were remembered and of new ones; after a scan also the best place of each part. So
    a valley in which no part has its best place is not forgotten, if it was remembered before. None
    is beside a better one, unless there is a hill between: unless its tangent lies above F there.
    """
    look, lanes, held, before = carry.look, carry.lanes, carry.held, carry.promising
    recalls = look.is_of(Kind.RECALL)
    at = jnp.where(recalls, look.at, lanes.x)[: on.parts]
    lower = jnp.where(recalls, seen.parts, lanes.value[: on.parts]) - held.parts
    slope = jnp.where(recalls, seen.part_slopes, lanes.slope[: on.parts])
    weighed = _SAME * on.wide
    # x itself is not weighed, but may have been proposed
    here = recalls & jnp.all(jnp.abs(at - held.lane.x) <= weighed, axis=1)
    beside = jnp.where(recalls, weighed, _beside(on))
    x, slopes = jnp.concatenate([before.at, at]), jnp.concatenate([before.slopes, slope])
    lower = jnp.where(here | jnp.isnan(lower), jnp.inf, lower)

    def next_one(i: Array, carry: tuple[Array, Promising]) -> tuple[Array, Promising]:
        lower, found = carry
        best = jnp.argmin(lower)
        way = x[best] - x
        near = jnp.all(jnp.abs(way) <= beside, axis=1)
        hill = lower + jnp.sum(slopes * way, axis=1) > lower[best]
        same = near & ~(hill & jnp.any(jnp.abs(way) > weighed, axis=1))
        found = found._replace(
            at=found.at.at[i].set(x[best]),
            lower=found.lower.at[i].set(lower[best]),
            slopes=found.slopes.at[i].set(slopes[best]),
        )
        return jnp.where(same, jnp.inf, lower), found

    start = jnp.concatenate([before.lower, lower]), before
    return lax.fori_loop(0, GROUPS, next_one, start)[1]


def _weighed(on: Ground, carry: Carry, seen: Seen) -> Promising:
    """What groups say of these places, then of a step from each; few draws say it of a few.

    A valley that was remembered may have moved, and its bottom with it.
    """
    look, few, before = carry.look, on.groups, carry.promising
    lower = seen.values - carry.held.values
    better = (look.turn == 0) | (lower < before.lower[:few])
    at, slopes = (
        old.at[:few].set(jnp.where(better[:, None], new, old[:few]))
        for new, old in ((look.at[:few], before.at), (seen.slopes, before.slopes))
    )
    lower = jnp.where(better, jnp.where(jnp.isnan(lower), jnp.inf, lower), before.lower[:few])
    lower = jnp.full(GROUPS, jnp.inf).at[:few].set(lower)
    best = jnp.argmin(lower)
    hopeful = lower[best] < 0.0
    return Promising(
        at,
        lower,
        slopes,
        jnp.where(hopeful, at[best], before.best),
        *(jnp.where(hopeful, lower[best], old) for old in (before.hope, before.still)),
    )


def _beside(on: Ground) -> Float[Array, " d"]:
    return (_BESIDE if on.x.size == 1 else _BESIDE_IN_SEVERAL) * on.wide

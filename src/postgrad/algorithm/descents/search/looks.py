"""What the looks of a stage are for, and what a look sees."""

import enum
import functools
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Kind(enum.IntEnum):
    """What a look is for. A stage takes its looks in this order."""

    HOME = 0  # at x_t
    RECALL = 1  # at places that are remembered and at new ones, one for each part of the draws
    WEIGH = 2  # at the best eight of these, one for each group, and a step from each
    OTHER = 3  # at the best of these
    SCAN = 4  # at places of the whole set, one for each part of the draws
    APART = 5  # a step from the best place of each part
    JUDGE = 6  # at the best place of the part around x_t, then at the best two of all parts
    LINE = 7  # along a coordinate through the best place, a place for each group
    COMPOSE = 8  # at what the best places of the lines make together
    PROBE = 9  # beside the best place, for each group along another coordinate
    NEAR = 10  # a step from the best place
    AGAIN = 11  # at the best of the remembered and new places, if steps have not led as low
    SCOUT = 12  # by each of some single thetas: at the best place, then towards its own optimum
    END = 13


class Look(NamedTuple):
    """A look that is about to be taken.

    Attributes:
        number: Of the look in its stage.
        kind: What it is for: a `Kind`.
        turn: Which one of its kind.
        last: Whether it is the last of its kind.
        at: A place for each lane; the same for all, where all draws look at one place.
    """

    number: Int[Array, ""]
    kind: Int[Array, ""]
    turn: Int[Array, ""]
    last: Bool[Array, ""]
    at: Float[Array, "L d"]

    def is_of(self, *kinds: Kind) -> Bool[Array, ""]:
        """Whether it is of one of these kinds."""
        return functools.reduce(operator.or_, [self.kind == kind for kind in kinds])

    def begins(self, kind: Kind) -> Bool[Array, ""]:
        """Whether it is the first of its kind, and of this kind."""
        return (self.kind == kind) & (self.turn == 0)


class Schedule:
    """How many looks of each kind a stage takes."""

    def __init__(self, counts: Mapping[Kind, Any]):
        self.counts = jnp.stack([jnp.asarray(counts.get(kind, 0)) for kind in Kind][:-1])
        self.ends = jnp.cumsum(self.counts)

    def look(self, number: Int[Array, ""], at: Float[Array, "L d"]) -> Look:
        """The look of this number, at these places."""
        over = number >= self.ends
        kind = jnp.sum(over, dtype=jnp.int32)
        turn = number - jnp.sum(jnp.where(over, self.counts, 0), dtype=jnp.int32)
        return Look(number, kind, turn, jnp.any(number + 1 == self.ends), at)


class Seen(NamedTuple):
    """What a look saw.

    Attributes:
        values: F by each group of draws.
        slopes: Its gradient by each group.
        value: F by all draws.
        slope: Its gradient by all draws.
        plain: The gradient of the plain mean over theta, whatever the risk.
        size: The mean absolute cost.
        parts: F by each of the parts that look at places by themselves: see `Ground.parts`.
        part_slopes: Its gradient by each of these.
        each: The mean cost of each lane; empty where nobody asks.
    """

    values: Float[Array, " G"]
    slopes: Float[Array, "G d"]
    value: Float[Array, ""]
    slope: Float[Array, " d"]
    plain: Float[Array, " d"]
    size: Float[Array, ""]
    parts: Float[Array, " P"]
    part_slopes: Float[Array, "P d"]
    each: Float[Array, " l"]


def tame(slope: Array) -> Array:
    """Infinite slopes, as on the boundary of sqrt(x), made large; undefined ones zero."""
    return jnp.nan_to_num(slope, nan=0.0, posinf=1e30, neginf=-1e30)


def standard_error(parts: Float[Array, "G ..."]) -> Array:
    """The standard error of the mean over groups, entry by entry; NaN if there is one group."""
    count = parts.shape[0]
    if count == 1:
        return jnp.full(parts.shape[1:], jnp.nan)
    off = parts - jnp.sum(parts, axis=0) / count
    return jnp.sqrt(jnp.sum(jnp.square(off), axis=0) / (count * (count - 1)))


def known_error(parts: Float[Array, " G"]) -> Array:
    """The same of numbers; zero where it is not known: of one group, or of infinite costs."""
    error = standard_error(parts)
    return jnp.where(jnp.isfinite(error), error, 0.0)

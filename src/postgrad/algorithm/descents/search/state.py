"""What a search carries: from look to look within a stage, and from stage to stage."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import Scouted
from postgrad.algorithm.descents.descent import Plan
from postgrad.algorithm.descents.search.local_step import Lane
from postgrad.algorithm.descents.search.looks import Look
from postgrad.algorithm.descents.search.places import GROUPS

# So many thetas are looked at one by one, if there are draws enough for each of them.
_SCOUTS, _DRAWS_EACH = 64, 16
FEWEST_SCOUTS = 16  # fewer do not tell a spread
# From so many draws on they are a rule of integration rather than a sample. They do not depend on
# the seed: the same data lead to the same decision, and the runs of a simulation share them.
_FINE = 1024
_WATCHED = 256  # of more numbers of theta the first ones tell whether the posterior has moved


class Held(NamedTuple):
    """The best place so far by all draws.

    Attributes:
        lane: The place, its value and slope, and what is known of the curvature.
        values: F there by each group of draws.
        slopes: Its slope by each group.
        plain: The slope of the plain mean over theta, whatever the risk.
        parts: F by each of the smaller groups that look at remembered places.
        each: F by each lane; empty where nobody asks.
    """

    lane: Lane
    values: Float[Array, " G"]
    slopes: Float[Array, "G d"]
    plain: Float[Array, " d"]
    parts: Float[Array, " P"]
    each: Float[Array, " l"]


class Track(eqx.Module):
    """What is remembered from stage to stage.

    Attributes:
        bend: The curvature of F in each coordinate.
        matrix: The curvature of F, where coordinates interact; else empty.
        reach: How far the minimum may be expected to move, in each coordinate.
        variance: What simulation noise has left in x_t, as the expected excess of its cost.
        others: The best places of the groups of the last scan, any of which may become the best.
        explained: Whether slopes explained values when last compared.
        convex: Whether F was convex as far as the last scan, and looks elsewhere since, have seen.
        believed: Mean and standard deviation of theta at the last scan, or at the last look
            elsewhere that found F convex; of the first numbers of theta.
    """

    bend: Float[Array, " d"]
    matrix: Float[Array, "k k"]
    reach: Float[Array, " d"]
    variance: Float[Array, ""]
    others: Float[Array, "8 d"]
    explained: Bool[Array, ""]
    convex: Bool[Array, ""]
    believed: Float[Array, "2 p"]


class Promising(NamedTuple):
    """Places that may be lower than the best one, none beside another, best first.

    Attributes:
        at: The places.
        lower: By how much F is lower there than at the best place, by the draws that looked:
            negative if it is, infinite if none did.
        slopes: The slope of F there, by the same draws.
        best: The best of them, by groups of draws.
        hope: By how much F is lower there, by the same draws; negative if it is.
        still: The same against the best place so far.
    """

    at: Float[Array, "8 d"]
    lower: Float[Array, " 8"]
    slopes: Float[Array, "8 d"]
    best: Float[Array, " d"]
    hope: Float[Array, ""]
    still: Float[Array, ""]


class Carry(NamedTuple):
    """What the loop carries from look to look.

    Attributes:
        look: The next look.
        held: The best place so far by all draws.
        slack: By how much the values of `held` may be off.
        lanes: The best place of each lane: of parts of the draws, and in the end of single thetas.
        candidate: The part whose best place is looked at by all draws.
        matrix: The curvature of F, where coordinates interact; else empty.
        step: From the best place to where F is likely to be least.
        compass: Where values alone are believed: the next step along each coordinate; where
            coordinates interact, how long steps are.
        aside: The best of the places around the best one that lanes have looked at.
        better: By how much F is lower there, by the same lane; negative if it is.
        explained: Whether slopes explain how values change.
        jumped: Whether they did not at any look.
        stepped: Whether the last step from the best place was taken.
        steady: Whether the last step met about the curvature that was expected.
        failed: Whether the last look was at a step that was not taken.
        saved: What the last step saved; infinite if the last look was no step.
        rested: Whether steps from the best place have nothing left to save.
        idle: Whether the next look is needed by other runs only.
        least: The least value that each part of the draws has seen.
        least_near: The same at x_t and at steps from the best place.
        lowest: The least value that all draws together have seen at one place.
        others: Places that are remembered: see `Track`.
        promising: The best of these and of new places so far.
        composed: What the best places of the lines make together.
        gains: By how much F changes along each of them.
        switched: Whether the search went to another valley.
        bent: Whether a place was met whose tangent lies above F elsewhere: F is not convex.
        home: The slope at x_t, and its standard error.
        level: What the slopes of scouts are moved by: see `with_lanes`.
        scouted: What single thetas say at the best place.
    """

    look: Look
    held: Held
    slack: Float[Array, ""]
    lanes: Lane
    candidate: Int[Array, ""]
    matrix: Float[Array, "k k"]
    step: Float[Array, " d"]
    compass: Float[Array, " d"]
    aside: Float[Array, " d"]
    better: Float[Array, ""]
    explained: Bool[Array, ""]
    jumped: Bool[Array, ""]
    stepped: Bool[Array, ""]
    steady: Bool[Array, ""]
    failed: Bool[Array, ""]
    saved: Float[Array, ""]
    rested: Bool[Array, ""]
    idle: Bool[Array, ""]
    least: Float[Array, " P"]
    least_near: Float[Array, " G"]
    lowest: Float[Array, ""]
    others: Float[Array, "8 d"]
    promising: Promising
    composed: Float[Array, " d"]
    gains: Float[Array, " d"]
    switched: Bool[Array, ""]
    bent: Bool[Array, ""]
    home: Float[Array, "2 d"]
    level: Float[Array, " d"]
    scouted: Scouted


def some_numbers(theta: PyTree) -> int:
    """How many numbers of theta are watched."""
    return min(sum(jnp.size(leaf) for leaf in jax.tree.leaves(theta)), _WATCHED)


def believed(thetas: PyTree) -> Float[Array, "2 p"]:
    """Mean and standard deviation of the first numbers of theta, by draws of theta."""
    columns: list[Array] = []
    for leaf in jax.tree.leaves(thetas):
        left = _WATCHED - sum(column.shape[1] for column in columns)
        columns.append(leaf.reshape(leaf.shape[0], -1)[:, :left])
    numbers = jnp.concatenate(columns, axis=1)
    return jnp.stack([jnp.mean(numbers, axis=0), jnp.std(numbers, axis=0)])


def root(plan: Plan) -> Array:
    """What a stage's draws derive from: of very many, the stage's number alone."""
    return random.key(plan.number) if plan.total >= _FINE else plan.key


def lane_count(plan: Plan) -> int:
    """How many thetas are looked at one by one."""
    count = math.gcd(plan.samples[0], _SCOUTS)
    while count > 1 and plan.total < _DRAWS_EACH * count:
        count //= 2
    return count


def group_count(plan: Plan) -> int:
    """Into how many groups draws are divided."""
    return math.gcd(lane_count(plan), GROUPS)

"""Whether a place is taken: by the same draws, against the best place so far."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from postgrad.algorithm.descents.search.ground import Ground
from postgrad.algorithm.descents.search.local_step import saving, taken_by_coordinate
from postgrad.algorithm.descents.search.looks import Kind, Seen, known_error
from postgrad.algorithm.descents.search.state import Carry

_BEYOND_NOISE = 2.0  # standard errors
_ROUNDING = 1e-11  # of a mean cost
NEWS = 9.0  # a move of this many times its expected square is news, not noise
# The standard errors by which values and slopes may disagree: where slopes are noisy by themselves,
# and where they are those of the sampled values, but few draws may meet a jump.
_NOISY, _CLEAN = 4.0, 1.0
_CLEAR = 2.0  # times what a step saves: what values may be off if coordinates are put together


class Judgement(NamedTuple):
    """What is made of a look.

    Attributes:
        good: Whether the place becomes the best one.
        taken: The same, or which of its coordinates do.
        value: F at the best place so made.
        values: F there by each group.
        explained: Whether slopes explain how values change.
        elsewhere: Whether the place is in another valley: farther off than steps reach, or lower
            than they promise.
        slack: By how much the values may be off that were put together by coordinates.
    """

    good: Bool[Array, ""]
    taken: Bool[Array, ""] | Bool[Array, " d"]
    value: Float[Array, ""]
    values: Float[Array, " G"]
    explained: Bool[Array, ""]
    elsewhere: Bool[Array, ""]
    slack: Float[Array, ""]


def judged(on: Ground, carry: Carry, seen: Seen) -> Judgement:
    """Whether the place that was looked at is taken.

    A step is, if F is no higher there; a place in another valley only if F is lower by two standard
    errors of the difference, and by more than a step from the best place is likely to save, or
    after the last step if steps have not saved as much.
    Without values a step is taken, unless it ends steeply uphill.

    Args:
        on: What all looks share.
        carry: What was known before the look.
        seen: What it saw.
    """
    look, held = carry.look, carry.held
    explores, finite = on.explores(look, carry), jnp.isfinite(seen.value)
    near = look.is_of(Kind.NEAR) & ~explores
    move = look.at[0] - held.lane.x
    elsewhere = jnp.any(jnp.abs(move) > held.lane.reach)
    explained = jnp.asarray(True)
    if on.has_values:
        explained = _explained(carry, seen, move, _NOISY if on.noisy else _CLEAN)
    explained = jnp.where(near & finite, explained, carry.explained)
    if on.has_values:
        lower = _is_lower(on, carry, seen)
    else:
        lower = jnp.sum(seen.slope * move) <= -0.25 * jnp.sum(held.lane.slope * move)
    single = look.is_of(Kind.OTHER, Kind.JUDGE, Kind.COMPOSE, Kind.AGAIN) | near
    elsewhere = elsewhere | look.is_of(Kind.OTHER, Kind.AGAIN)
    good = look.is_of(Kind.HOME) | (single & finite & lower)
    if not on.by_coordinate:
        return Judgement(good, good, seen.value, seen.values, explained, elsewhere, jnp.zeros(()))
    # Each coordinate is judged by itself, until the last step looks at what that made.
    last = near & look.last & (carry.slack > 0.0)
    parts, change = taken_by_coordinate(held.lane, look.at[0], seen.slope)
    bend = 0.5 * jnp.abs((seen.slope - held.lane.slope) * move)
    # A coordinate that overshoots far could hide that another one meets a jump.
    clear = jnp.sum(bend) <= -_CLEAR * change
    alone = near & ~last & carry.explained & explained & finite & clear
    taken = jnp.where(alone, parts, good | last)
    # Where all coordinates are taken, nothing was put together.
    guessed = alone & ~(jnp.all(parts | (move == 0.0)) & lower)
    value = jnp.where(guessed, held.lane.value + change, seen.value)
    shares = 0.5 * (seen.slopes + held.slopes) * move
    values = jnp.where(guessed, held.values + shares @ taken, seen.values)
    slack = jnp.where(guessed, carry.slack + jnp.sum(jnp.where(taken, bend, 0.0)), 0.0)
    good = good | alone | last
    slack = jnp.where(good, slack, carry.slack)
    return Judgement(good, taken, value, values, explained, elsewhere, slack)


def within_steps(on: Ground, carry: Carry) -> Float[Array, ""]:
    """By how much a remembered or new place must be lower to be no matter of steps.

    By more than the next step is likely to save; and where steps could lead there, as F is convex
    and the place is near, by more than the minimum is expected to have moved.
    """
    lane = carry.held.lane
    promised = jnp.maximum(saving(lane, carry.matrix, carry.step), 0.0)
    far = jnp.any(jnp.abs(carry.promising.best - lane.x) > lane.reach) | ~on.state.convex
    return jnp.where(carry.explained, promised, 0.0) + jnp.where(far, 0.0, NEWS * on.state.variance)


def _is_lower(on: Ground, carry: Carry, seen: Seen) -> Bool[Array, ""]:
    look = carry.look
    better = seen.values - carry.held.values
    error = known_error(better)
    # Slopes are more exact than differences of values that differ by rounding.
    blur = _BEYOND_NOISE * error if on.noisy else 0.0
    downhill = look.is_of(Kind.NEAR) & carry.explained
    ahead = jnp.where(look.is_of(Kind.OTHER), within_steps(on, carry), 0.0)
    needed = jnp.where(downhill, _ROUNDING * seen.size + blur, -_BEYOND_NOISE * error - ahead)
    here = look.is_of(Kind.NEAR) | (look.is_of(Kind.JUDGE) & (carry.candidate == 0))
    needed = jnp.where(here & ~downhill, 0.0, needed)
    down = jnp.mean(better)
    return jnp.where(downhill, down <= needed, down < needed)


def _explained(
    carry: Carry, seen: Seen, move: Float[Array, " d"], errors: float
) -> Bool[Array, ""]:
    """Whether values change as slopes say, within their noise and the change of slopes."""
    held = carry.held
    between = seen.values - held.values - 0.5 * jnp.sum((seen.slopes + held.slopes) * move, axis=-1)
    bend = 0.5 * jnp.sum(jnp.abs((seen.slope - held.lane.slope) * move))
    rounding = 1e-9 * (jnp.abs(seen.value) + jnp.abs(held.lane.value))
    allowed = errors * known_error(between) + bend + rounding + carry.slack
    return jnp.abs(jnp.mean(between)) <= allowed

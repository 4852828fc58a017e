"""The best whole-number decision by the value of F, the averaged cost on a stage's fixed draws.

One loop computes F, whatever for; what is tried comes in lists, one after the other:

1. the relaxed decision, rounded;
2. up to six entries: up to 1,000 points around it, each by a sixteenth of the draws, and then the
   32 that are lowest, and its neighbours, by all draws;
3. from the best so far each entry one value up, one down, and to zero;
4. what marginal allocation makes of these moves and, where F is not a sum over entries, the best
   exchanges of two moves as well; then again from 3, until nothing is lower;
5. with entries that are any number: steps of these downhill, until none is lower.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from postgrad.algorithm.descents.descent import Stage
from postgrad.algorithm.sampled_objective import Reading
from postgrad.algorithm.whole_numbers.moves import (
    MOST,
    MOVES,
    Budgets,
    allocated,
    bracket,
    keeps,
    moves,
    targets,
)
from postgrad.numerics.small_matrices import positive_solve
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.values import Values
from postgrad.problem.feasible.whole.whole_set import rounded
from postgrad.problem.problem import Decision

_FEW = 6  # entries at most of which combinations are enumerated
_PARTS = 16  # of the draws, each of which looks at points by itself
_SHORT, _PAIRS = 32, 16  # points on the short list; exchanges that are tried at once
_NEAR, _NEXT = 4, 1  # how near to the rounded decision points are on the short list anyway
_ROUNDS = 40  # lists at most
_ROUNDING = 1e-12  # of F: smaller differences are none
# Kinds of lists.
_BASE, _SCREEN, _SHORT_LIST, _SINGLE, _TOGETHER, _SLOPE, _STEP, _END = range(8)
_STEPS = np.asarray([1.0, 0.5, 2.0, 0.25, 0.1, 0.02])  # of entries that are any number


class Carry(NamedTuple):
    """What is known between two lists.

    Attributes:
        kind: What the next list is for.
        round: How many lists there were.
        at: The positions of the best decision so far.
        value: F there.
        share: How much of their response entries take that are any number: one or zero.
        short: The numbers of the points on the short list.
        shorts: How many there are.
        changes: By how much each move from the best decision raises F.
        stale: Which of these must be computed.
        shift: How far entries that are any number went on from there.
        slope: The slope of F at the last look; empty where all entries have lots.
    """

    kind: Int[Array, ""]
    round: Int[Array, ""]
    at: Float[Array, " d"]
    value: Float[Array, ""]
    share: Float[Array, ""]
    short: Int[Array, " s"]
    shorts: Int[Array, ""]
    changes: Float[Array, "3 d"]
    stale: Bool[Array, "3 d"]
    shift: Float[Array, " d"]
    slope: Float[Array, " k"]


class Tried(NamedTuple):
    """A list of decisions to try.

    Attributes:
        at: Their positions.
        length: How many there are; the rest is padding.
        number: Which move a decision is for, in lists of single moves.
    """

    at: Float[Array, "n d"]
    length: Int[Array, ""]
    number: Int[Array, " n"]


class Choice:
    """The decisions around a relaxed one, and F on a stage's draws.

    Attributes:
        stage: The stage.
        readings: A place for each row of draws -> what they read there.
        feasible: X.
        line: The values of each entry.
        x: The relaxed decision, as a vector.
        shape: The shape of decisions.
        budgets: What entries share.
        additive: Whether F is a sum over entries.
        mixed: Whether entries may be any number.
        curvature: That of F, as far as it is known.
        response: How such entries follow the others, to second order: -A_cc^-1 A_cw.
        rows: How many rows of draws there are.
        parts: Into how many parts these are divided.
        alike: See `SampledObjective.alike`.
        start: The positions of the rounded decision.
        screens: Whether points are enumerated.
        size: How long lists are.
    """

    def __init__(
        self,
        stage: Stage,
        readings: Callable[[Float[Array, "m d"]], Reading],
        feasible: FeasibleSet,
        values: Values,
        x: Decision,
        curvature: Float[Array, "d d"],
    ):
        self.stage, self.readings, self.feasible = stage, readings, feasible
        self.x, self.shape = x.ravel(), x.shape
        d = x.size
        self.line = values.line(self.x)
        self.budgets = Budgets(*feasible.budgets(d))
        self.additive = stage.objective.additive
        self.mixed = d > 1 and not values.all_lots
        self.curvature = curvature
        self.response = self._response() if self.mixed else jnp.zeros((d, d))
        self.rows = stage.plan.samples[0]
        self.parts = math.gcd(self.rows, _PARTS)
        self.alike = stage.objective.alike(stage.thetas)
        self.start = rounded(self.line, self.x, *self.budgets)
        self.screens = d <= _FEW
        self.size = max(_STEPS.size, MOVES * d, _PAIRS + 1)
        if self.screens:
            self.size = max(self.size, -(-MOST // self.parts) * self.parts, _SHORT + 1)
            self.bracket = bracket(self.line, self.start)

    def decide(self) -> tuple[Decision, Bool[Array, ""]]:
        """The best decision that was found, and whether there is none better, if F is convex."""
        d = self.x.size
        begin = Carry(
            kind=jnp.asarray(_BASE),
            round=jnp.asarray(0),
            at=self.start,
            value=jnp.asarray(jnp.inf),
            share=jnp.zeros(()),
            short=jnp.zeros(_SHORT, int),
            shorts=jnp.asarray(0),
            changes=jnp.full((MOVES, d), jnp.inf),
            stale=jnp.ones((MOVES, d), bool),
            shift=jnp.zeros(d),
            slope=jnp.zeros(d if self.mixed else 0),
        )

        def goes_on(carry: Carry) -> Array:
            return (carry.kind < _END) & (carry.round < _ROUNDS)

        end = lax.while_loop(goes_on, self._list, begin)
        return self._decision(end.at, end.share, end.shift).reshape(self.shape), self._exact()

    def _decision(self, at: Float[Array, " d"], share: Array, shift: Array) -> Float[Array, " d"]:
        """The decision at some positions."""
        value = self.line.value(at)
        if not self.mixed:
            return value
        whole = self.line.whole
        follow = self.x + share * (self.response @ jnp.where(whole, value - self.x, 0.0))
        goal = jnp.where(whole, value, follow + shift)
        near = self.feasible.relaxation.project(goal.reshape(self.shape)).ravel()
        return jnp.where(whole, value, near)

    def _solved(self, right: Float[Array, "n d"]) -> Float[Array, "n d"]:
        """A_cc^-1 b of the entries that are any number; zero where no curvature is known."""
        any_number = ~self.line.whole
        both = any_number[:, None] & any_number
        own = jnp.where(both, self.curvature, np.eye(any_number.size))
        found = jnp.where(any_number, positive_solve(own, jnp.where(any_number, right, 0.0)), 0.0)
        return jnp.where(jnp.all(jnp.isfinite(found)), found, 0.0)

    def _response(self) -> Float[Array, "d d"]:
        """How entries that are any number move with the others."""
        return -self._solved(jnp.where(self.line.whole[:, None], self.curvature.T, 0.0)).T

    def _exact(self) -> Bool[Array, ""]:
        """Whether what is found is the best decision, if F is convex; see `allocated`."""
        whole = self.line.whole
        price = self.budgets.weights * self.line.step
        shares = (price > 0.0) & whole
        most = jnp.max(jnp.where(shares, price, -jnp.inf), axis=1, initial=-jnp.inf)
        least = jnp.min(jnp.where(shares, price, jnp.inf), axis=1, initial=jnp.inf)
        alike = (most <= least * (1.0 + _ROUNDING)) & ~jnp.any(shares & self.line.zero, axis=1)
        exact = jnp.all(alike) & self.additive
        if self.screens:
            exact = exact | (self.bracket.all & jnp.all(whole))
        return exact

    def _list(self, carry: Carry) -> Carry:
        """One list of decisions: F at each, and what is made of it."""
        kinds = [self._base, self._screen, self._short_list, self._single, self._together]
        after: list[Callable[..., Carry]] = [
            self._after_base,
            self._after_screen,
            self._after_short,
            self._after_single,
            self._after_together,
        ]
        way = jnp.zeros(self.x.size)
        if self.mixed:
            kinds += [self._here, self._steps]
            after += [self._after_slope, self._after_step]
            way = self._solved(carry.slope[None])[0]
        tried: Tried = lax.switch(carry.kind, kinds, carry)
        in_parts = (carry.kind == _SCREEN) if self.screens else jnp.asarray(False)
        base, stage = carry.kind == _BASE, self.stage
        tile = self.rows // self.parts

        def one_look(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            i, scores, slope = state
            first = jnp.where(in_parts, i * self.parts, i)
            which = first + jnp.where(in_parts, np.arange(self.parts), 0)
            share = jnp.where(base, 1.0 * (i == 1), carry.share)
            step = jnp.where(carry.kind == _STEP, jnp.asarray(_STEPS)[i % _STEPS.size], 0.0)
            shift = carry.shift - step * way
            places = jax.vmap(lambda at: self._decision(at, share, shift))(tried.at[which])
            reading = self.readings(jnp.tile(places, (tile, 1)))
            each = stage.objective.groups(reading, self.parts, self.alike)[0]
            whole = stage.objective.groups(reading, 1, self.alike)[0]
            value = jnp.where(in_parts, each, whole[0])
            value = jnp.where(jnp.isnan(value), jnp.inf, value)
            # Past the end of this decision's score, later looks write over what is written here.
            scores = lax.dynamic_update_slice(scores, value, (first,))
            slope = stage.objective.slope(reading, self.alike) if self.mixed else slope
            return i + 1, scores, slope

        looks = jnp.where(in_parts, -(-tried.length // self.parts), tried.length)
        empty = jnp.full(self.size + self.parts, jnp.inf)
        begin = jnp.asarray(0), empty, carry.slope
        _, scores, slope = lax.while_loop(lambda state: state[0] < looks, one_look, begin)
        carry = carry._replace(slope=slope)
        scores = jnp.where(np.arange(self.size) < tried.length, scores[: self.size], jnp.inf)
        carry = lax.switch(carry.kind, after, carry, tried, scores)
        return carry._replace(round=carry.round + 1)

    # The lists, and what is made of each.

    def _padded(self, at: Float[Array, "n d"], count: Array, number: Array | None = None) -> Tried:
        rest = self.size - at.shape[0]
        numbers = jnp.zeros(at.shape[0], int) if number is None else number
        return Tried(
            jnp.pad(at, ((0, rest), (0, 0)), mode="edge"),
            jnp.asarray(count),
            jnp.pad(numbers, (0, rest)),
        )

    def _base(self, carry: Carry) -> Tried:
        """The rounded decision, with the response of entries that are any number and without."""
        return self._padded(jnp.stack([carry.at, carry.at]), jnp.asarray(1 + self.mixed))

    def _after_base(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        del tried
        responds = scores[1] < scores[0]
        if self.screens:
            kind = jnp.where(self._count() > 0, _SCREEN, _SINGLE)
        else:
            kind = jnp.asarray(_SINGLE)
        value = jnp.minimum(scores[0], scores[1])
        return carry._replace(kind=kind, value=value, share=1.0 * responds)

    def _count(self) -> Int[Array, ""]:
        """How many points are enumerated."""
        count = self.bracket.size
        if self.additive and self.x.size > 1:  # marginal allocation finds the others' best one
            count = jnp.where(self.bracket.all, count, 0)
        return count

    def _screen(self, carry: Carry) -> Tried:
        """All points of the bracket."""
        del carry
        if not self.screens:
            return self._padded(self.start[None], jnp.asarray(0))
        index = jnp.arange(self.size)
        points = self.bracket.point(jnp.minimum(index, self.bracket.size - 1))
        return self._padded(points, self._count())

    def _after_screen(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        if not self.screens:
            return carry
        apart = jnp.sum(jnp.abs(tried.at - self.start), axis=1)
        near = apart <= (_NEAR if self.x.size == 1 else _NEXT)
        there = (np.arange(self.size) < tried.length) & keeps(self.line, tried.at, self.budgets)
        rank = jnp.where(there, jnp.where(near, -jnp.inf, scores), jnp.inf)
        _, short = lax.top_k(-rank, _SHORT)
        shorts = jnp.minimum(jnp.sum(there), _SHORT)
        return carry._replace(kind=jnp.asarray(_SHORT_LIST), short=short.astype(int), shorts=shorts)

    def _short_list(self, carry: Carry) -> Tried:
        """The points that are lowest by parts of the draws."""
        if not self.screens:
            return self._padded(self.start[None], jnp.asarray(0))
        return self._padded(self.bracket.point(carry.short), carry.shorts)

    def _after_short(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        return self._best(carry, tried, scores)._replace(kind=jnp.asarray(_SINGLE))

    def _single(self, carry: Carry) -> Tried:
        """Each move by itself, of those that are not known yet."""
        to, possible = targets(self.line, carry.at)
        wanted = (carry.stale & possible).ravel()
        (number,) = jnp.nonzero(wanted, size=wanted.size, fill_value=0)
        entry = number % self.x.size
        here = np.arange(self.x.size) == entry[:, None]
        at = jnp.where(here, to.ravel()[number][:, None], carry.at)
        return self._padded(at, jnp.sum(wanted), number)

    def _after_single(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        number = jnp.where(np.arange(self.size) < tried.length, tried.number, self.size)
        changes = jnp.where(carry.stale, jnp.inf, carry.changes).ravel()
        changes = changes.at[number].set(scores - carry.value, mode="drop")
        return carry._replace(
            kind=jnp.asarray(_TOGETHER),
            changes=changes.reshape(carry.changes.shape),
            stale=jnp.zeros_like(carry.stale),
        )

    def _together(self, carry: Carry) -> Tried:
        """What marginal allocation makes of all moves; and exchanges, where moves interact."""
        of = moves(self.line, carry.at, carry.changes, self.budgets)
        least = _ROUNDING * jnp.abs(carry.value)
        found = allocated(of, carry.at, least)[None]
        if self.additive:
            return self._padded(found, jnp.asarray(1))
        count = min(_PAIRS, of.gain.size**2)
        gains, pair = lax.top_k(of.of_two().ravel(), count)
        one, other = pair // of.gain.size, pair % of.gain.size
        entries = np.arange(self.x.size)
        at = jnp.where(entries == of.entry[one][:, None], of.to[one][:, None], carry.at)
        at = jnp.where(entries == of.entry[other][:, None], of.to[other][:, None], at)
        return self._padded(jnp.concatenate([found, at]), 1 + jnp.sum(gains > -jnp.inf))

    def _after_together(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        new = self._best(carry, tried, scores)
        moved = new.at != carry.at
        improved = jnp.any(moved)
        stale = jnp.broadcast_to(moved if self.additive else improved, carry.stale.shape)
        kind = jnp.where(improved, _SINGLE, _SLOPE if self.mixed else _END)
        return new._replace(kind=kind, stale=stale)

    def _here(self, carry: Carry) -> Tried:
        """The best decision so far, where the slope is wanted."""
        return self._padded(carry.at[None], jnp.asarray(1))

    def _after_slope(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        del tried, scores
        return carry._replace(kind=jnp.asarray(_STEP))

    def _steps(self, carry: Carry) -> Tried:
        """The same, with steps downhill of the entries that are any number."""
        count = _STEPS.size
        return self._padded(jnp.broadcast_to(carry.at, (count, carry.at.size)), jnp.asarray(count))

    def _after_step(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        del tried
        best = jnp.argmin(scores)
        better = scores[best] < carry.value - _ROUNDING * jnp.abs(carry.value)
        taken = jnp.where(better, jnp.asarray(_STEPS)[best % _STEPS.size], 0.0)
        return carry._replace(
            kind=jnp.where(better, _SLOPE, _END),
            value=jnp.where(better, scores[best], carry.value),
            shift=carry.shift - taken * self._solved(carry.slope[None])[0],
        )

    def _best(self, carry: Carry, tried: Tried, scores: Array) -> Carry:
        """The best of a list, if it is better than the best so far."""
        best = jnp.argmin(scores)
        better = scores[best] < carry.value - _ROUNDING * jnp.abs(carry.value)
        return carry._replace(
            at=jnp.where(better, tried.at[best], carry.at),
            value=jnp.where(better, scores[best], carry.value),
        )

"""From one whole-number decision to others: all in a bracket, single moves, exchanges."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from postgrad.problem.feasible.whole.values import Line, fits

MOST = 1000  # points that are enumerated
MOVES = 3  # of each entry: one value up, one down, to zero


class Bracket(NamedTuple):
    """Points that are enumerated: all whole-number points, or those around the relaxed decision.

    Attributes:
        start: The least position of each entry.
        width: How many positions of each entry follow one another.
        size: How many points there are.
        all: Whether these are all points between the bounds.
    """

    start: Float[Array, " d"]
    width: Int[Array, " d"]
    size: Int[Array, ""]
    all: Bool[Array, ""]

    def point(self, index: Int[Array, " n"]) -> Float[Array, "n d"]:
        """The positions of the points of these numbers, below `size`."""
        digits = []
        for width in self.width:
            digits.append(index % width)
            index = index // width
        return self.start + jnp.stack(digits, axis=-1)


def bracket(line: Line, around: Float[Array, " d"]) -> Bracket:
    """All points if there are at most 1,000; else as many around some positions.

    With one entry, the whole number on either side of the minimum of a convex F is the best one.
    So a bracket of 1,000 numbers around it holds the best one wherever F is convex, and 500 numbers
    to either side of the minimum elsewhere.
    """
    counts = line.last - line.bottom + 1.0
    every = jnp.prod(counts) <= MOST
    side = int(MOST ** (1.0 / counts.size) + 1e-9)
    width = jnp.where(every, counts, jnp.minimum(counts, side))
    start = jnp.clip(jnp.floor(around) - (width - 1.0) // 2, line.bottom, line.last - width + 1.0)
    width = jnp.where(jnp.isnan(width), 1.0, width).astype(int)
    return Bracket(start, width, jnp.prod(width), every)


class Budgets(NamedTuple):
    """What entries share.

    Attributes:
        weights: What a unit of each entry costs, row by row.
        totals: The budgets.
    """

    weights: Float[Array, "b d"]
    totals: Float[Array, " b"]


def targets(line: Line, at: Float[Array, " d"]) -> tuple[Float[Array, "3 d"], Bool[Array, "3 d"]]:
    """The position of each entry after each move by itself, and whether there is such a move."""
    to = jnp.stack([at + 1.0, at - 1.0, line.bottom])
    # From the next value on, zero is one step down.
    beyond = line.zero & (at > line.first)
    possible = jnp.stack([at < line.last, at > line.bottom, beyond])
    return to, possible & line.whole


class Moves(NamedTuple):
    """All moves from one point, entry by entry, in one list.

    Attributes:
        to: The position that a move leads to.
        entry: Which entry moves.
        gain: By how much F falls; -inf where there is no such move.
        price: What a move takes of each budget.
        left: What is left of each budget.
    """

    to: Float[Array, " n"]
    entry: Int[Array, " n"]
    gain: Float[Array, " n"]
    price: Float[Array, "b n"]
    left: Float[Array, " b"]

    def of_two(self) -> Float[Array, "n n"]:
        """What two moves gain, if what each gains adds up, and one on the diagonal.

        -inf where one entry would move twice, or a budget would not do.
        """
        single = np.eye(self.gain.size, dtype=bool)
        apart = (self.entry[:, None] != self.entry) | single
        price = self.price[:, :, None] + jnp.where(single, 0.0, self.price[:, None, :])
        enough = jnp.all(price <= self.left[:, None, None], axis=0)
        both = self.gain[:, None] + jnp.where(single, 0.0, self.gain)
        return jnp.where(apart & enough, both, -jnp.inf)


def moves(
    line: Line, at: Float[Array, " d"], changes: Float[Array, "3 d"], budgets: Budgets
) -> Moves:
    """The moves from a point.

    Args:
        line: The values of each entry.
        at: The point.
        changes: By how much each move raises F.
        budgets: What entries share.
    """
    to, possible = targets(line, at)
    here, there = line.value(at), line.value(to)
    price = budgets.weights[:, None, :] * (there - here)
    spent = budgets.weights @ here
    size = jnp.abs(budgets.weights) @ jnp.abs(here) + jnp.abs(budgets.totals)
    left = budgets.totals - spent + 1e-12 * size
    gain = jnp.where(possible & jnp.isfinite(changes), -changes, -jnp.inf)
    entry = jnp.broadcast_to(np.arange(at.size), to.shape)
    return Moves(to.ravel(), entry.ravel(), gain.ravel(), price.reshape(len(price), to.size), left)


def allocated(of: Moves, at: Float[Array, " d"], least: Float[Array, ""]) -> Float[Array, " d"]:
    """Marginal allocation: the best move or exchange again and again, each entry once at most.

    Where F is a sum over entries, what moves gain adds up. Where it is convex besides, and moves
    cost alike, a point from which no move and no exchange gains is the best of all (Murota, 2003:
    sums of convex functions on whole numbers under a shared budget are M-natural-convex).

    Args:
        of: The moves.
        at: The point they start from.
        least: Gains that are not larger are rounding.
    """
    if of.price.shape[0] == 0:  # entries share nothing: each for itself
        best = jnp.argmax(of.gain.reshape(MOVES, -1), axis=0)
        gain, to = (
            jnp.take_along_axis(each.reshape(MOVES, -1), best[None], axis=0)[0]
            for each in (of.gain, of.to)
        )
        return jnp.where(gain > least, to, at)

    def better(carry: tuple[Array, Moves, Array]) -> Array:
        return carry[2]

    def move(carry: tuple[Array, Moves, Array]) -> tuple[Array, Moves, Array]:
        place, left, _ = carry
        gains = left.of_two()
        found = jnp.argmax(gains)
        one, other = found // left.gain.size, found % left.gain.size
        good = gains.ravel()[found] > least
        moved = place.at[left.entry[one]].set(left.to[one])
        moved = moved.at[left.entry[other]].set(left.to[other])
        price = left.price[:, one] + jnp.where(one == other, 0.0, left.price[:, other])
        gone = (left.entry == left.entry[one]) | (left.entry == left.entry[other])
        rest = left._replace(gain=jnp.where(gone, -jnp.inf, left.gain), left=left.left - price)
        new = (moved, rest)
        old = (place, left)
        place, left = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, old)
        return place, left, good

    return lax.while_loop(better, move, (at, of, jnp.asarray(True)))[0]


def keeps(line: Line, at: Float[Array, "n d"], budgets: Budgets) -> Bool[Array, " n"]:
    """Which points keep all budgets."""
    return fits(line.value(at), *budgets)

"""Where a search looks first: places spread over the whole feasible set."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from postgrad.problem.feasible.feasible_set import FeasibleSet

# Eight kinds of places, twelve at least of each: half of them even, the others at logarithmic
# distances.
GROUPS, EACH = 8, 12
_EVEN = 4
# Even places are ordered by cells: the unit cube halved so many times.
_HALVINGS = 6
# Lines through the best place, along coordinates: so many in a stage, each with so many looks.
LINES, LOOKS = 6, 4
_LINE_DECADES = 4.0
# In more dimensions so few points are no lattice.
LATTICE = 6
# Exchanges in a stage that scans, and in others; and places on the ray through x in one that scans.
EXCHANGES, FEW_EXCHANGES = 80, 16
RAY = 32
_USED = 1e-3  # a coordinate is used if it lies more than this share of its window above the low end
# Logarithmic distances span so many decades of the window.
_DECADES = 6.0
# Where the set is unbounded, the window is this many times |x|, or 1, to either side.
_WIDE = 1e3


class Places(NamedTuple):
    """Places to look at.

    Attributes:
        at: The places, group by group.
        apart: About how far the next place is, in each coordinate.
    """

    at: Float[Array, "groups each d"]
    apart: Float[Array, "groups each d"]


def window(feasible: FeasibleSet, x: Float[Array, "..."]) -> tuple[Array, Array]:
    """Finite ends of each coordinate: the bounds of the set, or far from x."""
    low, high = (jnp.broadcast_to(side, x.shape).ravel() for side in feasible.bounds())
    flat = x.ravel()
    size = jnp.where(flat == 0.0, 1.0, jnp.abs(flat))
    # One finite bound tells a scale as well.
    size = jnp.maximum(size, jnp.where(jnp.isfinite(low) & (low != 0), jnp.abs(low), 0.0))
    size = jnp.maximum(size, jnp.where(jnp.isfinite(high) & (high != 0), jnp.abs(high), 0.0))
    low = jnp.where(jnp.isfinite(low), low, flat - _WIDE * size)
    high = jnp.where(jnp.isfinite(high), high, flat + _WIDE * size)
    return low, high


def places(
    feasible: FeasibleSet, x: Float[Array, "..."], number: Int[Array, ""], groups: int
) -> Places:
    """Places for the scan of stage `number`; other stages get other places.

    Half of them fill the window evenly. The others lie at distances from x, from the low and from
    the high end that are spread evenly on a logarithmic scale, for sets that are wide beside what
    matters. In one coordinate each of the even groups has a stretch of the window for itself; in
    several they are points of a lattice (the generalised golden ratio of Roberts, 2018), and in
    many of a Latin hypercube: every coordinate by itself is spread evenly. In two to six
    coordinates each even group has a cell of the window for itself. A quarter of the even
    ones stays at x in about half of the coordinates (one of several depots moves elsewhere), a
    quarter lies on faces of the set, and a quarter on the diagonal.

    Args:
        feasible: The feasible set.
        x: Any decision.
        number: The stage.
        groups: How many groups of places, a multiple of eight; group 0 is near x.
    """
    low, high = window(feasible, x)
    flat, d = x.ravel(), x.size
    wide = high - low
    # other stages, other places
    shift = _fraction(number * np.sqrt(2.0) + np.arange(d) * np.sqrt(3.0))
    each = groups // GROUPS * EACH  # places of each kind
    rungs = (np.arange(each)[::-1, None] + shift) / each
    if d == 1:
        even = jnp.asarray((np.arange(_EVEN * each)[:, None] + shift) / (_EVEN * each))
        ladder = jnp.broadcast_to(rungs, (GROUPS - _EVEN, each, 1))
        gap = 1.0 / (_EVEN * each)
        sign = jnp.where(np.arange(each)[:, None] % 2 == 0, 1.0, -1.0)
    else:
        even = _even((_EVEN - 1) * each, shift).reshape(_EVEN - 1, each, d)
        ladder = _even((GROUPS - _EVEN) * each, shift).reshape(GROUPS - _EVEN, each, d)
        gap = 0.5 * (_EVEN * each) ** (-1.0 / d)
        half = _fraction(even * 64.0) < 0.5
        some = jnp.where(half[1], (flat - low) / jnp.where(wide > 0, wide, 1.0), even[1])
        # Some coordinates at their low end exactly: to do nothing there may save a fixed cost.
        faces = jnp.where(half[2], 0.0, even[2])
        # All alike: what is good in all coordinates together only is on no line along one.
        share = rungs[:, :1]
        alike = jnp.where(np.arange(each)[:, None] % 2 == 0, share, 10.0 ** (-_DECADES * share))
        even = jnp.stack([even[0], some, faces, jnp.broadcast_to(alike, (each, d))])
        # each coordinate goes its own way
        sign = jnp.where(_fraction(ladder * 64.0) < 0.5, 1.0, -1.0)
    near = wide * 10.0 ** (-_DECADES * ladder) * 0.5
    around = flat + sign * near
    other_way = 2.0 * flat - around[1]
    spread = jnp.stack([around[0], other_way, low + near[2], high - near[3]])
    ends = (low + wide * even).reshape(_EVEN, each, d)
    at = jnp.concatenate([spread, ends])
    apart = jnp.concatenate([near, jnp.broadcast_to(gap * wide, ends.shape)])
    metric = jnp.where(wide > 0, wide, 1.0) ** -2.0

    def feasibly(place: Array) -> Array:
        return feasible.project(place.reshape(x.shape), metric.reshape(x.shape)).ravel()

    at = jax.vmap(feasibly)(at.reshape(-1, d))
    if 1 < d <= LATTICE:
        evenly = at[-ends.size // d :]
        where = (evenly - low) / jnp.where(wide > 0, wide, 1.0)
        at = at.at[-ends.size // d + _rank_of_cell(where, number)].set(evenly)
    at = at.reshape(groups, EACH, d)
    # A coordinate of one value only has no distances: any number stands for them.
    apart = jnp.where(wide > 0, apart, 1.0)
    return Places(at, jnp.maximum(apart.reshape(groups, EACH, d), 1e-300))


def _rank_of_cell(share: Float[Array, "n d"], number: Int[Array, ""]) -> Int[Array, " n"]:
    """The rank of each place in an order by cells: halves, quarters and so on of the unit cube.

    Coordinates are halved in turns (Morton's order), beginning with another one in each stage.
    """
    d = share.shape[1]
    turn = in_turn(number + np.arange(d), d)
    halvings = np.arange(-(-_HALVINGS // d))
    digit = jnp.floor(share[..., None] * 2.0 ** (halvings + 1)).astype(int) & 1
    weight = 0.5 ** (turn[:, None] + d * halvings)
    code = jnp.sum(digit * weight, axis=(1, 2))
    before = np.tri(share.shape[0], k=-1, dtype=bool)
    less = (code < code[:, None]) | ((code == code[:, None]) & before)
    return jnp.sum(less, axis=1)


def fresh_places(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    number: Int[Array, ""],
    count: int,
) -> Float[Array, "count d"]:
    """The next places of a sequence that fills the window over the stages.

    Args:
        feasible: The feasible set.
        x: Any decision.
        ends: See `window`.
        number: The stage.
        count: How many.
    """
    points = _fraction(0.5 + (count * number + np.arange(count))[:, None] * _steps(x.size))
    return _nearest(feasible, x, ends, ends[0] + (ends[1] - ends[0]) * points)


def on_ray(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    number: Int[Array, ""],
) -> Float[Array, "4 d"]:
    """Four places at which all coordinates are larger than in x, or smaller, in proportion.

    Where coordinates only count together, as parts of one product do, no coordinate can move by
    itself, and no slope shows where all could.

    Args:
        feasible: The feasible set.
        x: Where to start from.
        ends: See `window`.
        number: The stage; distances take turns.
    """
    low = jnp.broadcast_to(feasible.bounds()[0], x.shape).ravel()
    origin = jnp.where(jnp.isfinite(low), low, 0.0)
    long = 0.5 * 2.0 ** (number & 1)
    short = 0.25 * 0.5 ** in_turn(number, 3)
    factors = jnp.stack([1.0 + long, 1.0 / (1.0 + long), 1.0 + short, 1.0 / (1.0 + short)])
    return _nearest(feasible, x, ends, origin + factors[:, None] * (x.ravel() - origin))


def along_ray(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    number: Int[Array, ""],
    which: Int[Array, " n"],
) -> Float[Array, "n d"]:
    """Places on the ray from the low end through x, evenly spread below x and beyond it.

    Where the cost jumps with a total (of trucks, of shifts), the next valley lies on this ray.

    Args:
        feasible: The feasible set.
        x: Where to start from.
        ends: See `window`.
        number: The stage; places differ.
        which: The numbers of the places, from zero to `RAY` - 1.
    """
    low, high = ends
    way = x.ravel() - low
    share = (jnp.clip(which, 0, RAY - 1) + _fraction(number * np.sqrt(2.0)))[:, None] / RAY
    most = jnp.min(jnp.where(way > 0, (high - low) / jnp.where(way > 0, way, 1.0), jnp.inf))
    most = jnp.where(jnp.isfinite(most), most, 1.0)
    factor = jnp.where(share < 0.5, 2.0 * share, 1.0 + (most - 1.0) * (2.0 * share - 1.0))
    return _nearest(feasible, x, ends, low + factor * way)


def exchanges(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    number: Int[Array, ""],
    which: Int[Array, " n"],
) -> Float[Array, "n d"]:
    """Places at which coordinates give up all that they have, as a share of their window.

    In turns: all give it to one of them; one gives it to the others, in proportion; one gives it to
    another; or to another and, in proportion, to the rest. Where coordinates compete, for a budget
    or for the same demand, and each has a fixed cost or a discount, or earns little unless it has
    much, the next valley is one such exchange away.

    Args:
        feasible: The feasible set.
        x: Where to start from.
        ends: See `window`.
        number: The stage; coordinates take turns.
        which: The numbers of the exchanges, from zero on.
    """
    low, wide = ends[0], ends[1] - ends[0]
    share = jnp.where(wide > 0, (x.ravel() - low) / jnp.where(wide > 0, wide, 1.0), 0.0)
    order = jnp.argsort(-share)
    used = jnp.maximum(jnp.sum(share > _USED), 1)
    which = jnp.maximum(which, 0)[:, None]
    index = EXCHANGES * number + which
    kind = which & 3
    cycle = FEW_EXCHANGES // 4 * number + (which >> 2)
    # irrational steps, so that all pairs have their turn whatever the number of coordinates
    giver = order[
        jnp.where(
            kind == 1, in_turn(cycle, used), (_fraction(index * np.sqrt(0.2)) * used).astype(int)
        )
    ]
    taker = jnp.where(
        kind == 0, in_turn(cycle, x.size), (_fraction(index * np.sqrt(2.0)) * x.size).astype(int)
    )
    part = jnp.where(kind == 3, _fraction(index * np.sqrt(3.0)), jnp.where(kind == 1, 0.0, 1.0))
    here = np.arange(x.size)
    gives = (here == giver) | (kind == 0)
    given = jnp.sum(jnp.where(gives, share, 0.0), axis=1, keepdims=True)
    others = jnp.where(gives, 0.0, share)
    whole = jnp.sum(others, axis=1, keepdims=True)
    more = others * (1.0 - part) * given / jnp.where(whole > 0, whole, 1.0)
    new = others + more + jnp.where(here == taker, part * given, 0.0)
    return _nearest(feasible, x, ends, low + wide * new)


def around(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    lengths: Float[Array, " d"],
    number: Int[Array, ""],
    count: int,
) -> Float[Array, "count d"]:
    """Places around x: opposite pairs in directions that are spread evenly over the sphere.

    Args:
        feasible: The feasible set.
        x: The centre.
        lengths: How far places are from it, for each coordinate.
        number: Other numbers, other directions.
        count: How many places.
    """
    pairs = max(count // 2, 1)
    index = (pairs * number + np.arange(pairs))[:, None]
    share = _fraction(0.5 + index * _steps(x.size))
    share = jnp.clip(share, 1e-9, 1.0 - 1e-9)
    normal = jnp.log(share) - jnp.log1p(-share)  # almost, and far less to compile
    # Every other pair moves about half of the coordinates only.
    moves = (_fraction(share * 64.0) < 0.5) | (index & 1 == 0)
    normal = jnp.where(moves | ~jnp.any(moves, axis=1, keepdims=True), normal, 0.0)
    ways = normal / jnp.sqrt(jnp.sum(jnp.square(normal), axis=1, keepdims=True))
    goals = x.ravel() + jnp.abs(lengths) * jnp.concatenate([ways, -ways])[:count]
    metric = jnp.maximum(jnp.abs(lengths), 1e-150).reshape(x.shape) ** -2.0
    return jax.vmap(lambda goal: feasible.project(goal.reshape(x.shape), metric).ravel())(goals)


def _nearest(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    places: Float[Array, "k d"],
) -> Float[Array, "k d"]:
    """The nearest feasible places, in units of the window."""
    wide = ends[1] - ends[0]
    metric = (jnp.where(wide > 0, wide, 1.0) ** -2.0).reshape(x.shape)
    return jax.vmap(lambda place: feasible.project(place.reshape(x.shape), metric).ravel())(places)


def along(
    feasible: FeasibleSet,
    x: Float[Array, "..."],
    ends: tuple[Float[Array, " d"], Float[Array, " d"]],
    look: Int[Array, ""],
    number: Int[Array, ""],
) -> Float[Array, "groups d"]:
    """Places on a line through x along one coordinate, or as near to it as the set allows.

    Four looks for each coordinate: the first two are spread evenly from end to end, the others lie
    at logarithmic distances to both sides of x.

    Args:
        feasible: The feasible set.
        x: Where to start from.
        ends: See `window`.
        look: The number of the look.
        number: The stage; coordinates take turns.
    """
    flat = x.ravel()
    axis = in_turn(look // LOOKS + number * LINES, x.size)
    here = np.arange(x.size) == axis
    low, wide = ends[0][axis], (ends[1] - ends[0])[axis]
    shift = _fraction(number * np.sqrt(2.0))
    share = ((look & 1) * GROUPS + np.arange(GROUPS) + shift) / (2 * GROUPS)
    near = 0.5 * wide * 10.0 ** (-_LINE_DECADES * jnp.abs(2.0 * share - 1.0))
    ladder = flat[axis] + jnp.where(share < 0.5, -near, near)
    values = jnp.clip(
        jnp.where(look & (LOOKS - 1) < 2, low + wide * share, ladder), low, low + wide
    )
    # the other coordinates give way
    metric = jnp.where(here, 1e6, 1.0) * jnp.maximum(ends[1] - ends[0], 1e-140) ** -2.0

    def feasibly(value: Array) -> Array:
        place = jnp.where(here, value, flat).reshape(x.shape)
        return feasible.project(place, metric.reshape(x.shape)).ravel()

    return jax.vmap(feasibly)(values)


def in_turn(number: Int[Array, "*n"], count: int | Int[Array, ""]) -> Int[Array, "*n"]:
    """number mod count, of numbers that are not negative: Python's rule for signs is not needed."""
    number = jnp.asarray(number)
    return lax.rem(number, jnp.broadcast_to(count, number.shape).astype(number.dtype))


def _fraction(x: Array) -> Array:
    """x mod 1, likewise."""
    return x - jnp.floor(x)


def _steps(d: int) -> Float[np.ndarray, " d"]:
    """From point to point of a sequence that fills the unit cube (Roberts, 2018)."""
    root = float(np.max(np.roots([1.0] + [0.0] * (d - 1) + [-1.0, -1.0]).real))
    return root ** -np.arange(1.0, d + 1.0)


def _even(count: int, shift: Float[Array, " d"]) -> Float[Array, "count d"]:
    """Points of the unit cube."""
    d = shift.size
    if d <= LATTICE:
        points = shift + np.arange(count)[:, None] * _steps(d)
    else:
        ranks = np.random.default_rng(0).permuted(np.tile(np.arange(count), (d, 1)), axis=1).T
        points = shift + ranks / count
    return _fraction(points)

"""The looks of a stage: one loop, whose body looks at the averaged cost once.

What a look is for depends on its number, and the number of looks on the stage alone, so all runs of
a simulation do the same.
"""

import functools
import math

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from postgrad.algorithm.decision_uncertainty import Scouted
from postgrad.algorithm.descents.descent import Stage
from postgrad.algorithm.descents.local_step import (
    FAR,
    Lane,
    after_look,
    measured_update,
    next_step,
    quadratic_step,
    secant_update,
    step_along,
    taken_by_coordinate,
)
from postgrad.algorithm.descents.places import (
    EACH,
    GROUPS,
    LINES,
    LOOKS,
    Places,
    along,
    places,
    window,
)
from postgrad.algorithm.descents.search_state import (
    FEWEST_SCOUTS,
    Carry,
    Held,
    Phases,
    Track,
    lane_count,
    root,
)
from postgrad.beliefs.belief import first
from postgrad.numerics.lattice_keys import purpose
from postgrad.problem.problem import Decision

_APART = 6  # steps from the best place of each group
_LONGER = 3  # times as many steps follow a scan
_SINGLE, _FIRST_SINGLE = 3, 8  # steps towards the optimum of a single theta
_PROBES = 4  # looks along coordinates, eight coordinates each, in a stage that scans
_FIRST = 10  # the first stages, in which little is known
_BEYOND_NOISE = 2.0  # standard errors


class Loop:
    """The looks of a stage."""

    def __init__(self, stage: Stage, x: Decision, state: Track):
        plan, objective = stage.plan, stage.objective
        self.stage, self.objective, self.x, self.state = stage, objective, x, state
        self.lanes = lane_count(plan)
        self.groups = math.gcd(self.lanes, GROUPS)
        self.has_values = objective.gradient.has_values(objective.problem, x, first(stage.thetas))
        self.noisy = objective.gradient.uses_baseline(objective.problem, x, first(stage.thetas))
        feasible = objective.problem.feasible
        self.by_coordinate = objective.additive and x.size > 1 and feasible.separates
        m = plan.samples[0]
        # Every so-many-th theta is a scout: part of a lattice, evenly spread itself.
        every = m // self.lanes
        self.scouts = jax.tree.map(lambda leaf: leaf[::every], stage.thetas)
        self.look = objective.rows(
            stage.thetas, self.scouts, purpose(root(plan), 1), plan.samples[1], x
        )
        t = plan.number
        scans = ((t & (t - 1)) == 0) & self.has_values
        self.scans = scans
        self.per_group = EACH * GROUPS // self.groups
        probes = min(-(-x.size // self.groups), _PROBES)
        kinked = objective.has_fixed_kinks(stage.thetas, x)  # from one kink to the next
        singles = jnp.where((t < _FIRST) | kinked, _FIRST_SINGLE, _SINGLE)
        counts = (
            1,
            1 if self.has_values else 0,
            jnp.where(scans, self.per_group, 0),
            jnp.where(scans, _APART, 0),
            jnp.where(scans, 2, 0),
            jnp.where(scans, LOOKS * min(x.size, LINES), 0) if x.size > 1 else 0,
            jnp.where(scans, 1, 0) if x.size > 1 else 0,
            0 if objective.additive else jnp.where(scans, probes, 1),
            jnp.where(scans, _LONGER, 1) * plan.iterations,
            1 + (singles if self.lanes >= FEWEST_SCOUTS else 0),
        )
        ends = [jnp.asarray(counts[0])]
        for count in counts[1:]:
            ends.append(ends[-1] + count)
        self.phases = Phases(*ends)
        self.places = self._places()
        self.ends = window(feasible, x)

    def _places(self) -> Places:
        def none() -> Places:
            zeros = jnp.zeros((self.per_group, self.groups, self.x.size))
            return Places(zeros, zeros)

        def some() -> Places:
            found = places(self.objective.problem.feasible, self.x, self.stage.plan.number)
            # group by group, so that each group of draws keeps to a stretch of the set
            shape = (self.groups, self.per_group, self.x.size)
            return Places(*(jnp.swapaxes(each.reshape(shape), 0, 1) for each in found))

        return lax.cond(self.scans, some, none)

    def run(self) -> Carry:
        """All looks."""
        x, state, d = self.x.ravel(), self.state, self.x.size
        zeros, none, lanes = jnp.zeros(d), jnp.zeros((self.groups, d)), self.lanes
        lane = Lane(x, jnp.asarray(jnp.inf), zeros, state.bend, state.reach)
        held = Held(lane, jnp.full(self.groups, jnp.inf), none, zeros)
        every = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (lanes, *leaf.shape)), lane)
        start = Carry(
            k=jnp.zeros((), jnp.int32),
            held=held,
            lanes=every,
            matrix=state.matrix,
            step=zeros,
            steps=jnp.zeros((lanes, d)),
            compass=0.5 * state.reach,
            explained=state.explained | self.scans,
            jumped=~state.explained,
            least=jnp.full(self.groups, jnp.inf),
            left=state.other,
            composed=x,
            gains=zeros,
            switched=jnp.asarray(False),
            home=jnp.zeros((2, d)),
            level=zeros,
            scouted=Scouted(jnp.zeros((lanes, d)), *2 * (jnp.zeros(lanes),)),
        )
        return lax.while_loop(lambda carry: carry.k < self.phases.end, self._body, start)

    def _best_of_line(
        self, carry: Carry, at: Array, values: Array, k: Int[Array, ""], lines: Array
    ) -> tuple[Array, Array]:
        """The best values of coordinates so far, and how much each saves.

        Of a cost that adds over coordinates, the best of all lines are put together; of others the
        best of one line is kept.
        """
        x = carry.held.lane.x
        fresh = k == self.phases.lines
        composed = jnp.where(fresh, x, carry.composed)
        gains = jnp.where(fresh, 0.0, carry.gains)
        each = jnp.where(jnp.isfinite(values), values - carry.held.values, jnp.inf)
        best = jnp.argmin(each)
        # the coordinate that moved, in units of the window
        moved = jnp.abs(at[best] - x) / (self.ends[1] - self.ends[0])
        here = jnp.arange(x.size) == jnp.argmax(moved)
        better = lines & (each[best] < jnp.min(jnp.where(here, gains, 0.0)))
        if self.objective.additive and self.objective.problem.feasible.separates:
            composed = jnp.where(better & here, at[best], composed)
        else:
            better = better & (each[best] < jnp.min(gains))
            composed = jnp.where(better, at[best], composed)
        return composed, jnp.where(better & here, each[best], gains)

    def _beside(self, lane: Lane, k: Int[Array, ""]) -> Float[Array, "G d"]:
        """A place beside the best one for each group, along one coordinate each, taking turns."""
        feasible, d = self.objective.problem.feasible, self.x.size
        first_one = (k - self.phases.probe + self.stage.plan.number) * self.groups
        index = (first_one + jnp.arange(self.groups)) % d
        width = 0.25 * lane.reach
        width = jnp.where(lane.x + width > self.ends[1], -width, width)
        ways = jnp.where(index[:, None] == jnp.arange(d), width, 0.0)
        wide = lane._replace(reach=jnp.full(d, FAR))
        return lane.x + jax.vmap(lambda way: step_along(feasible, self.x.shape, wide, way))(ways)

    def _body(self, carry: Carry) -> Carry:
        k, phases, held, lanes = carry.k, self.phases, carry.held, carry.lanes
        objective, additive = self.objective, self.objective.additive
        feasible, shape = objective.problem.feasible, self.x.shape
        home = k == 0
        scan = (k >= phases.scan) & (k < phases.apart)
        apart = (k >= phases.apart) & (k < phases.judge)
        judge = (k >= phases.judge) & (k < phases.lines)
        lines = (k >= phases.lines) & (k < phases.compose)
        compose = (k >= phases.compose) & (k < phases.probe)
        probe = (k >= phases.probe) & (k < phases.near)
        near = (k >= phases.near) & (k < phases.scout)
        scout = k >= phases.scout
        first_scout = k == phases.scout

        # Where to look: one place with all draws, or a place for each lane with its own.
        group = jnp.arange(self.lanes) % self.groups
        listed, spacing = (
            each[jnp.clip(k - phases.scan, 0, self.per_group - 1)][group] for each in self.places
        )
        lowest = jnp.argmin(lanes.value[: self.groups] - held.values)
        candidate = jnp.where(k == phases.judge, 0, lowest)
        one = jnp.where(near, held.lane.x + carry.step, self.x.ravel())
        if self.by_coordinate:  # what was put together by coordinates is looked at once more
            one = jnp.where(k == phases.scout - 1, held.lane.x, one)
        one = jnp.where(judge, lanes.x[candidate], one)
        one = jnp.where(k == phases.other, self.state.other, one) if self.has_values else one
        each = jnp.where(scan, listed, lanes.x + carry.steps)
        if not additive:
            each = jnp.where(probe, self._beside(held.lane, k)[group], each)
        if self.x.size > 1:
            here, look = held.lane.x.reshape(shape), k - phases.lines
            line = along(feasible, here, self.ends, look, self.stage.plan.number)
            each = jnp.where(lines, line[group], each)
            one = jnp.where(compose, carry.composed, one)
        apart_or_scout = scan | apart | scout | probe | lines
        at = jnp.where(apart_or_scout, each, one)
        rows = self.stage.plan.samples[0] // self.lanes
        reading = self.look(scout, jnp.tile(at, (rows, 1)))

        # What all draws say, what each group says, and what each scout says.
        values, slopes = objective.groups(reading, self.groups)
        value, slope = jnp.mean(values), _tame(objective.slope(reading))
        slopes = _tame(slopes)
        plain = _tame(jnp.mean(reading.gradients, axis=0))
        by_lane = jax.tree.map(
            lambda leaf: jnp.mean(leaf.reshape(rows, self.lanes, *leaf.shape[1:]), axis=0), reading
        )
        raw = _tame(by_lane.gradients)
        level = jnp.where(first_scout, held.plain - jnp.mean(raw, axis=0), carry.level)
        own = by_lane.costs + (at - held.lane.x) @ level
        lane_value = jnp.where(scout, own, values[group])
        lane_slope = jnp.where(scout, raw + level, slopes[group])

        # The best place by all draws.
        better = values - held.values
        error = _error(better)
        # Slopes are more exact than differences of values that differ by rounding.
        blur = _BEYOND_NOISE * error if self.noisy else 0.0
        tolerance = 1e-11 * jnp.mean(jnp.abs(reading.costs)) + blur
        needed = jnp.where(near, jnp.where(carry.explained, tolerance, 0.0), -_BEYOND_NOISE * error)
        needed = jnp.where(judge & (candidate == 0), 0.0, needed)
        down = jnp.mean(better)
        good = jnp.isfinite(value) & jnp.where(
            near & carry.explained, down <= needed, down < needed
        )
        move = at[0] - held.lane.x
        if not self.has_values:  # a step that ends uphill, and steeply, is not taken
            uphill = jnp.sum(slope * move) > -0.25 * jnp.sum(held.lane.slope * move)
            good = jnp.isfinite(value) & ~uphill
        elsewhere = jnp.any(jnp.abs(move) > held.lane.reach)  # within reach is no other valley
        good = home | (good & ~apart_or_scout & (elsewhere | (k != phases.other)))
        # Do slopes explain values?
        between = better - 0.5 * jnp.sum((slopes + held.slopes) * move, axis=-1)
        bound = 4.0 * _error(between) + 0.5 * jnp.sum(jnp.abs((slope - held.lane.slope) * move))
        bound = bound + 1e-9 * (jnp.abs(value) + jnp.abs(held.lane.value))
        explained = jnp.abs(jnp.mean(between)) <= bound
        explained = jnp.where(near & jnp.isfinite(value), explained, carry.explained)
        explained = explained | (not self.has_values)
        chosen, reached, by_group = good, value, values
        if self.by_coordinate:
            # Each coordinate is judged by itself, until the last step looks at what that made.
            last = k == phases.scout - 1
            alone = near & ~last & carry.explained & explained & jnp.isfinite(value)
            parts, change = taken_by_coordinate(held.lane, at[0], slope)
            chosen = jnp.where(alone, parts, good | last)
            reached = jnp.where(alone, held.lane.value + change, value)
            shares = 0.5 * (slopes + held.slopes) * move
            by_group = jnp.where(alone, held.values + shares @ chosen, values)
            good = good | alone | last
        known_after = functools.partial(after_look, alone=additive)
        new_lane = known_after(
            held.lane,
            at[0],
            reached,
            slope,
            standard_error(slopes - held.slopes),
            standard_error(slopes),
            chosen,
            near & carry.explained,
        )
        from_lane = judge & good
        composed, gains = carry.composed, carry.gains
        if self.x.size > 1:
            composed, gains = self._best_of_line(carry, at, values, k, lines)
            far_off = compose & good & (jnp.abs(move) > 0)
            reach = jnp.where(far_off, 0.5 * jnp.abs(move), new_lane.reach)
            new_lane = new_lane._replace(reach=reach)
        new_lane = new_lane._replace(
            bend=jnp.where(from_lane, lanes.bend[candidate], new_lane.bend),
            reach=jnp.where(from_lane, lanes.reach[candidate], new_lane.reach),
        )
        axis = (k - phases.near) % self.x.size
        tried = (jnp.arange(self.x.size) == axis) & near & ~carry.explained
        compass = jnp.where(tried, carry.compass * jnp.where(good, 1.5, -0.5), carry.compass)
        compass = jnp.where(home | from_lane | compose, 0.5 * new_lane.reach, compass)

        away = (k == phases.other) | (judge & (candidate > 0)) | compose
        switched = good & away & elsewhere & self.has_values
        refused = judge & (k > phases.judge) & ~good & (candidate > 0) & elsewhere
        left = jnp.where(switched, held.lane.x, jnp.where(refused, at[0], carry.left))
        matrix = carry.matrix
        if not additive:
            bends = jnp.sum((slopes - held.slopes) * move, axis=-1)
            change = slope - held.lane.slope
            matrix = secant_update(matrix, move, change, _error(bends), near & carry.explained)
            matrix = jnp.where(switched & judge, jnp.diag(new_lane.bend), matrix)
            unknown_yet = from_lane & (self.stage.plan.number == 1)
            matrix = jnp.where(unknown_yet, jnp.diag(new_lane.bend), matrix)
            ways, changes = at[: self.groups] - held.lane.x, slopes - held.slopes
            matrix = lax.cond(probe, lambda: measured_update(matrix, ways, changes), lambda: matrix)
            new_lane = new_lane._replace(bend=jnp.where(probe, jnp.diagonal(matrix), new_lane.bend))
        held = Held(
            new_lane,
            jnp.where(good, by_group, held.values),
            jnp.where(chosen, slopes, held.slopes),
            jnp.where(chosen, plain, held.plain),
        )

        # The best place of each lane.
        lower = jnp.isfinite(lane_value) & (lane_value < lanes.value) & (scan | apart | scout)
        stepping = (apart | scout) & ~first_scout
        lower_in = lower
        if self.by_coordinate:
            parts, change = jax.vmap(taken_by_coordinate)(lanes, at, lane_slope)
            lower_in = jnp.where(stepping, parts, lower[:, None])
            lane_value = jnp.where(stepping, lanes.value + change, lane_value)
        lanes = jax.vmap(known_after, in_axes=(0, 0, 0, 0, None, None, 0, None))(
            lanes, at, lane_value, lane_slope, *2 * (jnp.zeros(self.x.size),), lower_in, stepping
        )
        fresh = (scan & lower)[:, None]
        guess = jnp.maximum(jnp.abs(lane_slope) / spacing, 1e-300)
        lanes = lanes._replace(
            bend=jnp.where(fresh, guess, lanes.bend), reach=jnp.where(fresh, spacing, lanes.reach)
        )
        # At a kink any curvature can be met; that of the last steps must not hold thetas fast.
        usual = 4.0 * jnp.sqrt(jnp.mean(jnp.square(lane_slope), axis=0)) / self.state.reach
        least = jnp.where((self.stage.plan.number > 1) & (usual > 0), usual, jnp.inf)
        bend = jnp.minimum(lanes.bend, jnp.where(first_scout, least, jnp.inf))
        lanes = lanes._replace(bend=bend)
        # Lanes start afresh: those of a scan with nothing but group 0, which starts from here.
        to_scan, to_scout = k + 1 == phases.scan, k + 1 == phases.scout
        begin = to_scan | to_scout
        at_home = to_scan & (group == 0)
        lanes = Lane(
            jnp.where(begin, held.lane.x, lanes.x),
            jnp.where(begin, jnp.where(at_home, held.values[0], jnp.inf), lanes.value),
            jnp.where(begin, jnp.where(at_home[:, None], held.slopes[0], 0.0), lanes.slope),
            jnp.where(begin, held.lane.bend, lanes.bend),
            jnp.where(to_scout, FAR, jnp.where(to_scan, held.lane.reach, lanes.reach)),
        )

        # The next steps.
        if additive:
            step = next_step(feasible, shape, held.lane)
            steps = jax.vmap(lambda lane: next_step(feasible, shape, lane))(lanes)
        else:
            step = quadratic_step(feasible, shape, held.lane, matrix)
            ways = jnp.where(
                k + 1 >= phases.scout,
                -jnp.linalg.solve(matrix, lanes.slope.T).T,
                -lanes.slope / lanes.bend,
            )
            steps = jax.vmap(lambda lane, way: step_along(feasible, shape, lane, way))(lanes, ways)
        turn = (k + 1 - phases.near) % self.x.size
        single = jnp.where(jnp.arange(self.x.size) == turn, compass, 0.0)
        single = feasible.project((held.lane.x + single).reshape(shape)).ravel() - held.lane.x
        step = jnp.where(explained, step, single)
        steps = jnp.where(begin, 0.0, steps)

        there = Scouted(lane_slope, by_lane.costs, by_lane.squares)
        scouted = jax.tree.map(
            lambda new, old: jnp.where(first_scout, new, old), there, carry.scouted
        )
        here = jnp.where(home, jnp.stack([slope, standard_error(slopes)]), carry.home)
        seen = jnp.where(scout | ~jnp.isfinite(values), jnp.inf, values)
        return Carry(
            k + 1, held, lanes, matrix, step, steps, compass, explained, carry.jumped | ~explained,
            jnp.minimum(carry.least, seen), left, composed, gains, carry.switched | switched,
            here, level, scouted,
        )  # fmt: skip


def standard_error(parts: Float[Array, "G d"]) -> Array:
    """The standard error of the mean over groups, entry by entry; NaN if there is one group."""
    count = parts.shape[0]
    spread = jnp.std(parts, axis=0, ddof=1) if count > 1 else jnp.full(parts.shape[1:], jnp.nan)
    return spread / math.sqrt(count)


def _tame(slope: Array) -> Array:
    """Infinite slopes, as on the boundary of sqrt(x), made large; undefined ones zero."""
    return jnp.nan_to_num(slope, nan=0.0, posinf=1e30, neginf=-1e30)


def _error(parts: Float[Array, " G"]) -> Array:
    """The standard error of a mean over groups; zero if there is one group only."""
    count = parts.shape[0]
    error = jnp.std(parts, ddof=1) / math.sqrt(count) if count > 1 else jnp.zeros(())
    return jnp.where(jnp.isfinite(error), error, 0.0)  # of infinite costs there is none

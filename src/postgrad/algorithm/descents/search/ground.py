"""What all looks of a stage share."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, PyTree

from postgrad.algorithm.descents.descent import Stage
from postgrad.algorithm.descents.search.looks import Kind, Look, Schedule
from postgrad.algorithm.descents.search.places import (
    EACH,
    EXCHANGES,
    FEW_EXCHANGES,
    GROUPS,
    LATTICE,
    LINES,
    LOOKS,
    RAY,
    Places,
    fresh_places,
    in_turn,
    on_ray,
    places,
    window,
)
from postgrad.algorithm.descents.search.state import (
    FEWEST_SCOUTS,
    Carry,
    Track,
    believed,
    group_count,
    lane_count,
    root,
)
from postgrad.algorithm.sampled_objective import Draws
from postgrad.beliefs.belief import first
from postgrad.numerics.every_run import in_any_run
from postgrad.numerics.lattice_keys import purpose
from postgrad.problem.problem import Decision

_APART = 6  # steps from the best place of each part
_JUDGED = 3  # of these places are looked at by all draws
_LONGER = 3  # times as many steps at most as are usual, and again where the minimum is far off
_SINGLE, _FIRST_SINGLE = 3, 16  # steps towards the optimum of a single theta
_SELDOM = 16  # a scan at every so-many-th stage, and at stages 1, 2, 4 and 8
# The posterior has moved by so many standard deviations: from then on a stage scans, where F is not
# convex, or looks at remembered and new places, where it is.
_MOVED = 1.0
_PROBES = 4  # looks along coordinates, eight coordinates each, in a stage that scans
_PARTS = 32  # parts of the draws, each of which looks at places by itself
_FIRST = 10  # the first stages, in which little is known


def draws_of(stage: Stage, scouts: PyTree, x: Decision) -> Callable[[Bool[Array, ""]], Draws]:
    """The fixed draws of a stage; see `SampledObjective.rows`."""
    thetas, counts = stage.wide or (stage.thetas, None)
    plan = stage.plan
    key = purpose(root(plan), 1)
    return stage.objective.rows(thetas, scouts, key, plan.samples[1], x, counts)


class Ground:
    """What all looks of a stage share.

    Attributes:
        stage: The stage.
        objective: F.
        feasible: The feasible set.
        x: x_t.
        state: What was remembered.
        lanes: How many descents go side by side; row i of the draws belongs to lane i mod lanes.
        groups: Into how many groups draws are divided; lane i belongs to group i mod groups.
        group: The group of each lane.
        rows: How many rows of draws each lane has.
        parts: Into how many parts draws are divided where each looks at places by itself; lane i
            belongs to part i mod parts.
        part: The part of each lane.
        per_part: How many places of a scan each part looks at.
        has_values: Whether the gradient is that of values.
        noisy: Whether slopes are not those of the sampled values, but of their expectation.
        by_coordinate: Whether each coordinate is taken or left by itself.
        compete: Whether coordinates interact, in the cost or in the feasible set.
        roams: Whether steps where the cost jumps go in all directions: see `explores`.
        compares: Whether steps go on, where the cost jumps, until they are short: see `compass`.
        kinked: Whether the cost has kinks at the same places for all draws.
        local_only: Whether other valleys may exist that nobody looks for.
        scouts: The thetas that are looked at one by one.
        draws: See `SampledObjective.rows`.
        scans: Whether the stage looks at the whole set: by its number, or since the posterior has
            moved far where F is not convex.
        scans_somewhere: Whether it does so in any run of a `vmap`.
        one_valley: Whether F was convex when last tried, and has few coordinates: of many, those
            that bend upwards hide one that does not.
        recalls: Whether the stage looks at places that are remembered and new: where it scans, F
            may have several valleys, or the posterior has moved far.
        believed: Mean and standard deviation of theta: see `believed`.
        alike: Which rows have the same theta: see `SampledObjective.alike`.
        schedule: How many looks of each kind it takes.
        places: Where a scan looks.
        patience: How many steps there are at most, unless the minimum is far off.
        begins: Whether the stage is one of the first scans, before which little is known, or one
            since the posterior has moved.
        ends: Of each coordinate: see `window`.
        wide: The size of the window, or one where it is a point.
        fresh: New places to look at.
        new: How many there are.
        exchanges: How many exchanges between coordinates there are without a scan.
        few_recalls: How many looks at such places there are without a scan.
        probes: The same of looks along coordinates.
    """

    def __init__(self, stage: Stage, x: Decision, state: Track):
        plan, objective = stage.plan, stage.objective
        self.stage, self.objective, self.x = stage, objective, x
        self.feasible = objective.problem.feasible
        self.lanes = lane_count(plan)
        self.groups = group_count(plan)
        self.group = np.arange(self.lanes) % self.groups
        self.parts = min(self.lanes, _PARTS)
        self.part = np.arange(self.lanes) % self.parts
        self.per_part = EACH * max(GROUPS // self.parts, 1)
        self.has_values = objective.gradient.has_values(objective.problem, x, first(stage.thetas))
        self.noisy = objective.gradient.uses_baseline(objective.problem, x, first(stage.thetas))
        self.by_coordinate = objective.additive and x.size > 1 and self.feasible.separates
        self.compete = x.size > 1 and not self.by_coordinate
        self.roams = self.compete and self.has_values
        self.compares = x.size > 1 and self.has_values
        self.kinked = objective.has_fixed_kinks(stage.thetas, x)
        few = x.size <= LATTICE or self.by_coordinate
        self.local_only = not (self.has_values and few)
        m = plan.samples[0]
        self.rows = m // self.lanes
        # Every so-many-th theta is a scout: part of a lattice, evenly spread itself.
        self.scouts = jax.tree.map(lambda leaf: leaf[:: self.rows], stage.thetas)
        self.draws = draws_of(stage, self.scouts, x)
        t = plan.number
        in_turn = (((t & (t - 1)) == 0) | (t & (_SELDOM - 1) == 0)) & self.has_values
        self.believed = believed(stage.thetas)
        self.alike = objective.alike(stage.thetas)
        far = self._moved(state)
        moved = (far > _MOVED) & ~state.convex & self.has_values
        self.scans = in_turn | moved
        self.scans_somewhere = in_turn | in_any_run(moved)
        self.one_valley = state.convex & (x.size <= LATTICE)
        self.recalls = (self.scans | ~self.one_valley | (far > _MOVED)) & self.has_values
        # Two coordinates have fewer exchanges that differ.
        self.exchanges = min(4 * x.size, FEW_EXCHANGES) if self.compete else 0
        self.new = 3 * GROUPS - self.exchanges
        self.few_recalls, self.probes = self._recalls(self.exchanges), 1
        self.schedule = self._schedule()
        # As many steps as a minimum that has moved far takes; most searches come to rest sooner.
        self.patience = _LONGER * plan.iterations
        self.begins = ((t < _FIRST) & in_turn) | moved
        self.places = lax.cond(self.scans_somewhere, self._places, self._no_places)
        self.ends = window(self.feasible, x)
        self.wide = jnp.where(self.ends[1] > self.ends[0], self.ends[1] - self.ends[0], 1.0)
        # Before anything is known, steps are as long as the even places of a scan are apart.
        unknown = jnp.maximum(self.wide / (EACH * GROUPS // 2), 1e-300)
        reach = jnp.where(t == 1, unknown, state.reach)
        self.state = eqx.tree_at(lambda state: state.reach, state, reach)
        self.fresh = self._fresh()

    def is_for_scans(self, look: Look) -> Bool[Array, ""]:
        """Whether a look is taken in stages that scan only."""
        more = look.is_of(Kind.RECALL) & (look.turn >= self.few_recalls)
        more = more | (look.is_of(Kind.PROBE) & (look.turn >= self.probes))
        return more | look.is_of(Kind.SCAN, Kind.APART, Kind.JUDGE, Kind.LINE, Kind.COMPOSE)

    def in_scan(self, each: Float[Array, "P n d"], look: Look) -> Float[Array, "L d"]:
        """What each lane has in this look of a scan: a place, or how far the next one is."""
        return lax.dynamic_index_in_dim(each, look.turn, axis=1, keepdims=False)[self.part]

    def _moved(self, state: Track) -> Float[Array, ""]:
        """How far the posterior is from where it was when the search last tried other places.

        At a scan, or where F was convex also when it looked at remembered and new places.
        In standard deviations by which the mean of any number of theta has moved, or of all of them
        together (a market that grows in many places); or in factors of two by which a standard
        deviation has changed: of regimes that take turns the mean may stay. A posterior that was a
        point, and is none, has moved by more than one if that point has lost a sixteenth of its
        probability; beliefs that are one value always do not.
        """
        (mean, deviation), (old, before) = self.believed, state.believed
        scale = jnp.maximum(before, 0.25 * deviation)
        known, was = scale > 0.0, before > 0.0
        by = jnp.where(known, (mean - old) / jnp.where(known, scale, 1.0), 0.0)
        together = jnp.abs(jnp.sum(by)) / np.sqrt(by.size)
        spread = jnp.abs(jnp.log2(deviation / jnp.where(was, before, 1.0)))
        return jnp.maximum(
            jnp.max(jnp.where(was, spread, 0.0)), jnp.maximum(jnp.max(jnp.abs(by)), together)
        )

    def explores(self, look: Look, carry: Carry) -> Bool[Array, ""]:
        """Whether lanes look at places around the best one, since the cost jumps.

        Where coordinates interact, no step along one of them follows the edge of a jump. If such
        a look has found a lower place, the next one is at that place, by all draws.
        """
        if not self.roams:
            return jnp.asarray(False)
        return look.is_of(Kind.NEAR) & ~carry.explained & (carry.better >= 0.0)

    def _schedule(self) -> Schedule:
        plan, d = self.stage.plan, self.x.size
        early, scans = plan.number < _FIRST, self.scans_somewhere
        recalls = in_any_run(self.recalls).astype(int)
        singles = jnp.where(early | self.kinked, _FIRST_SINGLE, _SINGLE)
        counts = {
            Kind.HOME: 1,
            Kind.RECALL: recalls
            * jnp.where(scans, self._recalls(EXCHANGES + RAY), self.few_recalls),
            Kind.WEIGH: 2 * recalls,
            Kind.OTHER: recalls,
            Kind.SCAN: jnp.where(scans, self.per_part, 0),
            Kind.APART: jnp.where(scans, _APART, 0),
            Kind.JUDGE: jnp.where(scans, _JUDGED, 0),
            Kind.NEAR: plan.iterations * (_LONGER * _LONGER if self.has_values else 1),
            Kind.AGAIN: int(self.has_values),
            Kind.SCOUT: 1 + (singles if self.lanes >= FEWEST_SCOUTS else 0),
        }
        if d > 1:
            counts[Kind.LINE] = jnp.where(scans, LOOKS * min(d, LINES), 0)
            counts[Kind.COMPOSE] = jnp.where(scans, 1, 0)
        if not self.objective.additive:
            probes = min(-(-d // self.groups), _PROBES)
            counts[Kind.PROBE] = jnp.where(scans, probes, self.probes)
        return Schedule(counts)

    def _recalls(self, exchanges: int) -> int:
        """How many looks; with very few draws not all places have their turn in each stage."""
        count = GROUPS + self.new + (exchanges if self.compete else 0)
        return -(-count // max(self.parts, GROUPS))

    def listed(self, turn: Int[Array, ""]) -> Int[Array, " P"]:
        """Which place of the list each part looks at, by other draws in every stage.

        Remembered places come first, then new ones, exchanges, and the ray.
        """
        number, count = self.stage.plan.number, GROUPS + self.new
        each = turn * self.parts + in_turn(number + np.arange(self.parts), self.parts)
        # Very few draws look at some of these places in one stage and at others in the next.
        if self.parts < GROUPS:
            later = in_turn(each + number * self.few_recalls * self.parts, count)
            each = jnp.where(each < count, later, each)
        return each

    def _fresh(self) -> Float[Array, "k d"]:
        """Places that no stage has looked at, and some where all coordinates move together.

        Of one coordinate both ends are among them: to do nothing is often the other choice, and the
        world may have changed since the last scan.
        """
        about = self.feasible, self.x, self.ends, self.stage.plan.number
        if self.x.size == 1:
            return jnp.concatenate([jnp.stack(self.ends), on_ray(*about), fresh_places(*about, 18)])
        if self.objective.additive:
            return fresh_places(*about, self.new)
        return jnp.concatenate([on_ray(*about), fresh_places(*about, self.new - 4)])

    def _places(self) -> Places:
        groups = max(self.parts, GROUPS)
        found = places(self.feasible, self.x, self.stage.plan.number, groups)
        # part by part, so that each part of the draws keeps to a stretch of the set
        return Places(*(each.reshape(self.parts, self.per_part, self.x.size) for each in found))

    def _no_places(self) -> Places:
        zeros = jnp.zeros((self.parts, self.per_part, self.x.size))
        return Places(zeros, zeros)

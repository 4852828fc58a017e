"""The default: find where this stage's posterior has its minimum, anywhere in the feasible set.

With the draws fixed, the posterior-averaged cost is a plain function of x, with values and slopes.
One loop looks at it again and again; what a look is for depends on its number alone. So the
objective stands in the program once.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import (
    Outlook,
    cost_deviation,
    outlook,
    unknown,
    worth,
)
from postgrad.algorithm.descents.descent import Course, Descent, Plan, Stage
from postgrad.algorithm.descents.search.ground import Ground, draws_of
from postgrad.algorithm.descents.search.judgement import NEWS
from postgrad.algorithm.descents.search.local_step import (
    FAR,
    NOTHING,
    quadratic_step,
    raised,
    saving,
)
from postgrad.algorithm.descents.search.looks import known_error, standard_error
from postgrad.algorithm.descents.search.loop import look_around
from postgrad.algorithm.descents.search.places import GROUPS
from postgrad.algorithm.descents.search.state import (
    FEWEST_SCOUTS,
    Carry,
    Track,
    group_count,
    root,
    some_numbers,
)
from postgrad.algorithm.sampled_objective import Draws, draw_thetas
from postgrad.beliefs.belief import Belief, first
from postgrad.beliefs.grid.rare_points import weights_in_groups
from postgrad.numerics.lattice_keys import purpose
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import on_device
from postgrad.problem.problem import Decision

_BLOCKED = 0.5  # the share of single thetas whose steps all failed from which on they tell nothing
_SAME_PLACE = 1e-9  # optima that are nearer to each other, relative to x, differ by rounding
_ROUGHLY = 8  # steps of the quadratic programmes that tell how large simulation noise is
_RESTLESS, _UNRESOLVED = 0.02, 0.02  # shares of the cost from which on a stage warns
_BLURRED = 0.1  # the same of the standard error of the cost itself


class Search(Descent):
    """Values decide, slopes guide.

    A stage looks at F, the averaged cost on fixed draws, in this order:

    1. at x_t; unless F is convex as far as is known: at eight places that are remembered, at some
       that are new, at some where all coordinates move together, and where they compete at
       exchanges between them, all in one look, each with a part of the draws; at the best eight of
       these, and a step downhill from each, with an eighth; and at the best of all;
    2. in stages 1, 2, 4, 8, 16, 32, 48, ..., and where F is not convex also if the posterior has
       moved by a standard deviation since the last scan: at 384 places of the whole set; unless F
       is convex as far as two scans have seen, from the best place of each of 32 groups of places a
       few steps downhill, each with a thirty-second of the draws; then at the best place of the
       group around x_t, and at the best two of all;
    3. in several dimensions, after a scan: along lines through the best place;
    4. at most 3 K times from the best place so far, downhill, until steps have nothing to save;
       9 K times after the first scans, and where the minimum is far off;
    5. where F is not convex, once more at the best place of 1, if steps have not led as low;
    6. at the optima under single thetas, which tell how uncertain the decision is.

    A place is left for another only if F is lower there by the same draws; for another valley, only
    if it is lower by two standard errors, and by more than steps promise. Steps are those of a
    quasi-Newton method, which learns curvature from the slopes that it meets. Where slopes do not
    explain how values change, the cost jumps, and steps go by values alone: along coordinates, back
    and forth, or where coordinates interact in whatever direction of 64 is best, for up to 9 K
    looks.

    *Gain.* The solution x^S of the fixed draws is x^opt, the minimum for this posterior, plus
    simulation noise of variance R. x^opt itself has moved by about Q = Sigma D / (N - D) since the
    last stage, with Sigma the posterior variance of the optimal decision, D new observations and N
    in all. So (Kalman, 1960)

        P <- P + Q,   gain = P / (P + R),   x <- x + gain (x^S - x),   P <- (1 - gain) P.

    All are measured by what they cost, A/2 times a square, so no unit of x matters. Where the
    posterior has settled and nothing moves any more, this averages over stages.
    """

    usual_iterations: ClassVar[int] = 6
    usual_samples: ClassVar[tuple[int, int]] = (256, 16)
    fixes_draws: ClassVar[bool] = True

    def init(self, x: Decision, theta: PyTree, additive: bool) -> Track:
        """Nothing known."""
        d = x.size
        ones = on_device(np.ones(d))
        return Track(
            ones,
            on_device(np.eye(0 if additive else d)),
            ones,
            on_device(np.float64(FAR)),
            on_device(np.tile(np.ravel(x).astype(float), (GROUPS, 1))),
            on_device(np.bool_(True)),
            on_device(np.bool_(False)),
            on_device(np.zeros((2, some_numbers(theta)))),
        )

    def beginning_at(self, x: Decision, state: Track) -> Track:
        """With x as the only place that is remembered."""
        return replaced(state, others=jnp.tile(jnp.ravel(x), (GROUPS, 1)))

    def step_size(self, number: Int[Array, ""]) -> Array:
        """None."""
        del number
        return jnp.ones(())

    def sample_thetas(self, belief: Belief, plan: Plan) -> PyTree:
        """A theta for each row of draws, evenly spread."""
        return draw_thetas(belief, purpose(root(plan), 0), plan.samples[0])

    def sample_wide(self, belief: Belief, plan: Plan) -> tuple[PyTree, Float[Array, " m"]] | None:
        """The same of a grid of few points, unlikely ones more often."""
        wide = belief.wide()
        if wide is None:
            return None
        thetas, drawn = draw_thetas(wide, purpose(root(plan), 0), plan.samples[0])
        return thetas, weights_in_groups(drawn, group_count(plan))

    def readings(self, stage: Stage, x: Decision) -> Draws | None:
        """The draws that the search goes by, if these give values."""
        objective, one = stage.objective, first(stage.thetas)
        if not objective.gradient.has_values(objective.problem, x, one):
            return None
        scout = jax.tree.map(lambda leaf: leaf[None], one)
        return draws_of(stage, scout, x)(jnp.asarray(False))

    def descend(
        self, stage: Stage, x: Decision, state: Track
    ) -> tuple[Decision, Track, Course, Outlook]:
        """From the last decision to the minimum for this posterior."""
        ground = Ground(stage, x, state)
        end = look_around(ground)
        objective, feasible = stage.objective, stage.objective.problem.feasible
        held, lane, flat = end.held, end.held.lane, x.ravel()
        # Curvature over the distance that single thetas put between their optima: between two kinks
        # the last steps may have met none, and at a kink any.
        ideal = end.lanes.x - jnp.mean(end.lanes.x, axis=0)
        differ = end.scouted.slopes - jnp.mean(end.scouted.slopes, axis=0)
        square = jnp.sum(jnp.square(ideal), axis=0)
        bend = jnp.sum(jnp.abs(differ * ideal), axis=0) / square
        low, high = ground.ends
        rounding = _SAME_PLACE * jnp.maximum(jnp.abs(lane.x), 1e-6 * (high - low))
        known = square > jnp.square(rounding)
        bend = jnp.where(known & jnp.isfinite(bend) & (bend > 0.0), bend, lane.bend)
        bends = bend if objective.additive else end.matrix

        def cost_of(move: Array) -> Array:  # s'A s / 2
            bent = move * bends if objective.additive else move @ bends
            return 0.5 * jnp.sum(bent * move, axis=-1)

        # Sigma, R and the news, each as a cost.
        sigma = jnp.mean(cost_of(ideal))
        off = held.slopes - jnp.mean(held.slopes, axis=0)
        wrong = _steps_by_groups(ground, end, off, bend)
        groups = ground.groups
        noise = jnp.sum(cost_of(wrong)) / max(groups * (groups - 1), 1)
        if ground.has_values:
            # At kinks a curvature may be any, but what groups would have preferred is seen.
            preferred = jnp.mean(held.values - end.least_near) / groups
            noise = jnp.where(preferred > noise, preferred, noise)
        size, new = stage.size, stage.rows
        moved = jnp.where(jnp.isfinite(size), sigma * new / jnp.maximum(size - new, 0.0), 0.0)
        expected = state.variance + moved
        saved = 0.5 * jnp.sum((end.home[0] + lane.slope) * (flat - lane.x))
        far = saved > NEWS * (expected + noise)
        whole = groups == 1 or objective.has_fixed_kinks(stage.thetas, x)
        expected = jnp.where(far | end.switched | end.jumped | whole, FAR, expected)
        gain = jnp.where(expected < FAR, expected / (expected + noise), 1.0)
        gain = jnp.where(jnp.isnan(gain), 1.0, gain)  # nothing moves and nothing is noisy
        left = jnp.where(gain < 1.0, (1.0 - gain) * expected, noise)
        goal = feasible.project((flat + gain * (lane.x - flat)).reshape(x.shape)).ravel()
        # In the corner of a polyhedron a projection may fail by rounding; the best place is in it.
        between = (gain < 1.0) & jnp.all(jnp.isfinite(goal))
        x_next = jnp.where(between, goal, lane.x)

        told = end.scouted
        scale = jnp.maximum(jnp.abs(lane.value), jnp.mean(jnp.abs(told.costs)))
        # Of a cost that jumps, the noise of the minimum falls with the number of draws to the power
        # 2/3 alone (Kim and Pollard, 1990).
        parts = ground.parts
        gap = jnp.mean(held.parts - end.least) / parts ** jnp.where(end.jumped, 2 / 3, 1.0)
        # A place may be lower by all draws, and yet not by so much that it was believed.
        gap = jnp.fmax(gap, lane.value - end.lowest)
        ahead = saving(lane._replace(bend=bend), end.matrix, end.step)
        settled = ahead <= 0.1 * (sigma + noise) + NOTHING * scale
        # At kinks, and where the cost jumps, what slopes promise is not to be had.
        downhill = end.stepped & ~end.jumped & ground.has_values
        restless = (ahead > _RESTLESS * scale) & ~settled & downhill
        # Events that few draws meet: all groups may agree, and all be wrong.
        blurred = known_error(held.values) > _BLURRED * scale
        unresolved = ((gap > _UNRESOLVED * scale) | blurred) & ground.has_values
        if not objective.additive and ground.has_values:  # along a ridge, one leap follows another
            leapt = end.switched & ~ground.scans & (end.promising.hope < -_RESTLESS * scale)
            restless = restless | (leapt & ~settled)
        # A posterior that is none has no value, and must not pass for one that has settled.
        x_next = jnp.where(jnp.isnan(lane.value), jnp.nan, x_next)
        course = Course(
            gradient=jnp.stack([end.home[0], lane.slope]).reshape(2, *x.shape),
            noise=jnp.stack([end.home[1], standard_error(held.slopes)]).reshape(2, *x.shape),
            curvature=jnp.diag(bends) if objective.additive else bends,
            gain=gain,
            settled=settled.astype(gain.dtype),
            doubt=jnp.where(restless, 2.0, jnp.where(unresolved, 1.0, 0.0)),
            switched=end.switched.astype(gain.dtype),
            local_only=jnp.asarray(float(ground.local_only)),
        )
        shown = unknown(x)
        if ground.lanes >= FEWEST_SCOUTS:
            decision = x_next.reshape(x.shape)
            key = purpose(root(stage.plan), 2)
            information = worth(
                objective.problem, decision, ground.scouts, told.slopes, course.curvature,
                stage.rows, stage.size, key,
            )  # fmt: skip
            varies = cost_deviation(objective.problem, decision, ground.scouts, purpose(key, 0))
            shown = outlook(decision, end.lanes.x, end.lanes.value, told, varies, information)
            # By slopes, nobody finds the best decision of a theta where costs jump or bend sharply.
            stands = jnp.all(end.lanes.x == lane.x, axis=1)
            steps = end.look.at - end.lanes.x
            promised = jax.vmap(saving, in_axes=(0, None, 0))(end.lanes, end.matrix, steps)
            blocked = stands & (promised > NOTHING * scale)
            blocked = blocked | jnp.all(told.slopes == 0.0, axis=1)  # a plateau
            lost = end.jumped | (jnp.mean(blocked) > _BLOCKED)
            nothing = unknown(x)
            nothing = eqx.tree_at(lambda o: o.aleatoric, nothing, shown.aleatoric)
            shown = jax.tree.map(lambda new, old: jnp.where(lost, new, old), nothing, shown)
        spread = jnp.std(end.lanes.x, axis=0)
        reach = 4.0 * jnp.maximum(jnp.maximum(spread, jnp.abs(lane.x - flat)), jnp.abs(end.step))
        reach = jnp.maximum(reach, 1e-3 * jnp.maximum(jnp.abs(x_next), 1e-6 * ground.wide))
        # Stage by stage, flat coordinates would lose all curvature.
        bend, matrix = raised(bend, reach, alone=objective.additive), end.matrix
        if not objective.additive:
            own = jnp.diagonal(matrix)
            matrix = matrix + jnp.diag(raised(own, reach, alone=False) - own)
        # Who has gone to another valley between scans knows of two.
        convex = ~end.bent & (ground.scans | (state.convex & ~end.switched))
        # Where F is convex still, what moves from here on counts.
        renewed = ground.scans | (ground.recalls & convex)
        known = jnp.where(renewed, ground.believed, state.believed)
        track = Track(bend, matrix, reach, left, end.others, end.explained, convex, known)
        return x_next.reshape(x.shape), track, course, shown


def _steps_by_groups(on: Ground, end: Carry, off: Array, bend: Array) -> Float[Array, "G d"]:
    """How far each group of draws would go on from the best place, by its own slope."""
    lane = end.held.lane
    if on.objective.additive:
        return jnp.clip(-off / bend, -lane.reach, lane.reach)
    # Curvature is known in feasible directions only: a step must stay feasible to mean anything.
    return jax.vmap(
        lambda slope: quadratic_step(
            on.feasible, on.x.shape, lane._replace(slope=slope), end.matrix, _ROUGHLY
        )
    )(lane.slope + off)

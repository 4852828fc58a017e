"""The default: go to where this stage's posterior has its minimum.

The paper takes one noisy step a stage. The posterior allows more: with the draws fixed, the
posterior-averaged cost is a plain function of x, and a few Newton steps find its minimum. What is
left is the error of having finitely many draws, and that is weighed against how much the minimum
itself can have moved.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.descents.curvature import (
    FAR,
    FINE,
    Look,
    Track,
    distance_apart,
    guess,
    inverse,
    measured,
    positive,
)
from postgrad.algorithm.descents.descent import Course, Descent, Plan, Stage
from postgrad.algorithm.sampled_objective import SCOUTS, Point, SampledObjective, draw_thetas
from postgrad.beliefs import Belief
from postgrad.problem.feasible import FeasibleSet
from postgrad.problem.problem import Decision

# From few draws no step is longer than this many times the distance at which draws disagree.
_LONGEST = 3.0
# The first 4 stages take 4 times as many steps.
_FIRST = 4
_PROJECTIONS = 40  # steps of the quadratic programme where a constraint is active
_SURPRISE = 9.0  # a move this many times its variance is news, not noise
_MEASURABLE = 32  # draws from which their noise can be told
_SETTLED = 0.3
_OVERSHOOT = 0.25


class Newton(Descent):
    """K damped Newton steps on fixed draws, then as much of the way as the noise allows.

    *Steps.* Curvature A comes from differences of the gradient over a stretch of x, with the same
    draws; so kinked costs have one, too. A step minimises g's + (kappa/2) s'A s over feasible x+s.
    The slope at its end corrects kappa by the secant rule. A step that ends uphill, and more than a
    quarter as steeply as it began downhill, is not taken, but a shorter one, up to where the secant
    is level. Only gradients are used: it also finds the fixed point of a gradient that belongs to
    no function, such as `Partial`.

    *Gain.* The solution x^S of the fixed draws is x^opt, the minimum for this posterior, plus
    simulation noise of variance R. x^opt itself has moved by about Q = Sigma D / (N - D) since the
    last stage, with Sigma the posterior variance of the optimal decision, D new observations and N
    in all. So (Kalman, 1960)

        P <- P + Q,   gain = P / (P + R),   x <- x + gain (x^S - x),   P <- (1 - gain) P.

    With draws enough the gain is one. With one draw a stage, R = N Sigma, it is about 1.6/t, the
    golden ratio. Where the posterior has settled and nothing moves any more, it averages over
    stages.
    """

    usual_iterations: ClassVar[int] = 6
    usual_samples: ClassVar[tuple[int, int]] = (256, 16)
    fixes_draws: ClassVar[bool] = True
    measures_curvature: ClassVar[bool] = True

    def init(self, x: Decision) -> Track:
        """Nothing known."""
        far = jnp.asarray(FAR, float)
        none, d = jnp.zeros(()), x.size
        return Track(jnp.zeros((d, d)), jnp.zeros(d), jnp.zeros(d), none, none, far, far)

    def step_size(self, number: Int[Array, ""]) -> Array:
        """None."""
        del number
        return jnp.ones(())

    def sample_thetas(self, belief: Belief, plan: Plan) -> PyTree:
        """The same draws for all steps, evenly spread."""
        return draw_thetas(belief, random.fold_in(_root(plan), 0), plan.samples[0])

    def descend(self, stage: Stage, x: Decision, state: Track) -> tuple[Decision, Track, Course]:
        """From the last decision to the minimum for this posterior."""
        objective, thetas, plan = stage.objective, stage.thetas, stage.plan
        few, fine = plan.total < _MEASURABLE, plan.total >= FINE
        key_xi, key_scout, key_single = (random.fold_in(_root(plan), i) for i in (2, 3, 4))
        look = objective.survey(thetas, key_xi, plan.samples[1], x)
        here = look(x)

        singles = objective.singles(thetas, key_single, x)
        known = measured(stage, look, here, singles(x), x, state)
        # Few draws would make the same error in slope and curvature; then what was known before.
        earlier = (state.count > 0) & (not fine)
        bends = jnp.where(earlier, state.curvature, known.curvature)
        metric = positive(bends + jnp.diag(guess(known, bends, x)))
        apart = distance_apart(known, x)
        longest = _LONGEST * apart.reshape(x.shape) if few else jnp.full_like(x, FAR)
        # What was too far among the kinks of the last draws need not be so among these.
        reach = jnp.maximum(state.reach, jnp.sqrt(jnp.sum(jnp.square(apart))))
        solution, slopes, noises, step, reach = _solve(stage, look, here, x, metric, longest, reach)

        shape_of_errors = inverse(metric)
        sigma, noise = _uncertainties(
            objective, thetas, key_scout, solution, shape_of_errors, noises[-1]
        )
        # Between two draws a kinked cost is straight: it looks settled, to within their distance.
        noise = noise + jnp.sum(jnp.square(apart / plan.total))
        size, new = stage.size, stage.rows
        if few:  # a draw is worth what an observation is
            sigma, noise = 1.0 / size, jnp.asarray(1.0 / plan.total)
        before = jnp.maximum(size - new, 0.0)
        moved = jnp.where(jnp.isfinite(size), sigma * new / before, 0.0)
        expected = state.variance + moved
        if not few:
            news = jnp.sum(jnp.square(solution - x)) > _SURPRISE * (expected + noise)
            expected = jnp.where(news, FAR, expected)
        gain = jnp.where(expected < FAR, expected / (expected + noise), 1.0)
        gain = jnp.where(jnp.isnan(gain), 1.0, gain)  # nothing moves and nothing is noisy
        left = jnp.where(gain < 1.0, (1.0 - gain) * expected, noise)

        x_next = objective.problem.feasible.project(x + gain * (solution - x))
        # A posterior that is none has no slope, and must not pass for one that has settled.
        x_next = jnp.where(jnp.any(jnp.isnan(slopes[0])), jnp.nan, x_next)
        settled = jnp.sum(jnp.square(step)) <= _SETTLED**2 * (sigma + noise) + 1e-12 * jnp.sum(
            1.0 + jnp.square(x)
        )
        # Where the stage ends, the cost may bend otherwise than where it began.
        there = look(solution)
        ends = measured(stage, look, there, singles(solution), solution, known)
        bends = ends.curvature + jnp.diag(guess(ends, ends.curvature, solution))
        course = Course(slopes, noises, positive(bends), gain, settled.astype(gain.dtype))
        known = eqx.tree_at(lambda track: (track.reach, track.variance), known, (reach, left))
        return x_next, known, course


def _root(plan: Plan) -> Array:
    """What a stage's draws derive from: of very many, the stage's number alone."""
    return random.fold_in(random.key(0), plan.number) if plan.total >= FINE else plan.key


def _solve(
    stage: Stage, look: Look, here: Point, x: Decision, metric: Array, longest: Array, reach: Array
) -> tuple[Decision, Array, Array, Decision, Array]:
    """K damped Newton steps: the last point, all slopes and noises, the last step, the reach.

    From few draws every step must be taken: to refuse those that go too far by the light of these
    draws would be to choose among draws, and the mean would be wrong.
    """
    objective, feasible = stage.objective, stage.objective.problem.feasible
    iterations, careful = stage.plan.iterations, stage.plan.total >= _MEASURABLE
    # The first stages begin far from the minimum.
    early = (stage.plan.number <= _FIRST) & careful
    rounds = jnp.where(early, _FIRST * iterations, iterations)

    def body(carry: PyTree) -> PyTree:
        k, at, kappa, reach, slopes, noises, _ = carry
        x, slope, noise = at
        last = k % iterations  # of more rounds than K, the last K are told of
        slopes, noises = slopes.at[last].set(slope), noises.at[last].set(noise)
        step = _quadratic_step(feasible, x, slope, kappa * metric)
        step = feasible.project(x + jnp.clip(step, -longest, longest)) - x
        length = jnp.sqrt(jnp.sum(jnp.square(step)))
        step = step * jnp.minimum(1.0, reach / jnp.where(length > 0, length, 1.0))
        length = jnp.minimum(length, reach)
        there = look(x + step)
        ahead = objective.slope(there)
        down, up = -jnp.sum(slope * step), jnp.sum(ahead * step)
        finite = jnp.all(jnp.isfinite(ahead))
        tiny = length <= 1e-9 * (1.0 + jnp.max(jnp.abs(x)))  # rounding is no overshooting
        good = finite & (tiny | (up <= _OVERSHOOT * down) | (not careful))
        # The curvature found over that assumed, and where the secant is level.
        found = (down + up) / jnp.where(down > 0, down, 1.0)
        level = jnp.clip(jnp.where(finite & (found > 0), 1.0 / found, 0.1), 0.1, 0.8)
        ratio = jnp.where(finite & (down > 0) & careful, jnp.clip(found, 0.125, 8.0), 1.0)
        kappa = jnp.where(good, kappa * ratio, kappa)
        reach = jnp.where(good, jnp.where(length >= reach, 4.0 * reach, FAR), level * length)
        new = x + step, ahead, objective.noise(there)
        at = jax.tree.map(lambda new, old: jnp.where(good, new, old), new, at)
        return k + 1, at, kappa, reach, slopes, noises, step

    at, none = (x, objective.slope(here), objective.noise(here)), jnp.zeros((iterations, *x.shape))
    start = (jnp.zeros((), jnp.int32), at, jnp.ones(()), reach, none, none, jnp.zeros_like(x))
    carry = lax.while_loop(lambda carry: carry[0] < rounds, body, start)
    _, (x, _, _), _, reach, slopes, noises, step = carry
    return x, slopes, noises, step, reach


def _quadratic_step(
    feasible: FeasibleSet, x: Decision, slope: Decision, metric: Float[Array, "d d"]
) -> Decision:
    """argmin_s g's + s'A s / 2 such that x + s is feasible."""
    free = -(inverse(metric) @ slope.ravel()).reshape(x.shape)
    # Where a constraint is active: Nesterov's accelerated projected gradient on the quadratic.
    top = jnp.max(jnp.sum(jnp.abs(metric), axis=0))  # no less than the largest curvature

    def improve(i: Array, carry: PyTree) -> PyTree:
        step, before = carry
        ahead = step + i / (i + 3.0) * (step - before)
        push = slope + (metric @ ahead.ravel()).reshape(x.shape)
        return feasible.project(x + ahead - push / top) - x, step

    first = feasible.project(x + free) - x
    bound = first
    if x.size > 1:
        bound, _ = lax.fori_loop(0, _PROJECTIONS, improve, (first, first))
    inside = feasible.violation(x + free) <= 0.0
    return jnp.where(inside, free, bound)


def _uncertainties(
    objective: SampledObjective, thetas: PyTree, key: Array, x: Decision, to_x: Array, noise: Array
) -> tuple[Array, Array]:
    """Sigma and R: the posterior variance of the optimal decision, and what simulation adds."""
    # Some of the draws of theta, spread over all of them.
    stride = max(1, jax.tree.leaves(thetas)[0].shape[0] // SCOUTS)
    some = jax.tree.map(lambda leaf: leaf[::stride], thetas)
    slopes = objective.side_by_side(some, key, x).gradients.reshape(-1, x.size)
    away = (slopes - jnp.mean(slopes, axis=0)) @ to_x
    sigma = jnp.sum(jnp.square(away)) / slopes.shape[0]
    return sigma, jnp.sum(jnp.square(to_x) @ jnp.square(noise.ravel()))

"""What given decisions cost, and which outcomes they have, under what is believed.

All decisions are valued with the same draws of theta and of the random numbers behind xi, so that
differences between decisions are sharp, and small changes of a decision have small effects.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float, PyTree

from postgrad.algorithm.gradients.gradient import Gradient
from postgrad.algorithm.risks.risk import Risk
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas
from postgrad.beliefs.belief import Belief, first
from postgrad.beliefs.grid.rare_points import weights_in_groups
from postgrad.distributions.inversion import by_inversion
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.lattice_keys import purpose
from postgrad.problem.problem import Decision, Problem

# Draws of theta, and of xi for each of these. With more numbers in xi than that, tails are not
# drawn apart: see `has_tails`.
THETAS, DRAWS, _SEVERAL = 256, 64, 32


class Valued(NamedTuple):
    """What a decision brings under each theta; the first row is the cost, others are outcomes.

    Arrays of a program, or NumPy's.

    Attributes:
        means: The expectation of each under each theta.
        common: The same by draws of xi that all thetas have in common: wrong by the noise of few
            draws, which is the same for all thetas, so that their differences are not.
        squares: The expectation of the squared cost.
        shares: The probability of each theta; they add to one.
    """

    means: Float[Any, "k L"]
    common: Float[Any, "k L"]
    squares: Float[Any, " L"]
    shares: Float[Any, " L"]


class Draws(NamedTuple):
    """What all decisions are valued with.

    Attributes:
        thetas: Draws from the belief.
        shares: How much each counts.
        keys: Keys of draws of xi, for each theta.
        weights: How much each draw counts, one on average.
    """

    thetas: PyTree
    shares: Float[Array, " L"]
    keys: Array
    weights: Float[Array, "L n"]


def drawn(
    problem: Problem,
    gradient: Gradient,
    risk: Risk,
    belief: Belief,
    x: Decision,
    key: Array,
    tails: bool,
) -> Draws:
    """Draws for valuations.

    Args:
        problem: Cost, model and outcomes.
        gradient: The estimator of the policy.
        risk: Its risk.
        belief: What is believed.
        x: Any decision.
        key: Randomness.
        tails: Whether more draws than a sample would have lie in the tails: see `has_tails`.
    """
    wide = belief.wide()
    if wide is None:
        thetas, shares = draw_thetas(belief, purpose(key, 0), THETAS), jnp.ones(THETAS)
    else:  # a grid of few points, of which unlikely ones may decide
        thetas, how = draw_thetas(wide, purpose(key, 0), THETAS)
        shares = weights_in_groups(how, 1)
    theta = first(thetas)
    size = math.prod(problem.kind(x, theta).event_shape)
    objective = SampledObjective(problem, gradient, risk, None, tails=tails and size <= _SEVERAL)
    keys, weights = objective.keys(purpose(key, 1), THETAS, DRAWS, x, theta)
    return Draws(thetas, shares / jnp.sum(shares), keys, weights)


def valued(problem: Problem, draws: Draws, xs: Float[Array, "j ..."]) -> Valued:
    """What each of some decisions brings; the decisions lie along the leading axis."""
    same = jnp.broadcast_to(draws.weights[:1], draws.weights.shape)
    both = (draws.keys, draws.weights), (_broadcast(draws.keys), same)
    moves = problem.kind(xs[0], first(draws.thetas)).depends_on_decision
    once = [None if moves else sampled(problem, draws, xs[0], keys) for keys, _ in both]

    def at(x: Decision) -> Valued:
        (own, weights), (common, _) = (
            (_values(problem, x, sampled(problem, draws, x, keys) if xi is None else xi), weights)
            for xi, (keys, weights) in zip(once, both, strict=True)
        )
        return Valued(
            means=jnp.mean(own * weights[..., None], axis=1).T,
            common=jnp.mean(common * same[..., None], axis=1).T,
            squares=jnp.mean(jnp.square(own[..., 0]) * weights, axis=1),
            shares=draws.shares,
        )

    return lax.map(at, xs)


def sampled(problem: Problem, draws: Draws, x: Decision, keys: Array) -> Array:
    """xi, for each theta and key."""
    law = jax.vmap(lambda theta, keys: jax.vmap(by_inversion(problem.model(x, theta)).sample)(keys))
    return computed_once(law(draws.thetas, keys), draws.weights)


def expected(
    problem: Problem, x: Decision, xi: Array, weights: Float[Array, "L n"], shares: Array
) -> Float[Array, " k"]:
    """The expected cost and outcomes of a decision, by xi that are drawn already."""
    means = jnp.mean(_values(problem, x, xi) * weights[..., None], axis=1)
    return shares @ means


def _values(problem: Problem, x: Decision, xi: Array) -> Float[Array, "L n k"]:
    def each(xi: Array) -> Array:
        return jnp.concatenate([problem.cost(x, xi)[None], problem.outcomes.values(x, xi)])

    return jax.vmap(jax.vmap(each))(xi)


def _broadcast(keys: Array) -> Array:
    """The keys of the first theta, for all."""
    words = random.key_data(keys)
    same = jnp.broadcast_to(words[:1], words.shape)
    return random.wrap_key_data(same, impl=random.key_impl(keys))

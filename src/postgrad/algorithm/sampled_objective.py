"""The posterior-averaged cost and its gradient as functions of x, for fixed draws.

With the draws fixed, the average over them is a plain function of x, and one can go downhill on it
as on any other; with new draws every time it would move under one's feet.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, PyTree

from postgrad.algorithm.gradients import Gradient, Sample
from postgrad.algorithm.risks import Risk
from postgrad.algorithm.separable_cost import marginals
from postgrad.beliefs import Belief
from postgrad.beliefs.belief import first
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.lattice_keys import lattice_keys
from postgrad.problem.problem import Decision, Problem

# The draws are taken apart into so many groups, to see how much these differ.
_GROUPS = 8
# The dimension of theta, which must be none of those of xi. Powers of the multiplier repeat, with a
# period of n / 4; with this one, 22 dimensions before the first of xi, pairs (theta, xi) are spread
# well for the usual numbers of draws, also with one xi for each theta.
_THETA = 2**20 - 22
# So many thetas are looked at one by one.
SCOUTS, _NODES = 64, 32


class Point(eqx.Module):
    """What the draws say at one x.

    Attributes:
        costs: H(x, theta_j).
        gradients: grad_x H(x, theta_j).
    """

    costs: Float[Array, " m"]
    gradients: Float[Array, "m ..."]


class SampledObjective(eqx.Module):
    """F(x) = rho_{theta ~ pi} H(x, theta) as it looks from draws of theta and xi.

    Attributes:
        problem: Cost, model and feasible set.
        gradient: The estimator.
        risk: rho.
        mixture: pi, for gradients that read its mixture density; None for the others.
        only_marginals: Whether the coordinates of xi may be drawn independently.
    """

    problem: Problem
    gradient: Gradient
    risk: Risk
    mixture: Belief | None
    only_marginals: bool = eqx.field(static=True)

    def survey(
        self, thetas: PyTree, key: Array, count: int, x: Decision
    ) -> Callable[[Decision], Point]:
        """x -> what m thetas with `count` draws of xi for each say; all drawing is done here."""
        m = jax.tree.leaves(thetas)[0].shape[0]
        return self._looks(thetas, key, (count, m), x)

    def side_by_side(self, thetas: PyTree, key: Array, x: Decision) -> Point:
        """The thetas with the same noise for all.

        What is common to them is wrong by the noise of few draws; how they differ is not.
        """
        return self._looks(thetas, key, (_NODES,), x)(x)

    def singles(self, thetas: PyTree, key: Array, x: Decision) -> Callable[[Decision], Array]:
        """x -> the mean square of the gradient of a single draw of (theta, xi)."""
        look = self.survey(thetas, key, 1, x)
        return lambda x: jnp.mean(jnp.square(look(x).gradients), axis=0)

    def spacing(self, thetas: PyTree, x: Decision) -> float:
        """How far apart the values of xi are, if they are counts that no decision changes."""
        theta = first(thetas)
        counts = self.problem.model(x, theta).support.is_discrete
        return 1.0 if counts and not self.problem.kind(x, theta).depends_on_decision else 0.0

    def slope(self, point: Point) -> Float[Array, "..."]:
        """Grad F."""
        return jnp.tensordot(self.risk.weights(point.costs), point.gradients, axes=1)

    def noise(self, point: Point) -> Float[Array, "..."]:
        """The standard error of the slope, or rather more than that; NaN from a single theta.

        Every eighth theta with its draws is a coarser lattice of its own. How much these differ
        tells how far off each is; all of them together are nearer to the truth than if they were
        independent.
        """
        m = point.costs.shape[0]
        groups = math.gcd(m, _GROUPS)
        weighed = self.risk.weights(point.costs).reshape(m, *(1,) * (point.gradients.ndim - 1))
        parts = (weighed * point.gradients).reshape(-1, groups, *point.gradients.shape[1:])
        means = groups * jnp.sum(parts, axis=0)
        if groups == 1:
            return jnp.full(means.shape[1:], jnp.nan)
        return jnp.std(means, axis=0, ddof=1) / jnp.sqrt(groups)

    def _looks(
        self, thetas: PyTree, key: Array, shape: tuple[int, ...], x: Decision
    ) -> Callable[[Decision], Point]:
        """x -> what thetas say, by keys of this shape: draws by thetas, or the same for all."""
        keys = _keys(lambda key: self._law(x, first(thetas)).sample(key), key, shape)
        axis = 1 if len(shape) > 1 else None
        if self._draws_stay(x, first(thetas)):
            # Then the gradient is that of the cost, at xi that are drawn once for all x.
            xi = jax.vmap(self._sample, (0, axis, None))(thetas, keys, x)
            drawn = computed_once(xi, key)
            return lambda x: Point(*jax.vmap(self._cost_of, (0, None))(drawn, x))
        level = self._level(thetas, random.fold_in(key, 1), x)
        each = jax.vmap(self._average, (0, axis, None, None))
        return lambda x: Point(*each(thetas, keys, x, level))

    def _draws_stay(self, x: Decision, theta: PyTree) -> bool:
        """Whether xi is drawn, and does not depend on x."""
        moves = self.problem.kind(x, theta).depends_on_decision
        return self.gradient.draws(self.problem, x, theta) and not moves

    def _sample(self, theta: PyTree, keys: Array, x: Decision) -> Array:
        return jax.vmap(self._law(x, theta).sample)(keys)

    def _cost_of(self, xi: Float[Array, "r ..."], x: Decision) -> tuple[Array, Decision]:
        """The mean cost of some xi, and its gradient."""

        def mean(x: Decision) -> Array:
            return jnp.mean(jax.vmap(lambda xi: self.problem.cost(x, xi))(xi))

        return jax.value_and_grad(mean)(x)

    def _law(self, x: Decision, theta: PyTree) -> Any:
        law = self.problem.model(x, theta)
        return marginals(law) if self.only_marginals else law

    def _level(self, thetas: PyTree, key: Array, x: Decision) -> Array:
        """The mean cost at x from draws of their own, for scores to measure costs from."""
        if not self.gradient.uses_baseline(self.problem, x, first(thetas)):
            return jnp.zeros(())
        keys = random.split(key, jax.tree.leaves(thetas)[0].shape[0])
        costs = jax.vmap(lambda theta, key: self.problem.cost(x, self._law(x, theta).sample(key)))
        return jnp.mean(costs(thetas, keys))

    def _average(
        self, theta: PyTree, keys: Array, x: Decision, level: Array
    ) -> tuple[Array, Decision]:
        """The mean cost and its gradient, of several draws of xi under one theta."""
        seen = eqx.tree_at(lambda problem: problem.model, self.problem, self._law)

        def mean(x: Decision) -> tuple[Array, Array]:
            each = jax.vmap(
                lambda key: self.gradient.surrogate(
                    seen, x, Sample(theta, key, self.mixture, level)
                )
            )
            values, costs = each(keys)
            return jnp.mean(values), jnp.mean(costs)

        # One derivative of the mean is much cheaper than the mean of many derivatives.
        gradient, cost = jax.grad(mean, has_aux=True)(x)
        return cost, gradient


def draw_thetas(belief: Belief, key: Array, count: int) -> PyTree:
    """theta_1, ..., theta_count ~ pi, evenly spread where the belief's draws allow."""
    keys = _keys(belief.sample, key, (count,), _THETA)
    return computed_once(jax.vmap(belief.sample)(keys), key)


def _keys(
    draw: Callable[[Array], Any], key: Array, shape: tuple[int, ...], first: int = 0
) -> Array:
    """Keys of one lattice, if their number allows one and `draw` can use them."""
    count = math.prod(shape)
    if count & (count - 1) == 0:
        keys = lattice_keys(key, shape, first)
        try:
            jax.eval_shape(draw, keys.reshape(-1)[0])
            return keys
        except NotImplementedError:  # JAX draws Poisson numbers with its own generator only
            pass
    return random.split(key, shape)

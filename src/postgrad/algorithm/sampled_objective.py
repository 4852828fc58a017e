"""The posterior-averaged cost and its gradient as functions of x, for fixed draws.

With the draws fixed, the average over them is a plain function of x, and one can go downhill on it
as on any other; with new draws every time it would move under one's feet.
"""

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Bool, Float, PyTree

from postgrad.algorithm.gradients.gradient import Gradient, Sample
from postgrad.algorithm.risks.risk import Risk
from postgrad.algorithm.separable_cost import marginals
from postgrad.beliefs.belief import Belief, first
from postgrad.distributions.inversion import by_inversion
from postgrad.numerics.cache_by_shape import once_per_shape
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.lattice_keys import even_keys, lattice_bits, table_keys
from postgrad.numerics.program_cache.lowered import kept_fact
from postgrad.numerics.tails import balanced, stretched, stretched_along
from postgrad.problem.problem import Decision, Problem

# The dimension of theta, which must be none of those of xi. Powers of the multiplier repeat, with a
# period of n / 4; with this one, 18 dimensions before the first of xi, pairs (theta, xi) are spread
# well for the usual numbers of draws, also with one xi for each theta.
_THETA = 2**20 - 18
# The share of draws that are spread over the tails: of one number, of several, and of the one
# number that draws all items. Of that one a fifth would be too much: the paper's newsvendors are
# then up to 7e-4 off the limit at t = 120 to 200, and 4e-4 with a tenth.
_FAR_OUT, _FAR_OUT_OF_SEVERAL, _FAR_OUT_OF_ITEMS = 0.2, 0.3, 0.1
# Of more coordinates each would have hardly any draws in its tails.
_SEVERAL = 32


class Reading(NamedTuple):
    """What the draws say, a row for each theta.

    Attributes:
        costs: H(x_j, theta_j).
        gradients: grad_x H(x_j, theta_j), flattened.
    """

    costs: Float[Array, " m"]
    gradients: Float[Array, "m d"]


Draws = Callable[[Float[Array, "m d"]], Reading]
# Which rows have the same theta, where that matters.
Alike = Bool[Array, "m m"] | None


class SampledObjective(eqx.Module):
    """F(x) = rho_{theta ~ pi} H(x, theta) as it looks from draws of theta and xi.

    Attributes:
        problem: Cost, model and feasible set.
        gradient: The estimator.
        risk: rho.
        mixture: pi, for gradients that read its mixture density; None for the others.
        only_marginals: Whether only the marginals of xi matter: see `adds_over_coordinates`.
        additive: Whether the cost adds over the coordinates of x.
        tails: Whether more draws than a sample would have lie in the tails: see `has_tails`.
    """

    problem: Problem
    gradient: Gradient
    risk: Risk
    mixture: Belief | None
    only_marginals: bool = eqx.field(static=True, default=False)
    additive: bool = eqx.field(static=True, default=False)
    tails: bool = eqx.field(static=True, default=False)

    def rows(
        self,
        thetas: PyTree,
        scouts: PyTree,
        key: Array,
        count: int,
        x: Decision,
        counts: Float[Array, " m"] | None = None,
    ) -> Callable[[Bool[Array, ""]], Draws]:
        """Whether scouts look -> (a place for each row -> what they read there).

        There are m rows of `count` draws of xi each. Either each row has a theta of its own, drawn
        from the posterior, with draws of its own. Or the rows belong to few thetas, the scouts,
        m / L rows each, and all scouts see the same noise: what is common to them is wrong by the
        noise of few draws; how they differ is not. All drawing is done here, unless xi depends on
        x.

        Args:
            thetas: theta_1, ..., theta_m.
            scouts: L thetas, where L divides m; row i belongs to scout i mod L.
            key: Randomness.
            count: Draws of xi for each row.
            x: Any decision.
            counts: How much each theta counts; all once, if not given.
        """
        m, few = (jax.tree.leaves(each)[0].shape[0] for each in (thetas, scouts))
        theta = first(thetas)
        if not self.gradient.draws(self.problem, x, theta):
            count = 1  # each row is one sum over values of xi
        keys, weights = self.keys(key, m, count, x, theta)
        # Every L-th row of a lattice is a coarser lattice: the noise that all scouts see.
        rows = jnp.arange(m)
        of_scouts = rows // few * few
        both_thetas = jax.tree.map(
            lambda own, some: jnp.stack([own, some[rows % few]]), thetas, scouts
        )
        all_count = weights if counts is None else weights * counts[:, None]
        keys = jnp.stack([keys, keys[of_scouts]])
        weights = jnp.stack([all_count, weights[of_scouts]])
        level = self._level(thetas, random.fold_in(key, 2), x)
        row: Callable[..., Any] = jax.vmap(functools.partial(self._of_keys, level))
        sample = jax.vmap(lambda theta, keys: self._sample(theta, keys, x))
        stay = self._draws_stay(x, theta)
        if stay:
            row = jax.vmap(self._of_draws)

        def chosen(scouting: Array) -> Draws:
            mine: tuple[Any, ...] = jax.tree.map(
                lambda leaf: _pick(leaf, scouting), (both_thetas, keys, weights)
            )
            if stay:  # Then the gradient is that of the cost, at xi that are drawn once for all x.
                mine = (computed_once(sample(*mine[:2]), key), mine[2])

            def look(places: Array) -> Reading:
                costs, gradients = row(*mine, places.reshape(m, *x.shape))
                return Reading(costs, gradients.reshape(m, -1))

            return look

        return chosen

    def alike(self, thetas: PyTree) -> Alike:
        """Which rows have the same theta; None for the mean, to which it does not matter.

        A point of a grid may be drawn a hundred times. Its H is one number, and how its rows differ
        is noise in xi, which other risks than the mean would take for risk: rows that look at the
        same place and have the same theta share the mean of their costs.
        """
        if self.risk.is_mean:
            return None
        m = jax.tree.leaves(thetas)[0].shape[0]
        flat = jnp.concatenate([leaf.reshape(m, -1) for leaf in jax.tree.leaves(thetas)], axis=1)
        return jnp.all(flat[:, None] == flat, axis=-1) | np.eye(m, dtype=bool)

    def groups(self, reading: Reading, count: int, alike: Alike) -> tuple[Array, Array]:
        """The risk and its gradient by each of some groups of rows, row i in group i mod count."""
        costs = reading.costs.reshape(-1, count)
        gradients = reading.gradients.reshape(-1, count, reading.gradients.shape[1])
        if alike is None:
            values = jax.vmap(self.risk.value, in_axes=1)(costs)
            weights = jax.vmap(self.risk.weights, in_axes=1)(costs)
        else:
            each = costs.shape[0]
            own = alike.reshape(each, count, each, count)[:, np.arange(count), :, np.arange(count)]
            values, weights = jax.vmap(self._pooled, in_axes=(1, 0))(costs, own)
        return values, jnp.sum(weights.T[..., None] * gradients, axis=0)

    def slope(self, reading: Reading, alike: Alike) -> Float[Array, " d"]:
        """Grad F, if all rows looked at one place."""
        if alike is None:
            weights = self.risk.weights(reading.costs)
        else:
            weights = self._pooled(reading.costs, alike)[1]
        return jnp.sum(weights[:, None] * reading.gradients, axis=0)

    def _pooled(
        self, costs: Float[Array, " m"], alike: Bool[Array, "m m"]
    ) -> tuple[Float[Array, ""], Float[Array, " m"]]:
        """The risk, and how much each row counts, if rows that are alike share their mean cost."""
        shares = alike / jnp.sum(alike, axis=1, keepdims=True)
        pooled = shares @ costs
        return self.risk.value(pooled), self.risk.weights(pooled) @ shares

    def has_fixed_kinks(self, thetas: PyTree, x: Decision) -> bool:
        """Whether xi has separate values that no decision changes.

        Then kinks of the cost lie at the same places for all draws, and the best decision is likely
        to be one of them; an average of decisions is not.
        """
        theta = first(thetas)
        moves = self.problem.kind(x, theta).depends_on_decision
        return self.problem.model(x, theta).support.is_discrete and not moves

    def keys(
        self, key: Array, columns: int, count: int, x: Decision, theta: PyTree
    ) -> tuple[Array, Array]:
        """Keys of `count` draws of xi for each of some columns, and how much each draw counts.

        Points of a lattice, the second half mirroring the first. Where xi has tails, more points
        lie in these (`stretched`, `stretched_along`), and draws count as one over their density.
        Where only marginals matter, one number draws all coordinates.
        """
        law = self._law(x, theta)
        half = count // 2 * columns
        size = math.prod(law.event_shape)
        apart = 1 if self.only_marginals else size
        if not self.tails or count % 2 or half & (half - 1):
            keys = even_keys(law.sample, key, (count, columns)).T
            return keys, jnp.ones((columns, count))
        even = lattice_bits(key, half, apart) * 2.0**-64
        if apart == 1:
            share = _FAR_OUT if size == 1 else _FAR_OUT_OF_ITEMS
            u, density = stretched(balanced(even, share, count // 2), share)
        else:
            # Of each theta, and of each group of thetas, draws go along all lines.
            turn = np.add(*np.divmod(np.arange(half), columns))
            u, density = computed_once(stretched_along(even, turn, _FAR_OUT_OF_SEVERAL), key)
        bits = jnp.minimum(u * 2.0**64, 2.0**64 - 2048.0).astype(np.uint64)  # the last float below
        bits = jnp.broadcast_to(
            bits.reshape(count // 2, columns, apart), (count // 2, columns, size)
        )
        bits, weights = (
            jnp.swapaxes(jnp.concatenate(pair), 0, 1)
            for pair in ((bits, ~bits), 2 * (1.0 / density.reshape(count // 2, columns),))
        )
        # All thetas count alike; if xi has several coordinates, nearly so: few weights, divided by
        # their mean, would be wrong in the mean.
        own = 1 if apart == 1 else None
        weights = weights / jnp.mean(weights, axis=own, keepdims=True)
        return table_keys(bits), computed_once(weights, key)

    def _draws_stay(self, x: Decision, theta: PyTree) -> bool:
        """Whether xi is drawn, and does not depend on x."""
        moves = self.problem.kind(x, theta).depends_on_decision
        return self.gradient.draws(self.problem, x, theta) and not moves

    def _sample(self, theta: PyTree, keys: Array, x: Decision) -> Array:
        return jax.vmap(self._law(x, theta).sample)(keys)

    def _of_draws(self, xi: Float[Array, "r ..."], weights: Array, x: Decision) -> tuple:
        """The mean cost of some xi, and its gradient."""

        def mean(x: Decision) -> tuple[Array, Array]:
            cost = jnp.mean(weights * jax.vmap(lambda xi: self.problem.cost(x, xi))(xi))
            return cost, cost

        return _cost_and_slope(mean, x)

    def _of_keys(
        self, level: Array, theta: PyTree, keys: Array, weights: Array, x: Decision
    ) -> tuple:
        """The same, where xi depends on x or is summed over."""
        seen = eqx.tree_at(lambda problem: problem.model, self.problem, self._law)

        def mean(x: Decision) -> tuple[Array, Array]:
            each = jax.vmap(
                lambda key: self.gradient.surrogate(
                    seen, x, Sample(theta, key, self.mixture, level)
                )
            )
            values, costs = each(keys)
            return jnp.mean(weights * values), jnp.mean(weights * costs)

        # One derivative of the mean is much cheaper than the mean of many derivatives.
        return _cost_and_slope(mean, x)

    def _law(self, x: Decision, theta: PyTree) -> Any:
        law = self.problem.model(x, theta)
        return by_inversion(marginals(law) if self.only_marginals else law)

    def _level(self, thetas: PyTree, key: Array, x: Decision) -> Array:
        """The mean cost at x from draws of their own, for scores to measure costs from."""
        if not self.gradient.uses_baseline(self.problem, x, first(thetas)):
            return jnp.zeros(())
        keys = random.split(key, jax.tree.leaves(thetas)[0].shape[0])
        costs = jax.vmap(lambda theta, key: self.problem.cost(x, self._law(x, theta).sample(key)))
        return jnp.mean(costs(thetas, keys))


@once_per_shape
@kept_fact
def has_tails(objective: SampledObjective, x: Decision, theta: PyTree) -> bool:
    """Whether xi is drawn, each of its numbers from one uniform number u, and its tails are seen.

    Those of up to 32 numbers are, and of any number of them where only marginals matter.
    """
    problem = objective.problem
    size = math.prod(problem.kind(x, theta).event_shape)
    few = 1 <= size <= _SEVERAL or objective.only_marginals
    if not few or not objective.gradient.draws(problem, x, theta):
        return False

    def draw(bits: Array, x: Decision, theta: PyTree) -> Array:
        return objective._law(x, theta).sample(table_keys(bits))

    try:  # lowered, not only traced: it is then that a table refuses
        jax.jit(draw).lower(np.zeros(size, np.uint64), x, theta)
    except NotImplementedError:
        return False
    return True


def draw_thetas(belief: Belief, key: Array, count: int) -> PyTree:
    """theta_1, ..., theta_count ~ pi, evenly spread and in mirrored pairs where possible."""
    keys = even_keys(belief.sample, key, (count,), _THETA)
    return computed_once(jax.vmap(belief.sample)(keys), key)


def _cost_and_slope(
    mean: Callable[[Decision], tuple[Array, Array]], x: Decision
) -> tuple[Array, Decision]:
    """The mean cost, and the derivative of its surrogate.

    Forwards where x is one number: all is then computed in one pass over the draws, and nothing is
    kept of the way from x to the cost. A cost that is a simulation takes a seventh of the time.

    Args:
        mean: x -> (the surrogate, the cost).
        x: The decision.
    """
    if x.size == 1:
        with contextlib.suppress(TypeError):  # a `custom_vjp` in a cost goes backwards only
            _, slope, cost = jax.jvp(mean, (x,), (jnp.ones_like(x),), has_aux=True)
            return cost, slope.reshape(x.shape)
    slope, cost = jax.grad(mean, has_aux=True)(x)
    return cost, slope


def _pick(pair: Array, second: Bool[Array, ""]) -> Array:
    """One of two arrays; keys cannot be selected by `where`, but their words can."""
    if jnp.issubdtype(pair.dtype, jax.dtypes.prng_key):
        one, other = random.key_data(pair)
        words = jnp.where(second, other, one)
        return random.wrap_key_data(words, impl=random.key_impl(pair))
    return jnp.where(second, pair[1], pair[0])

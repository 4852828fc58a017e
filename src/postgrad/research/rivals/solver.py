"""Minimises the average cost over the data so far, for policies that do so at every stage."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Decision
from postgrad.research.rivals.model_free import average, limits

# Halvings that lead from an interval of a million times the decision to 1e-12 of the decision.
_HALVINGS = 60
# Gradient steps a stage, and the step sizes tried in each, relative to the last best one.
_ROUNDS, _STEPS = 5, (4.0, 1.0, 0.25)


class AverageCost(NamedTuple):
    """F(x) = sum_j w_j h(x, row_j) / sum_j w_j."""

    cost: Callable[[Decision, PyTree], Float[Array, ""]]
    rows: PyTree
    weight: Float[Array, " n"]

    def value(self, x: Decision) -> Float[Array, ""]:
        """F(x)."""
        return average(jax.vmap(lambda row: self.cost(x, row))(self.rows), self.weight)

    def slope(self, x: Decision) -> Decision:
        """grad F(x)."""
        return average(jax.vmap(lambda row: jax.grad(self.cost)(x, row))(self.rows), self.weight)


def bisect(of: AverageCost, x: Decision, feasible: FeasibleSet) -> Decision:
    """The minimum of F, by halving where F' changes sign.

    Exact to rounding for a convex F of one number, and of several if F is a sum of functions of one
    entry each and the feasible set is a box. Kinks do no harm.
    """

    def halve(_: Array, ends: tuple[Decision, Decision]) -> tuple[Decision, Decision]:
        low, high = ends
        middle = 0.5 * (low + high)
        falls = of.slope(middle) < 0
        return jnp.where(falls, middle, low), jnp.where(falls, high, middle)

    low, high = lax.fori_loop(0, _HALVINGS, halve, limits(feasible, x))
    return feasible.project(0.5 * (low + high))


def descend(
    of: AverageCost, x: Decision, feasible: FeasibleSet, step: Array, rounds: int = _ROUNDS
) -> tuple[Decision, Float[Array, ""]]:
    """The same by projected gradient steps from x, each the best of three step sizes.

        x <- the best of x and Proj(x - s k grad F(x)), k = 4, 1, 1/4

    F never rises. Where F is smooth this converges at the rate of steepest descent; a call starts
    from the x and s of the last call, so that the steps of all stages add up. Where F is piecewise
    linear in several entries the descent can stop at a kink; with n data, kinks are of order 1 / n.

    Returns:
        x and s.
    """

    def once(_: Array, carry: tuple[Decision, Array, Array]) -> tuple[Decision, Array, Array]:
        x, best, step = carry
        gradient, sizes = of.slope(x), step * jnp.asarray(_STEPS)
        trials = jax.vmap(lambda size: feasible.project(x - size * gradient))(sizes)
        values = jnp.nan_to_num(jax.vmap(of.value)(trials), nan=jnp.inf, posinf=jnp.inf)
        k = jnp.argmin(values)
        improves = values[k] < best
        return (
            jnp.where(improves, trials[k], x),
            jnp.where(improves, values[k], best),
            jnp.where(improves, sizes[k], step / 64.0),
        )

    x, _, step = lax.fori_loop(0, rounds, once, (x, of.value(x), step))
    return x, jnp.clip(step, 1e-9, 1e9)

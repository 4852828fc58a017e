"""What policies without a model share: data kept, averages of them, and how far to try."""

from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.problem.feasible import FeasibleSet
from postgrad.problem.problem import Decision

# A set that is wider than this many times the initial decision counts as unbounded.
_FAR = 1e6
_LEAST = 64
# The first step of a descent, relative to the width of the feasible set, and how soon steps halve.
_FIRST, _HALF = 0.05, 5.0

Schedule = Callable[[Any], Any]


def no_data(x: Decision, event_shape: tuple[int, ...]) -> KeptRows:
    """A buffer for (decision, observation) rows; `simulate` makes room in it."""
    return KeptRows(
        x=jnp.full((_LEAST, *x.shape), x, jnp.float64),
        y=jnp.zeros((_LEAST, *event_shape)),
        weight=jnp.zeros(_LEAST),
        count=jnp.zeros((), jnp.int32),
    )


def average(each: Float[Array, "n ..."], weight: Float[Array, " n"] | None) -> Array:
    """sum_j w_j v_j / sum_j w_j; zero if nothing has weight. Values without weight may be NaN."""
    if weight is None:
        return jnp.mean(each, axis=0)
    wide = weight.reshape(-1, *(1,) * (each.ndim - 1))
    total = jnp.sum(jnp.where(wide != 0, wide * each, 0.0), axis=0)
    counted = jnp.sum(weight)
    return total / jnp.where(counted > 0, counted, 1.0)


def limits(feasible: FeasibleSet, x: Decision) -> tuple[Decision, Decision]:
    """How low and how high each entry can go while the others may give way.

    For a box these are its sides. Where there is no bound it is a million times 1 + max |x|.
    """
    far = _FAR * (1.0 + jnp.max(jnp.abs(x)))
    moves = far * jnp.eye(x.size).reshape(x.size, *x.shape)
    ends = (jax.vmap(feasible.project)(x + sign * moves) for sign in (-1.0, 1.0))
    low, high = (jnp.diagonal(end.reshape(x.size, x.size)).reshape(x.shape) for end in ends)
    return low, high


def reach(feasible: FeasibleSet, x: Decision) -> Decision:
    """The width of the feasible set along each entry, or 1 + max |x| where it has none.

    It is the only length that is known before any data, so perturbations are measured in it.
    """
    low, high = limits(feasible, x)
    usual = 1.0 + jnp.max(jnp.abs(x))
    return jnp.where(high - low < 0.5 * _FAR * usual, high - low, usual)


class Pace(eqx.Module):
    """How far a descent goes along its gradients, where no schedule of step sizes is given.

        a_t  =  0.05 reach (6 / (5 + t)) / sqrt((g_1^2 + ... + g_t^2) / t)

    This is the paper's 2/(t + 5) in the units of the problem: the first step is a twentieth of the
    feasible set's width, whatever the unit of the cost. g^2 is the largest square of an entry.

    Attributes:
        squares: The sum of g^2.
        reach: The width of the feasible set along each entry.
    """

    squares: Float[Array, ""]
    reach: Decision

    @classmethod
    def start(cls, feasible: FeasibleSet, x: Decision) -> Self:
        """Before the first gradient."""
        return cls(jnp.zeros(()), reach(feasible, x))

    def follow(
        self, gradient: Decision, t: Int[Array, ""], schedule: Schedule | None
    ) -> tuple[Decision, Self]:
        """The step to add to x: -a_t g."""
        squares = self.squares + jnp.max(jnp.abs(gradient)) ** 2
        usual = jnp.sqrt(squares / t)
        if schedule is None:
            size = _FIRST * self.reach * ((_HALF + 1.0) / (_HALF + t))
            size = size / jnp.where(usual > 0, usual, 1.0)
        else:
            size = schedule(t)
        return -size * gradient, eqx.tree_at(lambda self: self.squares, self, squares)

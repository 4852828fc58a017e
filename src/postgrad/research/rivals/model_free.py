"""What policies without a model share: the stage, kept data, averages, and lengths of steps."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.algorithm.policy import Policy, PolicyState, initial_decision
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_array, as_key
from postgrad.problem.batch import Batch
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Decision, Problem

# A feasible set wider than this many times 1 + max |x_1| counts as unbounded.
_FAR = 1e6
# Rows of an empty buffer of data.
_ROWS = 64
# The first step of a descent, relative to the width of the feasible set, and the stages after which
# steps are about half as long.
_FIRST, _HALF = 0.05, 5.0

Schedule = Callable[[Any], Any]
# What a stage tells about itself, by name.
Told = dict[str, Array]


def setting(name: str, default: Any, check: Callable[..., Any] = as_array, **kind: Any) -> Any:
    """A field of a policy: a setting that is checked, and has a default."""
    kind["converter"] = lambda value: check(value, SettingError, name)
    return eqx.field(kw_only=True, default=default, **kind)


class ModelFreeState(eqx.Module):
    """t and x_t, to which each policy adds what else it carries from stage to stage."""

    stage: Int[Array, ""]
    decision: Decision


class ModelFree(Policy):
    """A policy that has neither a model nor a belief.

    Attributes:
        problem: Of which the cost and the feasible set are used.
        event_shape: The shape of one observation; read by policies that keep the data.
        key: The seed.
    """

    problem: Problem
    event_shape: tuple[int, ...] = eqx.field(static=True, kw_only=True, default=())
    seed: dataclasses.InitVar[int | Array] = dataclasses.field(kw_only=True, default=0)
    key: Array = eqx.field(init=False)

    def __post_init__(self, seed: int | Array) -> None:
        self.key = as_key(seed, SettingError)

    @abc.abstractmethod
    def start(self, x: Decision) -> Any:
        """The state before the first stage, with x_1 in force."""

    @abc.abstractmethod
    def advance(self, state: Any, batch: Batch) -> tuple[Any, Told]:
        """`step` for a batch that has the decision in force, and data in float64."""

    def no_data(self, x: Decision) -> KeptRows:
        """An empty buffer for (decision, observation) rows; `simulate` makes room in it."""
        x = jnp.full((_ROWS, *x.shape), x, jnp.float64)
        y, none = jnp.zeros((_ROWS, *self.event_shape)), jnp.zeros((), jnp.int32)
        return KeptRows(x, y, weight=jnp.zeros(_ROWS), count=none)

    def init(self, belief: Belief | None, x: Any) -> PolicyState:
        """The state before the first stage. The belief is not used."""
        del belief
        return self.start(initial_decision(self.problem, x))

    def step(
        self,
        state: PolicyState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[PolicyState, Told]:
        """One stage: the next state, and what the stage tells about itself."""
        in_force = state.decision if x is None else x
        return self.advance(state, Batch(in_force, batch.astype(jnp.float64), weight))


def average(each: Float[Array, "n ..."], weight: Float[Array, " n"] | None) -> Array:
    """sum_j w_j v_j / sum_j w_j; zero if all weights are zero. v_j may be NaN where w_j = 0.

    Without weights, all count once.
    """
    weight = jnp.ones(len(each)) if weight is None else weight
    wide = weight.reshape(-1, *(1,) * (each.ndim - 1))
    total = jnp.sum(jnp.where(wide != 0, wide * each, 0.0), axis=0)
    counted = jnp.sum(weight)
    return total / jnp.where(counted > 0, counted, 1.0)


def limits(feasible: FeasibleSet, x: Decision) -> tuple[Decision, Decision]:
    """The feasible set's bounds; x -/+ a million times 1 + max |x| where there is no bound."""
    far = _FAR * (1.0 + jnp.max(jnp.abs(x)))
    low, high = feasible.bounds()
    return jnp.maximum(low, x - far), jnp.minimum(high, x + far)


def reach(feasible: FeasibleSet, x: Decision) -> Decision:
    """The width of the feasible set along each entry, or 1 + max |x| where it is unbounded.

    The only length that is known before any data, so perturbations are measured in it.
    """
    low, high = limits(feasible, x)
    usual = 1.0 + jnp.max(jnp.abs(x))
    return jnp.where(high - low < 0.5 * _FAR * usual, high - low, usual)


class Pace(eqx.Module):
    """Step sizes a_t of a descent in the units of the problem, where no schedule is given.

        a_t  =  0.05 reach (6 / (5 + t)) / sqrt((g_1^2 + ... + g_t^2) / t)

    The decay is that of the paper's 2/(t + 5), and the first step is a twentieth of the feasible
    set's width, whatever the unit of the cost. g_t^2 is the largest square of an entry of the
    gradient at stage t.

    Attributes:
        squares: g_1^2 + ... + g_t^2.
        reach: The width of the feasible set along each entry.
    """

    squares: Float[Array, ""]
    reach: Decision

    @classmethod
    def start(cls, feasible: FeasibleSet, x: Decision) -> Self:
        """Before the first gradient."""
        return cls(jnp.zeros(()), reach(feasible, x))

    def follow(
        self, gradient: Decision, t: Int[Array, ""], schedule: Schedule | None = None
    ) -> tuple[Decision, Self]:
        """-a_t g, to be added to x; a_t is `schedule(t)` if there is a schedule."""
        squares = self.squares + jnp.max(jnp.abs(gradient)) ** 2
        usual = jnp.sqrt(squares / t)
        if schedule is None:
            size = _FIRST * self.reach * ((_HALF + 1.0) / (_HALF + t))
            size = size / jnp.where(usual > 0, usual, 1.0)
        else:
            size = schedule(t)
        return -size * gradient, eqx.tree_at(lambda self: self.squares, self, squares)

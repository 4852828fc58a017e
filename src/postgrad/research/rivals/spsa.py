"""Descent on costs that were really paid, without derivatives."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Int

from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.beliefs import Belief
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_array, as_key
from postgrad.problem.problem import Decision, Problem
from postgrad.research.rivals.data import average, reach

# Spall's exponents and his A, the stability constant.
_ALPHA, _GAMMA, _STABILITY = 0.602, 0.101, 50.0


class SPSAState(eqx.Module):
    """What is carried along.

    Attributes:
        stage: t.
        decision: What is in force: x_1 at first, then x + c D and x - c D in turn.
        x: The iterate.
        direction: c_k D_k.
        plus: The decision that was tried first.
        cost: What it cost.
        size: The sum of the largest entries of all gradients so far.
        length: The width of the feasible set along each entry.
    """

    stage: Int[Array, ""]
    decision: Decision
    x: Decision
    direction: Decision
    plus: Decision
    cost: Float[Array, ""]
    size: Float[Array, ""]
    length: Decision


class SPSA(Policy):
    """Simultaneous perturbation stochastic approximation (Spall, 1992).

    Stage 2k is under x + c_k D_k and stage 2k + 1 under x - c_k D_k, with D_k random signs. With C+
    and C- the mean costs that were paid,

        g_i  =  (C+ - C-) / (2 c_k D_ki),      x  <-  Proj(x - a_k g).

    Only costs are used, so it is right however data depend on decisions. What it tries is really
    deployed, and paid for. a_k = a / (A + k)^0.602 and c_k = c / k^0.101 (Spall, 1998), c is
    `explore` and the first step about `first` times the width of the feasible set: a is divided by
    the mean size of the gradients so far. Where a perturbation leaves the feasible set it is
    projected, and the difference that is left is the one divided by.

    Attributes:
        problem: The cost and the feasible set.
        explore: c, relative to the width of the feasible set.
        first: The size of the first step, likewise.
        key: The seed.
    """

    problem: Problem
    explore: Float[Array, ""]
    first: Float[Array, ""]
    key: Array

    def __init__(
        self,
        problem: Problem,
        *,
        explore: float = 0.02,
        first: float = 0.02,
        seed: int | Array = 0,
    ):
        """Choose the sizes; see the attributes."""
        self.problem = problem
        self.explore = as_array(explore, SettingError, "explore")
        self.first = as_array(first, SettingError, "first")
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief | None, x: Any) -> SPSAState:
        """Nothing is believed."""
        del belief
        x = initial_decision(self.problem, x)
        length = reach(self.problem.feasible, x)
        none = jnp.zeros(())
        return SPSAState(first_stage(), x, x, jnp.zeros_like(x), x, none, none, length)

    def step(
        self,
        state: SPSAState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[SPSAState, dict[str, Array]]:
        """Notes what was paid; then tries the other side, or moves. Tells the cost."""
        problem, project, t = self.problem, self.problem.feasible.project, state.stage
        x_t = state.decision if x is None else x
        paid = average(jax.vmap(lambda y: problem.cost(x_t, y))(batch), weight)
        first, tried_one, tried_both = t == 1, (t > 1) & (t % 2 == 0), (t > 1) & (t % 2 == 1)

        # After the second trial: a gradient, and a step along it.
        k = (t // 2).astype(jnp.float64)
        moved = state.plus - x_t
        apart = jnp.abs(moved) > 0
        gradient = jnp.where(apart, (state.cost - paid) / jnp.where(apart, moved, 1.0), 0.0)
        size = state.size + jnp.where(tried_both, jnp.max(jnp.abs(gradient)), 0.0)
        usual = jnp.where(size > 0, size / jnp.maximum(k, 1.0), 1.0)
        gain = self.first * state.length * ((_STABILITY + 1.0) / (_STABILITY + k)) ** _ALPHA
        x_next = jnp.where(tried_both, project(state.x - gain * gradient / usual), state.x)

        # The next trial: the other side of this direction, or a new direction.
        signs = random.rademacher(random.fold_in(self.key, t), x_next.shape, jnp.float64)
        fresh = self.explore * state.length * (k + 1.0) ** -_GAMMA * signs
        direction = jnp.where(tried_one, state.direction, fresh)
        decision = project(x_next + jnp.where(tried_one, -1.0, 1.0) * direction)
        plus = jnp.where(tried_one, x_t, state.plus)
        cost = jnp.where(tried_one | first, paid, state.cost)
        new = SPSAState(t + 1, decision, x_next, direction, plus, cost, size, state.length)
        return new, {"cost": paid}

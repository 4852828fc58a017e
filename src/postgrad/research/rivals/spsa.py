"""Descent without derivatives, on the costs of decisions that were in force."""

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float

from postgrad.algorithm.policy import first_stage
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision
from postgrad.research.rivals.model_free import (
    ModelFree,
    ModelFreeState,
    Told,
    average,
    reach,
    setting,
)

# Spall's exponents and his A, the stability constant.
_ALPHA, _GAMMA, _STABILITY = 0.602, 0.101, 50.0


class SPSAState(ModelFreeState):
    """The state between two stages.

    Attributes:
        stage: t.
        decision: The decision in force: x_1 at first, then x + c D and x - c D in turn.
        x: The iterate.
        direction: c_k D_k.
        plus: The decision of the pair that was tried first.
        cost: The mean cost under `plus`.
        size: The sum of the largest entries of all gradients so far.
        length: The width of the feasible set along each entry.
    """

    x: Decision
    direction: Decision
    plus: Decision
    cost: Float[Array, ""]
    size: Float[Array, ""]
    length: Decision


class SPSA(ModelFree):
    """Simultaneous perturbation stochastic approximation (Spall, 1992).

    Stage 2k is under x + c_k D_k and stage 2k + 1 under x - c_k D_k, with D_k random signs. With C+
    and C- the mean costs that were paid,

        g_i  =  (C+ - C-) / (2 c_k D_ki),      x  <-  Proj(x - a_k g).

    Only costs are used, so data may depend on decisions in any way. The decisions that are tried
    are in force, and their costs are paid. a_k = a / (A + k)^0.602 and c_k = c / k^0.101 (Spall,
    1998), c is `explore` and the first step about `first` times the width of the feasible set: a is
    divided by the mean size of the gradients so far. Where a perturbation leaves the feasible set
    it is projected, and g is divided by the difference of the projected decisions.

    Attributes:
        explore: c, relative to the width of the feasible set.
        first: The size of the first step, likewise.
    """

    explore: Float[Array, ""] = setting("explore", 0.02)
    first: Float[Array, ""] = setting("first", 0.02)

    def start(self, x: Decision) -> SPSAState:
        """The state before the first stage, with x_1 in force."""
        length = reach(self.problem.feasible, x)
        zero = jnp.zeros(())
        return SPSAState(first_stage(), x, x, jnp.zeros_like(x), x, zero, zero, length)

    def advance(self, state: SPSAState, batch: Batch) -> tuple[SPSAState, Told]:
        """Averages the cost; then tries the other side, or moves. The stage tells the mean cost."""
        x, project, t = batch.x, self.problem.feasible.project, state.stage
        paid = average(jax.vmap(lambda y: self.problem.cost(x, y))(batch.y), batch.weight)
        first, tried_one, tried_both = t == 1, (t > 1) & (t % 2 == 0), (t > 1) & (t % 2 == 1)

        # After the second trial: a gradient, and a step along it.
        k = (t // 2).astype(jnp.float64)
        moved = state.plus - x
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
        plus = jnp.where(tried_one, x, state.plus)
        cost = jnp.where(tried_one | first, paid, state.cost)
        new = SPSAState(t + 1, decision, x_next, direction, plus, cost, size, state.length)
        return new, {"cost": paid}

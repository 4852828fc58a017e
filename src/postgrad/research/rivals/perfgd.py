"""Performative gradient descent: how data depend on the decision is learned by varying it."""

import math

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float

from postgrad.algorithm.policy import first_stage
from postgrad.numerics.validate import as_count
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision
from postgrad.research.rivals.model_free import (
    ModelFree,
    ModelFreeState,
    Pace,
    Told,
    average,
    setting,
)


class PerfGDState(ModelFreeState):
    """Also x_t without the perturbation, the fading sum of (1, x, y) (1, x, y)', and step sizes."""

    x: Decision
    sums: Float[Array, "1+d+m 1+d+m"]
    pace: Pace


class PerfGD(ModelFree):
    """Performative gradient descent (Izzo, Ying and Zou, 2021) for data whose mean moves with x.

        x_{t+1}  =  Proj(x_t - a_t (1/D) sum_j [grad_x h(x_t, y_j) + J_t' grad_y h(x_t, y_j)])

    J_t estimates d E[y] / dx from past decisions and their data: by least squares with weights
    (1 - 1/window)^age, the noisy case of the paper's finite differences. The second term is the
    derivative of the expected cost if data are a fixed noise around a mean that moves. Their paper
    computes it by the score of a normal model; for a shift both have the same mean.

    a_t are the step sizes of `Pace`.

    The decisions in force are x_t + e_t with normal e_t of size explore * reach * t^(-1/4), since
    equal decisions tell nothing about J_t. A ridge as large as one such e_t keeps J_t near zero
    until there are data, so that the first steps are those of `Greedy`.

    Attributes:
        explore: The size of e_1, relative to the width of the feasible set.
        window: About how many past observations J_t rests on.
    """

    explore: Float[Array, ""] = setting("explore", 0.05)
    window: int = setting("window", 1000, as_count)

    def start(self, x: Decision) -> PerfGDState:
        """The state before the first stage, with x_1 in force."""
        size = 1 + x.size + math.prod(self.event_shape)
        nothing = jnp.zeros((size, size))
        return PerfGDState(first_stage(), x, x, nothing, Pace.start(self.problem.feasible, x))

    def advance(self, state: PerfGDState, batch: Batch) -> tuple[PerfGDState, Told]:
        """Estimates J_t, descends, perturbs. The stage tells the gradient and J_t ("slope")."""
        problem, t = self.problem, state.stage
        length = self.explore * state.pace.reach

        # Learn how the mean of the data moves with the decision.
        x, n, y = batch.x, batch.size, average(batch.y.reshape(len(batch.y), -1), batch.weight)
        row = jnp.concatenate([jnp.ones(1), x.ravel(), y])
        kept = (1.0 - 1.0 / self.window) ** n
        sums = kept * state.sums + n * jnp.outer(row, row)
        slope = _slope(sums, length.ravel() ** 2)

        # Descend along both terms of the derivative.
        def gradient_of(y: Array) -> Decision:
            in_x, in_y = jax.grad(problem.cost, argnums=(0, 1))(x, y)
            return in_x + (slope.T @ in_y.ravel()).reshape(in_x.shape)

        gradient = average(jax.vmap(gradient_of)(batch.y), batch.weight)
        move, pace = state.pace.follow(gradient, t)
        x_next = problem.feasible.project(state.x + move)

        # Perturb, to learn from the next batch.
        noise = random.normal(random.fold_in(self.key, t), x_next.shape)
        decision = problem.feasible.project(x_next + (t + 1.0) ** -0.25 * length * noise)
        new_state = PerfGDState(t + 1, decision, x_next, sums, pace)
        return new_state, {"gradient": gradient, "slope": slope}


def _slope(sums: Float[Array, "1+d+m 1+d+m"], ridge: Float[Array, " d"]) -> Float[Array, "m d"]:
    """J = C_yx (C_xx + diag(ridge))^-1, with C the sums of squares around the means."""
    n, d = jnp.where(sums[0, 0] > 0, sums[0, 0], 1.0), ridge.size
    around = (sums - jnp.outer(sums[0], sums[0]) / n)[1:, 1 : 1 + d]
    return jnp.linalg.solve(around[:d] + jnp.diag(ridge), around[d:].T).T

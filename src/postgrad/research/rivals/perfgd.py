"""Performative gradient descent: how the data move with the decision is learned by moving it."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Int

from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.beliefs import Belief
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_array, as_count, as_key
from postgrad.problem.problem import Decision, Problem
from postgrad.research.rivals.data import Pace, Schedule, average


class Regression(eqx.Module):
    """Fading sums over (x, y) rows: of 1, x, y, x x', y x'."""

    n: Float[Array, ""]
    x: Float[Array, " d"]
    y: Float[Array, " m"]
    xx: Float[Array, "d d"]
    yx: Float[Array, "m d"]

    def slope(self, ridge: Float[Array, " d"]) -> Float[Array, "m d"]:
        """J = C_yx (C_xx + diag(ridge))^-1, with C the sums of squares around the means."""
        n = jnp.where(self.n > 0, self.n, 1.0)
        xx = self.xx - jnp.outer(self.x, self.x) / n
        yx = self.yx - jnp.outer(self.y, self.x) / n
        return jnp.linalg.solve(xx + jnp.diag(ridge), yx.T).T


class PerfGDState(eqx.Module):
    """t, x_t, the perturbed decision in force, what was learned, and how far to go."""

    stage: Int[Array, ""]
    x: Decision
    decision: Decision
    seen: Regression
    pace: Pace


class PerfGD(Policy):
    """Performative gradient descent (Izzo, Ying and Zou, 2021) for data whose mean moves with x.

        x_{t+1}  =  Proj(x_t - a_t (1/D) sum_j [grad_x h(x_t, y_j) + J_t' grad_y h(x_t, y_j)])

    J_t estimates d E[y] / dx from the decisions of late and the data they brought: by least squares
    with weights (1 - 1/window)^age, the noisy case of the paper's finite differences. The second
    term is the derivative of the expected cost if data are a fixed noise around a mean that moves.
    Their paper has it by a score of a normal model; for a shift both have the same mean.

    The decisions in force are x_t + e_t with normal e_t of size explore * reach * t^(-1/4), since
    nothing is learned from standing still. A ridge as large as one such e_t keeps J_t near zero
    until there are data, so that it starts like `Greedy`.

    Attributes:
        problem: The cost and the feasible set.
        steps: The schedule t -> a_t; None for steps in the problem's own units, see `Pace`.
        explore: The size of e_1, relative to the width of the feasible set.
        window: How many observations J_t looks back, about.
        event_shape: The shape of one observation.
        key: The seed.
    """

    problem: Problem
    steps: Schedule | None
    explore: Float[Array, ""]
    window: Float[Array, ""]
    event_shape: tuple[int, ...] = eqx.field(static=True)
    key: Array

    def __init__(
        self,
        problem: Problem,
        *,
        event_shape: tuple[int, ...] = (),
        steps: Schedule | None = None,
        explore: float = 0.05,
        window: int = 1000,
        seed: int | Array = 0,
    ):
        """Choose the parts; see the attributes."""
        self.problem = problem
        self.event_shape = event_shape
        self.steps = steps
        self.explore = as_array(explore, SettingError, "explore")
        self.window = jnp.asarray(float(as_count(window, SettingError, "window")))
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief | None, x: Any) -> PerfGDState:
        """Nothing is believed."""
        del belief
        x = initial_decision(self.problem, x)
        d, m = x.size, int(jnp.zeros(self.event_shape).size)
        nothing = Regression(*(jnp.zeros(shape) for shape in ((), (d,), (m,), (d, d), (m, d))))
        return PerfGDState(first_stage(), x, x, nothing, Pace.start(self.problem.feasible, x))

    def step(
        self,
        state: PerfGDState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[PerfGDState, dict[str, Array]]:
        """Learns the slope, descends, perturbs; tells the gradient and the slope."""
        problem, t = self.problem, state.stage
        x_t = state.decision if x is None else x
        length = self.explore * state.pace.reach
        batch = batch.astype(jnp.float64)

        # Learn how the mean of the data moves with the decision.
        n = jnp.asarray(float(batch.shape[0])) if weight is None else jnp.sum(weight)
        flat, y = x_t.ravel(), average(batch.reshape(batch.shape[0], -1), weight)
        new = Regression(n, n * flat, n * y, n * jnp.outer(flat, flat), n * jnp.outer(y, flat))
        kept = (1.0 - 1.0 / self.window) ** n
        seen = jax.tree.map(lambda old, more: kept * old + more, state.seen, new)
        slope = seen.slope(length.ravel() ** 2)

        # Descend along both terms of the derivative.
        def gradient_of(y: Array) -> Decision:
            in_x, in_y = jax.grad(problem.cost, argnums=(0, 1))(x_t, y)
            return in_x + (slope.T @ in_y.ravel()).reshape(in_x.shape)

        gradient = average(jax.vmap(gradient_of)(batch), weight)
        move, pace = state.pace.follow(gradient, t, self.steps)
        x_next = problem.feasible.project(state.x + move)

        # Perturb, to learn from the next batch.
        noise = random.normal(random.fold_in(self.key, t), x_next.shape)
        decision = problem.feasible.project(x_next + (t + 1.0) ** -0.25 * length * noise)
        new_state = PerfGDState(t + 1, x_next, decision, seen, pace)
        return new_state, {"gradient": gradient, "slope": slope}

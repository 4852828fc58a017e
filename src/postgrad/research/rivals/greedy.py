"""Gradient steps on the data as they come, blind to what the decision does to them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.beliefs import Belief
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_key
from postgrad.problem.problem import Decision, Problem
from postgrad.research.rivals.data import Pace, Schedule, average


class GreedyState(eqx.Module):
    """t, x_t, and how far to go."""

    stage: Int[Array, ""]
    decision: Decision
    pace: Pace


class Greedy(Policy):
    """Stochastic gradient descent on what is seen, with a new deployment at every stage.

        x_{t+1}  =  Proj(x_t - a_t (1/D) sum_j grad_x h(x_t, y_{t,j}))

    No model and no belief. "Greedy deploy" of Mendler-Duenner, Perdomo, Zrnic and Hardt (2020), and
    the stochastic gradient method of Drusvyatskiy and Xiao (2023). Where data depend on the
    decision it ends at the performatively stable point, not at the optimum; where not, it is plain
    stochastic approximation (Robbins and Monro, 1951). Where sales are seen, not demand, the
    newsvendor's derivative is known from them all the same (Burnetas and Smith, 2000).

    Attributes:
        problem: The cost and the feasible set.
        steps: The schedule t -> a_t; None for steps in the problem's own units, see `Pace`.
        key: Not used.
    """

    problem: Problem
    steps: Schedule | None
    key: Array

    def __init__(self, problem: Problem, *, steps: Schedule | None = None, seed: int | Array = 0):
        """Choose the steps; see the attributes."""
        self.problem = problem
        self.steps = steps
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief | None, x: Any) -> GreedyState:
        """Nothing is believed."""
        del belief
        x = initial_decision(self.problem, x)
        return GreedyState(first_stage(), x, Pace.start(self.problem.feasible, x))

    def step(
        self,
        state: GreedyState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[GreedyState, dict[str, Array]]:
        """One gradient step; tells the gradient."""
        problem, t = self.problem, state.stage
        x_t = state.decision if x is None else x
        batch = batch.astype(jnp.float64)
        gradient = average(jax.vmap(lambda y: jax.grad(problem.cost)(x_t, y))(batch), weight)
        move, pace = state.pace.follow(gradient, t, self.steps)
        new = GreedyState(t + 1, problem.feasible.project(state.decision + move), pace)
        return new, {"gradient": gradient}

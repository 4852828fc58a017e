"""Explore first, then optimise for the map from decisions to data that was fitted."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.beliefs import Belief
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_array, as_count, as_key
from postgrad.problem.problem import Decision, Problem
from postgrad.research.rivals.data import average, no_data, reach
from postgrad.research.rivals.solver import bisect, descend

# Keeps the least squares solvable when decisions have not varied, relative to their size.
_RIDGE = 1e-9


class TwoStageState(eqx.Module):
    """t, the decision in force, x_1, the solver's x and step size, and all data."""

    stage: Int[Array, ""]
    decision: Decision
    start: Decision
    x: Decision
    size: Float[Array, ""]
    data: KeptRows


class TwoStage(Policy):
    """Two-stage estimation (Miller, Perdomo and Zrnic, 2021), for a linear shift of the data.

    First, `explorations` stages with decisions at random around x_1. Then, with y = mu + M x + r
    fitted by least squares and the residuals kept,

        x_{t+1}  =  argmin_{x in X} (1/n) sum_j h(x, mu + M x + r_j).

    The paper fits once and stays with the result. Here the data that come after are used, too, and
    x is solved for again at every stage: this can only help. Consistent where the data are a fixed
    noise around a mean that is linear in the decision, and only there.

    Attributes:
        problem: The cost and the feasible set.
        explorations: How many stages explore.
        explore: How far they go to either side, relative to the width of the feasible set.
        event_shape: The shape of one observation.
        rounds: Gradient steps a stage for decisions of several numbers; see `solver.py`.
        key: The seed.
    """

    problem: Problem
    explore: Float[Array, ""]
    explorations: int = eqx.field(static=True)
    event_shape: tuple[int, ...] = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    key: Array

    def __init__(
        self,
        problem: Problem,
        *,
        event_shape: tuple[int, ...] = (),
        explorations: int = 50,
        explore: float = 0.25,
        rounds: int = 5,
        seed: int | Array = 0,
    ):
        """Choose the parts; see the attributes."""
        self.problem = problem
        self.event_shape = event_shape
        self.explorations = as_count(explorations, SettingError, "explorations")
        self.explore = as_array(explore, SettingError, "explore")
        self.rounds = as_count(rounds, SettingError, "rounds")
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief | None, x: Any) -> TwoStageState:
        """Nothing is believed."""
        del belief
        x = initial_decision(self.problem, x)
        return TwoStageState(first_stage(), x, x, x, jnp.ones(()), no_data(x, self.event_shape))

    def step(
        self,
        state: TwoStageState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[TwoStageState, dict[str, Array]]:
        """Keeps the batch; then tries something, or fits and solves. Tells M."""
        problem, feasible, t = self.problem, self.problem.feasible, state.stage
        x_t = state.decision if x is None else x
        data = state.data.add(problem.likelihood, x_t, batch, weight)

        # Stage one: decisions at random.
        noise = random.uniform(random.fold_in(self.key, t), x_t.shape, minval=-1.0, maxval=1.0)
        width = self.explore * reach(feasible, state.start)
        tried = feasible.project(state.start + width * noise)

        # Stage two: fit the map, and minimise the cost of data that move along it.
        slope = _least_squares(data)

        def cost(x: Decision, row: PyTree) -> Array:
            moved = slope @ (x - row[0]).ravel()
            return problem.cost(x, row[1] + moved.reshape(row[1].shape))

        rows = data.x, data.y
        if x_t.size == 1:
            best, size = bisect(cost, rows, data.weight, state.x, feasible), state.size
        else:
            best, size = descend(
                cost, rows, data.weight, state.x, feasible, state.size, self.rounds
            )
        explores = t < self.explorations
        best = jnp.where(explores, state.start, best)
        size = jnp.where(explores, jnp.ones(()), size)
        decision = jnp.where(explores, tried, best)
        return TwoStageState(t + 1, decision, state.start, best, size, data), {"slope": slope}


def _least_squares(data: KeptRows) -> Float[Array, "m d"]:
    """M, with the intercept left to the residuals."""
    x, y = (rows.reshape(rows.shape[0], -1) for rows in (data.x, data.y))
    x, y = x - average(x, data.weight), y - average(y, data.weight)
    xx = jnp.einsum("n,ni,nj->ij", data.weight, x, x)
    yx = jnp.einsum("n,ni,nj->ij", data.weight, y, x)
    ridge = _RIDGE * (1.0 + jnp.trace(xx))
    return jnp.linalg.solve(xx + ridge * jnp.eye(x.shape[1]), yx.T).T

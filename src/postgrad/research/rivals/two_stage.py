"""Explore first, then optimise under a fitted linear map from decisions to mean data."""

import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, PyTree

from postgrad.algorithm.policy import first_stage
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.numerics.validate import as_count
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
from postgrad.research.rivals.solver import AverageCost, bisect, descend

# Keeps the least squares solvable when decisions have not varied, relative to their size.
_RIDGE = 1e-9
# How far decisions tried at random go to either side, relative to the width of the feasible set.
_EXPLORE = 0.25


class TwoStageState(ModelFreeState):
    """t, the decision in force, x_1, the solver's x and step size, and all data."""

    start: Decision
    x: Decision
    size: Float[Array, ""]
    data: KeptRows


class TwoStage(ModelFree):
    """Two-stage estimation (Miller, Perdomo and Zrnic, 2021), for a linear shift of the data.

    First, `explorations` stages with decisions at random, up to a quarter of the feasible set's
    width from x_1. Then, with y = mu + M x + r fitted by least squares and r_j its residuals,

        x_{t+1}  =  argmin_{x in X} (1/n) sum_j h(x, mu + M x + r_j).

    The paper fits once and keeps the result. Here the fit and x are computed again at every stage
    from all data, which can only help. Consistent if, and only if, the data are a fixed noise
    around a mean that is linear in the decision.

    Attributes:
        explorations: How many stages try decisions at random.
    """

    explorations: int = setting("explorations", 50, as_count, static=True)

    def start(self, x: Decision) -> TwoStageState:
        """The state before the first stage, with x_1 in force."""
        return TwoStageState(first_stage(), x, x, x, jnp.ones(()), self.no_data(x))

    def advance(self, state: TwoStageState, batch: Batch) -> tuple[TwoStageState, Told]:
        """Keeps the batch; then tries a random decision, or fits and solves. The stage tells M."""
        problem, feasible, t = self.problem, self.problem.feasible, state.stage
        data = state.data.add(problem.likelihood, batch)

        # Stage one: decisions at random.
        noise = random.uniform(random.fold_in(self.key, t), state.x.shape, minval=-1.0, maxval=1.0)
        width = _EXPLORE * reach(feasible, state.start)
        tried = feasible.project(state.start + width * noise)

        # Stage two: fit the map, and minimise the cost of data that move along it.
        slope = _least_squares(data)

        def cost(x: Decision, row: PyTree) -> Array:
            moved = slope @ (x - row[0]).ravel()
            return problem.cost(x, row[1] + moved.reshape(row[1].shape))

        mean = AverageCost(cost, (data.x, data.y), data.weight)
        if state.x.size == 1:
            best, size = bisect(mean, state.x, feasible), state.size
        else:
            best, size = descend(mean, state.x, feasible, state.size)
        explores = t < self.explorations
        best = jnp.where(explores, state.start, best)
        size = jnp.where(explores, jnp.ones(()), size)
        decision = jnp.where(explores, tried, best)
        return TwoStageState(t + 1, decision, state.start, best, size, data), {"slope": slope}


def _least_squares(data: KeptRows) -> Float[Array, "m d"]:
    """M. The intercept mu is in the residuals."""
    x, y = (rows.reshape(rows.shape[0], -1) for rows in (data.x, data.y))
    x, y = x - average(x, data.weight), y - average(y, data.weight)
    xx = jnp.einsum("n,ni,nj->ij", data.weight, x, x)
    yx = jnp.einsum("n,ni,nj->ij", data.weight, y, x)
    ridge = _RIDGE * (1.0 + jnp.trace(xx))
    return jnp.linalg.solve(xx + ridge * jnp.eye(x.shape[1]), yx.T).T

"""Gradient steps on the data as they come, without regard to how decisions change the data."""

import equinox as eqx
import jax

from postgrad.algorithm.policy import first_stage
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision
from postgrad.research.rivals.model_free import (
    ModelFree,
    ModelFreeState,
    Pace,
    Schedule,
    Told,
    average,
)


class GreedyState(ModelFreeState):
    """t, x_t, and the step sizes."""

    pace: Pace


class Greedy(ModelFree):
    """Stochastic gradient descent on what is seen, with a new deployment at every stage.

        x_{t+1}  =  Proj(x_t - a_t (1/D) sum_j grad_x h(x_t, y_{t,j}))

    No model and no belief. "Greedy deploy" of Mendler-Duenner, Perdomo, Zrnic and Hardt (2020), and
    the stochastic gradient method of Drusvyatskiy and Xiao (2023). Where data depend on the
    decision it ends at the performatively stable point, not at the optimum; elsewhere it is plain
    stochastic approximation (Robbins and Monro, 1951). From sales instead of demand the
    newsvendor's derivative is known all the same (Burnetas and Smith, 2000).

    Attributes:
        steps: The schedule t -> a_t; None for those of `Pace`, in the problem's own units.
    """

    steps: Schedule | None = eqx.field(kw_only=True, default=None)

    def start(self, x: Decision) -> GreedyState:
        """The state before the first stage, with x_1 in force."""
        return GreedyState(first_stage(), x, Pace.start(self.problem.feasible, x))

    def advance(self, state: GreedyState, batch: Batch) -> tuple[GreedyState, Told]:
        """One gradient step. The stage tells the gradient."""
        problem, t = self.problem, state.stage
        each = jax.vmap(lambda y: jax.grad(problem.cost)(batch.x, y))(batch.y)
        gradient = average(each, batch.weight)
        move, pace = state.pace.follow(gradient, t, self.steps)
        new = GreedyState(t + 1, problem.feasible.project(state.decision + move), pace)
        return new, {"gradient": gradient}

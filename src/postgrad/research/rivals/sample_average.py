"""Sample-average approximation: the decision that would have been best on all data so far."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from postgrad.algorithm.policy import first_stage
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.problem.batch import Batch
from postgrad.problem.feasible.box import Box
from postgrad.problem.feasible.reals import Reals
from postgrad.problem.problem import Decision
from postgrad.research.problems.newsvendor import Newsvendor
from postgrad.research.rivals.model_free import ModelFree, ModelFreeState, Told
from postgrad.research.rivals.solver import AverageCost, bisect, descend


class SampleAverageState(ModelFreeState):
    """t, x_t, all data, and the last step size of the solver."""

    data: KeptRows
    size: Float[Array, ""]


class SampleAverage(ModelFree):
    """SAA (Kleywegt, Shapiro and Homem-de-Mello, 2002), solved again at every stage.

        x_{t+1}  =  argmin_{x in X} (1/n) sum_{s <= t} sum_j h(x, y_{s,j})

    This assumes that data would have been the same under any other decision. Where they depend on
    the decision, x_t converges to the performatively stable point: this is repeated risk
    minimisation (Perdomo et al., 2020) on all data so far.

    A decision of one number, and a newsvendor's orders in a box, are found exactly by bisection;
    others by projected gradient steps, five a stage. Both are in `solver.py`.

    Attributes:
        problem: The cost, convex in x, and the feasible set.
    """

    def start(self, x: Decision) -> SampleAverageState:
        """The state before the first stage, with x_1 in force."""
        return SampleAverageState(first_stage(), x, self.no_data(x), jnp.ones(()))

    def advance(self, state: SampleAverageState, batch: Batch) -> tuple[SampleAverageState, Told]:
        """Keeps the batch and solves again."""
        x, cost, feasible = batch.x, self.problem.cost, self.problem.feasible
        data = state.data.add(self.problem.likelihood, batch)
        average = AverageCost(cost, data.y, data.weight)
        if x.size == 1 or (isinstance(cost, Newsvendor) and isinstance(feasible, Box | Reals)):
            best, size = bisect(average, x, feasible), state.size
        else:
            best, size = descend(average, x, feasible, state.size)
        best = jnp.where(jnp.sum(data.weight) > 0, best, state.decision)
        return SampleAverageState(state.stage + 1, best, data, size), {}

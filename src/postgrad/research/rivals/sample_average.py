"""Sample-average approximation: the decision that would have been best on all data so far."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from postgrad.algorithm.policy import Policy, first_stage, initial_decision
from postgrad.beliefs import Belief
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.errors import SettingError
from postgrad.numerics.validate import as_count, as_key
from postgrad.problem.feasible import Box, Reals
from postgrad.problem.problem import Decision, Problem
from postgrad.research.problems.newsvendor import Newsvendor
from postgrad.research.rivals.data import no_data
from postgrad.research.rivals.solver import bisect, descend


class SampleAverageState(eqx.Module):
    """t, x_t, all data, and the last step size of the solver."""

    stage: Int[Array, ""]
    decision: Decision
    data: KeptRows
    size: Float[Array, ""]


class SampleAverage(Policy):
    """SAA (Kleywegt, Shapiro and Homem-de-Mello, 2002), solved again at every stage.

        x_{t+1}  =  argmin_{x in X} (1/n) sum_{s <= t} sum_j h(x, y_{s,j})

    It takes data for what they would have been under any other decision. Where they depend on the
    decision it settles at the performatively stable point: it is repeated risk minimisation
    (Perdomo et al., 2020) on all data so far.

    A single number, and a newsvendor's orders in a box, are solved by bisection, exactly; anything
    else by projected gradient steps that go on from stage to stage. Both are in `solver.py`.

    Attributes:
        problem: The cost, convex in x, and the feasible set.
        event_shape: The shape of one observation.
        rounds: Gradient steps a stage, where bisection does not apply.
        key: Not used.
    """

    problem: Problem
    event_shape: tuple[int, ...] = eqx.field(static=True)
    rounds: int = eqx.field(static=True)
    key: Array

    def __init__(
        self,
        problem: Problem,
        *,
        event_shape: tuple[int, ...] = (),
        rounds: int = 5,
        seed: int | Array = 0,
    ):
        """Choose the parts; see the attributes."""
        self.problem = problem
        self.event_shape = event_shape
        self.rounds = as_count(rounds, SettingError, "rounds")
        self.key = as_key(seed, SettingError)

    def init(self, belief: Belief | None, x: Any) -> SampleAverageState:
        """Nothing is believed."""
        del belief
        x = initial_decision(self.problem, x)
        return SampleAverageState(first_stage(), x, no_data(x, self.event_shape), jnp.ones(()))

    def step(
        self,
        state: SampleAverageState,
        batch: Float[Array, "D ..."],
        *,
        weight: Float[Array, " D"] | None = None,
        x: Decision | None = None,
    ) -> tuple[SampleAverageState, dict[str, Array]]:
        """Keeps the batch and solves again; tells nothing more."""
        problem, cost, feasible = self.problem, self.problem.cost, self.problem.feasible
        x_t = state.decision if x is None else x
        data = state.data.add(problem.likelihood, x_t, batch, weight)
        if x_t.size == 1 or (isinstance(cost, Newsvendor) and isinstance(feasible, Box | Reals)):
            best, size = bisect(cost, data.y, data.weight, x_t, feasible), state.size
        else:
            best, size = descend(cost, data.y, data.weight, x_t, feasible, state.size, self.rounds)
        best = jnp.where(jnp.sum(data.weight) > 0, best, state.decision)  # else nothing is known
        return SampleAverageState(state.stage + 1, best, data, size), {}

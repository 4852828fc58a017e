"""The compiled programs of a policy, shared by all policies that differ in numbers only."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, State
from postgrad.beliefs import Belief
from postgrad.engine import stage
from postgrad.monitoring.misspecification import Monitor
from postgrad.problem.problem import Decision


def split(policy: BayesianSGD) -> tuple[BayesianSGD, BayesianSGD]:
    """The numbers of a policy, and the rest: functions, names and counts."""
    return eqx.partition(policy, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))


class Programs(NamedTuple):
    """A stage in two calls; the first argument of each program is the numbers of the policy.

    Attributes:
        learn: (numbers, belief, search, monitor, batch, weight, x) -> (belief, what was drawn from
            it for the descent, monitor, report). See `stage.learn` and `BayesianSGD.draw`. Without
            an x, the batch arose under the last decision.
        draw: (numbers, belief, search) -> what is drawn for the descent, without a batch.
        descend: (numbers, draws, search, rows) -> (search, report). See `stage.descend`.
    """

    learn: Callable[..., tuple[Belief, Draws, Monitor, stage.LearnReport]]
    draw: Callable[..., Draws]
    descend: Callable[..., tuple[State, stage.DescendReport]]


@functools.lru_cache(maxsize=64)
def programs(rest: BayesianSGD) -> Programs:
    """The programs of all policies with this rest; see `split`.

    The state comes in two parts, the belief and the search (all but the belief), so that *descend*
    does not depend on the shapes of the belief.
    """

    @jax.jit
    def learn(
        numbers: BayesianSGD,
        belief: Belief,
        search: State,
        monitor: Monitor,
        batch: Array,
        weight: Array,
        x: Decision | None,
    ) -> Any:
        policy, state = eqx.combine(numbers, rest), dataclasses.replace(search, belief=belief)
        in_force = state.decision if x is None else x
        state, monitor, report = stage.learn(policy, state, monitor, batch, weight, in_force)
        return state.belief, policy.draw(state), monitor, report

    @jax.jit
    def draw(numbers: BayesianSGD, belief: Belief, search: State) -> Draws:
        return eqx.combine(numbers, rest).draw(dataclasses.replace(search, belief=belief))

    @jax.jit
    def descend(numbers: BayesianSGD, draws: Draws, search: State, rows: Array) -> Any:
        return stage.descend(eqx.combine(numbers, rest), draws, search, rows)

    return Programs(learn, draw, descend)

"""The compiled programs of a policy, shared by all policies that differ in numbers only."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, State
from postgrad.engine import stage
from postgrad.monitoring.misspecification import Monitor
from postgrad.problem.problem import Decision


def split(policy: BayesianSGD) -> tuple[BayesianSGD, BayesianSGD]:
    """The numbers of a policy, and the rest: functions, names and counts."""
    return eqx.partition(policy, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))


class Programs(NamedTuple):
    """One stage in three calls; the first argument of each is the numbers of the policy.

    Attributes:
        learn: (numbers, state, monitor, batch, weight, x) -> as `stage.learn`. Without an x, the
            batch arose under the last decision.
        draw: (numbers, state) -> as `BayesianSGD.draw`.
        descend: (numbers, draws, state without belief, rows) -> as `stage.descend`.
    """

    learn: Callable[..., tuple[State, Monitor, stage.LearnReport]]
    draw: Callable[..., Draws]
    descend: Callable[..., tuple[State, stage.DescendReport]]


@functools.lru_cache(maxsize=64)
def programs(rest: BayesianSGD) -> Programs:
    """The programs of all policies with this rest; see `split`."""

    @jax.jit
    def learn(
        numbers: BayesianSGD,
        state: State,
        monitor: Monitor,
        batch: Array,
        weight: Array,
        x: Decision | None,
    ) -> Any:
        in_force = state.decision if x is None else x
        policy = eqx.combine(numbers, rest)
        return stage.learn(policy, state, monitor, batch, weight, in_force)

    @jax.jit
    def draw(numbers: BayesianSGD, state: State) -> Draws:
        return eqx.combine(numbers, rest).draw(state)

    @jax.jit
    def descend(numbers: BayesianSGD, draws: Draws, state: State, rows: Array) -> Any:
        return stage.descend(eqx.combine(numbers, rest), draws, state, rows)

    return Programs(learn, draw, descend)

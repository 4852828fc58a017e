"""How many steps a stage can afford: K for a given time."""

import contextlib
import statistics
import timeit
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs.belief import Belief
from postgrad.engine.stream import Stream
from postgrad.errors import SettingError
from postgrad.monitoring.assumptions import AssumptionFailedError
from postgrad.numerics.validate import as_positive
from postgrad.problem.problem import Problem

# The two values of K that are timed, how often, and the most that is ever taken.
_FEW, _MANY, _TIMINGS, _MOST = 1, 9, 7, 200


def affordable(
    problem: Problem, belief: Belief, x: Any, budget_ms: float, options: dict[str, Any]
) -> int:
    """The largest K whose stage takes no more than the budget, but one at least.

    Args:
        problem: Cost, model and feasible set.
        belief: pi_0.
        x: x_1.
        budget_ms: The budget.
        options: As for `BayesianSGD`, without `iterations`.

    Raises:
        SettingError: If iterations are among the options, or the budget is not positive.
    """
    if "iterations" in options:
        raise SettingError("budget_ms and iterations both say what K is; give one of them")
    budget = float(as_positive(budget_ms, SettingError, "budget_ms"))
    few, many = (_stage_ms(problem, belief, x, options | {"iterations": k}) for k in (_FEW, _MANY))
    each = max((many - few) / (_MANY - _FEW), 1e-6)
    return int(np.clip(_FEW + (budget - few) / each, 1, _MOST))


def _stage_ms(problem: Problem, belief: Belief, x: Any, options: dict[str, Any]) -> float:
    """How long a stage of one observation takes."""
    stream = Stream(BayesianSGD(problem, **options), belief, x, alpha=1e-30)
    theta = jax.tree.map(lambda leaf: leaf[0], belief.examples())
    world = problem.likelihood(jnp.asarray(stream.start.decision), theta)
    batch = np.asarray(world.sample(random.key(0), (1,)))

    def stage() -> None:
        with contextlib.suppress(AssumptionFailedError):  # found out when all was computed
            stream.after(stream.start, batch)

    times = timeit.repeat(stage, repeat=1 + _TIMINGS, number=1)
    return 1e3 * statistics.median(times[1:])  # the first one compiles

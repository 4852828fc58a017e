"""Policies whose decisions have some entries given."""

from typing import Any

import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.numerics.module import replaced
from postgrad.problem.fixed import as_given, check_given, given


def with_given(
    policy: BayesianSGD, x: np.ndarray, fixed: dict[Any, float]
) -> tuple[BayesianSGD, np.ndarray]:
    """The policy, and a decision near x, with some entries given by their indices.

    Raises:
        DecisionError: If no feasible decision has them.
    """
    problem = policy.problem
    feasible = given(problem.feasible, *as_given(fixed, x.shape))
    place = check_given(feasible, x, fixed)
    return replaced(policy, problem=replaced(problem, feasible=feasible)), place

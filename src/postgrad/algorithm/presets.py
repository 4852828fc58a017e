"""Options of `BayesianSGD` and `Agent` that go together."""

from typing import Any

from postgrad.algorithm.gradients.mixture_score import MixtureScore
from postgrad.algorithm.step_sizes import Harmonic


def paper(**changes: Any) -> dict[str, Any]:
    """The algorithm as the paper prints it: K = 1, one sample, a_t = 2/(t + 5).

    `BayesianSGD(problem, **presets.paper())` is Algorithm 2.2, and 2.1 where the model ignores the
    decision: there the second term of the estimator is zero.

    Args:
        **changes: Options to change, such as `iterations=10`.
    """
    literal = {
        "gradient": MixtureScore(),
        "steps": Harmonic(2.0, 5.0),
        "iterations": 1,
        "samples": 1,
    }
    return literal | changes

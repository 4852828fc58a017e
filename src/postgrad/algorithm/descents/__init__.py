"""How the decision goes downhill within a stage."""

from typing import Any

import optax

from postgrad.algorithm.descents.descent import Course, Descent, Stage
from postgrad.algorithm.descents.newton import Newton
from postgrad.algorithm.descents.sgd import SGD, Optax
from postgrad.algorithm.descents.sgld import SGLD

__all__ = ["SGD", "SGLD", "Course", "Descent", "Newton", "Optax", "Stage", "as_descent"]


def as_descent(steps: Any) -> Descent:
    """What `steps=` means: a descent, an optax optimiser, a number or a schedule t -> a_t.

    Raises:
        StepSizeError: If a number or the schedule's first value is not positive and finite.
    """
    if isinstance(steps, Descent):
        return steps
    if isinstance(steps, optax.GradientTransformation):
        return Optax(steps)
    return SGD(steps)

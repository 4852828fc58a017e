"""How the decision goes downhill within a stage."""

from typing import Any

import optax

from postgrad.algorithm.descents.descent import Course as Course
from postgrad.algorithm.descents.descent import Descent as Descent
from postgrad.algorithm.descents.descent import Doubt as Doubt
from postgrad.algorithm.descents.descent import Plan as Plan
from postgrad.algorithm.descents.descent import Stage as Stage
from postgrad.algorithm.descents.newton import Newton as Newton
from postgrad.algorithm.descents.search import Search as Search
from postgrad.algorithm.descents.sgd import SGD as SGD
from postgrad.algorithm.descents.sgd import Optax as Optax
from postgrad.algorithm.descents.sgld import SGLD as SGLD


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

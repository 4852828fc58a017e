"""What `steps=` means."""

from typing import Any

from postgrad.algorithm.descents.descent import Descent
from postgrad.algorithm.descents.sgd import SGD, Optax


def as_descent(steps: Any) -> Descent:
    """A descent from a descent, an optax optimiser, a number or a schedule t -> a_t.

    Raises:
        StepSizeError: If a number or the schedule's first value is not positive and finite.
    """
    if isinstance(steps, Descent):
        return steps
    # An optax optimiser, asked by its two functions since optax is slow to import.
    if callable(getattr(steps, "init", None)) and callable(getattr(steps, "update", None)):
        return Optax(steps)
    return SGD(steps)

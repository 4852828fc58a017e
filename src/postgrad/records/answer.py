"""What is kept with each batch: the decision that was issued, and numbers about it."""

import math
from dataclasses import dataclass

import numpy as np

from postgrad.records.surprise import Surprise


@dataclass(frozen=True)
class Answer:
    """What is kept with each batch.

    Attributes:
        decision: x_{t+1} as issued.
        low: The 2.5 % quantile of the best decision, entry by entry; NaN if unknown.
        high: The 97.5 % quantile.
        log_predictive: log f_hat of the whole batch, as a sum over its observations.
        surprise: Where the batch lay among those that were foreseen.
    """

    decision: np.ndarray
    low: np.ndarray
    high: np.ndarray
    log_predictive: float
    surprise: Surprise


def size_of_answer(shape: tuple[int, ...], event_shape: tuple[int, ...]) -> int:
    """How many bytes an answer has, as it is laid out today.

    Args:
        shape: The shape of the decision.
        event_shape: The shape of one observation.
    """
    return 8 * (3 * math.prod(shape) + 1 + 4 * math.prod(event_shape))


def read_answer(data: bytes, shape: tuple[int, ...], event_shape: tuple[int, ...]) -> Answer:
    """What was kept with a batch, also by code before schema 1 of the settings.

    Args:
        data: The bytes.
        shape: The shape of the decision.
        event_shape: The shape of one observation.

    Raises:
        ValueError: If there are not as many numbers as there should be.
    """
    d, numbers = math.prod(shape), np.frombuffer(data, "<f8")
    expected = size_of_answer(shape, event_shape) // 8
    if len(numbers) == expected - d:  # before schema 1: one standard deviation
        low, high = (numbers[:d] + k * numbers[d : 2 * d] for k in (-2.0, 2.0))
        numbers = np.concatenate([numbers[:d], low, high, numbers[2 * d :]])
    if len(numbers) != expected:
        raise ValueError(f"expected {expected} numbers, got {len(numbers)}")
    return Answer(
        decision=numbers[:d].reshape(shape),
        low=numbers[d : 2 * d].reshape(shape),
        high=numbers[2 * d : 3 * d].reshape(shape),
        log_predictive=float(numbers[3 * d]),
        surprise=Surprise(*numbers[3 * d + 1 :].reshape(4, *event_shape)),
    )

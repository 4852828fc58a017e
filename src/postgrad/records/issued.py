"""Decisions that were issued under an id, and the numbers that are stored of them."""

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from postgrad.store import Issue


@dataclass(frozen=True)
class IssuedDecision:
    """A decision that was issued under an id.

    Attributes:
        id: The id.
        time: When it was issued.
        stage: How many batches had been observed.
        context: The context for which it was issued; None without contexts.
        decision: The decision.
        low: The 2.5 % quantile of the best decision, entry by entry; NaN where nothing tells.
        high: The 97.5 % quantile.
    """

    id: str
    time: datetime
    stage: int
    context: Any
    decision: np.ndarray
    low: np.ndarray
    high: np.ndarray


def issued_bytes(decision: np.ndarray, low: np.ndarray, high: np.ndarray) -> bytes:
    """What is stored of a decision and of its interval, which has the decision's shape."""
    arrays = [np.asarray(array, "<f8") for array in (decision, low, high)]
    return b"".join(np.broadcast_to(array, arrays[0].shape).tobytes() for array in arrays)


def read_issued(issue: Issue, shape: tuple[int, ...]) -> IssuedDecision:
    """An issued decision as it is stored.

    Args:
        issue: What is stored.
        shape: The shape of the decision.

    Raises:
        ValueError: If there are not as many numbers as there should be.
    """
    numbers, expected = np.frombuffer(issue.answer, "<f8"), 3 * math.prod(shape)
    if len(numbers) != expected:
        raise ValueError(f"expected {expected} numbers, got {len(numbers)}")
    decision, low, high = numbers.reshape(3, *shape)
    return IssuedDecision(
        id=issue.id,
        time=datetime.fromtimestamp(issue.time, UTC),
        stage=issue.stage,
        context=None if issue.context is None else json.loads(issue.context),
        decision=decision[()],
        low=low[()],
        high=high[()],
    )

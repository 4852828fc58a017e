"""What users give to an agent, checked: names, batches, decisions in force."""

from typing import Any

import numpy as np
from jaxtyping import Float

from postgrad.errors import BatchError, DecisionError, PostgradError
from postgrad.numerics.validate import as_matrix, as_numbers

# Names of streams and batches may be this long.
_LONGEST = 512


def as_rows(batch: Any, event_shape: tuple[int, ...]) -> Float[np.ndarray, "D ..."]:
    """A batch as rows of observations, from one observation, several, or a frame.

    Raises:
        BatchError: If the batch is empty, not finite numbers or of the wrong shape.
    """
    if hasattr(batch, "__arrow_c_stream__"):
        batch, _ = as_matrix(batch)
        batch = batch[:, 0] if not event_shape and batch.shape[1] == 1 else batch
    rows = as_numbers(batch, BatchError, "batch")
    if rows.shape == event_shape:
        rows = rows[None]
    if rows.shape[1:] != event_shape or rows.ndim != 1 + len(event_shape):
        raise BatchError(
            f"batch must have shape (D, {', '.join(map(str, event_shape))}), got {rows.shape}"
        )
    if rows.shape[0] == 0:
        raise BatchError("batch must have at least one observation, got none")
    return rows


def as_decision(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The decision in force when a batch arose; it may lie outside the feasible set.

    Raises:
        DecisionError: If it is not finite numbers of that shape.
    """
    numbers = as_numbers(x, DecisionError, "x")
    if numbers.shape != shape:
        raise DecisionError(f"x must have shape {shape}, got {numbers.shape}")
    return numbers


def as_name(name: Any, error: type[PostgradError], what: str) -> str:
    """A name that can be stored and found again: any text, within limits."""
    if not isinstance(name, str):
        raise error(f"{what} must be a string, got {name!r}")
    if not 1 <= len(name) <= _LONGEST:
        raise error(f"{what} must have 1 to {_LONGEST} characters, got {len(name)}")
    if "\0" in name:
        raise error(f"{what} must have no NUL character, got {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError as problem:
        raise error(f"{what} must be proper Unicode, got {name!r}") from problem
    return name

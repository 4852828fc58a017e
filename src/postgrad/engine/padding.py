"""Batches of many sizes as arrays of few shapes."""

import numpy as np
from jaxtyping import Float

# Batches of up to so many rows share one program.
_LEAST = 8


def padded(rows: Float[np.ndarray, "D ..."]) -> tuple[np.ndarray, np.ndarray]:
    """Rows padded to 8, 16, 32, ... with copies of the first, and their weights 1 or 0."""
    count = rows.shape[0]
    size = max(_LEAST, 1 << (count - 1).bit_length())
    batch, weight = np.empty((size, *rows.shape[1:])), np.zeros(size)
    batch[:count], batch[count:], weight[:count] = rows, rows[0], 1.0
    return batch, weight

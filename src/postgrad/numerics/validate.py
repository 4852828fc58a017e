"""Checks of user input: it becomes float64 arrays, or a typed error that names the value."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from postgrad.errors import DataError, PostgradError


def is_concrete(*values: PyTree) -> bool:
    """Whether no leaf is being traced by `jit`, `vmap` or `grad`.

    Only then can checks read numbers; inside compiled programs they are left out.
    """
    leaves = jax.tree.leaves(values)
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def as_numbers(
    value: Any, error: type[PostgradError], what: str, infinite: float = np.nan
) -> np.ndarray:
    """`value` as a float64 NumPy array of finite numbers.

    Args:
        value: A number, a sequence or an array.
        error: The error to raise.
        what: The name of the value in the message.
        infinite: The infinity that is allowed, inf or -inf; neither, if not given.

    Raises:
        error: On booleans, strings, objects, complex numbers, ragged lists, NaN and infinities.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise error(f"{what} must have no masked entries: leave them out")
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as problem:
        raise error(f"{what} must be numbers of one shape, got {value!r}: {problem}") from problem
    if array.dtype.kind not in "fiu":
        raise error(f"{what} must be real numbers, got {_shown(array)} of type {array.dtype}")
    array = array.astype(np.float64, copy=False)
    finite = np.isfinite(array) | (array == infinite)
    if not finite.all():
        where = np.argwhere(~finite)[0].tolist()
        place = f" at index {where}" if where else ""
        raise error(f"{what} must be finite, got {array[tuple(where)]}{place}")
    return array


def as_array(value: Any, error: type[PostgradError], what: str, infinite: float = np.nan) -> Array:
    """`value` as a float64 JAX array, checked by `as_numbers` unless it is being traced."""
    if is_concrete(value):
        return on_device(as_numbers(value, error, what, infinite))
    return jnp.asarray(value, dtype=jnp.float64)


def on_device(numbers: Any) -> Array:
    """A JAX array of NumPy's numbers; `jnp.asarray` would compile a program for each shape.

    It is a copy: JAX goes on using the memory of what it is given.
    """
    return jax.device_put(np.array(numbers))


def as_number(
    value: Any,
    error: type[PostgradError],
    what: str,
    expected: str = "a number",
    allowed: Callable[[np.ndarray], Any] = lambda number: True,
) -> Array:
    """`value` as one float64 number, which must be `allowed` unless it is being traced.

    Args:
        value: A number.
        error: The error to raise.
        what: The name of the value in the message.
        expected: What it must be, in the message.
        allowed: Whether a number is such.
    """
    array = as_array(value, error, what)
    if array.shape != () or (is_concrete(array) and not allowed(np.asarray(array))):
        raise error(f"{what} must be {expected}, got {value!r}")
    return array


def as_positive(value: Any, error: type[PostgradError], what: str) -> Array:
    """`value` as one positive float64 number."""
    return as_number(value, error, what, "a positive number", lambda number: number > 0)


def as_count(value: Any, error: type[PostgradError], what: str) -> int:
    """`value` as a positive Python int."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise error(f"{what} must be a positive whole number, got {value!r}")
    return int(value)


def as_key(seed: Any, error: type[PostgradError]) -> Array:
    """A whole number or a JAX key, as a JAX key."""
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        return seed
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**63:
        raise error(f"seed must be a whole number from 0 to 2^63 - 1, or a JAX key, got {seed!r}")
    if jax.config.jax_default_prng_impl != "threefry2x32":  # type: ignore[attr-defined]
        return jax.random.key(int(seed))
    # What `jax.random.key` computes, which takes two programs.
    words = np.asarray([int(seed) >> 32, int(seed) & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(on_device(words), impl="threefry2x32")


def as_covariance(value: Any, error: type[PostgradError], what: str, d: int) -> Array:
    """`value` as a symmetric positive definite d x d matrix, checked unless it is being traced."""
    array = as_array(value, error, what)
    if array.shape != (d, d):
        raise error(f"{what} must have {d} rows and columns, got shape {array.shape}")
    if not is_concrete(array):
        return array
    matrix = np.asarray(array)
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-12 * np.abs(matrix).max()):
        raise error(f"{what} must be symmetric, got {_shown(matrix)}")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if not smallest > 0:
        raise error(f"{what} must be positive definite, got one with the eigenvalue {smallest:g}")
    return array


def _shown(array: np.ndarray) -> str:
    text = repr(array.tolist())
    return text if len(text) <= 60 else text[:57] + "..."


def is_frame(value: Any) -> bool:
    """Whether a value is a table with the Arrow interface; a single column counts as an array."""
    return hasattr(value, "__arrow_c_stream__") and len(getattr(value, "shape", (0, 0))) == 2


def as_matrix(frame: Any) -> tuple[np.ndarray, list[str]]:
    """The numbers of a frame with the Arrow interface, and the names of its columns.

    Raises:
        DataError: If a column holds no numbers.
    """
    table = arrow().table(frame)
    columns = []
    for name in table.column_names:
        column = table[name].to_numpy(zero_copy_only=False)
        if column.dtype.kind not in "fiu":
            raise DataError(f"column {name!r} must hold numbers, got type {table[name].type}")
        columns.append(column.astype(float))
    return np.stack(columns, axis=1), list(table.column_names)


def arrow() -> Any:
    """The module pyarrow.

    Raises:
        DataError: If it is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise DataError(
            "Arrow frames and Parquet files need pyarrow: install postgrad[arrow]"
        ) from error
    return pyarrow

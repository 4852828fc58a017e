"""Product grids: all combinations of levels."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from postgrad.errors import PriorError
from postgrad.numerics.validate import as_numbers


def product_grid(levels: PyTree) -> PyTree:
    """All combinations of the levels of each number that theta is made of.

    `product_grid({"mean": [1.0, 2.0], "scale": [1.0, 2.0, 4.0]})` has the six points of a
    two-by-three grid. A number has a list of levels; a vector has a list of such lists, one for
    each entry:
    `product_grid([[5.0, 10.0], [1.0, 2.0, 3.0]])` are six vectors of two entries. The last varies
    fastest, keys of a dictionary being in alphabetical order.

    Args:
        levels: A list, or a dictionary or tuple of them.

    Returns:
        The points along the leading axis of each leaf, ready for `Grid`.

    Raises:
        PriorError: If levels are not finite numbers, or a list is empty.
    """

    # A vector's entries may have different numbers of levels, so they are kept apart.
    def as_axes(leaf: Any) -> PyTree:
        return tuple(map(_level, leaf)) if _is_vector(leaf) else _level(leaf)

    def as_points(leaf: Any, columns: PyTree) -> np.ndarray:
        return np.stack(columns, axis=-1) if _is_vector(leaf) else columns

    axes, tree = jax.tree.flatten(jax.tree.map(as_axes, levels, is_leaf=_is_levels))
    if not axes or not all(axis.size for axis in axes):
        raise PriorError(f"levels must not be empty, got {levels!r}")
    columns = [mesh.ravel() for mesh in np.meshgrid(*axes, indexing="ij")]
    columns = jax.tree.unflatten(tree, columns)
    return jax.tree.map(as_points, levels, columns, is_leaf=_is_levels)


def _is_levels(node: Any) -> bool:
    return not isinstance(node, dict | tuple)


def _is_vector(leaf: Any) -> bool:
    """Whether the levels are a list of lists, one for each entry of a vector."""
    first = next(iter(leaf), 0.0) if np.iterable(leaf) else leaf
    return np.ndim(first) > 0


def _level(values: Any) -> np.ndarray:
    axis = as_numbers(values, PriorError, "levels")
    if axis.ndim != 1:
        raise PriorError(f"levels must be lists of numbers, got shape {axis.shape}")
    return axis

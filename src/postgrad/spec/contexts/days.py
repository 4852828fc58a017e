"""The contexts and dates of a backtest's days, as arrays."""

import collections
import datetime
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from postgrad.errors import ContextError
from postgrad.spec.contexts.calendar import time_of


class ContextOfDays(NamedTuple):
    """The contexts of a table of days.

    Attributes:
        context: z, days by units along the leading axes of each array; a unit is an item, or all
            items that are decided together. Any numbers where the context is not known.
        known: Where it is known.
        left_out: How many days were not learned from, by the column that was empty.
    """

    context: PyTree
    known: Bool[np.ndarray, "days units"]
    left_out: Mapping[str, int]


def context_of_days(
    context: PyTree, demand_known: Bool[np.ndarray, "days items"], joint: bool
) -> ContextOfDays:
    """Contexts from arrays: NaN where a column is empty.

    Args:
        context: z. The leading axis of each array is that of the days. Where items are decided by
            themselves the second one, if there is one, is that of the items, or has length 1.
        demand_known: Where there is a demand to learn from.
        joint: Whether all items are decided together.

    Raises:
        ContextError: If an array holds no numbers, or has another length.
    """
    if isinstance(context, ContextOfDays):
        return context
    days, items = demand_known.shape
    units = 1 if joint else items
    named, structure = jax.tree.flatten_with_path(context, is_leaf=lambda z: isinstance(z, list))
    asked = demand_known.all(axis=1, keepdims=True) if joint else demand_known
    known, leaves = np.ones((days, units), bool), []
    left_out: collections.Counter[str] = collections.Counter()
    for path, leaf in named:
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "context"
        array = _numbers(leaf, name)
        if array.shape[:1] != (days,):
            expected = f"a number for each of {days} days along the leading axis"
            raise ContextError(f"{name} must have {expected}, got shape {array.shape}")
        if joint:
            array = array[:, None]
        elif array.ndim == 1:
            array = array[:, None].repeat(items, axis=1)
        elif array.shape[1] in (1, items):
            array = np.broadcast_to(array, (days, items, *array.shape[2:]))
        else:
            raise ContextError(f"{name} must be days by {items} items, got shape {array.shape}")
        there = ~np.isnan(array).reshape(days, units, -1).any(axis=2)
        left_out.update({name: int((asked & ~there).sum())})
        known &= there
        leaves.append(np.where(np.isnan(array), 0, array) if array.dtype.kind == "f" else array)
    return ContextOfDays(jax.tree.unflatten(structure, leaves), known, +left_out)


def _numbers(leaf: Any, name: str) -> np.ndarray:
    try:
        array = np.asarray(leaf)
    except ValueError as error:
        raise ContextError(f"{name} must be an array of numbers, got {leaf!r:.60}") from error
    if array.dtype.kind not in "fiub":
        raise ContextError(f"{name} must be an array of numbers, got {array.dtype} numbers")
    if np.isinf(array).any():
        raise ContextError(f"{name} must be finite, or NaN where it is not known")
    return array


def times_of_days(dates: Sequence[str] | None) -> Float[np.ndarray, " days"] | None:
    """The times of days in days; None if they have no dates: then a day is one unit of time."""
    try:
        found = [datetime.datetime.fromisoformat(date).replace(tzinfo=None) for date in dates or ()]
    except (ValueError, TypeError):
        return None
    return np.asarray([time_of(date) for date in found]) if found else None

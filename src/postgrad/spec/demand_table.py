"""A table of demand, as backtests read it."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from postgrad.algorithm.separable_cost import costs_by_item
from postgrad.errors import BatchError, SettingError
from postgrad.numerics.validate import as_count, as_matrix, is_frame
from postgrad.problem.contexts import in_context, takes_context
from postgrad.problem.problem import Problem
from postgrad.spec.reworded import reworded


class DemandTable:
    """What was asked for on each day, when it became known, and under which decisions it arose.

    Attributes:
        rows: Days by items by rows; NaN where there is none. A day's rows are one batch.
        known_rows: Where there is one.
        demand: Days by items, the mean of a day's rows; NaN where it is not known.
        known: Where it is known.
        columns: The names of a frame's columns; None for arrays.
        group: The number of each day's group; all 0, if days are not split.
        groups: How many groups there are.
        delay: Days until a demand is known, beyond the next morning.
        in_force: The decisions under which the data arose; zero where no demand is known.
    """

    def __init__(
        self,
        demand: Any,
        split_by: Sequence[str] | None = None,
        in_force: Any = None,
        delay: int = 0,
    ):
        """See `backtest`.

        Raises:
            BatchError: If the demand is no table of numbers.
            SettingError: If the other tables do not have its shape.
        """
        self.columns: Sequence[str] | None = None
        if is_frame(demand):
            demand, self.columns = as_matrix(demand)
        self.rows = _as_table(demand)
        self._set_rows(self.rows)
        days = len(self.demand)
        self.group = groups_of(split_by, days)
        self.groups = int(self.group.max()) + 1
        self.delay = delay if delay == 0 else as_count(delay, SettingError, "delay")
        self.in_force = None if in_force is None else self._in_force(in_force)

    def _set_rows(self, rows: np.ndarray) -> None:
        self.rows, self.known_rows = rows, ~np.isnan(rows)
        self.known, count = self.known_rows.any(axis=2), self.known_rows.sum(axis=2)
        total = np.where(self.known_rows, self.rows, 0.0).sum(axis=2)
        self.demand = np.where(self.known, total / np.maximum(count, 1), np.nan)

    def leave_out(self, where: Bool[np.ndarray, "days items"]) -> None:
        """Take some demands for not known."""
        self._set_rows(np.where(where[..., None], np.nan, self.rows))

    def _in_force(self, in_force: Any) -> np.ndarray:
        with reworded("in_force must be a table of numbers", SettingError, ValueError, TypeError):
            table = np.asarray(in_force, float)
        if table.size != self.demand.size:
            raise SettingError(f"in_force must have the demand's shape {self.demand.shape}")
        table = table.reshape(self.demand.shape)
        missing = np.argwhere(self.known & ~np.isfinite(table))
        if missing.size:
            day, item = missing[0]
            which = f"the demand {self.demand[day, item]} of day {day}, item {item}, arose"
            given = table[day, item]
            raise BatchError(f"in_force must say under which decision {which}, got {given}")
        return np.where(self.known, table, 0.0)

    def costs(
        self, problems: Sequence[Problem], decisions: np.ndarray, context: PyTree = None
    ) -> np.ndarray:
        """What decisions cost on all rows of a day: days by items.

        Days by one column, if all items have one cost that does not add over them. Zero where a
        demand is not known.

        Args:
            problems: One for each item, or a single one for all items.
            decisions: Days by items.
            context: z, days by units along the leading axes; None without contexts.
        """
        x, rows = np.where(self.known, decisions, 0.0), np.moveaxis(self.rows, 2, 0)
        return np.sum([self._costs_of_row(problems, x, row, context) for row in rows], axis=0)

    def _costs_of_row(
        self, problems: Sequence[Problem], x: np.ndarray, row: Any, context: PyTree
    ) -> np.ndarray:
        known = ~np.isnan(row)
        demand = np.where(known, row, 0.0)
        if len(problems) == demand.shape[1]:
            costs = _stacked([problem.cost for problem in problems])
            return np.where(known, _costs_of_items(costs, x, demand, context), 0.0)
        cost = problems[0].cost
        if takes_context(cost):
            z = jax.tree.map(lambda leaf: leaf[:, 0], context)
            each = jax.vmap(lambda x, xi, z: in_context(cost, z)(x, xi))(x, demand, z)[:, None]
        else:
            each = costs_by_item(cost, jnp.asarray(x), jnp.asarray(demand))
        return np.where(known[:, : each.shape[1]], each, 0.0)


def groups_of(split_by: Sequence[str] | None, days: int) -> Int[np.ndarray, " days"]:
    """The number of each day's group; all 0, if days are not split.

    Raises:
        SettingError: If there is not one group for each day.
    """
    labels = [""] * days if split_by is None else list(split_by)
    if len(labels) != days:
        raise SettingError(f"split_by must have one entry for each of {days} days")
    return np.unique(labels, return_inverse=True)[1]


def _stacked(costs: Sequence[Any]) -> Any:
    """Costs that differ in numbers only, with these along a leading axis."""
    return jax.tree.map(
        lambda *leaves: np.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *costs
    )


@eqx.filter_jit
def _costs_of_items(costs: Any, x: Any, demand: Any, context: PyTree) -> Array:
    """The cost of each item on each day, as one program for all items."""
    numbers, rest = eqx.partition(costs, eqx.is_array)

    def one(numbers: Any, x: Array, demand: Array, z: PyTree) -> Array:
        return in_context(eqx.combine(numbers, rest), z)(x, demand)

    days = jax.vmap(one, in_axes=(None, 0, 0, 0))
    return jax.vmap(days, in_axes=(0, 1, 1, 1), out_axes=1)(numbers, x, demand, context)


def _as_table(demand: Any) -> np.ndarray:
    with reworded("demand must be a table of numbers", BatchError, ValueError, TypeError):
        table = np.asarray(demand, float)
    if table.ndim not in (1, 2, 3) or table.size == 0:
        raise BatchError(f"demand must be days by items, got shape {table.shape}")
    table = table.reshape(*table.shape, *(1,) * (3 - table.ndim))
    if np.isinf(table).any():
        raise BatchError("demand must be finite, or NaN where it is not known")
    return table

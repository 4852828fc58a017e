"""A table of demand, as backtests read it."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from postgrad.algorithm.separable_cost import costs_by_item
from postgrad.errors import BatchError, SettingError
from postgrad.numerics.validate import as_count, as_matrix, is_frame
from postgrad.problem.problem import Problem
from postgrad.spec.reworded import reworded


class DemandTable:
    """What was asked for on each day, when it became known, and under which decisions it arose.

    Attributes:
        demand: Days by items; NaN where it is not known.
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
        self.demand = _as_table(demand)
        self.known = ~np.isnan(self.demand)
        days = len(self.demand)
        labels = [""] * days if split_by is None else list(split_by)
        if len(labels) != days:
            raise SettingError(f"split_by must have one entry for each of {days} days")
        self.group = np.unique(labels, return_inverse=True)[1]
        self.groups = int(self.group.max()) + 1
        self.delay = delay if delay == 0 else as_count(delay, SettingError, "delay")
        self.in_force = None if in_force is None else self._in_force(in_force)

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

    def costs(self, problems: Sequence[Problem], decisions: np.ndarray) -> np.ndarray:
        """What decisions cost: days by items.

        Days by one column, if all items have one cost that does not add over them. Zero where a
        demand is not known.
        """
        x, demand = jnp.asarray(decisions), jnp.asarray(np.where(self.known, self.demand, 0.0))
        if len(problems) == demand.shape[1]:
            of_items = zip(problems, x.T, demand.T, strict=True)
            columns = [jax.vmap(problem.cost)(*days) for problem, *days in of_items]
            return np.where(self.known, np.stack(columns, axis=1), 0.0)
        each = costs_by_item(problems[0].cost, x, demand)
        return np.where(self.known[:, : each.shape[1]], each, 0.0)


def _as_table(demand: Any) -> np.ndarray:
    with reworded("demand must be a table of numbers", BatchError, ValueError, TypeError):
        table = np.asarray(demand, float)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.size == 0:
        raise BatchError(f"demand must be days by items, got shape {table.shape}")
    if np.isinf(table).any():
        raise BatchError("demand must be finite, or NaN where it is not known")
    return table

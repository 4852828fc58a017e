"""What columns of a context have shown in earlier rows: levels that were seen, mean and deviation.

A context becomes numbers by what earlier rows have shown alone. Levels have numbers in the order in
which they came. The scale of a column of numbers is that of its first rows; until these are known
the number is 0, the mean. Then the scale stays, so that the effect of a column always means the
same. A number that is more than five deviations from the mean counts as five: the first rows of a
column that is nearly always 0 say little of how large it may become.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from postgrad.errors import DataError
from postgrad.spec.contexts.cells import Cell, Cells
from postgrad.spec.contexts.context_table import CategoryColumn, ContextTable, NumberColumn

# In deviations, where they are those of the first rows.
_FARTHEST = 5.0

Context = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class FirstRows:
    """Mean and deviation of the first rows of a column.

    Attributes:
        count: How many rows.
        mean: Their mean.
        squares: The sum of their squared differences from the mean.
    """

    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def after(self, value: float) -> Self:
        """With one more row (Welford's recursion)."""
        count, difference = self.count + 1, value - self.mean
        mean = self.mean + difference / count
        return type(self)(count, mean, self.squares + difference * (value - mean))

    def scaled(self, value: float) -> float:
        """A number in deviations from the mean.

        A column that has been constant has the deviation of its size, but at least 1.
        """
        deviation = math.sqrt(self.squares / self.count) or max(1.0, abs(self.mean))
        return float(np.clip((value - self.mean) / deviation, -_FARTHEST, _FARTHEST))


@dataclasses.dataclass(frozen=True)
class ColumnMemory:
    """What the columns of the data have shown so far, to one stream.

    Attributes:
        levels: Of each column of categories that are not listed, the levels in order.
        first_rows: Of each column of numbers whose scale is not given, its first rows.
    """

    levels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    first_rows: Mapping[str, FirstRows] = dataclasses.field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """In JSON types."""
        rows = {name: list(dataclasses.astuple(one)) for name, one in self.first_rows.items()}
        return {"levels": {n: list(v) for n, v in self.levels.items()}, "first_rows": rows}

    @classmethod
    def from_json(cls, kept: Any) -> Self:
        """What `to_json` returned."""
        levels = {name: tuple(names) for name, names in kept["levels"].items()}
        return cls(levels, {name: FirstRows(*row) for name, row in kept["first_rows"].items()})

    def after(self, table: ContextTable, cells: Sequence[Cells]) -> Self:
        """What is known after a row: of one item, or of all items that are decided together.

        Raises:
            DataError: If there are more levels than there is room for.
        """
        levels, first_rows = dict(self.levels), dict(self.first_rows)
        seen: set[str] = set()
        for of_item in cells:
            for name, cell in of_item.columns.items():
                if cell.column in seen or not cell.given:
                    continue
                seen.add(cell.column)
                column = table.columns[name]
                if isinstance(column, NumberColumn):
                    before = first_rows.get(cell.column, FirstRows())
                    if column.scale is None and before.count < table.first_rows:
                        first_rows[cell.column] = before.after(float(cell.value or 0.0))
                elif isinstance(column.levels, int):
                    known = levels.get(cell.column, ())
                    _check_room(column, known, cell, of_item.where)
                    if cell.value not in known and len(known) < column.levels:
                        levels[cell.column] = (*known, str(cell.value))
        if (levels, first_rows) == (self.levels, self.first_rows):
            return self
        return type(self)(levels, first_rows)

    def unseen(self, table: ContextTable, cells: Sequence[Cells]) -> str | None:
        """Why a context cannot be decided for: a value is missing, or a level was never seen.

        Returns:
            The reason, with the name of the column; None if it can be decided for.
        """
        for of_item in cells:
            for name, cell in of_item.columns.items():
                if cell.value is None:
                    return f"{cell.column!r} is empty; to decide, it must be known"
                column = table.columns[name]
                if isinstance(column, CategoryColumn) and not column.other:
                    listed = isinstance(column.levels, list)
                    known = column.levels if listed else self.levels.get(cell.column, ())
                    if cell.value not in known:  # type: ignore[operator]
                        what = f"the level {cell.value!r} of {cell.column!r} was never seen"
                        return f"{what}; with `other = true` its effect is drawn from the prior"
        return None

    def context(self, table: ContextTable, cells: Sequence[Cells], joint: bool) -> Context:
        """The numbers of a context.

        Args:
            table: Which columns.
            cells: What a row says: of one item, or of all items that are decided together.
            joint: Whether they are decided together; then all are arrays, a number for each item.

        Raises:
            DataError: If a value is missing.
        """
        each = [
            {
                **{name: _calendar_number(value) for name, value in of_item.calendar.items()},
                **{name: self._number(table, name, of_item) for name in table.columns},
            }
            for of_item in cells
        ]
        if not joint:
            return each[0]
        return {name: np.asarray([one[name] for one in each]) for name in each[0]}

    def _number(self, table: ContextTable, name: str, cells: Cells) -> Any:
        column, cell = table.columns[name], cells.columns[name]
        if cell.value is None:
            raise DataError(f"{cells.where}: {cell.column!r} is empty; to decide, it must be known")
        if isinstance(column, NumberColumn):
            return np.float64(self._scaled(table, column, cell))
        known = column.levels if isinstance(column.levels, list) else self._levels(cell)
        value = str(cell.value)
        if value in known:
            return np.int64(list(known).index(value))
        if isinstance(column.levels, list):
            return np.int64(len(known))
        # The first number that no row has had: nothing was learned about its effect. If there is
        # none, `other` has a number of its own.
        _check_room(column, known, cell, cells.where)
        return np.int64(len(known))

    def _levels(self, cell: Cell) -> tuple[str, ...]:
        return tuple(self.levels.get(cell.column, ()))

    def _scaled(self, table: ContextTable, column: NumberColumn, cell: Cell) -> float:
        value = float(cell.value or 0.0)
        if column.scale is not None:
            return (value - column.scale[0]) / column.scale[1]
        rows = self.first_rows.get(cell.column, FirstRows())
        return rows.scaled(value) if rows.count >= table.first_rows else 0.0


def example(table: ContextTable, items: int | None) -> Context:
    """A context, all of whose numbers are zero.

    Args:
        table: Which columns.
        items: How many items are decided together; None if each is decided by itself.
    """
    found = {
        feature.name: np.float64(0.0) if feature.levels is None else np.int64(0)
        for feature in table.features
    }
    return found if items is None else {name: np.full(items, z) for name, z in found.items()}


def _calendar_number(value: float) -> Any:
    return np.float64(value) if isinstance(value, float) else np.int64(value)


def _check_room(column: CategoryColumn, known: Sequence[str], cell: Cell, where: str) -> None:
    if cell.value not in known and len(known) == column.room and not column.other:
        what = f"{cell.column!r} has more than {column.room} levels, {cell.value!r} is one more"
        raise DataError(f"{where}: {what}; say how many in `levels`, or `other = true`")

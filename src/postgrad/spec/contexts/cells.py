"""What a row says of the context of each item, before numbers are made of it."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from postgrad.errors import DataError
from postgrad.spec.contexts.calendar import calendar_features, date_of
from postgrad.spec.contexts.context_table import ContextColumn, ContextTable, NumberColumn
from postgrad.spec.tables.files import Row, cell, number, text


class Cell(NamedTuple):
    """One cell.

    Attributes:
        column: The name of the column in the data.
        value: A number, or the name of a level; None if nothing is known.
        given: Whether the row has it; False if it is what `missing` says.
    """

    column: str
    value: float | str | None
    given: bool


@dataclasses.dataclass(frozen=True)
class Cells:
    """The context of one item, as a row says it.

    Attributes:
        calendar: Features of the date.
        columns: The cell of each column of the context.
        where: The file and the line, for messages.
    """

    calendar: Mapping[str, float]
    columns: Mapping[str, Cell]
    where: str

    @property
    def missing(self) -> tuple[str, ...]:
        """The columns of the data that are empty, and of which `missing` does not say a value."""
        return tuple(cell.column for cell in self.columns.values() if cell.value is None)


def cells_of(
    table: ContextTable, row: Row, date: str, items: Iterable[str], where: str
) -> dict[str, Cells]:
    """The context of each item.

    Args:
        table: Which columns.
        row: The row.
        date: Its date.
        items: The items that the row is about.
        where: The file and the line, for messages.

    Raises:
        DataError: If there is no such column, a cell holds no number where it should, or the date
            is none.
    """
    calendar: dict[str, float] = {}
    if table.needs_dates:
        calendar = calendar_features(date_of(date, where), table.calendar, table.holidays)
    return {
        item: Cells(
            calendar,
            {
                name: _cell(column, row, table.in_data(name, item), where)
                for name, column in table.columns.items()
            },
            where,
        )
        for item in items
    }


def _cell(column: ContextColumn, row: Row, name: str, where: str) -> Cell:
    if cell(row, name, where) is None:
        return Cell(name, column.missing, False)
    if isinstance(column, NumberColumn):
        return Cell(name, number(row, name, where), True)
    value = text(row, name, where)
    listed = column.levels if isinstance(column.levels, list) else None
    if listed is not None and value not in listed and not column.other:
        known = ", ".join(map(repr, listed[:20]))
        instead = "list it in `levels`, or say `other = true`"
        raise DataError(f"{where}: {name!r} must be among {known}, got {value!r}; {instead}")
    return Cell(name, value, True)

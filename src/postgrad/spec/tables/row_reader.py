"""From rows of data to batches: whose demand, when, in which context, under which decision."""

import dataclasses
import datetime
from collections.abc import Iterable, Iterator

import numpy as np

from postgrad.errors import DataError
from postgrad.spec.data import WEEKDAYS, AnyContext, Columns, WeekdayContext
from postgrad.spec.tables.files import Row, cell, number, text


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One row of data.

    Attributes:
        id: Names the batch: the id column, the date, or the number of the row.
        date: As it is written; the row's number where there are no dates.
        context: What was known before the decision; None without contexts.
        values: The demand of each item; None where the cell is empty.
        decisions: The decision in force for each item, where the data tell.
    """

    id: str
    date: str
    context: str | None
    values: dict[str, float | None]
    decisions: dict[str, float | None]


def arrivals(rows: Iterable[Row], data: Columns, context: AnyContext | None) -> Iterator[Arrival]:
    """The rows, read as the specification says.

    Raises:
        DataError: At the first row that cannot be read so; it names the row and the column.
    """
    for count, row in enumerate(rows, start=1):
        where = f"row {count}"
        if any(_is(row, column, value, where) for column, value in data.skip.items()):
            continue
        date = f"{count}" if data.date is None else text(row, data.date, where)
        yield Arrival(
            id=date if data.id is None else text(row, data.id, where),
            date=date,
            context=None if context is None else _context(row, date, context, where),
            values=_values(row, data, where),
            decisions=_decisions(row, data, where),
        )


def _values(row: Row, data: Columns, where: str) -> dict[str, float | None]:
    if data.items is not None:
        return {item: number(row, item, where) for item in data.items}
    assert data.value is not None  # checked with the file
    item = data.value if data.item is None else text(row, data.item, where)
    if data.names is not None and item not in data.names:
        raise DataError(f"{where}: {data.item!r} must be among data.names, got {item!r}")
    return {item: number(row, data.value, where)}


def _decisions(row: Row, data: Columns, where: str) -> dict[str, float | None]:
    if data.decision is None:
        return {}
    if isinstance(data.decision, list):
        assert data.items is not None
        pairs = zip(data.items, data.decision, strict=True)
        return {item: number(row, column, where) for item, column in pairs}
    item = next(iter(_values(row, data, where)))
    return {item: number(row, data.decision, where)}


def _context(row: Row, date: str, context: AnyContext, where: str) -> str:
    if isinstance(context, WeekdayContext):
        try:
            return WEEKDAYS[datetime.date.fromisoformat(date[:10]).weekday()]
        except ValueError as error:
            raise DataError(f"{where}: {date!r} is no date such as 2026-01-31") from error
    found = text(row, context.column, where)
    if found not in context.values:
        raise DataError(f"{where}: {context.column!r} must be among context.values, got {found!r}")
    return found


def _is(row: Row, column: str, value: float | str, where: str) -> bool:
    found = cell(row, column, where)
    if found is None or isinstance(value, str):
        return found is not None and str(found) == value
    try:
        return float(found) == value
    except (ValueError, TypeError, OverflowError):
        return False


@dataclasses.dataclass(frozen=True)
class Calendar:
    """All rows as a table: days by items.

    Attributes:
        items: Their names.
        dates: The days, in order.
        contexts: Of each day; None without contexts.
        demand: NaN where it is not known.
        decisions: Those in force, likewise; None if the data do not tell.
        rows: How many rows there are for each day.
    """

    items: tuple[str, ...]
    dates: tuple[str, ...]
    contexts: tuple[str, ...] | None
    demand: np.ndarray
    decisions: np.ndarray | None
    rows: np.ndarray


def calendar(arrived: Iterable[Arrival], items: Iterable[str] = ()) -> Calendar:
    """Sorts arrivals into days, in the order of their dates.

    Args:
        arrived: All of them.
        items: Names that come first, in this order.

    Raises:
        DataError: If an item has two demands on one day, a day two contexts, or nothing arrived.
    """
    cells: dict[tuple[str, str], tuple[float | None, float | None]] = {}
    contexts: dict[str, str | None] = {}
    names: dict[str, None] = dict.fromkeys(items)
    rows: dict[str, int] = {}
    told = False
    for arrival in arrived:
        if contexts.setdefault(arrival.date, arrival.context) != arrival.context:
            raise DataError(f"{arrival.date} has two contexts: {arrival.context!r} and another")
        rows[arrival.date] = rows.get(arrival.date, 0) + 1
        for item, value in arrival.values.items():
            if (arrival.date, item) in cells:
                raise DataError(f"{arrival.date} has two rows for {item!r}")
            names[item] = None
            decision = arrival.decisions.get(item)
            told |= decision is not None
            cells[arrival.date, item] = value, decision
    if not cells:
        raise DataError("there are no rows to learn from")
    dates = _in_order(list(rows))
    demand, decisions = (
        np.asarray(
            [
                [_or_nan(cells.get((date, item), (None, None))[part]) for item in names]
                for date in dates
            ]
        )
        for part in (0, 1)
    )
    named = [contexts[date] for date in dates]
    return Calendar(
        items=tuple(names),
        dates=tuple(dates),
        contexts=tuple(str(name) for name in named) if named[0] is not None else None,
        demand=demand,
        decisions=decisions if told else None,
        rows=np.asarray([rows[date] for date in dates]),
    )


def _in_order(dates: list[str]) -> list[str]:
    """Row numbers as they came, dates by what they mean."""
    try:
        return sorted(dates, key=datetime.datetime.fromisoformat)
    except (ValueError, TypeError):
        return dates


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value

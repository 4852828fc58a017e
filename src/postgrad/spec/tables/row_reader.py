"""From rows of data to batches: the demand of each item, the date, the group, the decision."""

import collections
import dataclasses
import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from postgrad.errors import DataError
from postgrad.spec.contexts.cells import Cells, cells_of
from postgrad.spec.contexts.context_table import ContextTable
from postgrad.spec.data import WEEKDAYS, AnySplit, Columns, SplitByWeekday
from postgrad.spec.tables.files import Row, cell, number, text


@dataclasses.dataclass(frozen=True)
class DatedRow:
    """One row of data.

    Attributes:
        id: The name of the batch: from the id column, else the date, else the row's number.
        date: As written in the row; the row's number if there is no date column.
        group: The group that `split_by` puts the row in; None without `split_by`.
        values: The demand of each item; None if the cell is empty.
        decisions: The decision in force for each item; empty without a decision column.
        where: The file and the line, for messages.
        contexts: What is known before the decision about each item; empty without `[context]`.
    """

    id: str
    date: str
    group: str | None
    values: dict[str, float | None]
    decisions: dict[str, float | None]
    where: str
    contexts: Mapping[str, Cells] = dataclasses.field(default_factory=dict)


def dated_rows(
    rows: Iterable[Row],
    data: Columns,
    split: AnySplit | None,
    context: ContextTable | None = None,
    *,
    again: bool = False,
) -> Iterator[DatedRow]:
    """Read rows as `[data]`, `[split_by]` and `[context]` of a specification say.

    Args:
        rows: The rows.
        data: What the columns mean.
        split: Which rows belong together.
        context: What is known before the decision.
        again: Whether a row may come again, as on standard input. In a file, two demands of one
            item with the same id are refused: whether both count is for the file to say.

    Raises:
        DataError: At the first row that cannot be read; the message names the row and the column.
    """
    seen: dict[tuple[str, str], str] = {}
    for count, row in enumerate(rows, start=1):
        where = getattr(row, "where", f"row {count}")
        if any(_equals(cell(row, column, where), value) for column, value in data.skip.items()):
            continue
        date = f"{count}" if data.date is None else text(row, data.date, where)
        values = _values(row, data, where)
        columns = [data.decision] if isinstance(data.decision, str) else data.decision or []
        in_force = zip(values, columns, strict=bool(columns))
        name = date if data.id is None else text(row, data.id, where)
        for item in () if again else [item for item, value in values.items() if value is not None]:
            if (before := seen.setdefault((item, name), where)) is not where:
                instead = "if both count, give each an id of its own (data.id); else remove one"
                raise DataError(f"{where}: {item!r} has {name!r} also in {before}; {instead}")
        yield DatedRow(
            id=name,
            date=date,
            group=None if split is None else _group(row, date, split, where),
            values=values,
            decisions={item: number(row, column, where) for item, column in in_force},
            where=where,
            contexts={} if context is None else cells_of(context, row, date, values, where),
        )


def _values(row: Row, data: Columns, where: str) -> dict[str, float | None]:
    if data.items is not None:
        return {item: number(row, item, where) for item in data.items}
    assert data.value is not None  # `Columns` has checked that
    item = data.value if data.item is None else text(row, data.item, where)
    if data.names is not None and item not in data.names:
        raise DataError(f"{where}: {data.item!r} must be among data.names, got {item!r}")
    return {item: number(row, data.value, where)}


def _group(row: Row, date: str, split: AnySplit, where: str) -> str:
    if isinstance(split, SplitByWeekday):
        try:
            return WEEKDAYS[datetime.date.fromisoformat(date[:10]).weekday()]
        except ValueError as error:
            raise DataError(f"{where}: {date!r} is no date such as 2026-01-31") from error
    found = text(row, split.column, where)
    if found not in split.values:
        raise DataError(f"{where}: {split.column!r} must be among split_by.values, got {found!r}")
    return found


def _equals(found: object, value: float | str) -> bool:
    """Whether a cell holds a value of `data.skip`; a number may be written in any way."""
    if found is None or isinstance(value, str):
        return found is not None and str(found) == value
    try:
        return float(found) == value  # type: ignore[arg-type]
    except (ValueError, TypeError, OverflowError):
        return False


class DatedDemand(NamedTuple):
    """All rows as a table: days by items. All but `rows` and `cells` are arguments of `backtest`.

    Attributes:
        demand: Days by items, or by items by rows where a day has several; NaN if not known.
        items: The names of the items.
        dates: The days, in order.
        split_by: The group of each day; None without `split_by`.
        in_force: The decisions in force, days by items, NaN if not known; None if no row has one.
        rows: The number of rows of each day.
        cells: What rows say of the context, days by items; None where no row says anything.
    """

    demand: np.ndarray
    items: tuple[str, ...]
    dates: tuple[str, ...]
    split_by: tuple[str, ...] | None
    in_force: np.ndarray | None
    rows: np.ndarray
    cells: list[list[Cells | None]]


def demand_table(rows: Iterable[DatedRow], items: Iterable[str] = ()) -> DatedDemand:
    """Sort rows into days, in the order of their dates.

    Args:
        rows: All rows.
        items: Names of items that come first, in this order; other items follow as they appear.

    Raises:
        DataError: If an item has two demands of one id that differ, or two decisions or contexts on
            one day; if a day has two groups, or there are no rows.
    """
    cells: dict[tuple[str, str], list[float | None]] = {}
    in_force: dict[tuple[str, str], float | None] = {}
    seen: dict[tuple[str, str], DatedRow] = {}
    groups: dict[str, str | None] = {}
    contexts: dict[tuple[str, str], Cells] = {}
    names: dict[str, None] = dict.fromkeys(items)
    counts: collections.Counter[str] = collections.Counter()
    for row in rows:
        if groups.setdefault(row.date, row.group) != row.group:
            two = f"{row.date} is in two groups, {groups[row.date]!r} and {row.group!r}"
            raise DataError(f"{two}; all rows of a date must have the same")
        if _came_before(row, seen):
            continue
        counts[row.date] += 1
        for item, value in row.values.items():
            names[item] = None
            cells.setdefault((row.date, item), []).append(value)
            decision = row.decisions.get(item)
            if in_force.setdefault((row.date, item), decision) != decision:
                two = f"{item!r} has two decisions in force on {row.date}"
                raise DataError(f"{row.where}: {two}; rows of one date are one batch")
            if (here := row.contexts.get(item)) is not None:
                _check_context(contexts.setdefault((row.date, item), here), here, item, row)
    if not cells:
        raise DataError("there are no rows to learn from")
    dates, most = _in_order(list(counts)), max(map(len, cells.values()))
    days = [[cells.get((date, item), []) for item in names] for date in dates]
    rows_of_days = [[[*cell, *[None] * (most - len(cell))] for cell in day] for day in days]
    demand = np.asarray(rows_of_days, float)  # NaN where there was None
    decisions = np.asarray([[in_force.get((d, item)) for item in names] for d in dates], float)
    named = tuple(group for date in dates if (group := groups[date]) is not None)
    return DatedDemand(
        demand=demand if most > 1 else demand[..., 0],
        items=tuple(names),
        dates=tuple(dates),
        split_by=named or None,
        in_force=decisions if np.isfinite(decisions).any() else None,
        rows=np.asarray([counts[date] for date in dates]),
        cells=[[contexts.get((date, item)) for item in names] for date in dates],
    )


def _check_context(before: Cells, here: Cells, item: str, row: DatedRow) -> None:
    for name, now in here.columns.items():
        if (was := before.columns[name]) != now:
            two = f"{item!r} has two values of {now.column!r} on {row.date}"
            one = f"{was.value!r} in {before.where}, {now.value!r} here"
            raise DataError(f"{row.where}: {two}, {one}; rows of one date are one batch")


def _came_before(row: DatedRow, seen: dict[tuple[str, str], DatedRow]) -> bool:
    """Whether all demands of a row have come before, with the same id.

    Raises:
        DataError: If only some have, or they were others.
    """
    known = {item: value for item, value in row.values.items() if value is not None}
    before = [seen.setdefault((item, row.id), row) for item in known]
    if all(one is row for one in before):
        return False
    for item, one in zip(known, before, strict=True):
        same = one.date == row.date and one.values.get(item) == row.values[item]
        if one is row or not same or one.decisions.get(item) != row.decisions.get(item):
            other = next(one for one in before if one is not row)
            what = f"{row.id!r} came before, in {other.where}, with other data"
            raise DataError(f"{row.where}: {what}")
    return True


def _in_order(dates: list[str]) -> list[str]:
    """Dates in the order of time; row numbers, and texts that are no dates, in the given order."""
    try:
        return sorted(dates, key=datetime.datetime.fromisoformat)
    except (ValueError, TypeError):
        return dates

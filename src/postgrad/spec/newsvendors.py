"""Daily demand from a file, for the benchmark of newsvendors."""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from postgrad.errors import DataError
from postgrad.research.newsvendors.protocol import Demand, series
from postgrad.spec.data import Columns
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import DatedRow, dated_rows, demand_table

_FIRST = datetime.date(1970, 1, 1).toordinal()


def read_demand(
    file: Path,
    *,
    date: str,
    items: Sequence[str] = (),
    value: str | None = None,
    item: str | None = None,
    drop: int = 0,
) -> list[Demand]:
    """The rows of each item in a file.

    Args:
        file: A path that ends in .csv, .jsonl, .ndjson or .parquet.
        date: The column with the date.
        items: The columns with the demand of each item; or else
        value: The column with demand, and
        item: The column with the name of the item; None if there is one item.
        drop: How many first rows of each item are left out.

    Raises:
        DataError: If the file cannot be read, or a row is broken; the message names the line.
        BatchError: If an item has too few rows.
    """
    data = Columns(items=list(items) or None, value=value, item=item, date=date)
    table = demand_table(_once(dated_rows(rows(file), data, None, again=True)), items)
    days = [_day(text) for text in table.dates]
    return series(days, table.demand, table.items, drop)


def _once(found: Iterable[DatedRow]) -> Iterator[DatedRow]:
    """The same rows, each with a date, and an item's day once.

    Raises:
        DataError: If a row has no date, or an item has two rows on one day.
    """
    seen: dict[tuple[str, int], str] = {}
    for row in found:
        try:
            day = _day(row.date)
        except ValueError as error:
            raise DataError(f"{row.where}: {row.date!r} is no date such as 2026-01-31") from error
        for item in (item for item, value in row.values.items() if value is not None):
            if (before := seen.setdefault((item, day), row.where)) is not row.where:
                raise DataError(
                    f"{row.where}: {item!r} has {row.date} also in {before}; add up the rows of "
                    f"one day first"
                )
        yield row


def _day(text: str) -> int:
    """Days since 1970-01-01, of a text that begins with a date."""
    return datetime.date.fromisoformat(text[:10]).toordinal() - _FIRST

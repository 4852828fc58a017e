"""Daily demand from a file, for the benchmark of newsvendors."""

import datetime
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from postgrad.errors import DataError
from postgrad.research.newsvendors.protocol import Demand, series
from postgrad.spec.data import Columns
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows, demand_table


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
    table = demand_table(dated_rows(rows(file), data, None), items)
    days = [_day(text, file) for text in table.dates]
    return series(days, table.demand, table.items, drop)


def _day(text: str, file: Path) -> int:
    try:
        return int(np.datetime64(datetime.date.fromisoformat(text[:10])).astype(int))
    except ValueError as error:
        raise DataError(f"{file}: {text!r} is no date such as 2026-01-31") from error

"""What the streams of a specification observe of one row."""

from collections.abc import Collection, Iterator
from typing import Any

from postgrad.errors import DataError
from postgrad.spec.reading.stream_names import ALL_ITEMS
from postgrad.spec.tables.row_reader import DatedRow


def batches_of_row(
    row: DatedRow, together: Collection[str], left_out: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    """The item of each stream that observes a row, the demand, and the decision in force.

    Args:
        row: The row.
        together: The names of the items that are decided together, if they are.
        left_out: The items of which a value of the context is missing.

    Raises:
        DataError: If some of the items that are decided together have no demand.
    """
    missing = [item for item, value in row.values.items() if value is None]
    if not together:
        for item, value in row.values.items():
            if value is not None and item not in left_out:
                yield item, value, row.decisions.get(item)
    elif not missing and not left_out:
        decisions = [row.decisions.get(item) for item in row.values]
        yield ALL_ITEMS, list(row.values.values()), None if None in decisions else decisions
    elif 0 < len(missing) < len(row.values):
        needed = "items that are decided together need all of them, or none"
        absent = f"{len(missing)} of {len(row.values)} demands are missing"
        raise DataError(f"{row.where}: {row.id}: {absent} ({', '.join(missing)}); {needed}")

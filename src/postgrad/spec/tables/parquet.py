"""Rows of Parquet files, whose few bytes may stand for gigabytes: what is read is bounded."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from postgrad.errors import DataError
from postgrad.numerics.validate import arrow

# Rows of a file, bytes of a row group when decompressed, and characters of one cell.
_MOST_ROWS, _LARGEST_GROUP, _LONGEST = 1 << 24, 1 << 28, 1_000_000
# Rows that are read at once, and characters that they may have as Python's own objects.
_ROWS_AT_ONCE, _CHARACTERS_AT_ONCE = 1024, 1 << 24


def parquet_rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their numbers, from 1; only columns of numbers, texts and dates.

    Raises:
        DataError: If it is no Parquet file, is too large, or holds what is no text or date.
    """
    pyarrow = arrow()
    from pyarrow import parquet

    wrong = (pyarrow.ArrowException, ValueError, OverflowError, TypeError, KeyError)
    try:
        file = parquet.ParquetFile(path, pre_buffer=False)
        _check_size(file.metadata)
        schema = file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise DataError("its columns must have different names")
        flat = [field.name for field in schema if _is_flat(field.type)]
        texts = [field.name for field in schema if _is_text(field.type)]
        # A text that comes in many rows is kept once, as it is in the file.
        file = parquet.ParquetFile(path, pre_buffer=False, read_dictionary=texts)
    except DataError:
        raise
    except wrong as error:
        raise DataError(f"it is no Parquet file: {error}") from error
    count = 0
    batches = file.iter_batches(_ROWS_AT_ONCE, columns=flat, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
        except wrong as error:
            raise DataError(f"it cannot be read after row {count}: {error}") from error
        if batch is None:
            return
        longest = max(map(_longest, batch.columns), default=0)
        if longest > _LONGEST:
            raise DataError(f"a cell after row {count} has more than {_LONGEST} characters")
        step = max(1, _CHARACTERS_AT_ONCE // max(longest * len(flat), 1))
        for start in range(0, len(batch), step):
            for row in _plain(batch.slice(start, step), count, wrong):
                count += 1
                yield count, row


def _check_size(metadata: Any) -> None:
    """Refuse what is too large, before any of it is read."""
    if metadata.num_rows > _MOST_ROWS:
        raise DataError(f"it has {metadata.num_rows} rows; at most {_MOST_ROWS} are read")
    for number in range(metadata.num_row_groups):
        size = metadata.row_group(number).total_byte_size
        if size > _LARGEST_GROUP:
            most = f"at most {_LARGEST_GROUP} are read; write it with smaller row groups"
            raise DataError(f"row group {number} has {size} bytes when decompressed; {most}")


def _is_flat(kind: Any) -> bool:
    """Whether a column holds numbers, dates or texts: nothing nested, and no blocks of bytes."""
    types = arrow().types
    return not (types.is_nested(kind) or types.is_fixed_size_binary(kind))


def _is_text(kind: Any) -> bool:
    types = arrow().types
    kinds = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    return any(is_kind(kind) for is_kind in kinds)


def _longest(column: Any) -> int:
    """How long the longest text of a column may be; 0 for numbers and dates."""
    import pyarrow.compute as compute

    values = column.dictionary if arrow().types.is_dictionary(column.type) else column
    if not _is_text(values.type):
        return 0
    return compute.max(compute.binary_length(values)).as_py() or 0


def _plain(batch: Any, before: int, wrong: tuple[type[Exception], ...]) -> list[dict[str, Any]]:
    """The rows as Python's own objects; an error names the first row that has none."""
    try:
        return batch.to_pylist()
    except wrong:
        for i in range(len(batch)):
            try:
                batch.slice(i, 1).to_pylist()
            except wrong as error:
                raise DataError(f"row {before + i + 1} cannot be read: {error}") from error
        raise

"""Rows of data from files: CSV, JSON lines and Parquet.

Files come from anywhere, so their content is not trusted: rows have a greatest length, numbers must
be finite, nested values are refused, and no content is executed. Errors name the file and the line.
"""

import csv
import itertools
import json
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from postgrad.errors import DataError
from postgrad.spec.reworded import reworded

_LONGEST = 1_000_000  # characters of one row
_WAIT_S = 0.2  # between two attempts to read more of a file that is followed

Row = Mapping[str, Any]


class PlacedRow(dict[str, Any]):
    """A row of a file.

    Attributes:
        where: The file and the line, or the row of a Parquet file, for messages.
    """

    __slots__ = ("where",)

    def __init__(self, cells: Any, where: str):
        """See the attributes."""
        super().__init__(cells)
        self.where = where


def rows(source: str | Path, *, follow: bool = False) -> Generator[Row]:
    """The rows of a file, one at a time; `close` closes the file before its end.

    Args:
        source: A path that ends in .csv, .jsonl, .ndjson or .parquet; `-` is standard input, whose
            first character tells JSON lines from CSV.
        follow: Whether to wait for more rows at the end of the file, without end.

    Raises:
        DataError: If the file cannot be read, or at the first row that is broken.
    """
    if str(source) == "-":
        for where, row in _placed("standard input", _of_stream(sys.stdin.buffer)):
            yield PlacedRow(row, f"standard input, line {where}")
        return
    path = Path(source)
    kind = path.suffix.lower()
    with reworded(f"cannot read {path}", DataError, OSError):
        if kind == ".parquet":
            from postgrad.spec.tables.parquet import parquet_rows

            for where, row in _placed(path, parquet_rows(path)):
                yield PlacedRow(row, f"{path}, row {where}")
        elif kind in (".csv", ".jsonl", ".ndjson"):
            read = _of_csv if kind == ".csv" else _of_json
            with path.open("rb") as file:
                for where, row in _placed(path, read(_lines(file, follow))):
                    yield PlacedRow(row, f"{path}, line {where}")
        else:
            raise DataError(f"data must be .csv, .jsonl, .ndjson or .parquet, got {path.name!r}")


_Numbered = Iterator[tuple[int, dict[str, Any]]]


def _placed(source: str | Path, numbered: _Numbered) -> _Numbered:
    """The same rows; errors name the file."""
    with reworded(f"{source}", DataError, DataError):
        yield from numbered


def number(row: Row, column: str, where: str) -> float | None:
    """A cell as a finite number; None if it is empty.

    Raises:
        DataError: If there is no such column, or the cell holds anything else.
    """
    value = cell(row, column, where)
    if value is None:
        return None
    try:
        if isinstance(value, bool) or len(str(value)) > 400 or "_" in str(value):
            raise ValueError
        found = float(value)
    except (ValueError, TypeError, OverflowError):
        found = float("nan")
    if not np.isfinite(found):
        raise DataError(f"{where}: {column!r} must be a finite number, got {_shown(value)}")
    return found


def text(row: Row, column: str, where: str) -> str:
    """A cell as text.

    Raises:
        DataError: If the cell is empty, has more than 512 characters, or control characters.
    """
    value = cell(row, column, where)
    found = "" if value is None else str(value)
    if not found or len(found) > 512 or not found.isprintable():
        raise DataError(f"{where}: {column!r} must be a short text, got {_shown(value)}")
    return found


def cell(row: Row, column: str, where: str) -> Any:
    """A cell; None if it is empty.

    Raises:
        DataError: If there is no such column.
    """
    if column not in row:
        known = ", ".join(itertools.islice(map(_shown, row), 20))
        raise DataError(f"{where}: there is no column {column!r}, only {known}")
    value = row[column]
    return None if value is None or value == "" else value


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _lines(file: Any, follow: bool) -> Iterator[str]:
    """Lines of bounded length; while a file is followed, only lines that are complete."""
    line, count = b"", 1
    while True:
        line += file.readline(_LONGEST + 1 - len(line))
        if line.endswith(b"\n") or (line and not follow and len(line) <= _LONGEST):
            try:
                text = line.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise DataError(f"line {count} must be UTF-8 text: {error}") from error
            yield text
            line, count = b"", count + 1
        elif len(line) > _LONGEST:
            raise DataError(f"line {count} has more than {_LONGEST} characters")
        elif not follow:
            return
        else:
            time.sleep(_WAIT_S)


def _of_stream(file: Any) -> _Numbered:
    lines = _lines(file, follow=False)
    first = next(lines, "")
    read = _of_json if first.lstrip().startswith("{") else _of_csv
    yield from read(itertools.chain([first] if first else [], lines))


def _of_csv(lines: Iterable[str]) -> _Numbered:
    """The rows, each with the number of its first line."""
    size, last = 0, 0  # characters of the row so far, which a quote that never closes makes long

    def bounded() -> Iterator[str]:
        nonlocal size
        for line in lines:
            size += len(line)
            if size > _LONGEST:
                raise DataError(f"the row of line {last + 1} has more than {_LONGEST} characters")
            yield line

    csv.field_size_limit(_LONGEST)
    reader = csv.reader(bounded(), strict=True)
    try:
        names = next(reader, [])
        if not names or len(set(names)) < len(names) or not all(names):
            raise DataError(f"the first line must name the columns, each once, got {_shown(names)}")
        size, last = 0, reader.line_num
        for values in reader:
            count, size, last = last + 1, 0, reader.line_num
            if values and len(values) != len(names):
                raise DataError(
                    f"line {count} has {len(values)} cells where the first line names {len(names)}"
                )
            if values:
                yield count, dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} is no CSV: {error}") from error


def _of_json(lines: Iterable[str]) -> _Numbered:
    for count, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise DataError(f"line {count} is no JSON object: {reason}") from None
        if not isinstance(row, dict) or any(isinstance(v, list | dict) for v in row.values()):
            raise DataError(f"line {count} must be one flat JSON object, got {_shown(row)}")
        yield count, row


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number")

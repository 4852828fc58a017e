"""Rows of data from files and frames: CSV, JSON lines, Parquet, and anything that speaks Arrow.

Files come from anywhere, so nothing in them is trusted: lines have a greatest length, numbers are
finite, nesting is refused, and nothing is executed.
"""

import csv
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from postgrad.errors import DataError
from postgrad.numerics.validate import arrow

# Of one row, in characters; and of one cell.
_LONGEST = 1_000_000
_WAIT = 0.2  # seconds between looks at a file that is followed

Row = dict[str, Any]


def rows(source: str | Path, *, follow: bool = False) -> Iterator[Row]:
    """The rows of a file, as they come.

    Args:
        source: A path that ends in .csv, .jsonl, .ndjson or .parquet; `-` is standard input, whose
            first character tells JSON lines from CSV.
        follow: Whether to wait for more at the end of the file, for ever.

    Raises:
        DataError: If the file cannot be read, or a row is broken; rows before it have been given.
    """
    if str(source) == "-":
        yield from _of_stream(sys.stdin.buffer)
        return
    path = Path(source)
    kind = path.suffix.lower()
    readers: dict[str, Callable[[Iterable[str]], Iterator[Row]]] = {
        ".csv": _of_csv,
        ".jsonl": _of_json,
        ".ndjson": _of_json,
    }
    try:
        if kind == ".parquet":
            yield from _of_parquet(path)
        elif kind in readers:
            with path.open("rb") as file:
                yield from readers[kind](_lines(file, follow))
        else:
            raise DataError(f"data must be .csv, .jsonl, .ndjson or .parquet, got {path.name!r}")
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def of_frame(frame: Any) -> Iterator[Row]:
    """The rows of a frame with the Arrow interface: pandas, polars, pyarrow and others.

    Raises:
        DataError: If it has none.
    """
    if not hasattr(frame, "__arrow_c_stream__"):
        raise DataError(f"a frame must have the Arrow interface, got {type(frame).__name__}")
    for batch in arrow().table(frame).to_batches():
        yield from batch.to_pylist()


def number(row: Row, column: str, where: str) -> float | None:
    """A cell as a finite number; None if it is empty.

    Raises:
        DataError: If the column is missing, or the cell is anything else.
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
    """A cell as text, which must not be empty.

    Raises:
        DataError: If it is, or holds control characters.
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
    """Lines of bounded length; the last one only if it is complete or nothing more can come."""
    kept = b""
    while True:
        kept += file.readline(_LONGEST + 1 - len(kept))
        if kept.endswith(b"\n") or (kept and not follow and len(kept) <= _LONGEST):
            try:
                yield kept.decode("utf-8-sig")
            except UnicodeDecodeError as error:
                raise DataError(f"data must be UTF-8 text: {error}") from error
            kept = b""
        elif len(kept) > _LONGEST:
            raise DataError(f"a line has more than {_LONGEST} characters")
        elif not follow:
            return
        else:
            time.sleep(_WAIT)


def _of_stream(file: Any) -> Iterator[Row]:
    lines = _lines(file, follow=False)
    first = next(lines, "")
    read = _of_json if first.lstrip().startswith("{") else _of_csv
    yield from read(itertools.chain([first] if first else [], lines))


def _of_csv(lines: Iterable[str]) -> Iterator[Row]:
    bounded = _Bounded(lines)
    csv.field_size_limit(_LONGEST)
    reader = csv.reader(bounded, strict=True)
    try:
        names = next(reader, [])
        if not names or len(set(names)) < len(names) or not all(names):
            raise DataError(f"the first line must name the columns, each once, got {_shown(names)}")
        for count, values in enumerate(reader, start=1):
            bounded.size = 0
            if not values:
                continue
            if len(values) != len(names):
                raise DataError(
                    f"row {count} has {len(values)} cells where the first line names {len(names)}"
                )
            yield dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} is no CSV: {error}") from error


class _Bounded:
    """Lines, as long as those of one row together are not too long: a quote may never close."""

    def __init__(self, lines: Iterable[str]):
        self.lines, self.size = iter(lines), 0

    def __iter__(self) -> "_Bounded":
        return self

    def __next__(self) -> str:
        line = next(self.lines)
        self.size += len(line)
        if self.size > _LONGEST:
            raise DataError(f"a row has more than {_LONGEST} characters")
        return line


def _of_json(lines: Iterable[str]) -> Iterator[Row]:
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
        yield row


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _of_parquet(path: Path) -> Iterator[Row]:
    pyarrow = arrow()
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        for batch in file.iter_batches(batch_size=1024):
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is no Parquet file: {error}") from error

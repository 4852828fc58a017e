"""Hostile and clumsy files: specifications, CSV and Parquet, made from good ones by mutation."""

import copy
import io
import json
import math
import struct
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

ROOT = Path(__file__).resolve().parent.parent

GOOD_SPEC = """
title = "Bread"
start = 5.0

[data]
date = "date"
items = ["rolls", "bread"]

[cost]
kind = "newsvendor"
underage = [4, 2]
overage = 1

[model]
kind = "poisson"

[belief]
kind = "gamma"
shape = 2
rate = 0.2

[feasible]
kind = "box"
low = 0
high = 50

[settings]
preset = "paper"

[backtest]
burn_in = 2
"""
GOOD_CSV = "date,rolls,bread\n" + "".join(
    f"2026-01-{day:02},{day * 7 % 9},{day * 5 % 8}\n" for day in range(1, 13)
)
# Parts that specifications borrow from each other: one or two kinds of everything.
PARTS: list[dict[str, Any]] = [
    {"belief": {"kind": "known", "theta": {"mean": 4.0}}},
    {"belief": {"kind": "grid", "levels": {"mean": [1.0, 2.0, 8.0]}}},
    {"belief": {"kind": "grid", "levels": {"mean": {"from": 1, "to": 9, "points": 50}}}},
    {
        "model": {"kind": "normal", "scale": 2.0},
        "belief": {"kind": "normal", "mean": 3.0, "deviation": 2.0},
    },
    {"model": {"kind": "bernoulli"}, "belief": {"kind": "beta", "yes": 1, "no": 2}},
    {"model": {"kind": "exponential"}, "belief": {"kind": "inverse-gamma", "shape": 2, "scale": 3}},
    {"feasible": {"kind": "budget", "low": 0, "high": 50, "total": 30}},
    {"cost": {"kind": "profit", "salvage": 1, "cost": 2, "price": 4}},
    {"cost": {"kind": "squared"}},
    {"split_by": {"kind": "weekday"}},
    {"split_by": {"kind": "column", "column": "rolls", "values": ["1", "2"]}},
    {"settings": {"samples": [131072]}},
    {"settings": {"samples": [256, 16], "iterations": 256}},
    {"problem": {"name": "quadratic-1d-independent"}},
    {"problem": {"python": "os:getcwd"}},
]  # fmt: skip
_TEXTS = (
    "", " ", "'", '"', "\\", "\n", "\r\n", "\t", "\0", "\x1b[2J", "\xe9", "\u200b", "\u202e",
    "\U0001f600", "\ud7ff", "\ufeff", "a" * 201, "x" * 3000, "=cmd()", "../../etc/passwd", "nan",
    "inf", "None", "__import__('os')", "%s%n", "{0}", "a.b.c", "kind", "2026-02-30", "300000-01-01",
)  # fmt: skip
_NUMBERS = (
    0, -1, 1, 2**31, 2**53, 2**63, -(2**63) - 1, 10**400, 0.0, -0.0, 1e-320, 1e-9, 1e9, 1e308,
    -1e308, math.inf, -math.inf, math.nan,
)  # fmt: skip


def pick(rng: np.random.Generator, among: Any) -> Any:
    return among[int(rng.integers(len(among)))]


def good_specifications() -> list[str]:
    """The specifications of the examples, the one that `init` writes, and a small one."""
    paths = [*sorted((ROOT / "examples").glob("*.toml")), ROOT / "src/postgrad/spec/example.toml"]
    return [GOOD_SPEC, *(path.read_text() for path in paths)]


# ------------------------------------------------------------------------------ specifications


def as_toml(value: Any, top: bool = True) -> str:
    """A value as TOML; tables below the top are written in one line."""
    if isinstance(value, dict):
        pairs = [
            f"{json.dumps(str(key))} = {as_toml(entry, False)}" for key, entry in value.items()
        ]
        return "\n".join(pairs) if top else "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_toml(entry, False) for entry in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value)
    return repr(value)


def odd_value(rng: np.random.Generator) -> Any:
    """A value that is hardly ever what is expected."""
    nested: Any = 1.0
    match int(rng.integers(9)):
        case 0 | 1:
            return pick(rng, _NUMBERS)
        case 2 | 3:
            return pick(rng, _TEXTS)
        case 4:
            return bool(rng.integers(2))
        case 5:
            return [pick(rng, _NUMBERS) for _ in range(int(rng.integers(4)))]
        case 6:
            return {pick(rng, _TEXTS): pick(rng, _NUMBERS)}
        case 7:
            for _ in range(int(pick(rng, [3, 30, 300, 3000]))):
                nested = [nested] if rng.integers(2) else {"a": nested}
            return nested
        case _:
            size = int(pick(rng, [10, 1000, 10_000, 30_000]))
            return pick(rng, [[1.0] * size, [f"item {i}" for i in range(size)]])


def _places(table: Any) -> Iterator[tuple[Any, Any]]:
    """All pairs of a table or list and a key in it."""
    for key in list(table) if isinstance(table, dict) else range(len(table)):
        yield table, key
        if isinstance(table[key], dict | list):
            yield from _places(table[key])


def _mutate_table(rng: np.random.Generator, content: dict[str, Any]) -> None:
    table, key = pick(rng, list(_places(content)) or [(content, "title")])
    others = list(_places(content))
    match int(rng.integers(7)):
        case 0 if isinstance(table, dict):
            table.pop(key, None)
        case 1 if isinstance(table, dict):
            table[pick(rng, [*_TEXTS, "kind", "points", "from", "to", "forget"])] = odd_value(rng)
        case 2 if others:
            from_table, from_key = pick(rng, others)
            table[key] = copy.deepcopy(from_table[from_key])
        case 3:
            for name, part in pick(rng, PARTS).items():
                content[name] = copy.deepcopy(part)
        case 4 if isinstance(table, dict) and isinstance(table.get(key), int | float):
            table[key] = table[key] * pick(rng, [-1, 0, 1e-9, 0.5, 3, 1e3, 1e6, 1e12])
        case _:
            table[key] = odd_value(rng)


def mutated_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes flipped, removed, repeated, inserted, or cut off."""
    content = bytearray(data)
    for _ in range(int(pick(rng, [1, 1, 2, 8, 40]))):
        at = int(rng.integers(len(content) + 1))
        size = int(pick(rng, [1, 1, 2, 4, 16, 200]))
        match int(rng.integers(6)):
            case 0 if at < len(content):
                content[at] ^= 1 << int(rng.integers(8))
            case 1:
                del content[at : at + size]
            case 2:
                content[at:at] = content[at : at + size]
            case 3:
                content[at:at] = rng.bytes(size)
            case 4:
                content[at:at] = pick(rng, _TEXTS).encode("utf-8", "surrogatepass")
            case 5 if rng.random() < 0.2:
                del content[at:]
    return bytes(content)


def specification(rng: np.random.Generator, good: list[str]) -> bytes:
    """One hostile specification."""
    text = pick(rng, good)
    if rng.random() < 0.3:
        return mutated_bytes(rng, text.encode())
    content = tomllib.loads(text)
    try:
        for _ in range(int(pick(rng, [1, 1, 1, 2, 4]))):
            _mutate_table(rng, content)
        whole = as_toml(content)
    except RecursionError:
        whole = text + "\nz = " + 3000 * "[" + 3000 * "]"
    if rng.random() < 0.05:
        whole += "\n" + pick(rng, ["a." * 500 + "b = 1", "z = " + "9" * 5000, "z = [" * 2000])
    return whole.encode("utf-8", "replace")


# -------------------------------------------------------------------------------------- tables


def _odd_cell(rng: np.random.Generator) -> str:
    values = [*_TEXTS, *map(repr, _NUMBERS), "1_000", "0x10", "1,5", "9" * 5000, "½", "١٢", "1e400"]
    return pick(rng, values)


def csv_file(rng: np.random.Generator, good: str = GOOD_CSV) -> bytes:
    """One hostile CSV file."""
    if rng.random() < 0.4:
        return mutated_bytes(rng, good.encode())
    rows = [line.split(",") for line in good.splitlines()]
    for _ in range(int(pick(rng, [1, 1, 2, 6]))):
        row = pick(rng, rows)
        match int(rng.integers(6)):
            case 0 | 1 if row:
                row[int(rng.integers(len(row)))] = _odd_cell(rng)
            case 2:
                row.append(_odd_cell(rng))
            case 3:
                rows.insert(int(rng.integers(len(rows) + 1)), list(row))
            case 4:
                row.clear()
            case _:
                row[:] = [_odd_cell(rng) for _ in range(int(pick(rng, [1, 3, 1000])))]
    end = pick(rng, ["\n", "\n", "\r\n", "\r", "\n\n"])
    text = end.join(",".join(row) for row in rows)
    if rng.random() < 0.02:
        text += pick(rng, ['\n"' + "a" * 1_100_000, "\n" + "a," * 600_000, "\n" * 1_000_000])
    encoding = pick(rng, ["utf-8"] * 8 + ["utf-16", "latin-1", "utf-8-sig"])
    return text.encode(encoding, "replace")


def write_good_parquet(path: Path) -> None:
    """The rows of `GOOD_CSV`."""
    names, *lines = (line.split(",") for line in GOOD_CSV.splitlines())
    dates, *numbers = zip(*lines, strict=True)
    columns = [list(dates), *([int(cell) for cell in column] for column in numbers)]
    pyarrow.parquet.write_table(pyarrow.table(dict(zip(names, columns, strict=True))), path)


def _odd_column(rng: np.random.Generator, rows: int) -> Any:
    kinds = [
        lambda: pyarrow.array(rng.normal(size=rows)),
        lambda: pyarrow.array([pick(rng, _TEXTS) for _ in range(rows)]),
        lambda: pyarrow.array(rng.integers(-(2**52), 2**52, rows), pyarrow.timestamp("s")),
        lambda: pyarrow.array(rng.integers(-(2**62), 2**62, rows), pyarrow.timestamp("ns", "UTC")),
        lambda: pyarrow.array(rng.integers(-(2**31), 2**31, rows).astype("i4"), pyarrow.date32()),
        lambda: pyarrow.array(rng.integers(-(2**52), 2**52, rows), pyarrow.duration("s")),
        lambda: pyarrow.array([[1.0]] * rows),
        lambda: pyarrow.array([{"a": 1}] * rows),
        lambda: pyarrow.array([rng.bytes(4)] * rows),
        lambda: pyarrow.array([bool(rng.integers(2)) for _ in range(rows)]),
        lambda: pyarrow.nulls(rows),
        lambda: pyarrow.array([None, math.nan, math.inf][:rows] + [1.0] * max(0, rows - 3)),
        lambda: pyarrow.array(["1"] * rows).dictionary_encode(),
        lambda: pyarrow.array(rng.integers(0, 99, rows)).cast(pyarrow.decimal128(30, 4)),
        lambda: pyarrow.DictionaryArray.from_arrays(
            np.zeros(rows, "i4"), ["x" * min(900_000, 20_000_000 // max(rows, 1))]
        ),
        lambda: pyarrow.array(rng.integers(0, 24, rows).astype("i4"), pyarrow.time32("s")),
        lambda: pyarrow.array(np.float16(rng.normal(size=rows))),
        lambda: pyarrow.array(rng.integers(0, 2**63, rows).astype("u8")),
    ]
    return pick(rng, kinds)()


def parquet_file(rng: np.random.Generator, most: int = 2000) -> bytes:
    """One hostile Parquet file, of at most so many rows that may be right."""
    rows = min(most, int(pick(rng, [0, 1, 12, 12, 12, 200, 2000])))
    columns: dict[str, Any] = {
        "date": pyarrow.array([f"d{i}" for i in range(rows)]),
        "rolls": pyarrow.array(rng.integers(0, 9, rows)),
        "bread": pyarrow.array(rng.integers(0, 9, rows)),
    }
    for _ in range(int(rng.integers(3))):
        columns[pick(rng, ["date", "rolls", "bread", *_TEXTS])] = _odd_column(rng, rows)
    group = int(pick(rng, [1, 100, 1 << 30]))
    if rng.random() < 0.01:
        group, columns = 1 << 30, {"rolls": pyarrow.nulls(20_000_000, pyarrow.bool_())}
    file = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table(columns), file,
        compression=pick(rng, ["none", "snappy", "zstd", "gzip"]),
        row_group_size=group,
        use_dictionary=bool(rng.integers(2)),
        store_schema=bool(rng.integers(2)),
    )  # fmt: skip
    data = file.getvalue()
    if rng.random() < 0.6:
        # Half of the mutations hit the footer, where sizes and places are claimed.
        size = struct.unpack("<I", data[-8:-4])[0]
        start = max(4, len(data) - 8 - size) if rng.random() < 0.5 else 0
        data = data[:start] + mutated_bytes(rng, data[start:])
    return data

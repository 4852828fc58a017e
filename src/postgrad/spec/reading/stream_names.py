"""The streams of a specification's file: an item and a group each."""

import json
from collections.abc import Iterator, Sequence

import numpy as np

from postgrad.errors import StoreError
from postgrad.records.explanation import plain_number
from postgrad.records.streams.population_stream import is_population
from postgrad.store import Database
from postgrad.store.stream_list import check_new_streams

# The item of the one stream in which all items are decided together.
ALL_ITEMS = "*"

# An item (or `ALL_ITEMS`) and a group (None without `split_by`).
Stream = tuple[str, str | None]
Interval = tuple[np.ndarray, np.ndarray]


def stream_name(item: str, group: str | None) -> str:
    """The name of a stream in the file."""
    return json.dumps([item, group], ensure_ascii=False)


def streams_of(database: Database) -> list[Stream]:
    """The streams of a file, in the order of their first rows.

    Raises:
        StoreError: If the file holds a stream that no specification has made.
    """
    check_new_streams(database)
    try:
        found = [json.loads(name) for name in database.streams() if not is_population(name)]
    except (ValueError, TypeError, RecursionError):
        found = [None]
    for stream in found:
        match stream:
            case [str(), str() | None]:
                continue
        raise StoreError(f"{database.path} was not made from a specification")
    return [(item, group) for item, group in found]


def by_item(
    names: Sequence[str], decision: np.ndarray, interval: Interval | None
) -> Iterator[tuple[str, float, list[float] | None]]:
    """A stream's decision and interval as (item, number, [low, high]) for each of its items."""
    for i, name in enumerate(names):
        ends = interval and [plain_number(np.atleast_1d(end)[i]) for end in interval]
        yield name, plain_number(np.atleast_1d(decision)[i]), ends

"""The list of a database's streams: name and settings of each."""

import functools
from collections.abc import Sequence

from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.opening.page_checks import check_indices, check_pages_once


def find_stream(database: Database, name: str) -> tuple[int, str] | None:
    """The number and the settings of a stream; None if there is no stream of that name.

    Raises:
        StoreError: If the list is damaged.
    """
    found = database.row("SELECT * FROM streams WHERE name = ?", name)
    if found is None:  # the name may be damaged, or the index in which it was looked up
        check_new_streams(database)
        check_indices(database, "streams")
        return None
    *row, checksum = found
    if checksum != database.checksum(*row):
        raise database.error(f"the settings of the stream are damaged; {WAY_OUT}")
    return row[0], row[2]


def check_streams(database: Database) -> int:
    """Check all entries of the list, and that none is missing; returns their number.

    Raises:
        StoreError: If an entry is damaged or missing.
    """
    database.streams_checked = 0
    return check_new_streams(database)


def check_new_streams(database: Database) -> int:
    """The same, but for entries that this connection has checked before.

    To check all of them for each new stream would take a time that grows with its square.
    """
    select = "SELECT * FROM streams WHERE stream > ? ORDER BY stream"
    before = database.streams_checked
    rows = database.rows(select, before)
    for number, (*row, checksum) in enumerate(rows, start=before + 1):
        if checksum != database.checksum(*row) or row[0] != number:
            raise database.error(f"the list of streams is damaged; {WAY_OUT}")
    count = before + len(rows)
    if max(database.marked_commits, default=0) > count:
        raise database.error(f"a stream that was acknowledged is missing; {WAY_OUT}")
    if database.in_transaction and count > before:
        database.on_undo(functools.partial(setattr, database, "streams_checked", before))
    database.streams_checked = count
    return count


def stream_of_batch(database: Database, batch: str, streams: Sequence[str]) -> str | None:
    """The first of some streams that has a batch of that id; None if no stream has.

    Raises:
        StoreError: If the file cannot be read.
    """
    check_pages_once(database)
    marks = ", ".join("?" * len(streams))
    found = database.row(
        f"SELECT name FROM streams WHERE name IN ({marks}) AND EXISTS "
        f"(SELECT 1 FROM batches WHERE batches.stream = streams.stream AND id = ?)",
        *(*streams, batch),
    )
    return None if found is None else found[0]

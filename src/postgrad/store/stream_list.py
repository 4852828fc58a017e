"""The list of a database's streams: name and settings of each."""

import sqlite3

from postgrad.errors import StoreError
from postgrad.store.checksum import digest
from postgrad.store.database import Database


def find_stream(database: Database, name: str) -> tuple[int, str] | None:
    """The number and the settings of a stream; None if there is no stream of that name.

    Raises:
        StoreError: If the list is damaged.
    """
    with database.reading() as connection:
        found = connection.execute(
            "SELECT stream, name, settings, checksum FROM streams WHERE name = ?", (name,)
        ).fetchone()
        if found is None:  # the name may be damaged
            check_streams(database, connection)
            return None
        *row, checksum = found
        if checksum != digest(database.identity, *row):
            raise StoreError("the settings of the stream are damaged; restore a backup")
        return row[0], row[2]


def add_stream(database: Database, connection: sqlite3.Connection, name: str, settings: str) -> int:
    """Add a stream to the list, inside the open transaction; returns its number."""
    row = (check_streams(database, connection) + 1, name, settings)
    connection.execute(
        "INSERT INTO streams VALUES (?, ?, ?, ?)", (*row, digest(database.identity, *row))
    )
    return row[0]


def check_streams(database: Database, connection: sqlite3.Connection) -> int:
    """Check all entries of the list, and that none is missing; returns their number.

    Raises:
        StoreError: If an entry is damaged or missing.
    """
    count = 0
    for *row, checksum in connection.execute("SELECT * FROM streams ORDER BY stream"):
        count += 1
        if checksum != digest(database.identity, *row) or row[0] != count:
            raise StoreError("the list of streams is damaged; restore a backup")
    if max(database.marked_commits, default=0) > count:
        if not database.recover:
            raise StoreError(
                "a stream that was acknowledged is missing; restore all files from a backup, "
                "or go on without it with Agent(..., recover=True)"
            )
        database.clear_commit_marker()
    return count

"""The tables of a store."""

import sqlite3
from typing import Any

from postgrad.errors import StoreError
from postgrad.store.checksum import digest

# "post" in ASCII: tells files of postgrad from other SQLite databases.
APPLICATION = 0x706F7374
# The format of the tables below; `changes/migrations.py` reads earlier ones.
VERSION = 4

# The key of a batch is stream * STAGES + stage: a new batch is the last of its stream's pages.
# Events and issued decisions have stream * STAGES + their number.
STAGES = 1 << 40

# `header` and `report_header` are numbers of array headers.
_STATE = """
    stage INTEGER NOT NULL, commits INTEGER NOT NULL, chain BLOB NOT NULL,
    events INTEGER NOT NULL, issued INTEGER NOT NULL, fixed_since INTEGER NOT NULL,
    header INTEGER NOT NULL, state BLOB NOT NULL,
    report_header INTEGER NOT NULL, report BLOB NOT NULL, counters BLOB NOT NULL,
    checksum BLOB NOT NULL"""

TABLES = {
    "store": "CREATE TABLE store (identity BLOB NOT NULL, checksum BLOB NOT NULL)",
    "streams": (
        "CREATE TABLE streams (stream INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
        "settings TEXT NOT NULL, checksum BLOB NOT NULL)"
    ),
    "array_headers": (
        "CREATE TABLE array_headers (number INTEGER PRIMARY KEY, header TEXT NOT NULL, "
        "checksum BLOB NOT NULL)"
    ),
    "heads": f"CREATE TABLE heads (stream INTEGER PRIMARY KEY,{_STATE})",
    "checkpoints": (
        f"CREATE TABLE checkpoints (stream INTEGER NOT NULL,{_STATE}, UNIQUE (stream, stage))"
    ),
    "fixed_arrays": (
        "CREATE TABLE fixed_arrays (stream INTEGER NOT NULL, stage INTEGER NOT NULL, "
        "header INTEGER NOT NULL, arrays BLOB NOT NULL, checksum BLOB NOT NULL, "
        "UNIQUE (stream, stage))"
    ),
    "batches": (
        "CREATE TABLE batches (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT, "
        "time REAL NOT NULL, x BLOB, rows BLOB NOT NULL, answer BLOB NOT NULL, alarm TEXT, "
        "chain BLOB NOT NULL, context TEXT)"
    ),
    "events": (
        "CREATE TABLE events (place INTEGER PRIMARY KEY, stage INTEGER NOT NULL, "
        "time REAL NOT NULL, kind TEXT NOT NULL, content TEXT NOT NULL, checksum BLOB NOT NULL)"
    ),
    "decisions": (
        "CREATE TABLE decisions (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, "
        "id TEXT NOT NULL, stage INTEGER NOT NULL, time REAL NOT NULL, context TEXT, "
        "answer BLOB NOT NULL, chain BLOB NOT NULL)"
    ),
    "ids": "CREATE UNIQUE INDEX ids ON batches (stream, id) WHERE id IS NOT NULL",
    "alarms": "CREATE INDEX alarms ON batches (stream, place) WHERE alarm IS NOT NULL",
    "decision_ids": "CREATE UNIQUE INDEX decision_ids ON decisions (stream, id)",
}


def is_empty(connection: sqlite3.Connection) -> bool:
    """Whether the database has no tables."""
    return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


def create(connection: sqlite3.Connection, identity: bytes) -> None:
    """Make the tables, inside the open transaction."""
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute("INSERT INTO store VALUES (?, ?)", (identity, digest(identity)))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check(connection: sqlite3.Connection) -> None:
    """Check that the file is a store of this format, and that its tables are defined as above.

    Raises:
        StoreError: If the file is another database, of another format, or a definition differs: a
            damaged definition would change what is read and found.
    """
    if pragma(connection, "application_id") != APPLICATION:
        raise StoreError("this is a database, but none of postgrad's; choose another path")
    version = pragma(connection, "user_version")
    if version != VERSION:
        newer = f"its format, {version}, is newer than this postgrad's, which is {VERSION}"
        unknown = f"its format, {version}, is none that postgrad has written"
        instead = "install a newer postgrad" if version > VERSION else "choose another path"
        raise StoreError(f"{newer if version > VERSION else unknown}; {instead}")
    found = definitions(connection)
    if found != TABLES:
        names = sorted(name for name in {*found, *TABLES} if found.get(name) != TABLES.get(name))
        raise StoreError(f"the definitions of {', '.join(map(str, names))} are damaged")
    if (encoding := pragma(connection, "encoding")) != "UTF-8":
        raise StoreError(f"the encoding of text is damaged: {encoding}")


def definitions(connection: sqlite3.Connection) -> dict[str, str]:
    """How the tables and indices are defined, by name."""
    return dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))


def write_nothing_new(connection: sqlite3.Connection) -> None:
    """A commit that writes, but changes nothing: it overwrites what a failed one left in the log.

    The log ends at the first page that does not follow from the one before it, so one page is
    enough. The version is written even if it is the same; SQLite would not write a row that is
    updated to what it was.
    """
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(f"PRAGMA user_version = {pragma(connection, 'user_version'):d}")
    connection.execute("COMMIT")


def pragma(connection: sqlite3.Connection, name: str) -> Any:
    """What a PRAGMA gives."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]

"""The tables of a store, format 1, and how older formats become it.

Format 0 had no chains: each batch had a checksum of its own, so that the loss of
the last ones went unnoticed.
"""

import sqlite3
from collections.abc import Callable

from postgrad.errors import StoreError
from postgrad.store.checksum import digest

# "post" in ASCII: tells such files from other SQLite databases.
APPLICATION = 0x706F7374
VERSION = 1

# The key of a batch: streams side by side, stages in order, so that a new batch is always the last
# of its stream's pages.
STAGES = 1 << 40

_POINT = """
    stage INTEGER NOT NULL, commits INTEGER NOT NULL, chain BLOB NOT NULL, still INTEGER NOT NULL,
    layout INTEGER NOT NULL, state BLOB NOT NULL, report_layout INTEGER NOT NULL,
    report BLOB NOT NULL, counters BLOB NOT NULL, checksum BLOB NOT NULL"""

TABLES = {
    "store": "CREATE TABLE store (identity BLOB NOT NULL, checksum BLOB NOT NULL)",
    "streams": (
        "CREATE TABLE streams (stream INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, "
        "settings TEXT NOT NULL, checksum BLOB NOT NULL)"
    ),
    "layouts": (
        "CREATE TABLE layouts (layout INTEGER PRIMARY KEY, header TEXT NOT NULL, "
        "checksum BLOB NOT NULL)"
    ),
    "heads": f"CREATE TABLE heads (stream INTEGER PRIMARY KEY,{_POINT})",
    "checkpoints": (
        f"CREATE TABLE checkpoints (stream INTEGER NOT NULL,{_POINT}, UNIQUE (stream, stage))"
    ),
    "stills": (
        "CREATE TABLE stills (stream INTEGER NOT NULL, stage INTEGER NOT NULL, "
        "layout INTEGER NOT NULL, arrays BLOB NOT NULL, checksum BLOB NOT NULL, "
        "UNIQUE (stream, stage))"
    ),
    "batches": (
        "CREATE TABLE batches (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT, "
        "time REAL NOT NULL, x BLOB, rows BLOB NOT NULL, answer BLOB NOT NULL, alarm TEXT, "
        "chain BLOB NOT NULL)"
    ),
    "ids": "CREATE UNIQUE INDEX ids ON batches (stream, id) WHERE id IS NOT NULL",
    "alarms": "CREATE INDEX alarms ON batches (stream, place) WHERE alarm IS NOT NULL",
}


def create(connection: sqlite3.Connection, identity: bytes) -> None:
    """Makes the tables, inside the transaction that is open."""
    for statement in TABLES.values():
        connection.execute(statement)
    connection.execute("INSERT INTO store VALUES (?, ?)", (identity, digest(identity)))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def check(connection: sqlite3.Connection) -> None:
    """Compares the tables with what they should be.

    Raises:
        StoreError: If they differ: a damaged definition would change what is read and found.
    """
    found = dict(connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"))
    if found != TABLES:
        names = sorted(name for name in {*found, *TABLES} if found.get(name) != TABLES.get(name))
        raise StoreError(f"the definitions of {', '.join(map(str, names))} are damaged")
    (encoding,) = connection.execute("PRAGMA encoding").fetchone()
    if encoding != "UTF-8":
        raise StoreError(f"the encoding of text is damaged: {encoding}")


def start_of_chain(identity: bytes, stream: int) -> bytes:
    """The chain before the first batch."""
    return digest(identity, stream)


def _from_0(connection: sqlite3.Connection) -> None:
    """Adds chains."""
    (identity,) = connection.execute("SELECT identity FROM store").fetchone()
    connection.execute("DROP INDEX ids")
    for name in ("heads", "checkpoints", "batches"):
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}_0")
    for name in ("heads", "checkpoints", "batches", "ids", "alarms"):
        connection.execute(TABLES[name])
    chains = {}
    for (stream,) in connection.execute("SELECT stream FROM streams").fetchall():
        chains[stream, 0] = chain = start_of_chain(identity, stream)
        # Only the chains of stages with a checkpoint, or of the last, are asked for below.
        asked = "SELECT stage FROM heads_0 WHERE stream = ? UNION SELECT stage FROM checkpoints_0"
        wanted = {stage for (stage,) in connection.execute(asked, (stream,))}
        old = connection.execute(
            "SELECT place, id, time, x, rows, answer, alarm, checksum FROM batches_0 "
            "WHERE place BETWEEN ? AND ? ORDER BY place",
            (stream * STAGES, (stream + 1) * STAGES - 1),
        )
        for place, *fields, checksum in old:
            if checksum != digest(identity, place, *fields):
                raise StoreError(f"batch {place % STAGES} of stream {stream} is damaged")
            chain = digest(chain, place, *fields)
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (place, stream, *fields, chain),
            )
            if place % STAGES in wanted:
                chains[stream, place % STAGES] = chain
    for table in ("heads", "checkpoints"):
        columns = "stream, stage, commits, still, layout, state, report_layout, report, counters"
        points = connection.execute(f"SELECT {columns}, checksum FROM {table}_0").fetchall()
        for *point, checksum in points:
            stream, stage, commits, *rest = point
            if checksum != digest(identity, *point) or (stream, stage) not in chains:
                raise StoreError(f"the state of stream {stream} at stage {stage} is damaged")
            head = (stream, stage, commits, chains[stream, stage], *rest)
            values = (*head, digest(identity, *head))
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * 11)})", values)
    for name in ("heads", "checkpoints", "batches"):
        connection.execute(f"DROP TABLE {name}_0")


# What makes the next format of each.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {0: _from_0}

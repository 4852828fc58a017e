"""Files of earlier formats: read, checked, and rewritten as the present one in one transaction.

A file that is damaged is refused before anything is changed. What the settings of a stream mean is
not the store's to know: the agent migrates them.
"""

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from postgrad.errors import StoreError
from postgrad.store.checksum import digest
from postgrad.store.opening.connecting import is_writable
from postgrad.store.schema import APPLICATION, STAGES, TABLES, VERSION, definitions, pragma

if TYPE_CHECKING:
    from postgrad.store.database import Database

# What to do about damage: recovery knows the present format only.
INSTEAD = "restore a backup with `postgrad store restore`"

_STATE_3 = """
    stage INTEGER NOT NULL, commits INTEGER NOT NULL, chain BLOB NOT NULL,
    events INTEGER NOT NULL, fixed_since INTEGER NOT NULL,
    header INTEGER NOT NULL, state BLOB NOT NULL,
    report_header INTEGER NOT NULL, report BLOB NOT NULL, counters BLOB NOT NULL,
    checksum BLOB NOT NULL"""
_STATE_2 = """
    stage INTEGER NOT NULL, commits INTEGER NOT NULL, chain BLOB NOT NULL,
    fixed_since INTEGER NOT NULL, header INTEGER NOT NULL, state BLOB NOT NULL,
    report_header INTEGER NOT NULL, report BLOB NOT NULL, counters BLOB NOT NULL,
    checksum BLOB NOT NULL"""
_STATE_1 = """
    stage INTEGER NOT NULL, commits INTEGER NOT NULL, chain BLOB NOT NULL, still INTEGER NOT NULL,
    layout INTEGER NOT NULL, state BLOB NOT NULL, report_layout INTEGER NOT NULL,
    report BLOB NOT NULL, counters BLOB NOT NULL, checksum BLOB NOT NULL"""


def _states(columns: str) -> dict[str, str]:
    return {
        "heads": f"CREATE TABLE heads (stream INTEGER PRIMARY KEY,{columns})",
        "checkpoints": (
            f"CREATE TABLE checkpoints (stream INTEGER NOT NULL,{columns}, UNIQUE (stream, stage))"
        ),
    }


_SAME = {name: TABLES[name] for name in ("store", "streams", "ids", "alarms")}
_BATCHES = (
    "CREATE TABLE batches (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT, "
    "time REAL NOT NULL, x BLOB, rows BLOB NOT NULL, answer BLOB NOT NULL, alarm TEXT, "
    "chain BLOB NOT NULL)"
)
# The tables of each earlier format, as SQLite keeps their definitions.
EARLIER = {
    1: {
        **_SAME,
        **_states(_STATE_1),
        "layouts": (
            "CREATE TABLE layouts (layout INTEGER PRIMARY KEY, header TEXT NOT NULL, "
            "checksum BLOB NOT NULL)"
        ),
        "stills": (
            "CREATE TABLE stills (stream INTEGER NOT NULL, stage INTEGER NOT NULL, "
            "layout INTEGER NOT NULL, arrays BLOB NOT NULL, checksum BLOB NOT NULL, "
            "UNIQUE (stream, stage))"
        ),
        "batches": (
            "CREATE TABLE batches (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT, "
            "context TEXT, time REAL NOT NULL, x BLOB, rows BLOB NOT NULL, answer BLOB NOT NULL, "
            "alarm TEXT, chain BLOB NOT NULL)"
        ),
    },
    2: {
        **_SAME,
        **_states(_STATE_2),
        **{name: TABLES[name] for name in ("array_headers", "fixed_arrays")},
        "batches": _BATCHES,
    },
    3: {
        **_SAME,
        **_states(_STATE_3),
        **{name: TABLES[name] for name in ("array_headers", "fixed_arrays", "events")},
        "batches": _BATCHES,
    },
}


def is_earlier(connection: sqlite3.Connection) -> bool:
    """Whether the file has an earlier format that can be migrated; checks its definitions.

    Raises:
        StoreError: If a definition is damaged.
    """
    version = pragma(connection, "user_version")
    if pragma(connection, "application_id") != APPLICATION or version not in EARLIER:
        return False
    found, expected = definitions(connection), EARLIER[version]
    if found.get("batches") == _BATCHES:  # written by format 1 as well, at last
        expected = {**expected, "batches": _BATCHES}
    if found != expected:
        if pragma(connection, "user_version") != version:
            return False  # another process was faster
        names = sorted(n for n in {*found, *expected} if found.get(n) != expected.get(n))
        raise StoreError(f"the definitions of {', '.join(map(str, names))} are damaged")
    return True


def migrate(database: "Database") -> None:
    """Rewrite a file of an earlier format, whose pages and identity have been checked.

    Raises:
        StoreError: If a row is damaged, batches that were acknowledged are missing, or the file
            cannot be written to. No byte of it has changed then.
    """
    with database.snapshot():
        if not is_earlier(database.connection):  # another process was faster
            return
        version = pragma(database.connection, "user_version")
        _check_rows(database, version)
    if not is_writable(database.path):
        raise StoreError(
            f"its format, {version}, is of an earlier postgrad. It is rewritten when it is opened, "
            f"but it cannot be written to: check the permissions of file and folder, or copy the "
            f"file to where it can"
        )
    database.prepare_to_write()
    with database.transaction():
        version = pragma(database.connection, "user_version")
        if version == VERSION:  # another process was faster
            return
        chains = {}
        if _has_contexts(database):
            chains = _rewritten_batches(database)
        else:
            database.rows("ALTER TABLE batches ADD COLUMN context TEXT")
        if version == 1:
            _renamed(database, "layouts", "array_headers")
            _renamed(database, "stills", "fixed_arrays")
        for table in ("heads", "checkpoints"):
            _rewritten_states(database, table, chains, version)
        for name, definition in TABLES.items():
            if name not in definitions(database.connection):
                database.rows(definition)
        database.rows(f"PRAGMA user_version = {VERSION}")


def _check_rows(database: "Database", version: int) -> None:
    """Check all that is rewritten; inside the transaction a refusal would not leave all bytes."""
    tables = ("heads", "checkpoints", *(("layouts", "stills") if version == 1 else ()))
    for table in tables:
        for *fields, checksum in database.rows(f"SELECT * FROM {table}"):
            if checksum != database.checksum(*fields):
                raise _damaged("a state")
    for stream, commits, chain in database.rows("SELECT stream, commits, chain FROM heads"):
        mark = database.marked_commits.get(stream)
        if mark is not None:
            other = mark.chain is not None and mark.chain != chain
            if mark.commits > commits or (mark.commits == commits and other):
                raise StoreError(f"acknowledged batches are missing; {INSTEAD}")
    if version == 1 and _has_contexts(database):
        _check_batches(database)


def _check_batches(database: "Database") -> None:
    old, before = b"", -1
    for place, stream, *fields, chain in _batches(database, "batches"):
        if place != before + 1:  # the first of a stream
            old = database.checksum(stream)
            if place != stream * STAGES + 1:
                raise _damaged("a batch")
        if chain != digest(old, place, *fields):
            raise _damaged("a batch")
        old, before = chain, place
    for stream, stage in database.rows("SELECT stream, stage FROM heads WHERE stage > 0"):
        place = stream * STAGES + stage
        if database.row("SELECT 1 FROM batches WHERE place = ?", place) is None:
            raise _damaged("a batch")


def _has_contexts(database: "Database") -> bool:
    """Whether batches have the column `context` of the first format, which nothing used."""
    return definitions(database.connection)["batches"] != _BATCHES


def _batches(database: "Database", table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of batches, in order, read in chunks."""
    last = -1
    select = f"SELECT * FROM {table} WHERE place > ? ORDER BY place LIMIT 256"
    while rows := database.rows(select, last):
        yield from rows
        last = rows[-1][0]


def _rewritten_states(
    database: "Database", table: str, chains: dict[int, bytes], version: int
) -> None:
    """Give `heads` or `checkpoints` the columns `events`, `issued`, and chains that changed."""
    rows = database.rows(f"SELECT * FROM {table}")
    database.rows(f"DROP TABLE {table}")
    database.rows(TABLES[table])
    for stream, stage, commits, chain, *rest, _ in rows:
        chain = chains.get(stream * STAGES + stage, chain)
        events, *others = rest if version == 3 else (0, *rest)
        database.insert(table, stream, stage, commits, chain, events, 0, *others)


def _renamed(database: "Database", old: str, new: str) -> None:
    """Rename a table whose columns have other names only: the checksums stay as they are."""
    rows = database.rows(f"SELECT * FROM {old}")
    database.rows(f"DROP TABLE {old}")
    database.rows(TABLES[new])
    for row in rows:
        database.rows(f"INSERT INTO {new} VALUES ({', '.join('?' * len(row))})", *row)


def _rewritten_batches(database: "Database") -> dict[int, bytes]:
    """Empty the column `context`, which nothing used; returns the new chain of each batch."""
    database.rows("DROP INDEX ids")
    database.rows("DROP INDEX alarms")
    database.rows("ALTER TABLE batches RENAME TO earlier_batches")
    database.rows(TABLES["batches"])
    chains: dict[int, bytes] = {}
    for place, stream, name, _, *fields, _ in _batches(database, "earlier_batches"):
        before = chains.get(place - 1) or database.checksum(stream)
        chains[place] = digest(before, place, name, *fields)
        insert = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)"
        database.rows(insert, place, stream, name, *fields, chains[place])
    database.rows("DROP TABLE earlier_batches")
    return chains


def _damaged(what: str) -> StoreError:
    return StoreError(f"{what} is damaged or missing; {INSTEAD}")

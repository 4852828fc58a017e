"""How a database is connected to: for reading, and for writing only once something is written.

A connection for reading changes no byte of the database or its log. One for writing does, even if
nothing is written: SQLite copies the log into the database when the last connection is closed, and
deletes it. The log of a damaged file is evidence, and must stay.
"""

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from typing import NamedTuple
from urllib.parse import quote

from postgrad.errors import StoreError
from postgrad.store import schema
from postgrad.store.guards.sqlite_errors import code

# The longest wait for another process that is writing, in seconds.
PATIENCE_S = 10.0
# Pages in SQLite's log before they are copied into the database. Many, since every batch changes
# the same few pages, which are then copied less often.
_LOG_PAGES = 2000
# The log is cut to so many bytes when it begins anew, if a long reader has made it longer.
_LONGEST_LEFT = 64 << 20
# How often a file that another process is changing is copied before that is given up.
_TRIES = 5


class Standing(NamedTuple):
    """A database that is read as it stands, where SQLite cannot make its files.

    Attributes:
        path: The database.
        seen: What the system says about the database and its log.
    """

    path: str
    seen: tuple[object, ...]

    def changed(self) -> bool:
        """Whether another has written to the database or its log."""
        return _seen(self.path) != self.seen


def in_memory() -> sqlite3.Connection:
    """A database in memory."""
    return _connected(":memory:", uri=False)


def for_writing(path: str) -> sqlite3.Connection:
    """A connection that may write."""
    connection = _connected(path, uri=False)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit = {_LONGEST_LEFT}")
    return connection


def for_reading(path: str) -> tuple[sqlite3.Connection, Standing | None]:
    """A connection that changes no byte of the database and its log, which it has read.

    Beside the log SQLite needs a file of memory that processes share. Where none can be made, as on
    a disk that is read-only, a database without a log is read as it stands, and one with a log is
    copied with it: the log is never left out.

    Raises:
        sqlite3.Error: If the file cannot be read.
        StoreError: If it has to be copied, and another process keeps changing it.
    """
    try:
        return _read(f"file:{quote(path)}?mode=ro"), None
    except sqlite3.OperationalError as error:
        cannot = code(error) in ("SQLITE_CANTOPEN", "SQLITE_READONLY")
        if not cannot or not os.access(path, os.R_OK) or os.path.exists(f"{path}-journal"):
            raise
    for _ in range(_TRIES):
        standing = Standing(path, _seen(path))
        connection = _read_as_it_stands(path)
        if not standing.changed():
            return connection, standing
        connection.close()
    raise StoreError("another process keeps changing it while it is copied; try again")


def remove_empty_log(path: str) -> None:
    """Remove the empty log that readers leave, and the file beside it, if nobody has them open.

    SQLite does so when a connection that may write is closed. There is nothing in the log that it
    could copy. Left by another user, the files might keep out whoever may write.
    """
    log = f"{path}-wal"
    with suppress(sqlite3.Error, OSError):
        if is_writable(path) and os.path.getsize(log) == 0:
            with closing(for_writing(path)) as connection:
                schema.is_empty(connection)


def _read_as_it_stands(path: str) -> sqlite3.Connection:
    log = f"{path}-wal"
    if not os.path.exists(log) or os.path.getsize(log) == 0:
        return _read(f"file:{quote(path)}?immutable=1")
    # The connection keeps the copies open: their names are not needed any more.
    with tempfile.TemporaryDirectory(prefix="postgrad-") as folder:
        copy = os.path.join(folder, "copy.db")
        shutil.copyfile(path, copy)
        shutil.copyfile(log, f"{copy}-wal")
        return _read(f"file:{quote(copy)}?mode=ro")


def is_writable(path: str | None) -> bool:
    """Whether a file and its folder may be written to; memory may."""
    places = [] if path is None else [path, os.path.dirname(path)]
    return all(os.access(place, os.W_OK) for place in places)


def _read(uri: str) -> sqlite3.Connection:
    """A connection that has read something: from then on it has the log open."""
    connection = _connected(uri, uri=True)
    try:
        schema.is_empty(connection)
    except BaseException as error:
        # SQLite has the log open even if it cannot make sense of the database.
        if code(error) not in ("SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_ERROR"):
            connection.close()
            raise
    return connection


def _connected(place: str, *, uri: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        place, isolation_level=None, check_same_thread=False, timeout=PATIENCE_S, uri=uri
    )
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA cell_size_check = ON")
    return connection


def _seen(path: str) -> tuple[object, ...]:
    """The file, size and last change of a database and of its log."""
    found: list[object] = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(found)

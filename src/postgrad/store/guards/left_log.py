"""A log that an earlier process has left behind.

If forcing the log to the disk failed, the system may hold pages that it will never write: it reads
them back, though they are not on the disk. SQLite would take them up and build on them, and a loss
of power would take what was acknowledged since. So before a log that was left is built on, it is
written once more as it is.
"""

import os
import sqlite3

from postgrad.store.guards.sqlite_errors import code

_PIECE = 1 << 20


def is_left(path: str) -> bool:
    """Whether there is something in the log beside a database."""
    try:
        return os.path.getsize(f"{path}-wal") > 0
    except OSError:
        return False


def write_again(connection: sqlite3.Connection, path: str, patience: float) -> None:
    """Write the log once more as it is, and force it to the disk.

    Args:
        connection: A connection to the database.
        path: The database.
        patience: How long the connection waits for others, in seconds.

    Raises:
        OSError: If it cannot be written.
    """
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("BEGIN IMMEDIATE")  # nobody else writes meanwhile
    except sqlite3.OperationalError as error:
        # Who is writing has the log open, and knows how much of it is good.
        if code(error) not in ("SQLITE_BUSY", "SQLITE_READONLY"):
            raise
        return
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(1000 * patience)}")
    try:
        file = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)
        try:
            place = 0
            while piece := os.pread(file, _PIECE, place):
                place += os.pwrite(file, piece, place)
            os.fsync(file)
        finally:
            os.close(file)
    finally:
        connection.execute("ROLLBACK")

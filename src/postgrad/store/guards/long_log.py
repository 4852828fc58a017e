"""A log that grows, since somebody reads for long.

SQLite begins the log anew when all of it has been copied into the database and nobody reads it. As
long as one reader keeps a transaction open, the log grows with every commit. Agents read in pieces
and hold no transaction between them; other programs may.
"""

import os
import sqlite3
import warnings

# The size, in bytes, from which on a warning is given; usually the log stays below 10 MB.
LONG = 128 << 20


class LongLogWarning(UserWarning):
    """The log of a database grows, since another process keeps a read transaction open."""


class LogWatch:
    """Warns when the log of a database is long, and again each time it has doubled."""

    def __init__(self, path: str):
        """Args: the database."""
        self._log, self._next = f"{path}-wal", LONG

    def look(self, connection: sqlite3.Connection) -> None:
        """Look at the log after a commit.

        A large commit makes a long log, too, but that can be copied into the database.
        """
        try:
            size = os.path.getsize(self._log)
            if size < self._next:
                self._next = LONG if size < LONG else self._next
                return
            _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except (OSError, sqlite3.Error):
            return
        if copied < pages:
            self._next = 2 * size
            text = (
                f"{self._log} has grown to {size / 1e6:.0f} MB: some process keeps a read "
                f"transaction open, and until it ends the log grows with every commit. Nothing is "
                f"lost, but the disk may fill: end that process, or let it read in pieces"
            )
            warnings.warn(LongLogWarning(text), stacklevel=4)

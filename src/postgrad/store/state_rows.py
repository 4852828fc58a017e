"""The states of one stream in the database: the latest, checkpoints, and fixed arrays.

Fixed arrays are those that stages do not change, such as the points of a grid. They are stored only
when they have been replaced by others than those of the beginning. Every row has a checksum that
binds it to the store, the stream and the stage.
"""

import sqlite3

from postgrad.errors import StoreError
from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database
from postgrad.store.stored_state import Head, Saved, Stale

# Every so many stages the state is kept as a checkpoint; as time goes on ever fewer remain.
EVERY = 64
DAMAGED = "is damaged; restore a backup, or try Agent(..., recover=True)"

_COLUMNS = (
    "stage, commits, chain, fixed_since, header, state, report_header, report, counters, checksum"
)
_SELECT = f"SELECT {_COLUMNS} FROM"
_UPDATE = f"UPDATE heads SET {_COLUMNS.replace(',', ' = ?,')} = ?"


class StateRows:
    """The states of one stream."""

    def __init__(self, database: Database, stream: int, headers: ArrayHeaders):
        self._database, self._stream, self._headers = database, stream, headers

    def head(self, connection: sqlite3.Connection) -> Head:
        """The latest state.

        Raises:
            StoreError: If it is damaged or missing.
        """
        rows = connection.execute(f"{_SELECT} heads WHERE stream = ?", (self._stream,)).fetchall()
        if len(rows) != 1:
            raise StoreError(f"the state {DAMAGED}")
        return self._head(connection, rows[0])

    def checkpoints(self, connection: sqlite3.Connection, last: int) -> list[tuple[Field, ...]]:
        """The rows of all checkpoints up to a stage, the latest first; see `checkpoint`."""
        return connection.execute(
            f"{_SELECT} checkpoints WHERE stream = ? AND stage <= ? ORDER BY stage DESC",
            (self._stream, last),
        ).fetchall()

    def checkpoint(self, connection: sqlite3.Connection, row: tuple[Field, ...]) -> Saved:
        """The state of a checkpoint, whose fixed arrays are checked too.

        Raises:
            StoreError: If the state or the fixed arrays are damaged.
        """
        saved = self._head(connection, row).saved
        self.fixed_arrays(connection, saved.still)
        return saved

    def commits(self, connection: sqlite3.Connection) -> Field:
        """The number of the last commit, unchecked; None if there is no state."""
        found = connection.execute(
            "SELECT commits FROM heads WHERE stream = ?", (self._stream,)
        ).fetchone()
        return found[0] if found else None

    def update(self, connection: sqlite3.Connection, old: Head, new: Head) -> None:
        """Replace the latest state.

        Raises:
            Stale: If the latest state is not `old`.
        """
        changed = connection.execute(
            f"{_UPDATE} WHERE stream = ? AND commits = ?",
            (*self._values(connection, new), self._stream, old.commits),
        )
        if changed.rowcount != 1:
            raise Stale

    def insert(self, connection: sqlite3.Connection, table: str, head: Head) -> None:
        """Insert or replace a row of `heads` or `checkpoints`."""
        connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._stream, *self._values(connection, head)),
        )

    def fixed_arrays(self, connection: sqlite3.Connection, stage: int) -> tuple[str, bytes] | None:
        """Header and bytes of the fixed arrays of a stage; None if they are the first.

        Raises:
            StoreError: If they are damaged or missing.
        """
        if stage == 0:
            return None
        found = connection.execute(
            "SELECT header, arrays, checksum FROM fixed_arrays WHERE stream = ? AND stage = ?",
            (self._stream, stage),
        ).fetchone()
        header, arrays, checksum = found or (0, b"", b"")
        if checksum != digest(self._database.identity, self._stream, stage, header, arrays):
            raise StoreError(f"the state {DAMAGED}")
        return self._headers.header(connection, header), arrays

    def insert_fixed_arrays(
        self, connection: sqlite3.Connection, stage: int, header: str, arrays: bytes
    ) -> None:
        """Insert or replace the fixed arrays of a stage."""
        row = (self._stream, stage, self._headers.number(connection, header), arrays)
        connection.execute(
            "INSERT OR REPLACE INTO fixed_arrays VALUES (?, ?, ?, ?, ?)",
            (*row, digest(self._database.identity, *row)),
        )

    def thin(self, connection: sqlite3.Connection, stage: int) -> None:
        """Keep O(log n) checkpoints: of each power of two, the last two multiples."""
        last, kept = stage // EVERY, set()
        for power in range(last.bit_length()):
            step = 1 << power
            kept |= {last - last % step, last - last % step - step}
        marks = ", ".join("?" * len(kept))
        connection.execute(
            f"DELETE FROM checkpoints WHERE stream = ? AND stage NOT IN ({marks})",
            (self._stream, *(EVERY * number for number in kept)),
        )
        connection.execute(
            "DELETE FROM fixed_arrays WHERE stream = ?1 AND stage NOT IN (SELECT fixed_since FROM "
            "heads WHERE stream = ?1 UNION SELECT fixed_since FROM checkpoints WHERE stream = ?1)",
            (self._stream,),
        )

    def drop_after(self, connection: sqlite3.Connection, stage: int) -> None:
        """Remove checkpoints and fixed arrays after a stage."""
        for table in ("checkpoints", "fixed_arrays"):
            connection.execute(
                f"DELETE FROM {table} WHERE stream = ? AND stage > ?", (self._stream, stage)
            )

    def _head(self, connection: sqlite3.Connection, row: tuple[Field, ...]) -> Head:
        *fields, checksum = row
        if checksum != digest(self._database.identity, self._stream, *fields):
            raise StoreError(f"the state {DAMAGED}")
        stage, commits, chain, fixed_since, header, state, report_header, report, counters = fields
        header, report_header = (
            self._headers.header(connection, number) for number in (header, report_header)
        )
        saved = Saved(stage, header, state, report_header, report, counters, fixed_since)  # type: ignore[arg-type]
        return Head(saved, commits, chain)  # type: ignore[arg-type]

    def _values(self, connection: sqlite3.Connection, head: Head) -> tuple[Field, ...]:
        saved = head.saved
        fields = (
            saved.stage,
            head.commits,
            head.chain,
            saved.still,
            self._headers.number(connection, saved.header),
            saved.state,
            self._headers.number(connection, saved.report_header),
            saved.report,
            saved.counters,
        )
        return (*fields, digest(self._database.identity, self._stream, *fields))

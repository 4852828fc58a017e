"""The states of one stream in the database: the latest, checkpoints, and fixed arrays.

Fixed arrays are those that stages do not change, such as the points of a grid. They are stored only
when they have been replaced by others than those of the beginning. Every row has a checksum that
binds it to the store, the stream and the stage.
"""

from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.checksum import Field
from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.schema import STAGES
from postgrad.store.stored_state import StaleStateError, StoredState, StreamHead

# Every so many stages the state is kept as a checkpoint; as time goes on ever fewer remain.
EVERY = 64
DAMAGED = f"is damaged; {WAY_OUT}"

_COLUMNS = (
    "stage, commits, chain, events, issued, fixed_since, header, state, report_header, report, "
    "counters, checksum"
)
_SELECT = f"SELECT {_COLUMNS} FROM"
_UPDATE = f"UPDATE heads SET {_COLUMNS.replace(',', ' = ?,')} = ?"


class StateRows:
    """The states of one stream."""

    def __init__(self, database: Database, stream: int, headers: ArrayHeaders):
        self._database, self._stream, self._headers = database, stream, headers

    def head(self) -> StreamHead:
        """The latest state.

        Raises:
            StoreError: If it is damaged or missing.
        """
        row = self._database.row(f"{_SELECT} heads WHERE stream = ?", self._stream)
        if row is None:
            raise self._database.error(f"the state {DAMAGED}")
        return self._head(row)

    def checkpoints(self, last: int) -> list[tuple[Field, ...]]:
        """The rows of all checkpoints up to a stage, the latest first; see `checkpoint`."""
        select = f"{_SELECT} checkpoints WHERE stream = ? AND stage <= ? ORDER BY stage DESC"
        return self._database.rows(select, self._stream, last)

    def checkpoint(self, row: tuple[Field, ...]) -> StoredState:
        """The state of a checkpoint, whose fixed arrays are checked too.

        Raises:
            StoreError: If the state or the fixed arrays are damaged.
        """
        saved = self._head(row).saved
        self.fixed_arrays(saved.fixed_since)
        return saved

    def commits(self) -> Field:
        """The number of the last commit, unchecked; None if there is no state."""
        found = self._database.row("SELECT commits FROM heads WHERE stream = ?", self._stream)
        return found[0] if found else None

    def update(self, old: StreamHead, new: StreamHead) -> None:
        """Replace the latest state.

        Raises:
            StaleStateError: If the latest state is not `old`.
        """
        fields = self._fields(new)
        checksum = self._database.checksum(self._stream, *fields)
        update = f"{_UPDATE} WHERE stream = ? AND commits = ? RETURNING stream"
        if not self._database.rows(update, *fields, checksum, self._stream, old.commits):
            raise StaleStateError

    def insert(self, table: str, head: StreamHead) -> None:
        """Insert or replace a row of `heads` or `checkpoints`."""
        self._database.insert(table, self._stream, *self._fields(head))

    def fixed_arrays(self, stage: int) -> tuple[str, bytes] | None:
        """Header and bytes of the fixed arrays of a stage; None if they are the first.

        Raises:
            StoreError: If they are damaged or missing.
        """
        if stage == 0:
            return None
        select = "SELECT header, arrays, checksum FROM fixed_arrays WHERE stream = ? AND stage = ?"
        found = self._database.row(select, self._stream, stage)
        header, arrays, checksum = found or (0, b"", b"")
        if checksum != self._database.checksum(self._stream, stage, header, arrays):
            raise self._database.error(f"the state {DAMAGED}")
        return self._headers.header(header), arrays

    def insert_fixed_arrays(self, stage: int, header: str, arrays: bytes) -> None:
        """Insert or replace the fixed arrays of a stage."""
        number = self._headers.number(header)
        self._database.insert("fixed_arrays", self._stream, stage, number, arrays)

    def thin(self, stage: int) -> None:
        """Keep O(log n) checkpoints, of each power of two the last two multiples; and at events."""
        last, kept = stage // EVERY, set()
        for power in range(last.bit_length()):
            step = 1 << power
            kept |= {last - last % step, last - last % step - step}
        marks = ", ".join("?" * len(kept))
        delete = (
            f"DELETE FROM checkpoints WHERE stream = ? AND stage NOT IN ({marks}) "
            f"AND stage NOT IN (SELECT stage FROM events WHERE place BETWEEN ? AND ?)"
        )
        stages, ends = (EVERY * number for number in kept), (self._stream, self._stream + 1)
        self._database.rows(delete, self._stream, *stages, *(STAGES * end for end in ends))
        self._database.rows(
            "DELETE FROM fixed_arrays WHERE stream = ? AND stage NOT IN (SELECT fixed_since FROM "
            "heads WHERE stream = ? UNION SELECT fixed_since FROM checkpoints WHERE stream = ?)",
            *3 * (self._stream,),
        )

    def drop_after(self, stage: int) -> None:
        """Remove checkpoints and fixed arrays after a stage."""
        for table in ("checkpoints", "fixed_arrays"):
            delete = f"DELETE FROM {table} WHERE stream = ? AND stage > ?"
            self._database.rows(delete, self._stream, stage)

    def _head(self, row: tuple[Field, ...]) -> StreamHead:
        *fields, checksum = row
        if checksum != self._database.checksum(self._stream, *fields):
            raise self._database.error(f"the state {DAMAGED}")
        stage, commits, chain, events, issued, fixed_since, *arrays = fields
        header, state, report_header, report, counters = arrays
        header, report_header = map(self._headers.header, (header, report_header))
        saved = StoredState(stage, header, state, report_header, report, counters, fixed_since)  # type: ignore[arg-type]
        return StreamHead(saved, commits, chain, events, issued)  # type: ignore[arg-type]

    def _fields(self, head: StreamHead) -> tuple[Field, ...]:
        saved = head.saved
        header, report_header = map(self._headers.number, (saved.header, saved.report_header))
        numbers = (saved.stage, head.commits, head.chain, head.events, head.issued)
        arrays = (header, saved.state, report_header, saved.report, saved.counters)
        return (*numbers, saved.fixed_since, *arrays)

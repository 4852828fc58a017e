"""The batches of one stream in the database, and the chain of their checksums.

Each batch's checksum includes that of the batch before it. So a batch that was changed, removed or
moved is noticed when it, or any batch after it, is read.
"""

import sqlite3
from collections.abc import Iterator
from operator import attrgetter

from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database
from postgrad.store.schema import STAGES
from postgrad.store.stored_state import Batch

# Rows read by one statement: memory stays small, and writers do not wait for long.
_CHUNK = 256

_fields = attrgetter("id", "time", "x", "rows", "answer", "alarm")


class BatchRows:
    """The batches of one stream."""

    def __init__(self, database: Database, stream: int):
        self._database, self._stream = database, stream

    def place(self, stage: int) -> int:
        """The key of the batch of a stage."""
        return self._stream * STAGES + stage

    def start_of_chain(self) -> bytes:
        """The checksum that stands before the first batch."""
        return digest(self._database.identity, self._stream)

    def next_chain(self, before: bytes, stage: int, batch: Batch) -> bytes:
        """The checksum of a batch after the one with the checksum `before`."""
        return digest(before, self.place(stage), *_fields(batch))

    def insert(
        self, connection: sqlite3.Connection, stage: int, batch: Batch, chain: bytes
    ) -> None:
        """Insert a batch with its checksum."""
        connection.execute(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.place(stage), self._stream, *_fields(batch), chain),
        )

    def drop_after(self, connection: sqlite3.Connection, stage: int) -> None:
        """Remove all batches after a stage."""
        connection.execute(
            "DELETE FROM batches WHERE place BETWEEN ? AND ?",
            (self.place(stage + 1), self.place(STAGES - 1)),
        )

    def last(self, connection: sqlite3.Connection) -> tuple[int, bytes] | None:
        """The key and the checksum of the last batch."""
        return connection.execute(
            "SELECT place, chain FROM batches WHERE place BETWEEN ? AND ? "
            "ORDER BY place DESC LIMIT 1",
            (self.place(1), self.place(STAGES - 1)),
        ).fetchone()

    def chain(self, stage: int) -> bytes:
        """The checksum of the batch of a stage.

        Raises:
            StoreError: If the batch is missing.
        """
        if stage == 0:
            return self.start_of_chain()
        with self._database.reading() as connection:
            found = connection.execute(
                "SELECT chain FROM batches WHERE place = ?", (self.place(stage),)
            ).fetchone()
        if found is None:
            raise self._database.error(f"batch {stage} is missing; restore a backup")
        return found[0]

    def stages(self, condition: str, *values: Field) -> list[int]:
        """The stages of the batches that meet an SQL condition, in order; not checked."""
        with self._database.reading() as connection:
            places = connection.execute(
                f"SELECT place FROM batches WHERE stream = ? AND {condition} ORDER BY place",
                (self._stream, *values),
            ).fetchall()
        return [place - self.place(0) for (place,) in places]

    def read(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from stage `first` to stage `last`, read in chunks.

        Raises:
            StoreError: At the first batch that is damaged or missing.
        """
        for start in range(max(first, 1), last + 1, _CHUNK):
            stop = min(start + _CHUNK - 1, last)
            with self._database.reading() as connection:
                rows = connection.execute(
                    "SELECT place, id, time, x, rows, answer, alarm, chain FROM batches "
                    "WHERE place BETWEEN ? AND ? ORDER BY place",
                    (self.place(start - 1), self.place(stop)),
                ).fetchall()
            yield from self._checked(rows, start, stop)

    def _checked(
        self, rows: list[tuple[Field, ...]], first: int, last: int
    ) -> Iterator[tuple[int, Batch]]:
        """The batches of rows, which begin with the one before the first."""
        chain: Field = self.start_of_chain()
        if first > 1:
            before = rows.pop(0) if rows else (None,)
            chain = before[-1] if before[0] == self.place(first - 1) else None
        for stage in range(first, last + 1):
            row = rows[stage - first] if stage - first < len(rows) else (None, None)
            place, *fields, checksum = row
            if place != self.place(stage) or checksum != digest(chain, place, *fields):
                raise self._database.error(f"batch {stage} is damaged or missing; restore a backup")
            chain = checksum
            yield stage, Batch(*fields)  # type: ignore[arg-type]

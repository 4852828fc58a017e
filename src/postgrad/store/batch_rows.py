"""The batches of one stream in the database, and the chain of their checksums.

Each batch's checksum includes that of the batch before it. So a batch that was changed, removed or
moved is noticed when it, or any batch after it, is read.
"""

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

    def next_chain(self, before: bytes, stage: int, batch: Batch) -> bytes:
        """The checksum of a batch after the one with the checksum `before`."""
        return digest(before, self.place(stage), *_fields(batch))

    def insert(self, stage: int, batch: Batch, chain: bytes) -> None:
        """Insert a batch with its checksum."""
        self._database.rows(
            "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self.place(stage), self._stream, *_fields(batch), chain),
        )

    def drop_after(self, stage: int) -> None:
        """Remove all batches after a stage."""
        self._database.rows(
            "DELETE FROM batches WHERE place BETWEEN ? AND ?",
            *(self.place(stage + 1), self.place(STAGES - 1)),
        )

    def last(self) -> tuple[int, bytes] | None:
        """The key and the checksum of the last batch."""
        return self._database.row(
            "SELECT place, chain FROM batches WHERE place BETWEEN ? AND ? "
            "ORDER BY place DESC LIMIT 1",
            *(self.place(1), self.place(STAGES - 1)),
        )

    def chain(self, stage: int) -> bytes:
        """The checksum of the batch of a stage; for stage 0, the one before the first batch.

        Raises:
            StoreError: If the batch is missing.
        """
        if stage == 0:
            return self._database.checksum(self._stream)
        found = self._database.row("SELECT chain FROM batches WHERE place = ?", self.place(stage))
        if found is None:
            raise self._database.error(f"batch {stage} is missing; restore a backup")
        return found[0]

    def stages(self, condition: str, *values: Field) -> list[int]:
        """The stages of the batches that meet an SQL condition, in order; not checked."""
        select = f"SELECT place FROM batches WHERE stream = ? AND {condition} ORDER BY place"
        places = self._database.rows(select, self._stream, *values)
        return [place - self.place(0) for (place,) in places]

    def read(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from stage `first` to stage `last`, read in chunks.

        Raises:
            StoreError: At the first batch that is damaged or missing.
        """
        for start in range(max(first, 1), last + 1, _CHUNK):
            stop = min(start + _CHUNK - 1, last)
            rows = self._database.rows(
                "SELECT place, id, time, x, rows, answer, alarm, chain FROM batches "
                "WHERE place BETWEEN ? AND ?",
                *(self.place(start - 1), self.place(stop)),
            )
            found = {place: (fields, chain) for place, *fields, chain in rows}
            # The checksum that stands before the first batch has no row of its own.
            found[self.place(0)] = ([], self.chain(0))
            for stage in range(start, stop + 1):
                place = self.place(stage)
                _, before = found.get(place - 1, ([], None))
                fields, chain = found.get(place, ([], None))
                if before is None or chain != digest(before, place, *fields):
                    raise self._database.error(
                        f"batch {stage} is damaged or missing; restore a backup"
                    )
                yield stage, Batch(*fields)

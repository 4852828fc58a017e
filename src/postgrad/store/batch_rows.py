"""The batches of one stream in the database, and the chain of their checksums.

Each batch's checksum includes that of the batch before it. So a batch that was changed, removed or
moved is noticed when it, or any batch after it, is read.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from postgrad.errors import StoreError
from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.schema import STAGES
from postgrad.store.stored_state import Batch, StaleStateError

# Rows read by one statement: memory stays small, and writers do not wait for long.
_CHUNK = 256

_COLUMNS = "place, id, time, x, rows, answer, alarm, context, chain"
_fields = attrgetter("id", "time", "x", "rows", "answer", "alarm", "context")


class BatchRows:
    """The batches of one stream."""

    def __init__(self, database: Database, stream: int):
        self._database, self._stream = database, stream

    def place(self, stage: int) -> int:
        """The key of the batch of a stage."""
        return self._stream * STAGES + stage

    def next_chain(self, before: bytes, stage: int, batch: Batch) -> bytes:
        """The checksum of the batch of a stage after the one with the checksum `before`."""
        return next_chain(before, self.place(stage), batch)

    def insert(self, stage: int, batch: Batch, chain: bytes) -> None:
        """Insert a batch with its checksum."""
        *fields, context = _fields(batch)
        insert = "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        self._database.rows(insert, self.place(stage), self._stream, *fields, chain, context)

    def replace(self, stage: int, batch: Batch, last: int, commits: Field) -> bytes:
        """Replace the batch of a stage, and with it the checksums of all batches from there on.

        Args:
            stage: The stage.
            batch: What replaces its batch; the id, the time and the answer must be the same.
            last: The stage of the last batch.
            commits: How many transactions have changed the stream.

        Returns:
            The checksum of the last batch.

        Raises:
            StoreError: At the first batch that is damaged or missing.
        """
        chain = self.chain(stage - 1)
        for now, found in self.read(stage, last, commits):
            new = batch if now == stage else found
            chain = self.next_chain(chain, now, new)
            update = "UPDATE batches SET x = ?, rows = ?, context = ?, chain = ? WHERE place = ?"
            self._database.rows(update, new.x, new.rows, new.context, chain, self.place(now))
        return chain

    def drop_after(self, stage: int) -> None:
        """Remove all batches after a stage."""
        self._between("DELETE", stage + 1, STAGES - 1)

    def last(self) -> tuple[int, bytes] | None:
        """The key and the checksum of the last batch."""
        found = self._between("SELECT place, chain", 1, STAGES - 1, "ORDER BY place DESC LIMIT 1")
        return found[0] if found else None

    def _between(self, verb: str, first: int, last: int, order: str = "") -> list[Any]:
        """What a statement about the batches from one stage to another gives."""
        statement = f"{verb} FROM batches WHERE place BETWEEN ? AND ? {order}"
        return self._database.rows(statement, self.place(first), self.place(last))

    def chain(self, stage: int) -> bytes:
        """The checksum of the batch of a stage; for stage 0, the one before the first batch.

        Raises:
            StoreError: If the batch is missing.
        """
        if stage == 0:
            return self._database.checksum(self._stream)
        found = self._database.row("SELECT chain FROM batches WHERE place = ?", self.place(stage))
        if found is None:
            raise self._database.error(f"batch {stage} is missing; {WAY_OUT}")
        return found[0]

    def holds(self, stage: int, chain: bytes) -> bool:
        """Whether the batches up to a stage are those of a checksum."""
        select = "SELECT chain FROM batches WHERE place = ?"
        return stage == 0 or self._database.row(select, self.place(stage)) == (chain,)

    def where(self, condition: str, *values: Field) -> Iterator[tuple[int, Batch]]:
        """Stages and batches that meet an SQL condition, in order.

        Raises:
            StoreError: At the first batch that is damaged or missing.
        """
        if not self._database.rows(
            f"SELECT 1 FROM batches WHERE stream = ? AND {condition} LIMIT 1", self._stream, *values
        ):
            return
        # With the batches before them, by one statement: another process may write between two.
        rows = self._database.rows(
            f"WITH found AS MATERIALIZED "
            f"(SELECT place FROM batches WHERE stream = ? AND {condition}) "
            f"SELECT {_COLUMNS}, place IN found FROM batches "
            f"WHERE place IN found OR place IN (SELECT place - 1 FROM found) ORDER BY place",
            *(self._stream, *values),
        )
        before = (self.place(0), self.chain(0))
        for place, *fields, chain, meets in rows:
            if meets:
                stage = place - self.place(0)
                if before[0] != place - 1 or chain != chained(before[1], place, *fields):
                    raise self._damaged(stage)
                yield stage, Batch(*fields)
            before = (place, chain)

    def alarm_count(self) -> int:
        """The number of alarms, by the table, not the index, which must have as many.

        Raises:
            StoreError: If they do not agree.
        """
        first, last = self.place(1), self.place(STAGES - 1)
        stages, found, alarms, indexed = self._database.row(
            "SELECT (SELECT stage FROM heads WHERE stream = ?), count(*), count(alarm), (SELECT "
            "count(*) FROM batches INDEXED BY alarms WHERE stream = ? AND alarm IS NOT NULL) "
            "FROM batches NOT INDEXED WHERE place BETWEEN ? AND ?",
            *(self._stream, self._stream, first, last),
        )
        if found != stages or alarms != indexed:
            raise self._database.error(f"the index of alarms is damaged; {WAY_OUT}")
        return int(alarms)

    def read(self, first: int, last: int, commits: Field) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from stage `first` to stage `last`, read in chunks.

        Args:
            first: The first stage.
            last: The last stage.
            commits: How many transactions had changed the stream when the stages were asked for.

        Raises:
            StaleStateError: If a batch is not there, or not the one that followed those read so
                far, since another process has gone back in the stream.
            StoreError: At the first batch that is damaged or missing.
        """
        before = None
        for start in range(max(first, 1), last + 1, _CHUNK):
            stop = min(start + _CHUNK - 1, last)
            rows = self._between(f"SELECT {_COLUMNS}", start - 1, stop)
            found = {place: (fields, chain) for place, *fields, chain in rows}
            # The checksum that stands before the first batch has no row of its own.
            found[self.place(0)] = ([], self.chain(0))
            if before is None:
                _, before = found.get(self.place(start - 1), ([], None))
            for stage in range(start, stop + 1):
                place = self.place(stage)
                fields, chain = found.get(place, ([], None))
                if before is None or chain != chained(before, place, *fields):
                    if self._went_back(stage, commits):
                        raise StaleStateError
                    raise self._damaged(stage)
                yield stage, Batch(*fields)
                before = chain

    def _went_back(self, stage: int, commits: Field) -> bool:
        """Whether the stream has not come to a stage, or has changed since so many commits."""
        select = "SELECT stage, commits FROM heads WHERE stream = ?"
        last, now = self._database.row(select, self._stream) or (stage, commits)
        return now != commits or (isinstance(last, int) and last < stage)

    def _damaged(self, stage: int) -> StoreError:
        return self._database.error(f"batch {stage} is damaged or missing; {WAY_OUT}")


def next_chain(before: bytes, place: int, batch: Batch) -> bytes:
    """The checksum of a batch with a key, after the one with the checksum `before`."""
    return chained(before, place, *_fields(batch))


def chained(before: bytes, place: int, *fields: Field) -> bytes:
    """The same, of the fields of a row; without a context it is what earlier formats computed."""
    *others, context = fields or (None,)
    return digest(before, place, *(others if context is None else fields))

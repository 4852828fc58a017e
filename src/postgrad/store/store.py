"""The durable state of one stream: each batch and the state after it, in one transaction."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress

from postgrad.errors import StoreError
from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.batch_rows import BatchRows
from postgrad.store.database import Database
from postgrad.store.schema import STAGES
from postgrad.store.state_rows import DAMAGED, EVERY, StateRows
from postgrad.store.stored_state import Batch, Head, Saved
from postgrad.store.stream_list import add_stream, check_streams, find_stream

FixedArrays = tuple[str, bytes]
"""Header and bytes of the arrays that stages do not change."""


class Store:
    """One named stream in a database. All rows that are read are checked.

    Attributes:
        database: The database.
        layouts: The headers of stored arrays.
        settings: The settings that the stream was created with; None if it does not exist.
    """

    _stream: int
    _batches: BatchRows
    _states: StateRows

    def __init__(self, database: Database, name: str):
        """Find the stream.

        Args:
            database: The database.
            name: The name of the stream.

        Raises:
            StoreError: If the list of streams is damaged.
        """
        self.database, self._name = database, name
        self.layouts = ArrayHeaders(database)
        self.settings: str | None = None
        self._find()

    def _find(self) -> None:
        if (found := find_stream(self.database, self._name)) is not None:
            stream, self.settings = found
            self._attach(stream)

    def _attach(self, stream: int) -> None:
        self._stream = stream
        self._batches = BatchRows(self.database, stream)
        self._states = StateRows(self.database, stream, self.layouts)

    def create(self, settings: str, saved: Saved) -> str | None:
        """Create the stream.

        Returns:
            The settings that are there already, if another process was faster; else None.
        """
        with self.database.transaction(), self.database.reading() as connection:
            taken = connection.execute("SELECT 1 FROM streams WHERE name = ?", (self._name,))
            new = taken.fetchone() is None
            if new:
                stream = add_stream(self.database, connection, self._name, settings)
                self._attach(stream)
                head = Head(saved, 1, self._batches.start_of_chain())
                self._states.insert(connection, "heads", head)
                self.database.note(stream, 1)
        if new:
            self.settings = settings
            return None
        self._find()
        return self.settings

    def load(self) -> Head:
        """The latest state.

        Raises:
            StoreError: If it is damaged, or batches that were acknowledged are missing.
        """
        with self.database.reading() as connection:
            head = self._states.head(connection)
            stage, last = head.saved.stage, self._batches.last(connection)
            expected = (self._batches.place(stage), head.chain) if stage else None
            # Another process may have committed between the two statements: then the last batch is
            # of a later stage, and the state is no longer the latest.
            if last != expected and self._states.commits(connection) == head.commits:
                raise StoreError(f"the last batches are missing, or one {DAMAGED}")
        _, acknowledged = self.database.marked_commits.get(self._stream, (b"", 0))
        if acknowledged > head.commits:
            if not self.database.recover:
                raise StoreError(
                    f"{acknowledged - head.commits} acknowledged batches are missing: the "
                    f"database or its log was damaged or replaced; restore all of its files from "
                    f"a backup, or go on from the last good state with Agent(..., recover=True)"
                )
            head = self._replace(head.saved, head.chain, None)
        return head

    def is_current(self, head: Head) -> bool:
        """Whether no process has written to the stream since `head` was read."""
        with self.database.reading() as connection:
            return self._states.commits(connection) == head.commits

    def append(self, head: Head, batch: Batch, saved: Saved, stills: FixedArrays | None) -> Head:
        """Store a batch and the state after it, in one transaction.

        Args:
            head: The state before the batch.
            batch: The batch.
            saved: The state after the batch.
            stills: The arrays that stages do not change, if they were replaced.

        Raises:
            Stale: If another process has written since `head` was read; nothing was stored.
            StoreError: If the transaction failed; nothing was stored.
        """
        chain = self._batches.next_chain(head.chain, saved.stage, batch)
        new = Head(saved, head.commits + 1, chain)
        with self.database.transaction(), self.database.reading() as connection:
            self._states.update(connection, head, new)
            self._batches.insert(connection, saved.stage, batch, chain)
            if stills is not None:
                self._states.insert_fixed_arrays(connection, saved.stage, *stills)
            if saved.stage % EVERY == 0:
                self._states.insert(connection, "checkpoints", new)
                self._states.thin(connection, saved.stage)
            self.database.note(self._stream, new.commits)
        return new

    def rewind(self, head: Head, saved: Saved, stills: FixedArrays | None) -> Head:
        """Go back to an earlier state, in one transaction; later batches are removed.

        Raises:
            Stale: If another process has written since `head` was read; nothing was changed.
        """
        new = Head(saved, head.commits + 1, self._batches.chain(saved.stage))
        with self.database.transaction(), self.database.reading() as connection:
            self._states.update(connection, head, new)
            self._drop_after(connection, saved, stills)
            self.database.note(self._stream, new.commits)
        return new

    def rebuild(self, saved: Saved, stills: FixedArrays | None) -> Head:
        """Replace a damaged state by one computed anew; batches after it are removed."""
        return self._replace(saved, self._batches.chain(saved.stage), stills)

    def find(self, name: str) -> tuple[int, Batch] | None:
        """The stage and the batch of an id; None if there is no batch of that id.

        Raises:
            StoreError: If the batch, or the index of ids, is damaged.
        """
        for stage in self._batches.stages("id = ?", name):
            _, batch = next(self._batches.read(stage, stage))
            if batch.id != name:
                raise self.database.error(f"the index of ids at {name!r} {DAMAGED}")
            return stage, batch
        return None

    def batches(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from stage `first` to stage `last`, read as they are asked for.

        Raises:
            StoreError: At the first batch that is damaged or missing.
        """
        return self._batches.read(first, last)

    def alarms(self) -> list[tuple[int, str]]:
        """The stages and texts of all alarms.

        Raises:
            StoreError: If a batch with an alarm is damaged.
        """
        stages = self._batches.stages("alarm IS NOT NULL")
        found = [next(self._batches.read(stage, stage)) for stage in stages]
        return [(stage, batch.alarm) for stage, batch in found if batch.alarm is not None]

    def checkpoint(self, stage: int) -> Saved | None:
        """The last checkpoint up to a stage that is not damaged; None if there is none."""
        with self.database.reading() as connection:
            for row in self._states.checkpoints(connection, stage):
                with suppress(StoreError):
                    return self._states.checkpoint(connection, row)
        return None

    def stills(self, saved: Saved) -> FixedArrays | None:
        """The arrays that stages do not change, as of a state; None if they are the first.

        Raises:
            StoreError: If they are damaged or missing.
        """
        with self.database.reading() as connection:
            return self._states.fixed_arrays(connection, saved.still)

    def last_good(self, first: int) -> int:
        """The last stage up to which all batches after stage `first` can be read."""
        last = first
        with suppress(StoreError):
            for stage, _ in self.batches(first + 1, STAGES - 2):
                last = stage
        return last

    def verify(self, head: Head) -> None:
        """Read and check everything.

        Raises:
            StoreError: If anything is damaged or missing.
        """
        with self.database.reading() as connection:
            self.database.check_pages(connection)
            check_streams(self.database, connection)
            self.layouts.forget()
            for (number,) in connection.execute("SELECT number FROM array_headers").fetchall():
                self.layouts.header(connection, number)
            for row in self._states.checkpoints(connection, STAGES):
                self._states.checkpoint(connection, row)
        self.stills(head.saved)
        for _ in self.batches(1, head.saved.stage):
            pass

    def _replace(self, saved: Saved, chain: bytes, stills: FixedArrays | None) -> Head:
        """Write a state whatever is there, with a number above all acknowledged commits."""
        with self.database.transaction(), self.database.reading() as connection:
            stored = self._states.commits(connection)
            known = stored if isinstance(stored, int) and stored < STAGES else 0
            _, acknowledged = self.database.marked_commits.get(self._stream, (b"", 0))
            head = Head(saved, max(known, acknowledged) + 1, chain)
            self._drop_after(connection, saved, stills)
            self._states.insert(connection, "heads", head)
            self.database.note(self._stream, head.commits)
        return head

    def _drop_after(
        self, connection: sqlite3.Connection, saved: Saved, stills: FixedArrays | None
    ) -> None:
        """Remove what is later than a state, and store its fixed arrays."""
        self._batches.drop_after(connection, saved.stage)
        self._states.drop_after(connection, saved.stage)
        if stills is not None:
            self._states.insert_fixed_arrays(connection, saved.still, *stills)

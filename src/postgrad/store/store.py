"""The durable state of one stream: each batch and the state after it, in one transaction."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from postgrad.errors import StoreError
from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.batch_rows import BatchRows
from postgrad.store.changes.event_rows import EventRows
from postgrad.store.database import Database
from postgrad.store.schema import STAGES
from postgrad.store.state_rows import DAMAGED, EVERY, StateRows
from postgrad.store.stored_state import (
    Batch,
    Commit,
    Event,
    StaleStateError,
    StoredState,
    StreamHead,
)
from postgrad.store.stream_list import check_new_streams, check_streams, find_stream

FixedArrays = tuple[str, bytes]
"""Header and bytes of the arrays that stages do not change."""


class Store:
    """One named stream in a database. All rows that are read are checked.

    Attributes:
        database: The database.
        array_headers: The headers of stored arrays.
        settings: The settings that the stream was created with; None if it does not exist.
    """

    _stream: int
    _batches: BatchRows
    _states: StateRows
    _events: EventRows

    def __init__(self, database: Database, name: str):
        """Find the stream.

        Args:
            database: The database.
            name: The name of the stream.

        Raises:
            StoreError: If the list of streams is damaged.
        """
        self.database, self._name = database, name
        self.array_headers = ArrayHeaders(database)
        self.settings: str | None = None
        self._find()

    def _find(self) -> None:
        if (found := find_stream(self.database, self._name)) is not None:
            self._stream, self.settings = found
            self._batches = BatchRows(self.database, self._stream)
            self._states = StateRows(self.database, self._stream, self.array_headers)
            self._events = EventRows(self.database, self._stream)

    def create(self, settings: str, saved: StoredState) -> str | None:
        """Create the stream.

        Returns:
            The settings that are there already, if another process was faster; else None.
        """
        with self.database.transaction():
            new = find_stream(self.database, self._name) is None
            if new:
                number = check_new_streams(self.database) + 1
                self.database.insert("streams", number, self._name, settings)
                chain = BatchRows(self.database, number).chain(0)
                nothing, head = (StreamHead(saved, commits, chain, 0) for commits in (0, 1))
                StateRows(self.database, number, self.array_headers).insert("heads", head)
                self.database.note(Commit(number, nothing, head))
        self._find()
        return None if new else self.settings

    def load(self) -> StreamHead:
        """The latest state.

        Raises:
            StoreError: If it is damaged, or batches that were acknowledged are missing.
        """
        head = self._states.head()
        stage, last = head.saved.stage, self._batches.last()
        expected = (self._batches.place(stage), head.chain) if stage else None
        # Another process may have committed between the two statements: then the last batch is of a
        # later stage, and the state is no longer the latest.
        if last != expected and self.is_current(head):
            raise self.database.error(f"the last batches are missing, or one {DAMAGED}")
        mark = self.database.marked_commits.get(self._stream)
        if mark is not None and not mark.allows(head):
            if not self.database.recover:
                missing = mark.commits - head.commits
                what = (
                    f"{missing} acknowledged batches are" if missing else "an acknowledged batch is"
                )
                raise self.database.error(
                    f"{what} missing: the database or its log was damaged or replaced, or written "
                    f"by several that share no locks; restore all of its files from a backup, or "
                    f"go on from the last good state with Agent(..., recover=True)"
                )
            head = self.rebuild(head.saved, None)
        return head

    def is_current(self, head: StreamHead) -> bool:
        """Whether no process has written to the stream since `head` was read."""
        return self._states.commits() == head.commits

    def is_past(self, head: StreamHead) -> bool:
        """Whether a state is the latest, or one that no process has gone back from."""
        return self._batches.holds(head.saved.stage, head.chain) or self.is_current(head)

    def append(
        self,
        head: StreamHead,
        batch: Batch,
        saved: StoredState,
        fixed_arrays: FixedArrays | None,
        events: Sequence[Event] = (),
    ) -> StreamHead:
        """Store a batch and the state after it, in one transaction.

        Args:
            head: The state before the batch.
            batch: The batch.
            saved: The state after the batch.
            fixed_arrays: The arrays that stages do not change, if they were replaced.
            events: What happened before the batch; the state before it is kept as a checkpoint.

        Raises:
            StaleStateError: If another process has written since `head` was read;
                nothing was stored.
            StoreError: If the transaction failed. Nothing was stored then, unless it says that it
                may have been.
        """
        chain = self._batches.next_chain(head.chain, saved.stage, batch)
        new = StreamHead(saved, head.commits + 1, chain, head.events + len(events))
        with self.database.transaction():
            self._states.update(head, new)
            self._batches.insert(saved.stage, batch, chain)
            if events:
                self._insert_events(head, events)
            if fixed_arrays is not None:
                self._states.insert_fixed_arrays(saved.stage, *fixed_arrays)
            if saved.stage % EVERY == 0:
                self._states.insert("checkpoints", new)
                self._states.thin(saved.stage)
            self.database.note(Commit(self._stream, head, new, without_id=batch.id is None))
        return new

    def go_back(
        self,
        head: StreamHead,
        saved: StoredState,
        fixed_arrays: FixedArrays | None,
        events: Sequence[Event] = (),
    ) -> StreamHead:
        """Go back to an earlier state, in one transaction; later batches are removed.

        Args:
            head: The latest state.
            saved: The earlier state.
            fixed_arrays: The arrays that stages do not change, as of that state.
            events: What is to be on record about it.

        Raises:
            StaleStateError: If another process has written since `head` was read;
                nothing was changed.
        """
        chain = self._batches.chain(saved.stage)
        new = StreamHead(saved, head.commits + 1, chain, head.events + len(events))
        with self.database.transaction():
            self._states.update(head, new)
            self._drop_after(saved, fixed_arrays)
            if events:
                self._insert_events(new, events)
            self.database.note(Commit(self._stream, head, new))
        return new

    def amend(
        self,
        head: StreamHead,
        saved: StoredState,
        fixed_arrays: FixedArrays | None,
        event: Event,
        *,
        settings: str | None = None,
        corrected: tuple[int, Batch] | None = None,
    ) -> StreamHead:
        """Replace the latest state by another of the same stage, in one transaction, on record.

        Args:
            head: The latest state.
            saved: What replaces it; it is kept as a checkpoint too.
            fixed_arrays: The arrays that stages do not change, as of `saved`.
            event: Why.
            settings: The settings from now on, if they change.
            corrected: A stage and the batch that replaces the batch of that stage. Later
                checkpoints, which are of the wrong data, are removed.

        Raises:
            StaleStateError: If another process has written since `head` was read;
                nothing was changed.
        """
        with self.database.transaction():
            if not self.is_current(head):
                raise StaleStateError
            chain = head.chain
            if corrected is not None:
                stage, batch = corrected
                chain = self._batches.replace(stage, batch, saved.stage, head.commits)
                self._states.drop_after(stage - 1)
            new = StreamHead(saved, head.commits + 1, chain, head.events + 1)
            self._states.update(head, new)
            if settings is not None:
                self.database.insert("streams", self._stream, self._name, settings)
            if fixed_arrays is not None:
                self._states.insert_fixed_arrays(saved.fixed_since, *fixed_arrays)
            self._insert_events(new, [event])
            self.database.note(Commit(self._stream, head, new))
        if settings is not None:
            self.settings = settings
        return new

    def events(self, head: StreamHead | None) -> list[Event]:
        """All events up to a state, in the order in which they happened.

        Args:
            head: The latest state; None if it is damaged.

        Raises:
            StaleStateError: If another process has written since `head` was read.
            StoreError: If an event is damaged or missing.
        """
        try:
            return self._events.read(None if head is None else head.events)
        except StoreError:
            if head is None or self.is_current(head):
                raise
            raise StaleStateError from None

    def _insert_events(self, head: StreamHead, events: Sequence[Event]) -> None:
        """Insert events, and a state as the checkpoint that replays of later stages begin from."""
        for number, event in enumerate(events, start=self._events.count() + 1):
            self._events.insert(number, event)
        self._states.insert("checkpoints", head)

    def find(self, name: str) -> tuple[int, Batch] | None:
        """The stage and the batch of an id; None if there is no batch of that id.

        Raises:
            StoreError: If the batch, or the index of ids, is damaged.
        """
        for stage, batch in self._batches.where("id = ?", name):
            self.database.check_file()
            if batch.id != name:
                raise self.database.error(f"the index of ids at {name!r} {DAMAGED}")
            return stage, batch
        return None

    def batches(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from stage `first` to stage `last`, read as they are asked for.

        Raises:
            StaleStateError: If another process has gone back in the stream since this was called,
                or before the last of these stages.
            StoreError: At the first batch that is damaged or missing.
        """
        return self._batches.read(first, last, self._states.commits())

    def alarms(self) -> list[tuple[int, str]]:
        """The stages and texts of all alarms.

        Raises:
            StoreError: If a batch with an alarm is damaged.
        """
        found = self._batches.where("alarm IS NOT NULL")
        return [(stage, batch.alarm) for stage, batch in found if batch.alarm is not None]

    def latest(self) -> tuple[StreamHead, FixedArrays | None]:
        """The latest state, and the arrays that stages do not change.

        Raises:
            StoreError: If they are damaged, or batches that were acknowledged are missing.
        """
        while True:
            head = self.load()
            try:
                return head, self.fixed_arrays(head.saved)
            except StoreError:  # another process may have replaced them meanwhile
                if self.is_current(head):
                    raise

    def checkpoint(self, stage: int) -> StoredState | None:
        """The last checkpoint up to a stage that is not damaged; None if there is none."""
        for row in self._states.checkpoints(stage):
            with suppress(StoreError):
                return self._states.checkpoint(row)
        return None

    def fixed_arrays(self, saved: StoredState) -> FixedArrays | None:
        """The arrays that stages do not change, as of a state; None if they are the first.

        Raises:
            StoreError: If they are damaged or missing.
        """
        return self._states.fixed_arrays(saved.fixed_since)

    def last_good(self, first: int) -> int:
        """The last stage up to which all batches after stage `first` can be read."""
        last = first
        with suppress(StoreError, StaleStateError):
            for stage, _ in self.batches(first + 1, STAGES - 2):
                last = stage
        return last

    def verify(self, head: StreamHead) -> None:
        """Read and check everything, as of one moment.

        Raises:
            StaleStateError: If another process has written since `head` was read.
            StoreError: If anything is damaged or missing.
        """
        self.database.check_pages()
        with self.database.snapshot():
            if not self.is_current(head):
                raise StaleStateError
            check_streams(self.database)
            self.array_headers.forget()
            for (number,) in self.database.rows("SELECT number FROM array_headers"):
                self.array_headers.header(number)
            for row in self._states.checkpoints(STAGES):
                self._states.checkpoint(row)
            self.fixed_arrays(head.saved)
            self._events.read(head.events)
            for _ in self.batches(1, head.saved.stage):
                pass

    def rebuild(self, saved: StoredState, fixed_arrays: FixedArrays | None) -> StreamHead:
        """Replace a damaged state by one computed anew; batches after it are removed.

        The number of the commit is above that of all acknowledged commits.
        """
        with self.database.transaction():
            stored = self._states.commits()
            known = stored if isinstance(stored, int) and stored < STAGES else 0
            mark = self.database.marked_commits.get(self._stream)
            acknowledged = 0 if mark is None else mark.commits
            chain = self._batches.chain(saved.stage)
            events = self._events.count()
            head = StreamHead(saved, max(known, acknowledged) + 1, chain, events)
            self._drop_after(saved, fixed_arrays)
            self._states.insert("heads", head)
            self.database.note(Commit(self._stream, None, head))
        return head

    def _drop_after(self, saved: StoredState, fixed_arrays: FixedArrays | None) -> None:
        """Remove what is later than a state, and store its fixed arrays."""
        self._batches.drop_after(saved.stage)
        self._states.drop_after(saved.stage)
        if fixed_arrays is not None:
            self._states.insert_fixed_arrays(saved.fixed_since, *fixed_arrays)

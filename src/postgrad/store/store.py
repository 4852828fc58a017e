"""The durable state of one stream: each batch and the state after it, in one transaction."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from postgrad.errors import StoreError
from postgrad.store.array_headers import ArrayHeaders
from postgrad.store.batch_rows import BatchRows
from postgrad.store.changes.event_rows import EventRows
from postgrad.store.changes.issue_rows import IssueRows
from postgrad.store.changes.issuing import IssuedDecisions
from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.opening.page_checks import check_pages, check_pages_once
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


class Store(IssuedDecisions):
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
    _issues: IssueRows

    def __init__(self, database: Database, name: str):
        """Find the stream.

        If a transaction is open and comes to nothing, the stream must be found again: it may not
        be there, and its number be that of another one.

        Args:
            database: The database.
            name: The name of the stream.

        Raises:
            StoreError: If the list of streams is damaged.
        """
        self.database, self._name = database, name
        self.array_headers = ArrayHeaders(database)
        self.settings: str | None = None
        if database.in_transaction:
            database.on_undo(self._undone)
        self._find()

    def _undone(self) -> None:
        undone: Any = _Undone(self.database)
        self._batches = self._states = self._events = self._issues = undone

    def _find(self) -> None:
        if (found := find_stream(self.database, self._name)) is not None:
            self._stream, self.settings = found
            self._batches = BatchRows(self.database, self._stream)
            self._states = StateRows(self.database, self._stream, self.array_headers)
            self._events = EventRows(self.database, self._stream)
            self._issues = IssueRows(self.database, self._stream)

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
                nothing, head = (StreamHead(saved, commits, chain, 0, 0) for commits in (0, 1))
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
            missing = mark.commits - head.commits
            many = f"{missing} acknowledged batches or issued decisions are"
            what = many if missing else "an acknowledged batch is"
            raise self.database.error(
                f"{what} missing: the database or its log was damaged or replaced, or written by "
                f"several that share no locks; {WAY_OUT}"
            )
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
        new = _next(head, saved, chain, len(events))
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
        new = _next(head, saved, chain, len(events))
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
            new = _next(head, saved, chain, 1)
            self._states.update(head, new)
            if settings is not None:
                self._set_settings(settings)
            if fixed_arrays is not None:
                self._states.insert_fixed_arrays(saved.fixed_since, *fixed_arrays)
            self._insert_events(new, [event])
            self.database.note(Commit(self._stream, head, new))
        return new

    def annotate(self, settings: str) -> None:
        """Replace the settings by others that say more; not if another process has changed them."""
        with self.database.transaction():
            found = find_stream(self.database, self._name)
            if found is not None and found[1] == self.settings:
                self._set_settings(settings)

    def _set_settings(self, settings: str) -> None:
        self.database.insert("streams", self._stream, self._name, settings)
        self.database.on_undo(functools.partial(setattr, self, "settings", self.settings))
        self.settings = settings

    def events(self, head: StreamHead) -> list[Event]:
        """All events up to a state, in the order in which they happened.

        Args:
            head: The latest state.

        Raises:
            StaleStateError: If another process has written since `head` was read.
            StoreError: If an event is damaged or missing.
        """
        try:
            return self._events.read(head.events)
        except StoreError:
            if self.is_current(head):
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
        check_pages_once(self.database)
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
        unchecked = "batches" not in self.database.checked
        count = self._batches.alarm_count() if unchecked else None
        found = [(stage, batch.alarm) for stage, batch in self._batches.where("alarm IS NOT NULL")]
        alarms = [(stage, alarm) for stage, alarm in found if alarm is not None]
        # Another process may have written meanwhile: then there may be more of them.
        if len(alarms) < len(found) or (count is not None and len(alarms) < count):
            raise self.database.error(f"the index of alarms {DAMAGED}")
        return alarms

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

    def verify(self, head: StreamHead, *, pages: bool = True) -> None:
        """Read and check everything, as of one moment.

        Args:
            head: The latest state.
            pages: Whether to read the pages of other streams too, and the list of streams.

        Raises:
            StaleStateError: If another process has written since `head` was read.
            StoreError: If anything is damaged or missing.
        """
        if pages:
            check_pages(self.database)
        with self.database.snapshot():
            if not self.is_current(head):
                raise StaleStateError
            if pages:
                check_streams(self.database)
            self.array_headers.forget()
            for (number,) in self.database.rows("SELECT number FROM array_headers"):
                self.array_headers.header(number)
            for row in self._states.checkpoints(STAGES):
                self._states.checkpoint(row)
            self.fixed_arrays(head.saved)
            self._events.read(head.events)
            self._issues.verify(head.issued)
            for _ in self.batches(1, head.saved.stage):
                pass

    def _drop_after(self, saved: StoredState, fixed_arrays: FixedArrays | None) -> None:
        """Remove what is later than a state, and store its fixed arrays."""
        self._batches.drop_after(saved.stage)
        self._states.drop_after(saved.stage)
        if fixed_arrays is not None:
            self._states.insert_fixed_arrays(saved.fixed_since, *fixed_arrays)


def _next(head: StreamHead, saved: StoredState, chain: bytes, events: int) -> StreamHead:
    """What comes after a state, with so many more events."""
    return StreamHead(saved, head.commits + 1, chain, head.events + events, head.issued)


class _Undone:
    """Stands for the rows of a stream that was found in a transaction that came to nothing."""

    def __init__(self, database: Database):
        self._database = database

    def __getattr__(self, name: str) -> NoReturn:
        raise self._database.error(
            "the transaction in which this agent was made has come to nothing; make it again"
        )

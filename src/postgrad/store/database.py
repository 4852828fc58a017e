"""One SQLite database: opened and checked, with transactions, and errors that say what to do."""

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from postgrad.errors import PostgradError, StoreError
from postgrad.store import schema
from postgrad.store.checksum import Field, digest
from postgrad.store.commit_marker import CommitMarker
from postgrad.store.guards import left_log
from postgrad.store.guards.forks import close_at_forks
from postgrad.store.guards.long_log import LogWatch
from postgrad.store.guards.opened_file import OpenedFile, wrong_before_opening
from postgrad.store.guards.sqlite_errors import (
    NEVER_WRITTEN,
    STILL_IN_DOUBT,
    advice,
    code,
    doubt,
)
from postgrad.store.guards.task_lock import TaskLock
from postgrad.store.opening import connecting
from postgrad.store.opening.open_checked import open_checked
from postgrad.store.opening.page_checks import check_pages_once
from postgrad.store.stored_state import Commit


class Database(AbstractContextManager["Database"]):
    """A file of streams, or streams in memory. Agents may share a database.

        with pg.Database("orders.db") as database:
            milk = pg.Agent(problem, belief, 15.0, path=database, name="milk")
            bread = pg.Agent(problem, belief, 15.0, path=database, name="bread")
            with database.transaction():
                milk.observe(14.2, id="monday")
                bread.observe(31.0, id="monday")

    Attributes:
        path: The file; None for memory.
        lock: Held while the connection is used: by one thread, and one task in it, at a time.
        identity: A random number that tells this database from others.
        commit_marker: The file that marks the last commit of each stream; None for memory.
        marked_commits: What that file held before the database was read, by stream.
        checked: Tables whose indices have been compared with them.
        streams_checked: How many entries of the list of streams this connection has checked.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        """Open or create the database, and check it.

        A file that exists is opened for reading, also where it cannot be written to. Until
        something is written no byte of the file, its log and its commit marker changes.

        Args:
            path: The file; in memory, if not given.

        Raises:
            StoreError: If the file is damaged, of another format, no store of postgrad, or has
                another name.
        """
        # SQLite follows links; the commit marker must lie beside the same file.
        self.path = None if path is None else os.path.realpath(os.fspath(path))
        self._name = "the agent's memory" if self.path is None else self.path
        self._closed, self._writing = False, self.path is None
        self.checked: set[str] = set(schema.TABLES if self.path is None else ())
        self.lock = TaskLock()
        self.commit_marker = None if self.path is None else CommitMarker(self.path)
        self._log_watch = None if self.path is None else LogWatch(self.path)
        self._connection: sqlite3.Connection | None = None
        self._opened: OpenedFile | None = None
        self._standing: connecting.Standing | None = None
        self._doubtful = self._refused = False
        self._depth, self.streams_checked, self.identity = 0, 0, b""
        self._undos: list[Callable[[], None]] = []
        self._commits: list[Commit] = []
        try:
            if self.path is not None and (wrong := wrong_before_opening(self.path)) is not None:
                raise StoreError(wrong)
            # Read before the database: another process may commit, and mark it, at any time.
            self.marked_commits = {} if self.commit_marker is None else self.commit_marker.read()
            open_checked(self)
            if self.path is not None and self._standing is None:
                self._opened = OpenedFile(self.path)
        except BaseException as error:
            self.close()
            self._explain(error)
            raise
        close_at_forks(self)

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else repr(self.path)
        if self._closed or self._refused:
            return f"Database({place}, {'closed' if self._closed else 'to be reopened'})"
        names = self.streams()
        shown = ", ".join([*map(repr, names[:5]), *["..."] * (len(names) > 5)])
        (count,) = self.row("SELECT coalesce(sum(stage), 0) FROM heads")
        return f"Database({place}, {len(names)} streams: [{shown}], {count} batches)"

    def __exit__(self, *_: object) -> None:
        self.close()

    def streams(self) -> list[str]:
        """The names of the streams, in the order in which they were created."""
        return [name for (name,) in self.rows("SELECT name FROM streams ORDER BY stream")]

    def error(self, what: str) -> StoreError:
        """An error that names the file."""
        return StoreError(f"{self._name}: {what}")

    def checksum(self, *fields: Field) -> bytes:
        """A checksum of fields that holds in this database alone."""
        return digest(self.identity, *fields)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Errors about stored values that postgrad never writes become `StoreError`s.

        Such values pass the checksums if whoever wrote them computed these as well.
        """
        try:
            yield
        except PostgradError as error:
            self._explain(error)
            raise
        except NEVER_WRITTEN as error:
            what = f"{type(error).__name__}: {error}"
            raise self.error(f"it holds what postgrad never writes ({what:.200})") from error

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; opened again after a fork, and cleared of doubt."""
        if self._refused and not self._closed:
            raise self.error(STILL_IN_DOUBT)
        if self._standing is not None and self._standing.changed():
            self._disconnect()
        if self._connection is None:
            if self._closed:
                raise StoreError("the agent was closed; make a new one to go on")
            self._connect()
        assert self._connection is not None
        if self._doubtful and not self._connection.in_transaction:
            self._overwrite_doubtful(self._connection)
        return self._connection

    def rows(self, statement: str, *values: Field) -> list[Any]:
        """All rows that an SQL statement gives; errors of SQLite become `StoreError`s."""
        with self.lock:
            try:
                return self.connection.execute(statement, values).fetchall()
            except Exception as error:
                self._explain(error)
                raise

    def row(self, statement: str, *values: Field) -> Any:
        """The first row that an SQL statement gives; None if it gives none."""
        return next(iter(self.rows(statement, *values)), None)

    def insert(self, table: str, *row: Field) -> None:
        """Insert or replace a row, followed by its checksum."""
        marks = "?, " * len(row) + "?"
        self.rows(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *row, self.checksum(*row))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is observed in the block is committed at its end, or none of it.

        One commit of many batches takes little longer than that of one. Before the end nothing is
        durable, and other processes wait before they write, so that blocks should be short. If the
        block raises, agents are as they were before it. Transactions nest: an inner one that raises
        undoes its own part.

        Raises:
            StoreError: If the commit failed. Nothing of the block counts then, unless it says that
                it may.
        """
        with self.lock:
            whole, undos, commits = self._depth == 0, len(self._undos), len(self._commits)
            if not whole and not self.connection.in_transaction:
                raise self.error("the transaction was broken off; nothing of it counts")
            if whole:
                self.prepare_to_write()
                self.check_file()
            self.rows("BEGIN IMMEDIATE" if whole else "SAVEPOINT part")
            try:
                self._depth += 1
                try:
                    yield  # errors raised here are the caller's, and pass unchanged
                finally:
                    self._depth -= 1
                if whole:
                    self._commit()
                else:
                    self.rows("RELEASE part")
            except BaseException:
                self._undo(["ROLLBACK"] if whole else ["ROLLBACK TO part", "RELEASE part"])
                while len(self._undos) > undos:
                    self._undos.pop()()
                del self._commits[commits:]
                raise
            if whole:
                self._undos.clear()
                self._mark_commits()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read in the block is of one moment, whatever other processes write."""
        with self.lock:
            whole = not self.connection.in_transaction
            if whole:
                self.rows("BEGIN")
            try:
                yield
            finally:
                if whole:
                    self._undo(["ROLLBACK"])

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._depth > 0

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the open transaction is rolled back."""
        self._undos.append(undo)

    def note(self, commit: Commit) -> None:
        """Mark a stream's commit once the open transaction has been committed."""
        self._commits.append(commit)

    def _commit(self) -> None:
        """Commit the open transaction.

        If SQLite fails, what it wrote may be in the log as a whole, and count after a restart.

        Raises:
            StoreError: If the commit failed, or another writer shares no locks with this one.
        """
        if self.commit_marker is not None:
            wrong = self.commit_marker.is_ahead(self.identity, self._commits)
            if wrong is not None:
                raise self.error(wrong)
        try:
            self.connection.execute("COMMIT")
        except (sqlite3.Error, MemoryError) as error:
            if self.path is None or code(error) in ("SQLITE_BUSY", "SQLITE_ERROR"):
                self._explain(error)
                raise
            self._doubtful = True
            without_id = any(commit.without_id for commit in self._commits)
            raise self.error(doubt(error, without_id)) from error
        self.check_file()  # else what was committed may be in a log that was deleted

    def _overwrite_doubtful(self, connection: sqlite3.Connection) -> None:
        """Overwrite what a failed commit has left in the log.

        The connection must be the one that failed: a new one would read the log anew, and take up
        pages that may never have reached the disk.

        Raises:
            StoreError: If that fails too. Everything is refused from then on, unless it was another
                process that kept the file locked.
        """
        try:
            schema.write_nothing_new(connection)
        except BaseException as error:
            self._undo(["ROLLBACK"])
            if code(error) == "SQLITE_BUSY" or not isinstance(error, Exception):
                self._explain(error)
                raise
            self._refused = True
            raise self.error(STILL_IN_DOUBT) from error
        self._doubtful = False

    def check_file(self) -> None:
        """Raise a `StoreError` if the file and its log are not those that were opened."""
        if self._opened is not None and (wrong := self._opened.wrong()) is not None:
            raise self.error(wrong)

    def _mark_commits(self) -> None:
        """Write the commit marker. Failure is ignored: a marker that is behind does no harm."""
        if self.commit_marker is not None and self._commits:
            with suppress(OSError):
                self.commit_marker.write(self.identity, self._commits)
        self._commits.clear()
        if self._log_watch is not None and self._connection is not None:
            self._log_watch.look(self._connection)

    def close(self) -> None:
        """Close the connection; if it has written, SQLite then copies its log into the database."""
        with self.lock:
            reader = self._opened is not None and not self._writing
            self._closed = True
            self._disconnect()
            if reader and self.path is not None:
                connecting.remove_empty_log(self.path)

    def before_fork(self) -> None:
        """Close the connection to a file, and let nobody open it again before `after_fork`."""
        self.lock.threads.acquire()
        if self.path is not None:
            self._disconnect()

    def after_fork(self) -> None:
        """Go on, in the parent and in the child."""
        self.lock.threads.release()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._dropped.detach()
            self._connection.close()
            self._connection, self._opened, self._standing = None, None, None
            self._refused = self._refused or self._doubtful

    def _undo(self, statements: list[str]) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                for statement in statements:
                    connection.execute(statement)
        except sqlite3.Error:  # a new connection starts from what was committed
            self._disconnect()

    def _explain(self, error: BaseException) -> None:
        """Raise a `StoreError` that names the file, if the error is about the file."""
        if (text := advice(error, connecting.PATIENCE_S)) is not None:
            raise self.error(text) from error
        if isinstance(error, StoreError) and not str(error).startswith(self._name):
            raise self.error(str(error)) from error

    def _connect(self) -> None:
        if self.path is None:
            self._connection = connecting.in_memory()
        elif self._writing:
            self._connection = connecting.for_writing(self.path)
        else:
            self._connection, self._standing = connecting.for_reading(self.path)
        # Python's connections refer to themselves: left alone, they keep their files open.
        self._dropped = weakref.finalize(self, self._connection.close)
        self._dropped.atexit = False
        if self.path is not None and self._standing is None and self.identity:
            schema.is_empty(self._connection)  # whoever has read something has the log open
            self._opened = OpenedFile(self.path)

    def prepare_to_write(self) -> None:
        """Connect for writing; before that, no byte of the file and its log has changed.

        Large files are read from end to end before: SQLite would write over what is good if its
        list of free pages is damaged, and a batch that an index does not find would count twice.

        Raises:
            StoreError: If the file cannot be written to, or is damaged.
        """
        with self.lock:
            if self._writing or self.path is None:
                return
            if not self.identity and self._connection is None:  # it is not open yet
                self._writing = True
                return
            reader = self.connection
            if self._standing is not None or not connecting.is_writable(self.path):
                raise self.error(
                    "it cannot be written to; check the permissions of file and folder"
                )
            self.check_file()
            if (wrong := wrong_before_opening(self.path)) is not None:
                raise self.error(wrong)
            if self.identity:
                check_pages_once(self)  # nothing is built on damage
            # The reader is closed last: as long as it is open, nobody deletes the log.
            self._dropped.detach()
            self._connection, self._writing = None, True
            try:
                (mode,) = self.row("PRAGMA journal_mode = WAL")
                if mode != "wal":
                    raise self.error(f"its folder does not allow a write-ahead log (got {mode!r})")
                if left_log.is_left(self.path):
                    left_log.write_again(self.connection, self.path, connecting.PATIENCE_S)
                self._opened = OpenedFile(self.path)
            except BaseException as error:
                self._disconnect()
                self._writing = False
                self._explain(error)
                raise
            finally:
                reader.close()

"""One SQLite database: opened and checked, with transactions, and errors that say what to do."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from postgrad.errors import PostgradError, StoreError
from postgrad.store import schema
from postgrad.store.checksum import Field, digest
from postgrad.store.commit_marker import CommitMarker

# The longest wait for another process that is writing.
PATIENCE_S = 10.0
# Larger files (in bytes) are not read from end to end when they are opened.
SMALL = 64 << 20
# Pages in SQLite's log before they are copied into the database. Many, since every batch changes
# the same few pages, which are then copied less often.
_LOG_PAGES = 2000

# What comes of values of other types, lengths or depths than those that are written.
_NEVER_WRITTEN = (
    ArithmeticError, AttributeError, LookupError,
    RecursionError, SyntaxError, TypeError, ValueError,
)  # fmt: skip

_ADVICE = {
    "SQLITE_BUSY": "another process has kept it locked for {patience:g} s; try again, or end it",
    "SQLITE_LOCKED": "another process keeps it locked; try again, or end it",
    "SQLITE_FULL": "the disk is full; nothing of this batch counts: make room and observe it again",
    "SQLITE_READONLY": "it cannot be written to; check the permissions of file and folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check that the folder exists and may be written to",
    "SQLITE_NOTADB": "it is no SQLite database, or its first bytes are damaged; restore a backup",
    "SQLITE_CORRUPT": "it is damaged; restore a backup, or try Agent(..., recover=True)",
    "SQLITE_IOERR": "the disk failed or is full; nothing of this batch counts: observe it again",
}


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
        recover: Whether to go on from the last good state if the file is damaged.
        lock: Held while the connection is used: by one thread at a time.
        identity: A random number that tells this database from others.
        commit_marker: The file that holds the last commit of each stream; None for memory.
        marked_commits: What that file held before the database was read, by stream.
        streams_checked: How many entries of the list of streams this connection has checked.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, recover: bool = False):
        """Open or create the database, and check it.

        Args:
            path: The file; in memory, if not given.
            recover: Whether to go on from the last good state if the file is damaged.

        Raises:
            StoreError: If the file is damaged, of another format, or no store of postgrad.
        """
        # SQLite follows links; the commit marker must lie beside the same file.
        self.path = None if path is None else os.path.realpath(os.fspath(path))
        self._name = "the agent's memory" if self.path is None else self.path
        self.recover, self._closed = recover, False
        self.lock = threading.RLock()
        self.commit_marker = None if self.path is None else CommitMarker(self.path)
        self._connection: sqlite3.Connection | None = None
        self._depth = self.streams_checked = 0
        self._undos: list[Callable[[], None]] = []
        self._commits: list[tuple[int, int]] = []
        try:
            # Read before the database: another process may commit, and mark it, at any time.
            self.marked_commits = {} if self.commit_marker is None else self.commit_marker.read()
            self._prepare()
        except BaseException as error:
            self.close()
            self._explain(error)
            raise
        _open.add(self)

    def __repr__(self) -> str:
        place = "in memory" if self.path is None else repr(self.path)
        if self._closed:
            return f"Database({place}, closed)"
        names = self.streams()
        shown = ", ".join(map(repr, names[:5])) + (", ..." if len(names) > 5 else "")
        (count,) = self.row("SELECT coalesce(sum(stage), 0) FROM heads")
        return f"Database({place}, {len(names)} streams: [{shown}], {count} batches)"

    def __exit__(self, *_: object) -> None:
        self.close()

    def streams(self) -> list[str]:
        """The names of the streams, in the order in which they were created.

        Raises:
            StoreError: If the file cannot be read.
        """
        return [name for (name,) in self.rows("SELECT name FROM streams ORDER BY stream")]

    def stream_of_batch(self, batch: str, streams: Sequence[str]) -> str | None:
        """The first of some streams that has a batch of that id; None if no stream has.

        Raises:
            StoreError: If the file cannot be read.
        """
        marks = ", ".join("?" * len(streams))
        found = self.row(
            f"SELECT name FROM streams WHERE name IN ({marks}) AND EXISTS "
            f"(SELECT 1 FROM batches WHERE batches.stream = streams.stream AND id = ?)",
            *(*streams, batch),
        )
        return None if found is None else found[0]

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
        except _NEVER_WRITTEN as error:
            what = f"{type(error).__name__}: {error}"
            raise self.error(f"it holds what postgrad never writes ({what:.200})") from error

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; opened again after a fork."""
        if self._connection is None:
            if self._closed:
                raise StoreError("the agent was closed; make a new one to go on")
            self._connection = self._connect()
            # Python's connections refer to themselves: left alone, they keep their files open.
            self._dropped = weakref.finalize(self, self._connection.close)
            self._dropped.atexit = False
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
        marks = ", ".join("?" * (len(row) + 1))
        self.rows(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", *row, self.checksum(*row))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is observed in the block is committed at its end, or none of it.

        One commit of many batches takes little longer than that of one. Before the end nothing is
        durable, and other processes wait before they write, so that blocks should be short. If the
        block raises, agents are as they were before it. Transactions nest: an inner one that raises
        undoes its own part.

        Raises:
            StoreError: If the commit failed; nothing of the block counts then.
        """
        with self.lock:
            whole, undos, commits = self._depth == 0, len(self._undos), len(self._commits)
            if not whole and not self.connection.in_transaction:
                raise self.error("the transaction was broken off; nothing of it counts")
            self.rows("BEGIN IMMEDIATE" if whole else "SAVEPOINT part")
            try:
                self._depth += 1
                try:
                    yield  # errors raised here are the caller's, and pass unchanged
                finally:
                    self._depth -= 1
                self.rows("COMMIT" if whole else "RELEASE part")
            except BaseException:
                self._undo(["ROLLBACK"] if whole else ["ROLLBACK TO part", "RELEASE part"])
                while len(self._undos) > undos:
                    self._undos.pop()()
                del self._commits[commits:]
                raise
            if whole:
                self._undos.clear()
                self._mark_commits()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._depth > 0

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the open transaction is rolled back."""
        self._undos.append(undo)

    def note(self, stream: int, commits: int) -> None:
        """Mark the number of a stream's commit once the open transaction has been committed."""
        self._commits.append((stream, commits))

    def _mark_commits(self) -> None:
        """Write the commit marker. Failure is ignored: a marker that is behind does no harm."""
        if self.commit_marker is not None and self._commits:
            with suppress(OSError):
                self.commit_marker.write(self.identity, dict(self._commits))
        self._commits.clear()

    def clear_commit_marker(self) -> None:
        """Give up acknowledged commits that are missing from the database."""
        if self.commit_marker is not None:
            self.commit_marker.clear()
        self.marked_commits = {}

    def close(self) -> None:
        """Close the connection; SQLite then copies its log into the database."""
        with self.lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._dropped.detach()
            self._connection.close()
            self._connection = None

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
        if isinstance(error, sqlite3.Error):
            advice = _ADVICE.get(_code(error), "SQLite failed; restore a backup if it fails again")
            raise self.error(f"{advice.format(patience=PATIENCE_S)} ({error})") from error
        if isinstance(error, UnicodeDecodeError):  # damaged text, quoted in SQLite's own message
            raise self.error(_ADVICE["SQLITE_CORRUPT"]) from error
        if isinstance(error, OSError):
            raise self.error(f"{error}; check the disk and the folder") from error
        if isinstance(error, StoreError) and not str(error).startswith(self._name):
            raise self.error(str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            ":memory:" if self.path is None else self.path,
            isolation_level=None,
            check_same_thread=False,
            timeout=PATIENCE_S,
        )
        connection.execute("PRAGMA temp_store = MEMORY")
        if self.path is not None:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        return connection

    def _prepare(self) -> None:
        if schema.is_empty(self.connection):
            self._create()
        schema.check(self.connection)
        if self.path is not None:
            (mode,) = self.row("PRAGMA journal_mode = WAL")
            if mode != "wal":
                raise StoreError(f"its folder does not allow a write-ahead log (got {mode!r})")
            if os.path.getsize(self.path) <= SMALL:
                self.check_pages()
        found = self.row("SELECT identity, checksum FROM store")
        self.identity: bytes
        self.identity, checksum = found or (b"", b"")
        if checksum != self.checksum() or not isinstance(self.identity, bytes):
            raise StoreError("the store's identity is damaged; restore a backup")
        if any(identity != self.identity for identity, _ in self.marked_commits.values()):
            self._commits_missing("is of another store")

    def _create(self) -> None:
        if self.marked_commits:
            self._commits_missing("has commits, but the database is empty")
        if self.path is not None:
            self.rows("PRAGMA journal_mode = WAL")
        with self.transaction():
            if schema.is_empty(self.connection):  # else another process was faster
                schema.create(self.connection, os.urandom(16))

    def _commits_missing(self, why: str) -> None:
        if not self.recover:
            raise StoreError(
                f"{self.path}-acknowledged {why}: acknowledged batches are missing; restore both "
                f"files from a backup, or go on without them with Agent(..., recover=True)"
            )
        self.clear_commit_marker()

    def check_pages(self) -> None:
        """Read the whole database, and check that tables and indices agree.

        Raises:
            StoreError: If the database is damaged.
        """
        wrong = self._wrong_pages()
        if wrong and self.recover:
            self.rows("REINDEX")
            wrong = self._wrong_pages()
        if wrong:
            raise self.error(f"it is damaged ({wrong}); restore a backup")

    def _wrong_pages(self) -> str:
        try:
            (found,) = self.connection.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.DatabaseError as error:
            if _code(error) == "SQLITE_BUSY":
                self._explain(error)
            return str(error)
        return "" if found == "ok" else str(found).replace("\n", " ")


def _code(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    return "_".join(name.split("_")[:2])


# A connection must not be used on both sides of a fork, since locks belong to a process; nor can it
# be closed in the child alone. So all are closed before the fork, and opened again when used.
_open: "weakref.WeakSet[Database]" = weakref.WeakSet()
_held: list[Database] = []


def _before_fork() -> None:
    for database in list(_open):
        database.lock.acquire()
        _held.append(database)
        if database.path is not None:
            database._disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)

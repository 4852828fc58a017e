"""One SQLite database, opened with care: what is wrong with it is said in words."""

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

from postgrad.errors import StoreError
from postgrad.store import schema
from postgrad.store.checksum import digest
from postgrad.store.commit_marker import Witness

# How long to wait for another process that is writing.
PATIENCE_S = 10.0
# Larger files are not read from end to end when they are opened.
SMALL = 64 << 20
# Pages in the log before they are copied into the database. More of them are copied less often, as
# the same few pages change with every batch.
_LOG_PAGES = 2000

_ADVICE = {
    "SQLITE_BUSY": "another process has kept it locked for {patience:g} s; try again, or end it",
    "SQLITE_LOCKED": "another process keeps it locked; try again, or end it",
    "SQLITE_FULL": "the disk is full; nothing of this batch counts: make room and deliver it again",
    "SQLITE_READONLY": "it cannot be written to; see to the permissions of file and folder",
    "SQLITE_CANTOPEN": "it cannot be opened; see whether the folder exists and may be written to",
    "SQLITE_NOTADB": "it is no SQLite database, or its first bytes are damaged; restore a backup",
    "SQLITE_CORRUPT": "it is damaged; restore a backup, or try Agent(..., recover=True)",
    "SQLITE_IOERR": "the disk failed or is full; nothing of this batch counts: deliver it again",
}


class Database:
    """A file of streams, or a memory of them. Agents may share one.

        with pg.Database("orders.db") as database:
            milk = pg.Agent(problem, belief, 15.0, path=database, name="milk")
            bread = pg.Agent(problem, belief, 15.0, path=database, name="bread")
            with database.transaction():
                milk.observe(14.2, id="monday")
                bread.observe(31.0, id="monday")

    Attributes:
        path: The file; None for memory.
        recover: Whether to go on from the last good state if something is damaged.
        lock: Held by whoever uses it: one thread at a time.
        identity: A random number that tells this database from others.
        witness: What was acknowledged; None for memory.
        testimony: What the witness said before the database was read.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, recover: bool = False):
        """Opens or makes the database, and checks it.

        Args:
            path: The file; in memory, if not given.
            recover: Whether to go on from the last good state if something is damaged.

        Raises:
            StoreError: If it is damaged, of a newer format, or something else altogether.
        """
        # SQLite follows links; the witness must lie beside the same file.
        self.path = None if path is None else os.path.realpath(os.fspath(path))
        self.recover, self._closed = recover, False
        self.lock = threading.RLock()
        self.witness = None if self.path is None else Witness(self.path)
        self._connection: sqlite3.Connection | None = None
        self._depth = 0
        self._undos: list[Callable[[], None]] = []
        self._commits: list[tuple[int, int]] = []
        try:
            # Read before the database: what is noted later may be of later commits.
            self.testimony = {} if self.witness is None else self.witness.read()
            self._connection = self._connect()
            self._prepare(self._connection)
            if self.witness is not None:
                self.witness.open()
        except BaseException as error:
            self.close()
            self._explain(error)
            raise
        _open.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def streams(self) -> list[str]:
        """The names of the streams, in the order in which they began.

        Raises:
            StoreError: If they cannot be read.
        """
        with self.reading() as connection:
            found = connection.execute("SELECT name FROM streams ORDER BY stream").fetchall()
        return [name for (name,) in found]

    def holder(self, batch: str, streams: Sequence[str]) -> str | None:
        """Which of some streams has a batch of that id; None if none has.

        Raises:
            StoreError: If they cannot be read.
        """
        if not streams:
            return None
        marks = ", ".join("?" * len(streams))
        with self.reading() as connection:
            found = connection.execute(
                f"SELECT name FROM streams WHERE name IN ({marks}) AND EXISTS "
                f"(SELECT 1 FROM batches WHERE batches.stream = streams.stream AND id = ?)",
                (*streams, batch),
            ).fetchone()
        return None if found is None else found[0]

    def error(self, what: str) -> StoreError:
        """An error that names the file."""
        return StoreError(f"{self._name}: {what}")

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; made anew after a fork."""
        if self._connection is None:
            if self._closed:
                raise StoreError("the agent was closed; make a new one to go on")
            self._connection = self._connect()
        return self._connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """For statements that see one committed state each."""
        with self.lock:
            try:
                yield self.connection
            except Exception as error:
                self._explain(error)
                raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is observed inside counts at its end, or nothing of it does.

        One commit for many batches takes little longer than for one. Until the end nothing is
        durable, and other processes that want to write wait, so that blocks should be short. If
        the block raises, agents are as they were. Transactions nest: one that raises inside
        another undoes its own part.

        Raises:
            StoreError: If it could not be committed. Nothing of it counts then.
        """
        with self.lock:
            whole, undos, commits = self._depth == 0, len(self._undos), len(self._commits)
            with self.reading() as connection:
                if not whole and not connection.in_transaction:
                    raise StoreError("the transaction was broken off; nothing of it counts")
                connection.execute("BEGIN IMMEDIATE" if whole else "SAVEPOINT part")
            try:
                self._depth += 1
                try:
                    yield  # what is raised here is the caller's, and passes as it is
                finally:
                    self._depth -= 1
                with self.reading() as connection:
                    connection.execute("COMMIT" if whole else "RELEASE part")
            except BaseException:
                self._undo(["ROLLBACK"] if whole else ["ROLLBACK TO part", "RELEASE part"])
                while len(self._undos) > undos:
                    self._undos.pop()()
                del self._commits[commits:]
                raise
            if whole:
                self._undos.clear()
                self._acknowledge()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._depth > 0

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Has something called, should the transaction that is open come to nothing."""
        self._undos.append(undo)

    def note(self, stream: int, commits: int) -> None:
        """Has the witness told of a commit, once the transaction that is open is there for good."""
        self._commits.append((stream, commits))

    def _acknowledge(self) -> None:
        """Tells the witness of commits, as well as can be.

        They have happened, so that nothing is raised: a witness that is behind does no harm.
        """
        if self.witness is not None:
            with suppress(OSError):
                for stream, commits in dict(self._commits).items():
                    self.witness.write(self.identity, stream, commits)
        self._commits.clear()

    def forget(self) -> None:
        """Forgets what the witness said."""
        if self.witness is not None:
            self.witness.clear()
        self.testimony = {}

    def close(self) -> None:
        """Closes the connection; SQLite then copies its log into the database."""
        with self.lock:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self.witness is not None:
            self.witness.close()

    def _undo(self, statements: list[str]) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                for statement in statements:
                    connection.execute(statement)
        except sqlite3.Error:  # then a new connection begins with what was committed
            self._disconnect()

    def _explain(self, error: BaseException) -> None:
        """Raises a `StoreError` in words, if an error is about the file."""
        if isinstance(error, sqlite3.Error):
            raise self.error(f"{_advice(error)} ({error})") from error
        if isinstance(error, UnicodeDecodeError):  # SQLite's own complaint quotes damaged text
            raise self.error(_ADVICE["SQLITE_CORRUPT"]) from error
        if isinstance(error, OSError):
            raise self.error(f"{error}; see to the disk and its folder") from error
        if isinstance(error, StoreError) and not str(error).startswith(self._name):
            raise self.error(str(error)) from error

    @property
    def _name(self) -> str:
        return "the agent's memory" if self.path is None else self.path

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

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if not _tables(connection):
            self._create(connection)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != schema.APPLICATION:
            raise StoreError("this is a database, but none of postgrad's; choose another path")
        self._migrate(connection)
        schema.check(connection)
        if self.path is not None:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreError(f"its folder does not allow a write-ahead log (got {mode!r})")
            if os.path.getsize(self.path) <= SMALL:
                self.check_pages(connection)
        found = connection.execute("SELECT identity, checksum FROM store").fetchone()
        self.identity: bytes = found[0] if found else b""
        checksum = found[1] if found else b""
        if checksum != digest(self.identity):
            raise StoreError("the store's identity is damaged; restore a backup")
        if any(identity != self.identity for identity, _ in self.testimony.values()):
            self._lost(f"{self._witness_path} tells of another store")

    def _create(self, connection: sqlite3.Connection) -> None:
        if self.testimony:
            self._lost(f"the database is empty, but {self._witness_path} tells of commits")
        if self.path is not None:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        if not _tables(connection):  # else another process was faster
            schema.create(connection, os.urandom(16))
        connection.execute("COMMIT")

    def _lost(self, what: str) -> None:
        """Refuses, or forgets the testimony for good."""
        if not self.recover:
            raise StoreError(
                f"{what}: acknowledged batches are missing; restore both files from a backup, or "
                f"go on without them with Agent(..., recover=True)"
            )
        self.forget()

    @property
    def _witness_path(self) -> str:
        return "" if self.witness is None else self.witness.path

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == schema.VERSION:
            return
        connection.execute("BEGIN IMMEDIATE")
        version = _version(connection)  # another process may have been faster
        while version < schema.VERSION and version in schema.MIGRATIONS:
            schema.MIGRATIONS[version](connection)
            version += 1
        if version != schema.VERSION:
            raise StoreError(
                f"its format is {version}, and this postgrad knows formats up to "
                f"{schema.VERSION}; install a newer postgrad"
            )
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")

    def check_pages(self, connection: sqlite3.Connection) -> None:
        """Reads the whole database, and sees that tables and indices agree.

        Raises:
            StoreError: If they do not.
        """
        wrong = _wrong_pages(connection)
        if wrong and self.recover:
            connection.execute("REINDEX")
            wrong = _wrong_pages(connection)
        if wrong:
            raise StoreError(f"it is damaged ({wrong}); restore a backup")


def _wrong_pages(connection: sqlite3.Connection) -> str:
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if _code(error) == "SQLITE_BUSY":
            raise
        return str(error)
    return "" if found == "ok" else str(found).replace("\n", " ")


def _tables(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0])


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _code(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    return "_".join(name.split("_")[:2])


def _advice(error: sqlite3.Error) -> str:
    advice = _ADVICE.get(_code(error), "SQLite could not do it; restore a backup if it stays so")
    return advice.format(patience=PATIENCE_S)


# A connection must not be used on both sides of a fork: locks belong to a process. Closing it in
# the child would not do either, so all are closed before the fork and made anew when used.
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

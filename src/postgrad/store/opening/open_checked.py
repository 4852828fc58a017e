"""What is checked when a database is opened, before anything else is read; and how one is made."""

import os
from typing import TYPE_CHECKING, NoReturn

from postgrad.errors import StoreError
from postgrad.store import schema
from postgrad.store.changes import migrations
from postgrad.store.checksum import digest
from postgrad.store.guards import left_log
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.opening.page_checks import check_pages

if TYPE_CHECKING:
    from postgrad.store.database import Database

# Larger files (in bytes) are not read from end to end when they are opened.
SMALL = 16 << 20


def open_checked(database: "Database") -> None:
    """Check a database, rewrite it if its format is an earlier one, or create it.

    Raises:
        StoreError: If it is damaged, of another format, or none of postgrad's. No byte of it has
            changed then.
    """
    path, marked = database.path, database.marked_commits
    if path is not None and _size(path) == 0:
        # To SQLite an empty database has no log: it would delete the one that is there.
        if left_log.is_left(path):
            _commits_missing(f"{path}-wal", "it is empty")
        if marked:
            _commits_missing(f"{path}-acknowledged", "it is empty")
        database.prepare_to_write()
    elif path is not None and not marked and _size(f"{path}-journal"):
        database.prepare_to_write()  # only creating a database makes this file: it was broken off
    if schema.is_empty(database.connection):
        _create(database)
    if not (earlier := migrations.is_earlier(database.connection)):
        schema.check(database.connection)
    if path is not None and _size(path) <= SMALL:
        check_pages(database)
    identity, checksum = database.row("SELECT identity, checksum FROM store") or (b"", b"")
    if not isinstance(identity, bytes) or checksum != digest(identity):
        raise StoreError(f"the store's identity is damaged; {WAY_OUT}")
    if any(mark.identity != identity for mark in marked.values()):
        _commits_missing(f"{path}-acknowledged", "it is another store")
    database.identity = identity
    if earlier:
        migrations.migrate(database)
        schema.check(database.connection)


def _create(database: "Database") -> None:
    if database.marked_commits:
        _commits_missing(f"{database.path}-acknowledged", "it is empty")
    (pages,) = database.row("PRAGMA page_count")
    if pages > 1:
        raise StoreError(f"it has {pages} pages, but its list of tables is damaged; {WAY_OUT}")
    database.prepare_to_write()
    if database.path is not None:
        database.rows("PRAGMA journal_mode = WAL")
    with database.transaction():
        if schema.is_empty(database.connection):  # else another process was faster
            schema.create(database.connection, os.urandom(16))


def _commits_missing(name: str, why: str) -> NoReturn:
    raise StoreError(
        f"{name} has commits, but the database has not ({why}): acknowledged batches are missing; "
        f"{WAY_OUT}"
    )


def _size(path: str) -> int:
    """The size of a file; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0

"""Another database in the place of one: nobody else may use it, and what is replaced is kept."""

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from postgrad.errors import StoreError
from postgrad.store.guards.left_log import is_left
from postgrad.store.guards.opened_file import is_open_here
from postgrad.store.recovery.checking import PARTS

# SQLite locks these bytes of a database as long as a connection has its log open.
_FIRST, _COUNT = 0x40000002, 510


@contextmanager
def nobody_else(path: str) -> Iterator[None]:
    """Keep everybody else from a database.

    Raises:
        StoreError: If it is in use, or cannot be written to.
    """
    if is_open_here(path):
        raise StoreError(f"{path}: this process has it open; close it first")
    if not os.path.exists(path):
        yield
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; it must be possible to write to it") from error
    try:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, _COUNT, _FIRST)
        except OSError as error:
            raise StoreError(f"{path}: another process has it open; end that first") from error
        yield
    finally:
        os.close(file)


def keep(path: str, why: str) -> Path:
    """Copy a database, its log and its commit marker to a new folder beside it.

    Args:
        path: The database.
        why: Part of the folder's name.

    Returns:
        The folder.
    """
    stem = f"{path}-{why}-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
    for number in range(1, 1000):
        folder = Path(stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir()
            break
        except FileExistsError:
            continue
    for suffix in PARTS:
        if os.path.exists(path + suffix):
            copy(path + suffix, str(folder / (os.path.basename(path) + suffix)))
    _force(str(folder))
    return folder


def copy(source: str, target: str) -> None:
    """Copy a file, and force the copy to the disk."""
    shutil.copyfile(source, target)
    shutil.copystat(source, target)
    _force(target)


def replace(path: str, by: str) -> None:
    """Put a closed database and its commit marker in the place of one that was kept.

    If this is broken off, the database is missing but its marker or log is there, and opening it
    is refused: it is never taken for a new one.

    Raises:
        StoreError: If the new database has a log, which would be lost.
    """
    if is_left(by):
        raise StoreError(f"{by}-wal could not be copied into its database; check the disk")
    for name in (by, f"{by}-acknowledged"):
        _force(name)
    for suffix in ("", "-wal", "-shm"):
        Path(path + suffix).unlink(missing_ok=True)
    os.replace(f"{by}-acknowledged", f"{path}-acknowledged")
    _force(os.path.dirname(path))  # the old log must be gone before the new database is there
    os.replace(by, path)
    _force(os.path.dirname(path))


def _force(name: str) -> None:
    file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)

"""Backups of a file that may be in use, and the way back."""

import os
import shutil
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

from postgrad.errors import StoreError
from postgrad.store.commit_marker import CommitMarker
from postgrad.store.database import Database
from postgrad.store.recovery.checking import PARTS, check, must_exist
from postgrad.store.recovery.replacing import copy, keep, nobody_else, replace
from postgrad.store.store import Store
from postgrad.store.stored_state import Commit


@dataclass(frozen=True)
class Restored:
    """What was restored.

    Attributes:
        stages: How many batches each stream has now.
        folder: Where the files are that were replaced; None if there were none.
    """

    stages: dict[str, int]
    folder: Path | None


def backup(path: str | os.PathLike[str], to: str | os.PathLike[str]) -> dict[str, int]:
    """Write a copy of a file, of one moment, also while others write to it.

    Args:
        path: The file.
        to: The copy, one file without a log or a commit marker; it must not exist.

    Returns:
        How many batches each stream has in the copy.

    Raises:
        StoreError: If the file is damaged, or the copy exists.
    """
    must_exist(path)
    to = os.path.abspath(os.fspath(to))
    if os.path.exists(to):
        raise StoreError(f"{to} exists; name another file for the backup")
    with tempfile.TemporaryDirectory(prefix="backup-", dir=os.path.dirname(to)) as work:
        place = os.path.join(work, "backup.db")
        with Database(path) as database, database.lock:
            for name in database.streams():
                Store(database, name).load()  # whether all that was acknowledged is there
            target = sqlite3.connect(place)
            try:
                database.connection.backup(target)
            finally:
                target.close()
        found = check(place)
        if found.problems:
            raise StoreError(f"{path}: {'; '.join(found.problems).replace(place, str(path))}")
        copy(place, f"{place}-whole")
        os.rename(f"{place}-whole", to)
    return found.stages


def restore(saved: str | os.PathLike[str], path: str | os.PathLike[str]) -> Restored:
    """Put a backup in the place of a file, and set its commit marker to the backup's commits.

    Args:
        saved: The backup; if a log lies beside it, with that log.
        path: The file. What is there is kept in a folder beside it.

    Raises:
        StoreError: If the backup is damaged, or the file is in use. The file is then as it was.
    """
    must_exist(saved)
    saved, path = os.path.realpath(os.fspath(saved)), os.path.realpath(os.fspath(path))
    if saved == path:
        raise StoreError(f"{path} is both the backup and the file to restore")
    with nobody_else(path):
        work = tempfile.mkdtemp(prefix="restoring-", dir=os.path.dirname(path))
        try:
            place = os.path.join(work, "new.db")
            for suffix in PARTS:
                if os.path.exists(saved + suffix):
                    copy(saved + suffix, place + suffix)
            found = check(place)
            if found.problems:
                raise StoreError(f"{'; '.join(found.problems)}".replace(place, saved))
            _mark(place)
            exists = any(os.path.exists(path + suffix) for suffix in PARTS)
            folder = keep(path, "replaced") if exists else None
            replace(path, place)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return Restored(found.stages, folder)


def _mark(place: str) -> None:
    """Copy the log into the database, and mark the last commit of each stream, and no others."""
    Path(f"{place}-acknowledged").unlink(missing_ok=True)
    with Database(place) as database:
        database.prepare_to_write()
        names = database.streams()
        heads = [Store(database, name).load() for name in names]
        commits = [Commit(number, None, head) for number, head in enumerate(heads, start=1)]
        CommitMarker(place).write(database.identity, commits)

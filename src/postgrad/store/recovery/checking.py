"""Whether a file is good: everything in it is read and checked."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

from postgrad.errors import StoreError
from postgrad.store.changes import migrations
from postgrad.store.database import Database
from postgrad.store.guards.opened_file import wrong_before_opening
from postgrad.store.opening import connecting
from postgrad.store.opening.page_checks import check_pages
from postgrad.store.store import Store
from postgrad.store.stream_list import check_streams


@dataclass(frozen=True)
class Checked:
    """What a check has found.

    Attributes:
        stages: How many batches each stream has that is good.
        problems: What is damaged or missing; nothing, if the file is good.
    """

    stages: dict[str, int]
    problems: tuple[str, ...]


def check(path: str | os.PathLike[str]) -> Checked:
    """Read everything in a file and check it. No byte of it changes.

    Raises:
        StoreError: If there is no such file.
    """
    must_exist(path)
    if _is_earlier(path):  # it is rewritten when it is opened: not here
        with tempfile.TemporaryDirectory(prefix="postgrad-") as folder:
            place = os.path.join(folder, "checked.db")
            for suffix in PARTS:
                if os.path.exists(f"{os.fspath(path)}{suffix}"):
                    shutil.copyfile(f"{os.fspath(path)}{suffix}", place + suffix)
            found = _check(place)
            named = (text.replace(place, os.fspath(path)) for text in found.problems)
            return Checked(found.stages, tuple(named))
    return _check(path)


def _check(path: str | os.PathLike[str]) -> Checked:
    stages: dict[str, int] = {}
    problems: list[str] = []
    try:
        with Database(path) as database:
            for look in (check_pages, check_streams):
                with _noted(problems):
                    look(database)
            for name in database.streams():
                with _noted(problems, f"stream {name!r}: "):
                    stages[name] = _verified(database, name)
    except StoreError as error:
        problems.append(str(error))
    return Checked(stages, tuple(dict.fromkeys(problems)))


def must_exist(path: str | os.PathLike[str]) -> None:
    """Raise a `StoreError` if there is neither a database of that name nor a part of one."""
    if not any(os.path.exists(f"{os.fspath(path)}{suffix}") for suffix in PARTS):
        raise StoreError(f"there is no {os.fspath(path)}")


# What the files of a database are called: itself, its log, its commit marker.
PARTS = ("", "-wal", "-acknowledged")


def _is_earlier(path: str | os.PathLike[str]) -> bool:
    """Whether a file has an earlier format, as far as it can be read."""
    path = os.path.realpath(os.fspath(path))
    with suppress(sqlite3.Error, OSError, StoreError, UnicodeDecodeError):
        if os.path.getsize(path) and wrong_before_opening(path) is None:
            with closing(connecting.for_reading(path)[0]) as connection:
                earlier = migrations.is_earlier(connection)
            connecting.remove_empty_log(path)
            return earlier
    return False


@contextmanager
def _noted(problems: list[str], about: str = "") -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        problems.append(f"{about}{error}")


def _verified(database: Database, name: str) -> int:
    store = Store(database, name)
    head = store.load()
    store.verify(head, pages=False)
    return head.saved.stage

"""Files that are refused stay as they are; what is good in them can be had, and losses are said."""

import os
import shutil
from pathlib import Path

import pytest
from test_store import FILES, batch, contents, fill, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Store
from postgrad.store.recovery import recover


def test_lost_commits_are_noticed_and_said(tmp_path):
    """A log that is cut short looks to SQLite like one that never was longer."""
    path = str(tmp_path / "a.db")
    store, _ = fill(path, 5)
    copy = str(tmp_path / "b.db")  # of an open store, as a crash leaves it
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    size = os.path.getsize(copy + "-wal")
    store.database.close()
    os.truncate(copy + "-wal", size - 5000)
    with pytest.raises(StoreError, match=r"1 acknowledged batches are missing.*store recover"):
        Store(Database(copy), "main").load()
    (told,) = recover(copy).streams
    assert (told.kept, told.missing, told.lost) == (4, 1, 0)
    recovered = Store(Database(copy), "main")
    head = recovered.load()
    assert head.saved == saved(4)
    recovered.append(head, batch(5), saved(5), None)
    recovered.database.close()
    assert contents(copy)[1] == saved(5)


@pytest.mark.parametrize("empty", [False, True])
def test_lost_database_is_noticed(tmp_path, empty):
    path = str(tmp_path / "a.db")
    fill(path, 2)[0].database.close()
    os.remove(path)
    if empty:
        Path(path).touch()
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(StoreError, match=r"has commits, but the database has not \(it is empty"):
        Store(Database(path), "main")
    with pytest.raises(StoreError, match="nothing in it is good"):
        recover(path)
    assert sorted(os.listdir(tmp_path)) == before

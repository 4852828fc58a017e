"""Writers that share no locks: what can be noticed is refused, and nothing acknowledged is lost."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from test_durable import everything, feed, make
from test_store import FILES, batch, fill, saved

from postgrad import errors
from postgrad.store import Database, Store
from postgrad.store.checksum import digest
from postgrad.store.commit_marker import CommitMarker

OPEN_AND_CLOSE = """
import sys
from postgrad.store import Database, Store

with Database(sys.argv[1]) as database:
    database.prepare_to_write()
    Store(database, "main").load()
"""


def copied(path, copy):
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    return copy


def test_a_file_with_two_names_is_refused(tmp_path):
    """Each name has a log of its own."""
    path, link = tmp_path / "a.db", tmp_path / "b.db"
    agent = make(path)
    feed(agent, [0])
    agent.close()
    os.link(path, link)
    for name in (path, link):
        with pytest.raises(errors.StoreError, match=r"another name \(a hard link\)"):
            make(name)
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-acknowledged", "b.db"]
    os.remove(link)
    agent = make(path)
    feed(agent, [1])
    os.link(path, link)
    with pytest.raises(errors.StoreError, match=r"another name \(a hard link\)"):
        feed(agent, [2])
    os.remove(link)
    feed(agent, [2])
    assert everything(make(path)) == everything(agent)
    assert agent.stage == 3


def test_a_process_that_copied_its_own_file_notices_that_the_log_is_gone(tmp_path):
    """Closing a descriptor of a file ends all locks of the process; others then delete the log."""
    path = str(tmp_path / "a.db")
    store, head = fill(path, 3)
    shutil.copy(path, tmp_path / "copy.db")
    subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, path], check=True)
    for use in (
        lambda: store.append(head, batch(4), saved(4), None),
        lambda: store.find("id 1"),
        lambda: Database(path),  # it would share what SQLite knows of the one that is open
    ):
        with pytest.raises(errors.StoreError, match=r"-wal was moved, deleted or replaced"):
            use()
    store.database.close()
    again = Store(Database(path), "main")
    assert again.load() == head
    again.append(head, batch(4), saved(4), None)
    subprocess.run([sys.executable, "-c", OPEN_AND_CLOSE, path], check=True)
    again.verify(again.load())


@pytest.mark.parametrize("replace", [shutil.move, lambda a, b: os.remove(b)])
def test_a_file_that_was_replaced_is_noticed(tmp_path, replace):
    path, other = str(tmp_path / "a.db"), str(tmp_path / "other.db")
    store, head = fill(path, 2)
    shutil.copy(path, other)
    replace(other, path)
    for use in (lambda: store.append(head, batch(3), saved(3), None), lambda: store.find("id 1")):
        with pytest.raises(errors.StoreError, match=r"a\.db was moved, deleted or replaced"):
            use()


def test_a_file_replaced_at_the_commit_is_not_acknowledged(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 2)
    database = store.database

    class Replacing:
        def __getattr__(self, name):
            return getattr(connection, name)

        def execute(self, statement, *values):
            if statement == "COMMIT":
                os.rename(f"{path}-wal", f"{path}-elsewhere")
            return connection.execute(statement, *values)

    connection, database._connection = database.connection, Replacing()
    with pytest.raises(errors.StoreError, match="replaced while it was open"):
        store.append(head, batch(3), saved(3), None)
    os.rename(f"{path}-elsewhere", f"{path}-wal")
    database._connection = connection
    assert store.load().saved == saved(3)


def test_a_writer_elsewhere_is_noticed_by_the_marker(tmp_path):
    """As on a network file system whose locks and shared memory reach one host only."""
    path = str(tmp_path / "a.db")
    here, head = fill(path, 3)
    there = Store(Database(copied(path, str(tmp_path / "there.db"))), "main")
    there.database.commit_marker = CommitMarker(path)
    there_head = there.append(there.load(), batch(4, id="there"), saved(4), None)
    with pytest.raises(errors.StoreError, match=r"-acknowledged tells of commits that.*no locks"):
        here.append(head, batch(4), saved(4), None)
    assert here.load() == head
    with pytest.raises(errors.StoreError, match="no locks"):
        here.go_back(head, saved(1), None)
    there.append(there_head, batch(5), saved(5), None)


def test_a_marker_of_other_batches_is_noticed(tmp_path):
    """As many commits, but not the same: the number alone says nothing."""
    path, other = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    here, head = fill(path, 2)
    there = Store(Database(copied(path, other)), "main")
    here.append(head, batch(3), saved(3), None)
    there.append(there.load(), batch(3, rows=b"other"), saved(3), None)
    here.database.close()
    there.database.close()
    shutil.copy(f"{path}-acknowledged", f"{other}-acknowledged")
    with pytest.raises(
        errors.StoreError, match=r"an acknowledged batch is missing.*share no locks"
    ):
        Store(Database(other), "main").load()
    assert Store(Database(path), "main").load().saved == saved(3)


def test_marks_of_earlier_versions_are_read(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 3)
    fill(path, 2, "other")
    marker, identity = CommitMarker(path), store.database.identity
    kept = marker.read()
    assert kept[1] == (identity, 4, head.chain)
    assert os.path.getsize(marker.path) == 2 * 64
    with open(marker.path, "wb") as file:
        for stream, mark in kept.items():
            fields = (identity, stream, mark.commits)
            file.seek(64 * (stream - 1))
            file.write(struct.pack("<16sqq16s", *fields, digest(*fields)))
    assert marker.read() == {1: (identity, 4, None), 2: (identity, 3, None)}
    store.database.close()
    again = Store(Database(path), "main")
    new = again.append(again.load(), batch(4), saved(4), None)
    assert marker.read() == {1: (identity, 5, new.chain), 2: (identity, 3, None)}
    marked = Path(marker.path).read_bytes()
    fields = (identity, 1, 6)  # an earlier version that has found more
    Path(marker.path).write_bytes(struct.pack("<16sqq16s", *fields, digest(*fields)) + marked[48:])
    with pytest.raises(errors.StoreError, match=r"1 acknowledged batches .* are missing"):
        Store(Database(path), "main").load()

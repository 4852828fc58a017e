"""Files that cannot be written to are read, with the log that was left; and long readers."""

import json
import os
import shutil
import sqlite3
import tempfile
import warnings
from pathlib import Path

import pytest
from test_store import FILES, batch, contents, fill, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Store
from postgrad.store.guards import long_log

NOBODY = 65534


@pytest.fixture
def folder():
    """A folder that others may enter, if need be; those of pytest are private."""
    made = Path(tempfile.mkdtemp(prefix="read-only-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


def as_reader(folder, work, meanwhile=lambda: None):
    """What `work` gives in a process that cannot write to the folder."""
    for name in folder.iterdir():
        name.chmod(0o444)
    folder.chmod(0o555)
    reading, writing = os.pipe()
    with warnings.catch_warnings(action="ignore"):  # JAX's threads are not needed here
        pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:  # whom nothing is forbidden
                os.setgroups([])
                os.setuid(NOBODY)
            answer = work()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    meanwhile()
    os.waitpid(pid, 0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return json.load(pipe)


def looked(path):
    """How many batches there are, and what comes of observing one more."""
    with Database(path) as database:
        store = Store(database, "main")
        head = store.load()
        store.verify(head)
        count = len(list(store.batches(1, head.saved.stage)))
        stage = head.saved.stage + 1
        try:
            store.append(head, batch(stage), saved(stage), None)
        except StoreError as error:
            return [count, store.find("id 2")[0], str(error)]
        return "written"


def left_open(path, count):
    """As a crash leaves it: part of the batches are in the log alone."""
    store, _ = fill(path, count)
    store.database.connection.execute("PRAGMA wal_checkpoint")
    fill(path, 2)
    copy = str(Path(path).with_name("left.db"))
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    store.database.close()
    for suffix in FILES:
        Path(path + suffix).unlink(missing_ok=True)
    return copy


@pytest.mark.parametrize("logged", [False, True])
@pytest.mark.parametrize("memory", [False, True])
def test_a_file_that_cannot_be_written_to_is_read(folder, logged, memory):
    path = str(folder / "a.db")
    if logged:
        path = left_open(path, 3)
    else:
        fill(path, 5)[0].database.close()
    if memory:  # the file that SQLite needs beside the log, as readers leave it
        contents(path)
    before = {name: name.read_bytes() for name in folder.iterdir()}
    count, found, refused = as_reader(folder, lambda: looked(path))
    assert (count, found) == (5, 2)
    assert "it cannot be written to" in refused
    assert {name: name.read_bytes() for name in folder.iterdir()} == before


def test_what_others_write_to_it_is_seen(folder):
    """The one who may write does, while the other reads the file as it stands."""
    path = str(folder / "a.db")
    fill(path, 3)[0].database.close()
    ready, done = os.pipe(), os.pipe()

    def work():
        with Database(path) as database:
            store = Store(database, "main")
            first, standing = store.load().saved.stage, database._standing is not None
            os.write(ready[1], b"x")
            os.read(done[0], 1)
            return [first, store.load().saved.stage, standing]

    def write():
        os.read(ready[0], 1)
        folder.chmod(0o755)
        for name in folder.iterdir():
            name.chmod(0o644)
        fill(path, 2)[0].database.close()
        os.write(done[1], b"x")

    assert as_reader(folder, work, write) == [3, 5, True]
    for end in (*ready, *done):
        os.close(end)


def test_readers_leave_nothing_behind(tmp_path):
    path = str(tmp_path / "a.db")
    fill(path, 3)[0].database.close()
    before = {name: name.read_bytes() for name in tmp_path.iterdir()}
    one, two = Database(path), Database(path)
    assert Store(one, "main").load().saved == saved(3)
    one.close()
    assert Store(two, "main").find("id 3")[0] == 3
    two.close()
    assert {name: name.read_bytes() for name in tmp_path.iterdir()} == before


def test_a_log_that_grows_for_a_reader_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(long_log, "LONG", 1 << 20)
    path = str(tmp_path / "a.db")
    store, head = fill(path, 2)
    monkeypatch.setattr(store.database._log_watch, "_next", 1 << 20)
    head = store.append(head, batch(3, rows=bytes(3_000_000)), saved(3), None)  # no reader
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM heads").fetchall()
    store.database.connection.execute("PRAGMA wal_autocheckpoint = 20")
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        for stage in range(4, 250):
            head = store.append(head, batch(stage, rows=bytes(20_000)), saved(stage), None)
    assert {warning.category for warning in given} == {long_log.LongLogWarning}
    assert len(given) <= 3  # whenever it has doubled
    assert "a.db-wal has grown to " in str(given[0].message)
    reader.close()
    for stage in range(250, 253):
        head = store.append(head, batch(stage), saved(stage), None)
    assert head.saved.stage == 252

"""The store: what was acknowledged is there, damage is noticed, and nothing else is touched.

POSTGRAD_THOROUGH=1 damages every byte instead of some; 3/8 every eighth, from the third on.
"""

import os
import shutil
import sqlite3
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from postgrad.errors import StoreError
from postgrad.store import Batch, Database, StaleStateError, Store, StoredState
from postgrad.store.opening import connecting
from postgrad.store.state_rows import EVERY

# Every byte, in how many parts, and which of them.
THOROUGH = [int(part) for part in os.environ.get("POSTGRAD_THOROUGH", "").split("/") if part]
FILES = ("", "-wal", "-acknowledged")


def saved(stage, still=0):
    state = np.random.default_rng(stage).bytes(400)
    return StoredState(
        stage, '[["a", "float64", [50]]]', state, "[]", b"report", b"counters", still
    )


def batch(stage, **changes):
    alarm = "alarm" if stage % 5 == 3 else None
    whole = {
        "id": f"id {stage}", "time": float(stage), "rows": b"rows %d" % stage,
        "x": None if stage % 2 else b"x", "answer": b"answer %d" % stage, "alarm": alarm,
    }  # fmt: skip
    return Batch(**whole | changes)


def fill(path, count, name="main"):
    store = Store(Database(path), name)
    if store.settings is None:
        store.create("settings", saved(0))
    head = store.load()
    for stage in range(head.saved.stage + 1, head.saved.stage + count + 1):
        head = store.append(head, batch(stage), saved(stage), None)
    return store, head


def contents(path, name="main"):
    """Everything that a store answers."""
    with Database(path) as database:
        store = Store(database, name)
        if store.settings is None:
            return None
        head = store.load()
        stages = range(1, head.saved.stage + 2)
        return (
            store.settings, head.saved, list(store.batches(1, head.saved.stage)),
            [store.find(f"id {stage}") for stage in stages], store.alarms(),
        )  # fmt: skip


def test_what_was_appended_is_there(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 7)
    fill(path, 3, "other")[0].database.close()
    settings, last, batches, found, alarms = contents(path)
    assert (settings, last) == ("settings", saved(7))
    assert batches == [(stage, batch(stage)) for stage in range(1, 8)]
    assert found == [*batches, None]
    assert alarms == [(3, "alarm")]
    store.verify(head)
    assert store.checkpoint(7) is None


@pytest.mark.parametrize(
    "make", [lambda t: None, lambda t: str(t / "a.db")], ids=["memory", "file"]
)
def test_memory_and_file_are_one_thing(tmp_path, make):
    store, head = fill(make(tmp_path), 2)
    assert store.find("id 1") == (1, batch(1))
    assert store.find("ID 1") is None
    head = store.go_back(head, saved(1), None)
    assert store.find("id 2") is None
    assert [stage for stage, _ in store.batches(1, 1)] == [1]
    head = store.append(head, batch(2, rows=b"new"), saved(2), ("[]", b""))
    assert store.load() == head
    store.database.close()
    with pytest.raises(StoreError, match="closed"):
        store.load()


def test_checkpoints_are_thinned(tmp_path):
    store, head = fill(None, 40 * EVERY)
    kept = {store.checkpoint(stage).stage for stage in range(EVERY * 32, 40 * EVERY + 1)}
    assert max(kept) == 40 * EVERY
    assert store.checkpoint(39 * EVERY + 5).stage == 39 * EVERY
    (count,) = store.database.connection.execute("SELECT count(*) FROM checkpoints").fetchone()
    assert 5 <= count <= 14  # of 40; of a million, 40
    store.go_back(head, saved(20 * EVERY + 1), None)
    assert store.checkpoint(1 << 40).stage <= 20 * EVERY


def test_second_writer_is_noticed_and_nothing_is_recorded(tmp_path):
    path = str(tmp_path / "a.db")
    one, head = fill(path, 1)
    two = Store(Database(path), "main")
    two.append(two.load(), batch(2), saved(2), None)
    with pytest.raises(StaleStateError):
        one.append(head, batch(2, id="mine"), saved(2), None)
    with pytest.raises(StaleStateError):
        one.go_back(head, saved(0), None)
    assert one.load().saved == saved(2)
    assert one.find("mine") is None


def test_creation_happens_once(tmp_path):
    path = str(tmp_path / "a.db")
    one, two = Store(Database(path), "main"), Store(Database(path), "main")
    assert one.create("mine", saved(0)) is None
    assert two.create("other", saved(0)) == "mine"
    assert two.settings == "mine"


def damaged_copies(source, target):
    """Copies with one byte changed, or cut short, for each file of a store."""
    rng = np.random.default_rng(0)
    for suffix in FILES:
        whole = bytearray(Path(source + suffix).read_bytes())
        flips = cuts = range(len(whole))[
            slice(THOROUGH[0], None, THOROUGH[1]) if THOROUGH[1:] else slice(None)
        ]
        if not THOROUGH:  # mostly where there is something: much of a page is empty
            cuts = sorted(rng.choice(len(whole), min(len(whole), 20)))
            flips = [*rng.choice(np.flatnonzero(whole), 150), *rng.choice(len(whole), 20)]
        cases = [(i, None) for i in cuts] + [(i, rng.integers(1, 256)) for i in flips]
        for other in FILES:
            shutil.copy(source + other, target + other)
        for offset, bits in cases:
            data = bytearray(whole) if bits is not None else whole[:offset]
            if bits is not None:
                data[offset] ^= bits
            for extra in ("-shm", "-journal"):
                if os.path.exists(target + extra):
                    os.remove(target + extra)
            for other in FILES:  # opening a database changes it
                if other != suffix:
                    shutil.copy(source + other, target + other)
            Path(target + suffix).write_bytes(data)
            yield f"{suffix or 'db'} {'cut' if bits is None else 'changed'} at {offset}"


@pytest.mark.parametrize("checkpointed", [False, True])
def test_damage_is_noticed_or_does_none(tmp_path, checkpointed):
    path, copy = str(tmp_path / "a.db"), str(tmp_path / "copy.db")
    store, _ = fill(path, 5)
    if checkpointed:
        store.database.connection.execute("PRAGMA wal_checkpoint")
        fill(path, 2)
    expected = contents_of_copy(path, copy)
    assert len(expected[2]) == (7 if checkpointed else 5)
    noticed = 0
    for what in damaged_copies(path, copy):
        try:
            found = contents(copy)
        except StoreError:
            noticed += 1
        else:
            assert found == expected, what
    assert noticed > 50  # the rest is empty space, or pages that a later commit replaced


ROWS = [
    ("store", "identity", "zeroblob(16)"),
    ("streams", "settings", "'other'"),
    ("streams", "name", "'another'"),
    ("array_headers", "header", "'[]'"),
    ("heads", "state", "zeroblob(400)"),
    ("heads", "report", "zeroblob(1)"),
    ("heads", "counters", "x'00'"),
    ("heads", "fixed_since", "3"),
    ("heads", "commits", "commits + 1"),
    ("heads", "stage", "stage - 1"),
    ("heads", "chain", "zeroblob(16)"),
    *(
        ("batches", column, value)
        for column, value in (
            ("rows", "zeroblob(6)"), ("answer", "zeroblob(8)"), ("x", "zeroblob(1)"),
            ("time", "time + 1"), ("alarm", "'no alarm'"),
            ("id", "id || ' '"), ("chain", "zeroblob(16)"), ("place", "place + 50"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("table", "column", "value"), ROWS)
def test_every_column_is_bound(tmp_path, table, column, value):
    """Changes that SQLite finds in order."""
    path = str(tmp_path / "a.db")
    fill(path, 7)[0].database.close()
    connection = sqlite3.connect(path)
    where = " WHERE id = 'id 4'" if table == "batches" else ""
    connection.execute(f"UPDATE {table} SET {column} = {value}{where}")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError):
        contents(path)


def test_batches_of_another_stream_do_not_pass(tmp_path):
    path = str(tmp_path / "a.db")
    fill(path, 2)[0].database.close()
    fill(path, 2, "other")[0].database.close()
    connection = sqlite3.connect(path)
    connection.execute(
        "UPDATE batches SET (rows, chain) = (SELECT rows, chain FROM batches WHERE stream = 2 "
        "AND id = 'id 2') WHERE stream = 1 AND id = 'id 2'"
    )
    connection.commit()
    connection.close()
    with pytest.raises(StoreError):
        contents(path)


def test_damaged_definition_is_noticed(tmp_path):
    """An id of digits would become a number, and '07' a duplicate of '7'."""
    path = str(tmp_path / "a.db")
    fill(path, 2)[0].database.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'id TEXT', 'id REAL')")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="definitions of batches, decisions are damaged"):
        Store(Database(path), "main")


def contents_of_copy(path, copy):
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    return contents(copy)


def test_marker_of_another_store_is_noticed(tmp_path):
    one, two = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    fill(one, 2)[0].database.close()
    fill(two, 2)[0].database.close()
    shutil.copy(one, two)
    with pytest.raises(StoreError, match="another store"):
        Store(Database(two), "main")


def test_other_files_are_refused(tmp_path):
    text, other = tmp_path / "a.txt", tmp_path / "other.db"
    text.write_text("orders, " * 1000)
    with pytest.raises(StoreError, match="no SQLite database"):
        Store(Database(str(text)), "main")
    assert text.read_text() == "orders, " * 1000
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE mine (a)")
    connection.close()
    with pytest.raises(StoreError, match=r"none of postgrad's"):
        Store(Database(str(other)), "main")
    with pytest.raises(StoreError, match="folder exists"):
        Store(Database(str(tmp_path / "no" / "a.db")), "main")


def test_lock_that_does_not_come_free_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(connecting, "PATIENCE_S", 0.05)
    path = str(tmp_path / "a.db")
    store, head = fill(path, 1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"kept it locked for 0\.05 s"):
        store.append(head, batch(2), saved(2), None)
    other.execute("ROLLBACK")
    other.close()
    assert store.append(head, batch(2), saved(2), None).saved == saved(2)


def test_full_disk_is_explained_and_nothing_is_lost(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 3)
    pages = store.database.connection.execute("PRAGMA page_count").fetchone()[0]
    store.database.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="disk is full; nothing of this batch counts"):
        store.append(head, batch(4, rows=bytes(100_000)), saved(4), None)
    assert store.load() == head
    assert store.find("id 4") is None
    store.database.connection.execute("PRAGMA max_page_count = 1000000")
    store.append(head, batch(4), saved(4), None)
    store.database.close()
    assert contents(path)[1] == saved(4)


def test_a_fork_gets_a_connection_of_its_own(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 2)
    reading, writing = os.pipe()
    with warnings.catch_warnings(action="ignore"):  # JAX's threads are not needed here
        pid = os.fork()
    if pid == 0:
        try:
            shared = store.database._connection is not None
            store.append(head, batch(3), saved(3), None)
            os.write(writing, b"both" if shared else b"done")
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 4) == b"done"
    os.close(reading)
    os.close(writing)
    with pytest.raises(StaleStateError):
        store.append(head, batch(3), saved(3), None)
    head = store.append(store.load(), batch(4), saved(4), None)
    store.verify(head)


def test_a_database_shows_its_streams_and_batches(tmp_path):
    path = str(tmp_path / "a.db")
    fill(path, 3)[0].database.close()
    with Database(path) as database:
        fill(path, 2, "other")[0].database.close()
        assert repr(database) == f"Database({path!r}, 2 streams: ['main', 'other'], 5 batches)"
    assert repr(database) == f"Database({path!r}, closed)"
    assert repr(Database()) == "Database(in memory, 0 streams: [], 0 batches)"


def test_threads_share_a_store():
    store, _ = fill(None, 50)
    wrong = []

    def read():
        stages = range(1, 51)
        wrong.extend(n for n in stages if store.find(f"id {n}") != (n, batch(n)))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_histories_are_read_piece_by_piece(tmp_path):
    store, head = fill(None, 600)
    assert [stage for stage, _ in store.batches(255, 600)] == list(range(255, 601))
    iterator = store.batches(1, 600)
    next(iterator)
    store.append(head, batch(601), saved(601), None)  # a half-read history holds no lock
    assert len(list(iterator)) == 599


def test_missing_batch_in_the_middle_is_noticed(tmp_path):
    store, head = fill(None, 5)
    store.database.connection.execute("DELETE FROM batches WHERE id = 'id 3'")
    with pytest.raises(StoreError, match="batch 3 is damaged or missing"):
        list(store.batches(1, 5))
    with pytest.raises(StoreError, match="batch 3"):
        store.verify(head)
    with pytest.raises(StoreError, match="batch 4"):
        store.find("id 4")

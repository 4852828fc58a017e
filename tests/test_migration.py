"""Files of other formats: older ones are brought up to date, newer ones refused."""

import sqlite3

import pytest
from test_store import contents, fill, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Store, schema
from postgrad.store.checksum import digest
from postgrad.store.store import EVERY


def test_newer_format_is_refused(tmp_path):
    path = str(tmp_path / "a.db")
    fill(path, 1)[0].database.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match=r"format is 2.*newer postgrad"):
        Store(Database(path), "main")


# Format 0, as it was: no chains, no index of alarms.
FORMAT_0 = """
CREATE TABLE store (identity BLOB NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE streams (stream INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, settings TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE layouts (layout INTEGER PRIMARY KEY, header TEXT NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE heads (stream INTEGER PRIMARY KEY, stage INTEGER NOT NULL, commits INTEGER NOT NULL, still INTEGER NOT NULL, layout INTEGER NOT NULL, state BLOB NOT NULL, report_layout INTEGER NOT NULL, report BLOB NOT NULL, counters BLOB NOT NULL, checksum BLOB NOT NULL);
CREATE TABLE checkpoints (stream INTEGER NOT NULL, stage INTEGER NOT NULL, commits INTEGER NOT NULL, still INTEGER NOT NULL, layout INTEGER NOT NULL, state BLOB NOT NULL, report_layout INTEGER NOT NULL, report BLOB NOT NULL, counters BLOB NOT NULL, checksum BLOB NOT NULL, UNIQUE (stream, stage));
CREATE TABLE stills (stream INTEGER NOT NULL, stage INTEGER NOT NULL, layout INTEGER NOT NULL, arrays BLOB NOT NULL, checksum BLOB NOT NULL, UNIQUE (stream, stage));
CREATE TABLE batches (place INTEGER PRIMARY KEY, stream INTEGER NOT NULL, id TEXT, time REAL NOT NULL, x BLOB, rows BLOB NOT NULL, answer BLOB NOT NULL, alarm TEXT, checksum BLOB NOT NULL);
CREATE UNIQUE INDEX ids ON batches (stream, id) WHERE id IS NOT NULL;
PRAGMA application_id = 1886352244;
PRAGMA user_version = 0;
"""  # noqa: E501


def write_format_0(path, source):
    """What format 0 would have recorded, from a store of the same contents."""
    new, old = sqlite3.connect(source), sqlite3.connect(path, isolation_level=None)
    old.executescript(FORMAT_0)
    for table in ("store", "streams", "layouts", "stills"):
        rows = new.execute(f"SELECT * FROM {table}").fetchall()
        if rows:
            old.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    (identity,) = new.execute("SELECT identity FROM store").fetchone()
    for table in ("heads", "checkpoints"):
        columns = "stream, stage, commits, still, layout, state, report_layout, report, counters"
        for row in new.execute(f"SELECT {columns} FROM {table}"):
            old.execute(
                f"INSERT INTO {table} VALUES ({', '.join('?' * 10)})",
                (*row, digest(identity, *row)),
            )
    query = "SELECT place, stream, id, time, x, rows, answer, alarm FROM batches"
    for place, stream, *row in new.execute(query):
        checksum = digest(identity, place, *row)
        values = (place, stream, *row, checksum)
        old.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    old.close()
    new.close()


def test_format_0_is_migrated(tmp_path):
    new, old = str(tmp_path / "new.db"), str(tmp_path / "old.db")
    fill(new, EVERY + 3)[0].database.close()
    fill(new, 2, "other")[0].database.close()
    expected = contents(new), contents(new, "other")
    write_format_0(old, new)
    assert (contents(old), contents(old, "other")) == expected
    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
    store, head = fill(old, 1)
    store.verify(head)
    assert store.checkpoint(EVERY + 3) == saved(EVERY)


def test_migration_refuses_damage_and_changes_nothing(tmp_path):
    new, old = str(tmp_path / "new.db"), str(tmp_path / "old.db")
    fill(new, 3)[0].database.close()
    write_format_0(old, new)
    connection = sqlite3.connect(old)
    connection.execute("UPDATE batches SET rows = x'00' WHERE id = 'id 2'")
    connection.commit()
    with pytest.raises(StoreError, match="batch 2 of stream 1 is damaged"):
        Store(Database(old), "main")
    assert connection.execute("PRAGMA user_version").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM batches").fetchone() == (3,)
    connection.close()

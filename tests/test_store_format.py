"""Files of other formats are refused, with what to do."""

import sqlite3

import pytest
from test_store import contents, fill

from postgrad.errors import StoreError
from postgrad.store import Database, Store, schema


@pytest.mark.parametrize(
    ("version", "words"),
    [
        (schema.VERSION + 1, "is newer than this postgrad's.*install a newer postgrad"),
        (schema.VERSION - 1, "definitions of batches, .*decisions, heads are damaged"),
        (0, "is none that postgrad has written"),
    ],
)
def test_other_formats_are_refused_and_left_alone(tmp_path, version, words):
    path = str(tmp_path / "a.db")
    fill(path, 1)[0].database.close()
    expected = contents(path)
    for number in (version, schema.VERSION):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {number}")
        connection.close()
        if number != schema.VERSION:
            with pytest.raises(StoreError, match=words):
                Store(Database(path), "main")
    assert contents(path) == expected

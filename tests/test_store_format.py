"""Files of other formats are refused, with what to do."""

import sqlite3

import pytest
from test_store import contents, fill

from postgrad.errors import StoreError
from postgrad.store import Database, Store, schema


@pytest.mark.parametrize(
    ("change", "advice"), [(1, "install a newer postgrad"), (-1, "begin a new file")]
)
def test_other_formats_are_refused_and_left_alone(tmp_path, change, advice):
    path = str(tmp_path / "a.db")
    fill(path, 1)[0].database.close()
    expected = contents(path)
    for version in (schema.VERSION + change, schema.VERSION):
        connection = sqlite3.connect(path)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
        if version != schema.VERSION:
            with pytest.raises(StoreError, match=rf"format is {version}.*{advice}"):
                Store(Database(path), "main")
    assert contents(path) == expected

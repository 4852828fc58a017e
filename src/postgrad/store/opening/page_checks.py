"""Whether pages are good, and indices agree with their tables.

Rows have checksums, indices have none. What an index does not find would seem not to be there: a
batch would count twice.
"""

from typing import TYPE_CHECKING

from postgrad.store import schema
from postgrad.store.guards.sqlite_errors import WAY_OUT

if TYPE_CHECKING:
    from postgrad.store.database import Database


def check_pages(database: "Database") -> None:
    """Read the whole database, and check that tables and indices agree.

    Raises:
        StoreError: If the database is damaged.
    """
    _check(database, "1")
    database.checked.update(schema.TABLES)


def check_pages_once(database: "Database") -> None:
    """The same, unless that was done since the file was opened."""
    if not database.checked.issuperset(schema.TABLES):
        check_pages(database)


def check_indices(database: "Database", table: str) -> None:
    """Compare the indices of a table with it, unless that was done since the file was opened.

    Raises:
        StoreError: If they are damaged.
    """
    if table not in database.checked:
        _check(database, f"'{table}'")
        database.checked.add(table)


def _check(database: "Database", what: str) -> None:
    (found,) = database.row(f"PRAGMA integrity_check({what})")
    if found != "ok":
        wrong = str(found).replace("\n", " ")
        raise database.error(f"it is damaged ({wrong}); {WAY_OUT}")

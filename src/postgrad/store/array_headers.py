"""Headers of stored arrays (path, type and shape of each): stored once, referred to by number."""

import sqlite3

from postgrad.errors import StoreError
from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database


class ArrayHeaders:
    """The headers of a database and their numbers, cached."""

    def __init__(self, database: Database):
        self._database = database
        self._numbers: dict[str, int] = {}
        self._headers: dict[Field, str] = {}

    def forget(self) -> None:
        """Empty the cache: a header stored in a transaction that was undone is not there."""
        self._numbers.clear()
        self._headers.clear()

    def header(self, connection: sqlite3.Connection, number: Field) -> str:
        """The header of a number.

        Raises:
            StoreError: If the header is damaged or missing.
        """
        if number not in self._headers:
            found = connection.execute(
                "SELECT header, checksum FROM array_headers WHERE number = ?", (number,)
            ).fetchone()
            if found is None or found[1] != digest(self._database.identity, number, found[0]):
                raise StoreError(f"header {number!r} of stored arrays is damaged; restore a backup")
            self._headers[number] = found[0]
        return self._headers[number]

    def number(self, connection: sqlite3.Connection, header: str) -> int:
        """The number of a header, which is stored if it is new, inside the open transaction."""
        if header not in self._numbers:
            found = connection.execute(
                "SELECT number FROM array_headers WHERE header = ?", (header,)
            ).fetchone()
            if found is None:
                self._database.on_undo(self.forget)
                last = connection.execute("SELECT coalesce(max(number), 0) FROM array_headers")
                found = (int(last.fetchone()[0]) + 1,)
                checksum = digest(self._database.identity, *found, header)
                connection.execute(
                    "INSERT INTO array_headers VALUES (?, ?, ?)", (*found, header, checksum)
                )
            self._numbers[header] = found[0]
        return self._numbers[header]

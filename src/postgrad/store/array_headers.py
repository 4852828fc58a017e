"""Descriptions of stored arrays: each is kept once, and known by its number."""

import sqlite3

from postgrad.errors import StoreError
from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database


class Layouts:
    """The headers of a database and their numbers, as far as they have been asked for."""

    def __init__(self, database: Database):
        """Args: where they are."""
        self._database = database
        self._numbers: dict[str, int] = {}
        self._headers: dict[Field, str] = {}

    def forget(self) -> None:
        """Forgets all: what was learned in a transaction that came to nothing is not there."""
        self._numbers.clear()
        self._headers.clear()

    def header(self, connection: sqlite3.Connection, number: Field) -> str:
        """The header of a number.

        Raises:
            StoreError: If it is damaged or missing.
        """
        if number not in self._headers:
            found = connection.execute(
                "SELECT header, checksum FROM layouts WHERE layout = ?", (number,)
            ).fetchone()
            identity = self._database.identity
            if found is None or found[1] != digest(identity, number, found[0]):
                raise StoreError("a description of stored arrays is damaged; restore a backup")
            self._headers[number] = found[0]
        return self._headers[number]

    def number(self, connection: sqlite3.Connection, header: str) -> int:
        """The number of a header, which is stored if it is new, inside the open transaction."""
        if header not in self._numbers:
            found = connection.execute(
                "SELECT layout FROM layouts WHERE header = ?", (header,)
            ).fetchone()
            if found is None:
                last = connection.execute("SELECT coalesce(max(layout), 0) FROM layouts")
                number = int(last.fetchone()[0]) + 1
                connection.execute(
                    "INSERT INTO layouts VALUES (?, ?, ?)",
                    (number, header, digest(self._database.identity, number, header)),
                )
                return number  # remembered when it has been committed
            self._numbers[header] = found[0]
        return self._numbers[header]

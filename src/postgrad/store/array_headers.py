"""Headers of stored arrays (path, type and shape of each): stored once, referred to by number."""

from postgrad.store.checksum import Field
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

    def header(self, number: Field) -> str:
        """The header of a number.

        Raises:
            StoreError: If the header is damaged or missing.
        """
        if number not in self._headers:
            select = "SELECT header, checksum FROM array_headers WHERE number = ?"
            header, checksum = self._database.row(select, number) or ("", b"")
            if checksum != self._database.checksum(number, header):
                raise self._database.error(
                    f"header {number!r} of stored arrays is damaged; restore a backup"
                )
            self._headers[number] = header
        return self._headers[number]

    def number(self, header: str) -> int:
        """The number of a header, which is stored if it is new, inside the open transaction."""
        if header not in self._numbers:
            found = self._database.row("SELECT number FROM array_headers WHERE header = ?", header)
            if found is None:
                self._database.on_undo(self.forget)
                found = self._database.row("SELECT coalesce(max(number), 0) + 1 FROM array_headers")
                self._database.insert("array_headers", *found, header)
            self._numbers[header] = int(found[0])
        return self._numbers[header]

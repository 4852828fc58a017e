"""Headers of stored arrays (path, type and shape of each): stored once, referred to by number."""

from postgrad.errors import StoreError
from postgrad.store.checksum import Field
from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT


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
                raise self._damaged(number)
            self._headers[number] = header
        return self._headers[number]

    def number(self, header: str) -> int:
        """The number of a header, which is stored if it is new, inside the open transaction.

        Raises:
            StoreError: If the header is damaged, or one that is in use is missing.
        """
        if header not in self._numbers:
            select = "SELECT number, checksum FROM array_headers WHERE header = ?"
            number, checksum = self._database.row(select, header) or (None, b"")
            if number is None:
                number = self._insert(header)
            elif checksum != self._database.checksum(number, header):
                raise self._damaged(number)
            self._numbers[header] = number
        return self._numbers[header]

    def _insert(self, header: str) -> int:
        """Store a new header. A number that a state refers to must not be given again."""
        self._database.on_undo(self.forget)
        count, last = self._database.row("SELECT count(*), max(number) FROM array_headers")
        (used,) = self._database.row(
            "SELECT max(number) FROM (SELECT max(header, report_header) AS number FROM heads UNION "
            "ALL SELECT max(header, report_header) FROM checkpoints UNION ALL SELECT header FROM "
            "fixed_arrays)"
        )
        if count != (last or 0) or (used or 0) > count:
            raise self._database.error(f"a header of stored arrays is missing; {WAY_OUT}")
        self._database.insert("array_headers", count + 1, header)
        return int(count) + 1

    def _damaged(self, number: Field) -> StoreError:
        return self._database.error(f"header {number!r} of stored arrays is damaged; {WAY_OUT}")

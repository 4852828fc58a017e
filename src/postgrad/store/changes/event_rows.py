"""The events of one stream in the database, numbered from 1.

How many there are is part of the stream's latest state. So an event that is missing is noticed,
wherever it stood.
"""

from postgrad.store.database import Database
from postgrad.store.stored_state import Event

_COLUMNS = "number, stage, time, kind, content, checksum"


class EventRows:
    """The events of one stream."""

    def __init__(self, database: Database, stream: int):
        self._database, self._stream = database, stream

    def insert(self, number: int, event: Event) -> None:
        """Insert an event under its number."""
        fields = (event.stage, event.time, event.kind, event.content)
        self._database.insert("events", self._stream, number, *fields)

    def read(self, count: int | None) -> list[Event]:
        """All events, in the order in which they happened.

        Args:
            count: How many there are, as the latest state says; None if that is damaged.

        Raises:
            StoreError: If an event is damaged or missing.
        """
        select = f"SELECT {_COLUMNS} FROM events WHERE stream = ? ORDER BY number"
        rows = self._database.rows(select, self._stream)
        for number, (*fields, checksum) in enumerate(rows, start=1):
            expected = self._database.checksum(self._stream, *fields)
            if fields[0] != number or checksum != expected:
                raise self._database.error(f"event {number} is damaged; restore a backup")
        if count is not None and len(rows) != count:
            found = f"{len(rows)} events are on record, {count} were"
            raise self._database.error(f"{found}; restore a backup")
        return [Event(*fields) for _, *fields, _ in rows]

"""The events of one stream in the database, numbered from 1.

How many there are is part of the stream's latest state. So an event that is missing is noticed,
wherever it stood.
"""

from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.schema import STAGES
from postgrad.store.stored_state import Event

_FROM = "FROM events WHERE place BETWEEN ? AND ?"


class EventRows:
    """The events of one stream."""

    def __init__(self, database: Database, stream: int):
        self._database, self._first = database, stream * STAGES

    def insert(self, number: int, event: Event) -> None:
        """Insert an event under its number."""
        fields = (event.stage, event.time, event.kind, event.content)
        self._database.insert("events", self._first + number, *fields)

    def count(self) -> int:
        """How many events there are, unchecked."""
        return int(self._database.row(f"SELECT count(*) {_FROM}", *self._ends)[0])

    def read(self, count: int) -> list[Event]:
        """All events, in the order in which they happened.

        Args:
            count: How many there are, as the latest state says.

        Raises:
            StoreError: If an event is damaged or missing.
        """
        rows = self._database.rows(f"SELECT * {_FROM} ORDER BY place", *self._ends)
        for number, (*fields, checksum) in enumerate(rows, start=1):
            right = fields[0] == self._first + number
            if not right or checksum != self._database.checksum(*fields):
                raise self._database.error(f"event {number} is damaged; {WAY_OUT}")
        if len(rows) != count:
            found = f"{len(rows)} events are on record, {count} were"
            raise self._database.error(f"{found}; {WAY_OUT}")
        return [Event(*fields) for _, *fields, _ in rows]

    @property
    def _ends(self) -> tuple[int, int]:
        return self._first + 1, self._first + STAGES - 1

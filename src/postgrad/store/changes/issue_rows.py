"""The decisions that one stream has issued under ids, numbered from 1, and their chain.

Each checksum includes the one before it, and how many there are is part of the stream's latest
state. So a decision that was changed, removed or moved is noticed.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from postgrad.errors import StoreError
from postgrad.store.checksum import digest
from postgrad.store.database import Database
from postgrad.store.guards.sqlite_errors import WAY_OUT
from postgrad.store.schema import STAGES
from postgrad.store.stored_state import Issue

# Rows read by one statement.
_CHUNK = 256

_COLUMNS = "place, id, stage, time, context, answer, chain"
_fields = attrgetter("id", "stage", "time", "context", "answer")


class IssueRows:
    """The issued decisions of one stream."""

    def __init__(self, database: Database, stream: int):
        self._database, self._stream, self._first = database, stream, stream * STAGES

    def insert(self, number: int, issue: Issue) -> None:
        """Insert a decision under its number, after the one before it.

        Raises:
            StoreError: If the one before it is missing.
        """
        place = self._first + number
        found = self._rows(number - 1, number - 1)
        before = self._start if number == 1 else found[0][-1] if found else None
        if before is None:
            raise self._damaged(number - 1)
        insert = "INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        chain = next_issued(before, place, issue)
        self._database.rows(insert, place, self._stream, *_fields(issue), chain)

    def count(self) -> int:
        """How many there are, by the latest state, and by the table, which must agree.

        Raises:
            StoreError: If they do not.
        """
        last, count = self._database.row(
            "SELECT (SELECT max(place) FROM decisions WHERE place BETWEEN ? AND ?), "
            "(SELECT issued FROM heads WHERE stream = ?)",
            *(self._first + 1, self._first + STAGES - 1, self._stream),
        )
        if not isinstance(count, int) or (last or self._first) != self._first + count:
            raise self._damaged(count or 0)
        return count

    def find(self, name: str) -> Issue | None:
        """The decision of an id; None if there is none."""
        select = "SELECT place FROM decisions WHERE stream = ? AND id = ?"
        found = self._database.row(select, self._stream, name)
        if found is None:
            return None
        number = found[0] - self._first
        (issue,) = self.read(number, number)
        if issue.id != name:
            raise self._damaged(number)
        return issue

    def read(self, first: int, last: int) -> Iterator[Issue]:
        """Decisions from number `first` to number `last`, in order, read in chunks.

        Raises:
            StoreError: At the first one that is damaged or missing.
        """
        for start in range(max(first, 1), last + 1, _CHUNK):
            stop = min(start + _CHUNK - 1, last)
            found = {place: fields for place, *fields in self._rows(start - 1, stop)}
            before = self._start if start == 1 else found.get(self._first + start - 1, [None])[-1]
            for number in range(start, stop + 1):
                *fields, chain = found.get(self._first + number, [None])
                if before is None or chain != digest(before, self._first + number, *fields):
                    raise self._damaged(number)
                yield Issue(*fields)
                before = chain

    def verify(self, count: int) -> None:
        """Read and check all.

        Args:
            count: How many there are, as the latest state says.

        Raises:
            StoreError: If one is damaged or missing.
        """
        if self.count() != count:
            raise self._damaged(count)
        for _ in self.read(1, count):
            pass

    @property
    def _start(self) -> bytes:
        """What stands for the checksum before that of the first one."""
        return chain_start(self._database.identity, self._stream)

    def _rows(self, first: int, last: int) -> list[Any]:
        select = f"SELECT {_COLUMNS} FROM decisions WHERE place BETWEEN ? AND ? ORDER BY place"
        return self._database.rows(select, self._first + max(first, 1), self._first + last)

    def _damaged(self, number: int) -> StoreError:
        return self._database.error(f"issued decision {number} is damaged or missing; {WAY_OUT}")


def chain_start(identity: bytes | None, stream: int) -> bytes:
    """What stands for the checksum before that of a stream's first issued decision."""
    return digest(identity, stream, "decisions")


def next_issued(before: bytes, place: int, issue: Issue) -> bytes:
    """The checksum of an issued decision with a key, after the one with the checksum `before`."""
    return digest(before, place, *_fields(issue))

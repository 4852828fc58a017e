"""The durable state of one stream: each batch and what came of it, in one transaction."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from postgrad.errors import StoreError
from postgrad.store.array_headers import Layouts
from postgrad.store.checksum import Field, digest
from postgrad.store.database import Database
from postgrad.store.entries import Batch, Head, Saved, Stale
from postgrad.store.schema import STAGES, start_of_chain

# Every so many stages the state is kept as a checkpoint; as time goes on ever fewer remain.
EVERY = 64
# Rows that are read at a time: memory stays flat, and no reading is in the way for long.
_CHUNK = 256

_BATCH = "place, id, time, x, rows, answer, alarm, chain"
_POINT = "stage, commits, chain, still, layout, state, report_layout, report, counters, checksum"


class Store:
    """One named stream in a database.

    Attributes:
        database: Where it is.
        layouts: What the words of stored arrays are.
        settings: What the stream began with; None if it is new.

    Every row has a checksum that binds it to the store, the stream and the stage; those of batches
    form a chain, whose end is in the head. What is read is checked.
    """

    def __init__(self, database: Database, name: str):
        """Finds the stream.

        Args:
            database: Where it is.
            name: Which stream.

        Raises:
            StoreError: If the list of streams is damaged.
        """
        self.database, self._name = database, name
        self.layouts = Layouts(database)
        self._stream = 0
        self.settings = self._find_stream()

    def create(self, settings: str, saved: Saved) -> str | None:
        """Begins the stream.

        Returns:
            The settings that are there already, if another process was faster; else None.
        """
        with self.database.transaction(), self.database.reading() as connection:
            taken = connection.execute("SELECT 1 FROM streams WHERE name = ?", (self._name,))
            new = taken.fetchone() is None
            if new:
                self._check_streams(connection)
                last = connection.execute("SELECT coalesce(max(stream), 0) FROM streams")
                self._stream = last.fetchone()[0] + 1
                row = (self._stream, self._name, settings)
                connection.execute(
                    "INSERT INTO streams VALUES (?, ?, ?, ?)",
                    (*row, digest(self.database.identity, *row)),
                )
                chain = start_of_chain(self.database.identity, self._stream)
                self._insert(connection, "heads", Head(saved, 1, chain))
                self.database.note(self._stream, 1)
        if not new:
            self.settings = self._find_stream()
            return self.settings
        self.settings = settings
        return None

    def load(self) -> Head:
        """The latest state.

        Raises:
            StoreError: If it is damaged, or batches that were acknowledged are missing.
        """
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_POINT} FROM heads WHERE stream = ?", (self._stream,)
            ).fetchall()
            if len(rows) != 1:
                raise StoreError(f"the state is missing; {_RECOVER}")
            head = self._head(connection, rows[0], f"the state is damaged; {_RECOVER}")
            last = connection.execute(
                "SELECT place, chain FROM batches WHERE place BETWEEN ? AND ? "
                "ORDER BY place DESC LIMIT 1",
                (self._place(1), self._place(STAGES - 1)),
            ).fetchone()
            stage = head.saved.stage
            expected = (self._place(stage), head.chain) if stage else None
            # Another process may have committed between the two statements: then the last batch is
            # of a later stage, and its own head will tell.
            if last != expected and self._is_current(connection, head):
                raise StoreError(f"the last batches are missing or damaged; {_RECOVER}")
        _, acknowledged = self.database.testimony.get(self._stream, (b"", 0))
        if acknowledged > head.commits:
            if not self.database.recover:
                raise StoreError(
                    f"{acknowledged - head.commits} acknowledged batches are missing: the "
                    f"database or its log was damaged or replaced; restore all of its files from "
                    f"a backup, or go on from the last good state with Agent(..., recover=True)"
                )
            commits = self._force(head.saved, head.chain, None)
            head = replace(head, commits=commits)
        return head

    def is_current(self, head: Head) -> bool:
        """Whether nobody has written since."""
        with self.database.reading() as connection:
            return self._is_current(connection, head)

    def append(
        self, head: Head, batch: Batch, saved: Saved, stills: tuple[str, bytes] | None
    ) -> Head:
        """Records a batch and what came of it, in one transaction.

        Args:
            head: What it was computed from.
            batch: The batch.
            saved: The state after it.
            stills: Arrays that stages do not change, if they were replaced.

        Raises:
            Stale: If another process has written since; nothing was recorded.
            StoreError: If it could not be recorded; nothing was.
        """
        place = self._place(saved.stage)
        fields = (batch.id, batch.time, batch.x, batch.rows, batch.answer)
        chain = digest(head.chain, place, *fields, batch.alarm)
        new = Head(saved, head.commits + 1, chain)
        with self.database.transaction(), self.database.reading() as connection:
            self._update(connection, head, new)
            connection.execute(
                "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (place, self._stream, *fields, batch.alarm, chain),
            )
            if stills is not None:
                self._keep_stills(connection, saved.stage, *stills)
            if saved.stage % EVERY == 0:
                self._insert(connection, "checkpoints", new)
                self._thin(connection, saved.stage)
            self.database.note(self._stream, new.commits)
        return new

    def rewind(self, head: Head, saved: Saved, stills: tuple[str, bytes] | None) -> Head:
        """Goes back to an earlier state, in one transaction; later batches are removed.

        Raises:
            Stale: If another process has written since; nothing was changed.
        """
        chain = self._chain(saved.stage)
        new = Head(saved, head.commits + 1, chain)
        with self.database.transaction(), self.database.reading() as connection:
            self._update(connection, head, new)
            self._drop_after(connection, saved.stage)
            if stills is not None:
                self._keep_stills(connection, saved.still, *stills)
            self.database.note(self._stream, new.commits)
        return new

    def rebuild(self, saved: Saved, stills: tuple[str, bytes] | None) -> Head:
        """Replaces a damaged state by one that was computed anew; batches after it are removed."""
        chain = self._chain(saved.stage)
        return Head(saved, self._force(saved, chain, stills), chain)

    def find(self, name: str) -> tuple[int, Batch] | None:
        """The stage and the batch of that id, if there was one."""
        with self.database.reading() as connection:
            found = connection.execute(
                "SELECT place FROM batches WHERE stream = ? AND id = ?", (self._stream, name)
            ).fetchone()
        if found is None:
            return None
        stage = found[0] - self._place(0)
        for number, batch in self.batches(stage, stage):
            if batch.id == name:
                return number, batch
        raise self.database.error(f"the index of ids is damaged at {name!r}; {_RECOVER}")

    def batches(self, first: int, last: int) -> Iterator[tuple[int, Batch]]:
        """Stages and batches from one stage to another, read a few at a time.

        Raises:
            StoreError: At the first that is damaged or missing.
        """
        for start in range(max(first, 1), last + 1, _CHUNK):
            stop = min(start + _CHUNK - 1, last)
            with self.database.reading() as connection:
                rows = connection.execute(
                    f"SELECT {_BATCH} FROM batches WHERE place BETWEEN ? AND ? ORDER BY place",
                    (self._place(start - 1), self._place(stop)),
                ).fetchall()
            yield from self._checked(rows, start, stop)

    def alarms(self) -> list[tuple[int, str]]:
        """The stages and texts of all alarms."""
        with self.database.reading() as connection:
            places = connection.execute(
                "SELECT place FROM batches WHERE stream = ? AND alarm IS NOT NULL ORDER BY place",
                (self._stream,),
            ).fetchall()
        stages = [place - self._place(0) for (place,) in places]
        found = [next(self.batches(stage, stage)) for stage in stages]
        return [(stage, batch.alarm) for stage, batch in found if batch.alarm is not None]

    def checkpoint(self, stage: int) -> Saved | None:
        """The last good checkpoint that is not after a stage; None for the beginning."""
        with self.database.reading() as connection:
            rows = connection.execute(
                f"SELECT {_POINT} FROM checkpoints WHERE stream = ? AND stage <= ? "
                f"ORDER BY stage DESC",
                (self._stream, stage),
            ).fetchall()
            for row in rows:
                try:
                    head = self._head(connection, row, "")
                    self.stills(head.saved)
                except StoreError:
                    continue
                return head.saved
        return None

    def stills(self, saved: Saved) -> tuple[str, bytes] | None:
        """The header and the words of the arrays that stages do not change, if not the first."""
        if saved.still == 0:
            return None
        with self.database.reading() as connection:
            found = connection.execute(
                "SELECT layout, arrays, checksum FROM stills WHERE stream = ? AND stage = ?",
                (self._stream, saved.still),
            ).fetchone()
            layout, arrays, checksum = found or (0, b"", b"")
            bound = (self.database.identity, self._stream, saved.still, layout, arrays)
            if checksum != digest(*bound):
                raise StoreError(f"the state is damaged; {_RECOVER}")
            return self.layouts.header(connection, layout), arrays

    def last_good(self, first: int) -> int:
        """How far batches can be read without a gap, from a stage on."""
        last = first
        with suppress(StoreError):
            for stage, _ in self.batches(first + 1, STAGES - 2):
                last = stage
        return last

    def verify(self, head: Head) -> None:
        """Reads everything.

        Raises:
            StoreError: If anything is damaged or missing.
        """
        with self.database.reading() as connection:
            self.database.check_pages(connection)
            self._check_streams(connection)
            self.layouts.forget()
            for (layout,) in connection.execute("SELECT layout FROM layouts").fetchall():
                self.layouts.header(connection, layout)
            points = connection.execute(
                f"SELECT {_POINT} FROM checkpoints WHERE stream = ?", (self._stream,)
            ).fetchall()
            for point in points:
                self.stills(self._head(connection, point, "a checkpoint is damaged").saved)
        self.stills(head.saved)
        count = sum(1 for _ in self.batches(1, head.saved.stage))
        if count != head.saved.stage:
            raise self.database.error(f"{head.saved.stage - count} batches are missing")

    # How rows are found and checked.

    def _place(self, stage: int) -> int:
        return self._stream * STAGES + stage

    def _find_stream(self) -> str | None:
        with self.database.reading() as connection:
            found = connection.execute(
                "SELECT stream, name, settings, checksum FROM streams WHERE name = ?",
                (self._name,),
            ).fetchone()
            if found is None:
                self._check_streams(connection)
                return None
            *row, checksum = found
            if checksum != digest(self.database.identity, *row):
                raise StoreError("the settings of the stream are damaged; restore a backup")
            self._stream = row[0]
            return row[2]

    def _check_streams(self, connection: sqlite3.Connection) -> None:
        """A damaged name must not look like a stream that never was."""
        last = 0
        for *row, checksum in connection.execute("SELECT * FROM streams ORDER BY stream"):
            last = last + 1
            if checksum != digest(self.database.identity, *row) or row[0] != last:
                raise StoreError("the list of streams is damaged; restore a backup")
        if max(self.database.testimony, default=0) > last:
            if not self.database.recover:
                raise StoreError(
                    "a stream that was acknowledged is missing; restore all files from a backup, "
                    "or go on without it with Agent(..., recover=True)"
                )
            self.database.forget()

    def _checked(
        self, rows: list[tuple[Field, ...]], first: int, last: int
    ) -> Iterator[tuple[int, Batch]]:
        identity = self.database.identity
        if first == 1:
            chain: Field = start_of_chain(identity, self._stream)
        else:
            before = rows.pop(0) if rows else (None,)
            chain = before[-1] if before[0] == self._place(first - 1) else None
        for stage in range(first, last + 1):
            row = rows[stage - first] if stage - first < len(rows) else (None,)
            place, *fields, checksum = row if len(row) > 1 else (None, None)
            if place != self._place(stage) or checksum != digest(chain, place, *fields):
                raise self.database.error(f"batch {stage} is damaged or missing; restore a backup")
            chain = checksum
            yield stage, Batch(*fields)  # type: ignore[arg-type]

    def _chain(self, stage: int) -> bytes:
        if stage == 0:
            return start_of_chain(self.database.identity, self._stream)
        with self.database.reading() as connection:
            found = connection.execute(
                "SELECT chain FROM batches WHERE place = ?", (self._place(stage),)
            ).fetchone()
        if found is None:
            raise self.database.error(f"batch {stage} is missing; restore a backup")
        return found[0]

    def _head(self, connection: sqlite3.Connection, row: tuple[Field, ...], complaint: str) -> Head:
        *point, checksum = row
        if checksum != digest(self.database.identity, self._stream, *point):
            raise StoreError(complaint)
        stage, commits, chain, still, layout, state, report_layout, report, counters = point
        headers = (self.layouts.header(connection, number) for number in (layout, report_layout))
        saved = Saved(stage, next(headers), state, next(headers), report, counters, still)  # type: ignore[arg-type]
        return Head(saved, commits, chain)  # type: ignore[arg-type]

    def _is_current(self, connection: sqlite3.Connection, head: Head) -> bool:
        found = connection.execute(
            "SELECT commits FROM heads WHERE stream = ?", (self._stream,)
        ).fetchone()
        return found == (head.commits,)

    # How rows are written, inside a transaction.

    def _values(self, connection: sqlite3.Connection, head: Head) -> tuple[Field, ...]:
        saved = head.saved
        point = (
            saved.stage,
            head.commits,
            head.chain,
            saved.still,
            self.layouts.number(connection, saved.header),
            saved.state,
            self.layouts.number(connection, saved.report_header),
            saved.report,
            saved.counters,
        )
        return (*point, digest(self.database.identity, self._stream, *point))

    def _insert(self, connection: sqlite3.Connection, table: str, head: Head) -> None:
        connection.execute(
            f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self._stream, *self._values(connection, head)),
        )

    def _update(self, connection: sqlite3.Connection, old: Head, new: Head) -> None:
        changed = connection.execute(
            "UPDATE heads SET stage = ?, commits = ?, chain = ?, still = ?, layout = ?, state = ?, "
            "report_layout = ?, report = ?, counters = ?, checksum = ? "
            "WHERE stream = ? AND commits = ?",
            (*self._values(connection, new), self._stream, old.commits),
        )
        if changed.rowcount != 1:
            raise Stale

    def _keep_stills(
        self, connection: sqlite3.Connection, stage: int, header: str, arrays: bytes
    ) -> None:
        row = (self._stream, stage, self.layouts.number(connection, header), arrays)
        connection.execute(
            "INSERT OR REPLACE INTO stills VALUES (?, ?, ?, ?, ?)",
            (*row, digest(self.database.identity, *row)),
        )

    def _thin(self, connection: sqlite3.Connection, stage: int) -> None:
        """Of each power of two, the last two multiples remain: O(log n) checkpoints."""
        last, kept = stage // EVERY, set()
        for power in range(last.bit_length()):
            step = 1 << power
            kept |= {last - last % step, last - last % step - step}
        marks = ", ".join("?" * len(kept))
        connection.execute(
            f"DELETE FROM checkpoints WHERE stream = ? AND stage NOT IN ({marks})",
            (self._stream, *(EVERY * number for number in kept)),
        )
        connection.execute(
            "DELETE FROM stills WHERE stream = ?1 AND stage NOT IN (SELECT still FROM heads "
            "WHERE stream = ?1 UNION SELECT still FROM checkpoints WHERE stream = ?1)",
            (self._stream,),
        )

    def _drop_after(self, connection: sqlite3.Connection, stage: int) -> None:
        connection.execute(
            "DELETE FROM batches WHERE place BETWEEN ? AND ?",
            (self._place(stage + 1), self._place(STAGES - 1)),
        )
        for table in ("checkpoints", "stills"):
            connection.execute(
                f"DELETE FROM {table} WHERE stream = ? AND stage > ?", (self._stream, stage)
            )

    def _force(self, saved: Saved, chain: bytes, stills: tuple[str, bytes] | None) -> int:
        """Writes a head whatever is there, with a number above all that were acknowledged."""
        with self.database.transaction(), self.database.reading() as connection:
            found = connection.execute(
                "SELECT commits FROM heads WHERE stream = ?", (self._stream,)
            ).fetchone()
            known = found[0] if found and isinstance(found[0], int) else 0
            _, acknowledged = self.database.testimony.get(self._stream, (b"", 0))
            commits = max(known if known < STAGES else 0, acknowledged) + 1
            self._drop_after(connection, saved.stage)
            self._insert(connection, "heads", Head(saved, commits, chain))
            if stills is not None:
                self._keep_stills(connection, saved.still, *stills)
            self.database.note(self._stream, commits)
        return commits


_RECOVER = "restore a backup, or try Agent(..., recover=True)"

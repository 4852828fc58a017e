"""The contexts of rows that agents observe, and of the decisions they are asked for.

A stream makes numbers of a row by what its earlier rows have shown (`ColumnMemory`). That is kept
with the batches themselves, in their notes, so that it is committed, undone and gone back from
with them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from postgrad.agent.agent import Agent
from postgrad.errors import DataError, DuplicateBatchError
from postgrad.records.record import Record
from postgrad.spec.contexts.calendar import date_of, time_of
from postgrad.spec.contexts.cells import Cells, cells_of
from postgrad.spec.contexts.column_memory import ColumnMemory, Context
from postgrad.spec.contexts.context_table import ContextTable
from postgrad.spec.reading.stream_names import ALL_ITEMS
from postgrad.spec.tables.row_reader import DatedRow


class Observed(NamedTuple):
    """The occasion of a row, as `Agent.observe` takes it."""

    context: Context
    date: float | None
    note: Any


class RowContexts:
    """Makes contexts of rows.

    Attributes:
        table: The columns.
        dated: Whether rows have dates.
        together: The names of the items that are decided together; none, if each is by itself.
    """

    def __init__(self, table: ContextTable, dated: bool, together: Sequence[str]):
        """See the attributes."""
        self.table, self.dated, self.together = table, dated, tuple(together)

    def cells(self, row: DatedRow, item: str) -> list[Cells]:
        """What a row says of an item, or of all items that are decided together."""
        return [row.contexts[name] for name in self.together or (item,)]

    def time(self, row: DatedRow) -> float | None:
        """The time of a row in days; None if rows have no dates."""
        return time_of(date_of(row.date, row.where)) if self.dated and row.date else None

    def left_out(self, row: DatedRow, item: str) -> list[str]:
        """The columns for want of which a row is not learned from; none, if it is."""
        missing = (column for one in self.cells(row, item) for column in one.missing)
        return list(dict.fromkeys(missing))

    def all_left_out(self, row: DatedRow) -> dict[str, list[str]]:
        """The same for all items of a row that have a demand, by item."""
        known = [item for item, value in row.values.items() if value is not None]
        if self.together:
            known = [ALL_ITEMS] if len(known) == len(row.values) else []
        found = {item: self.left_out(row, item) for item in known}
        return {item: columns for item, columns in found.items() if columns}

    def row_of(
        self, item: str, group: str | None, date: str | None, given: Mapping[str, str]
    ) -> DatedRow:
        """A row without a demand, from values of columns by the names of the context or the data.

        Raises:
            DataError: If the date is needed and not given, or a value is no number where it should.
        """
        where, items = "--context", self.together or (item,)
        if date is None and self.table.needs_dates:
            raise DataError("--date is needed: some of the context is read off the date")
        cells = {
            column: given.get(name, given.get(column))
            for name in self.table.columns
            for column in (self.table.in_data(name, one) for one in items)
        }
        known = {*self.table.columns, *cells}
        if unknown := [name for name in given if name not in known]:
            raise DataError(f"--context: there is no column {unknown[0]!r}, only {sorted(known)}")
        return DatedRow(
            id=date or "",
            date=date or "",
            group=group,
            values=dict.fromkeys(items),
            decisions={},
            where=where,
            contexts=cells_of(self.table, cells, date or "", items, where),
        )

    def observed(self, agent: Agent, row: DatedRow, item: str) -> Observed:
        """The occasion of a row that has a demand, and no missing value.

        Raises:
            DataError: If there are more levels than there is room for.
            DuplicateBatchError: If a row of the same id had another context.
        """
        cells, time = self.cells(row, item), self.time(row)
        said = said_by(cells)
        if (known := agent.record(row.id)) is not None:
            return _again(row, known, said, time)
        memory, place = self._memory(agent)
        after = memory.after(self.table, cells)
        kept: Any = place if after is memory and place else after.to_json()
        # Levels that the row brings have a number; the scale is that of the rows before it.
        now = ColumnMemory(after.levels, memory.first_rows)
        context = now.context(self.table, cells, bool(self.together))
        return Observed(context, time, {"cells": said, "memory": kept})

    def decided(self, agent: Agent, cells: Sequence[Cells]) -> Context:
        """The context to decide for.

        Raises:
            DataError: If a value is missing, or a level was never seen.
        """
        memory = self._memory(agent)[0]
        if (reason := memory.unseen(self.table, cells)) is not None:
            raise DataError(f"{cells[0].where}: {reason}")
        return memory.context(self.table, cells, bool(self.together))

    def _memory(self, agent: Agent) -> tuple[ColumnMemory, int]:
        """What earlier rows have shown, and the stage whose batch says it; 0 before the first."""
        stage = agent.stage
        if stage == 0:
            return ColumnMemory(), 0
        kept = _note(_record(agent, stage))["memory"]
        if isinstance(kept, int):
            stage, kept = kept, _note(_record(agent, kept))["memory"]
        return ColumnMemory.from_json(kept), stage


def said_by(cells: Sequence[Cells]) -> dict[str, Any]:
    """The values of the columns that a row gives, in JSON types."""
    return {c.column: c.value for one in cells for c in one.columns.values() if c.given}


def _record(agent: Agent, stage: int) -> Record:
    return next(iter(agent.history(first=stage)))


def _note(record: Record) -> Mapping[str, Any]:
    return (record.context or {}).get("note") or {"memory": ColumnMemory().to_json(), "cells": {}}


def _again(row: DatedRow, known: Record, said: Mapping[str, Any], time: float | None) -> Observed:
    """The occasion of a row that was observed before."""
    before = _note(known)["cells"]
    different = [name for name in {**before, **said} if before.get(name) != said.get(name)]
    kept = known.context or {}
    if different or kept.get("date") != time:
        what = f"{different[0]!r} was {before.get(different[0])!r}" if different else "the date"
        now = f", now {said.get(different[0])!r}" if different else " was another one"
        raise DuplicateBatchError(f"was observed before in another context: {what}{now}")
    context = {name: np.asarray(value) for name, value in kept["z"].items()}
    return Observed(context, time, kept.get("note"))

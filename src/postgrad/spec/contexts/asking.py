"""Rows without a demand: what is decided for."""

import datetime
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from postgrad.agent.agent import Agent
from postgrad.errors import ContextError, DataError, SpecificationError
from postgrad.records.explanation import interval_of
from postgrad.spec.contexts.calendar import calendar_features, date_of
from postgrad.spec.contexts.cells import Cells
from postgrad.spec.contexts.row_contexts import RowContexts, said_by
from postgrad.spec.data import WEEKDAYS, AnySplit, SplitByWeekday
from postgrad.spec.reading.stream_names import Interval, Stream
from postgrad.spec.reworded import reworded
from postgrad.spec.tables.row_reader import DatedRow


def asks(row: DatedRow) -> bool:
    """Whether a row has no demand at all."""
    return all(value is None for value in row.values.values())


class Rows:
    """Rows of a file, in which only the last ones without a demand are asked about.

    A row without a demand that is followed by one with a demand, of the same items, is of the past:
    nothing was known of that day, and nothing is to be decided for it.
    """

    def __init__(self, rows: Iterable[DatedRow], *, hold: bool):
        """Args: the rows, and whether to hold those without a demand back until the end."""
        self._rows, self._hold = rows, hold
        self._held: list[DatedRow] = []
        self._last: dict[tuple[str, ...], DatedRow] = {}  # of each item, or of all together
        self._asked = False

    def __iter__(self) -> Iterator[DatedRow]:
        """The rows that are not held back."""
        for row in self._rows:
            asked = asks(row)
            if asked and self._hold:
                self._held.append(row)
                continue
            self._held = [one for one in self._held if one.values.keys().isdisjoint(row.values)]
            self._last[tuple(row.values)], self._asked = row, asked
            yield row

    def left_to_decide(self, contexts: RowContexts, split: AnySplit | None) -> list[DatedRow]:
        """When all rows were read: those held back, or the day after the last, see `next_day`."""
        if self._held or self._asked or not contexts.dated:
            return self._held
        dates = {key: date_of(row.date, row.where) for key, row in self._last.items()}
        last = [row for key, row in self._last.items() if dates[key] == max(dates.values())]
        days = (next_day(contexts, split, row) for row in last)
        return [day for day in days if day is not None]


class Decided(NamedTuple):
    """The decision for a row.

    Attributes:
        decision: The decision.
        interval: Between which ends the best one lies; None where nothing tells.
        issued: Whether it is stored under the row's id.
    """

    decision: np.ndarray
    interval: Interval | None
    issued: bool


def decided(
    contexts: RowContexts, agent: Agent, row: DatedRow, cells: list[Cells], *, issue: bool
) -> Decided:
    """Decide for a row; what was issued under its id stays as it was issued.

    Args:
        contexts: Makes contexts of rows.
        agent: Who decides.
        row: The row.
        cells: What it says of the agent's items.
        issue: Whether to issue the decision, under the row's id, if none was.

    Raises:
        DataError: If a value is missing, a level was never seen, or a decision was issued under the
            row's id for another context.
    """
    said, time = said_by(cells), contexts.time(row)
    before = agent.issued(row.id)
    if before is not None:
        kept = before.context or {}
        cells_before = (kept.get("note") or {}).get("cells", {})
        different = [n for n in {**cells_before, **said} if cells_before.get(n) != said.get(n)]
        if different or kept.get("date") != time:
            name = different[0] if different else "date"
            was, now = (one.get(name, "another one") for one in (cells_before, said))
            told = f"{name!r} was {was!r}" + (f", now {now!r}" if different else "")
            instead = "give the row another id (data.id), or ask with `postgrad decide --context`"
            raise DataError(f"{row.where}: {row.id!r} was decided for before: {told}; {instead}")
        return Decided(before.decision, interval_of(before), True)
    if not issue:
        return sought(contexts, agent, row, cells)
    with reworded(f"{row.where}: {row.id}", DataError, ContextError):
        context = contexts.decided(agent, cells)
        agent.decide(context, id=row.id, date=time, note={"cells": said})
    found = agent.issued(row.id)
    assert found is not None  # just issued
    return Decided(found.decision, interval_of(found), True)


def sought(contexts: RowContexts, agent: Agent, row: DatedRow, cells: list[Cells]) -> Decided:
    """The decision for a row, of which nothing is stored.

    Raises:
        DataError: If a value is missing, or a level was never seen.
    """
    context, time = contexts.decided(agent, cells), contexts.time(row)
    with reworded(f"{row.where}: {row.id}", DataError, ContextError):
        decision, ahead = agent.decide(context, date=time), agent.outlook(context, date=time)
    return Decided(decision, interval_of(ahead), False)


def occasion_of(
    contexts: RowContexts | None,
    agent: Agent,
    stream: Stream,
    date: str | None,
    given: Mapping[str, str],
) -> tuple[Any, Any]:
    """The context and the date of a question to an agent; both None if nothing is asked for.

    Args:
        contexts: Makes contexts of rows; None without `[context]`.
        agent: Who is asked.
        stream: Its item and group.
        date: The date, such as 2026-01-31.
        given: The values of columns, by the names of the context or of the data.

    Raises:
        DataError: If a value is missing or wrong, or a level was never seen.
        SpecificationError: If columns are given, and the specification has no `[context]`.
    """
    if contexts is None:
        if given:
            raise SpecificationError("it has no [context]: decisions are for all dates")
        return None, date
    row = contexts.row_of(*stream, date, given)
    with reworded(f"{row.where}: {row.id}", DataError, ContextError):
        return contexts.decided(agent, contexts.cells(row, stream[0])), contexts.time(row)


def next_day(contexts: RowContexts, split: AnySplit | None, last: DatedRow) -> DatedRow | None:
    """The day after a row, where the calendar alone says what its context is; else None."""
    table = contexts.table
    by_weekday = split is None or isinstance(split, SplitByWeekday)
    if table.columns or not by_weekday:
        return None
    day = date_of(last.date, last.where).date() + datetime.timedelta(days=1)
    where = f"the day after {last.date}"
    date = datetime.datetime(day.year, day.month, day.day)
    cells = Cells(calendar_features(date, table.calendar, table.holidays), {}, where)
    return DatedRow(
        id=day.isoformat(),
        date=day.isoformat(),
        group=None if split is None else WEEKDAYS[day.weekday()],
        values=dict.fromkeys(last.values),
        decisions={},
        where=where,
        contexts=dict.fromkeys(last.values, cells),
    )


def streams_on(date: str | None, split: AnySplit | None, streams: list[Stream]) -> list[Stream]:
    """Those of some streams that decide on a date: all, unless groups are weekdays.

    Raises:
        DataError: If the date is none.
    """
    if date is None or not isinstance(split, SplitByWeekday):
        return streams
    day = WEEKDAYS[date_of(date, "--date").weekday()]
    return [(item, group) for item, group in streams if group == day]

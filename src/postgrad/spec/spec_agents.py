"""The agents of a specification, one for each item and group, all in one file."""

import contextlib
import itertools
import json
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from postgrad.agent.agent import Agent
from postgrad.beliefs.pooling.pool import Pool
from postgrad.errors import (
    BatchError,
    DataError,
    DuplicateBatchError,
    PostgradError,
    SpecificationError,
    StoreError,
)
from postgrad.records.explanation import interval_of
from postgrad.records.record import Record
from postgrad.spec.build import build
from postgrad.spec.contexts.asking import Decided, Rows, asks, decided, occasion_of, sought
from postgrad.spec.contexts.row_contexts import RowContexts
from postgrad.spec.reading.normal_form import normal_form
from postgrad.spec.reading.row_batches import batches_of_row
from postgrad.spec.reading.stream_names import (
    ALL_ITEMS,
    Interval,
    Stream,
    by_item,
    stream_name,
    streams_of,
)
from postgrad.spec.reworded import reworded
from postgrad.spec.specification import Specification
from postgrad.spec.tables.row_reader import DatedRow
from postgrad.store import Database
from postgrad.store.stream_list import stream_of_batch

# The longest time for which rows share a commit: other processes wait for it before they write.
_COMMIT_S = 0.2


class SpecAgents(contextlib.AbstractContextManager["SpecAgents"]):
    """The agents of a specification. Each is a stream in the file.

    A row of data is observed by the agents of its items in its group: by all of them, or by none if
    one refuses it. A row that was observed before changes nothing.

    Attributes:
        specification: What is decided.
        path: The file.
    """

    def __init__(self, specification: Specification, path: Path, *, accept_change: bool = False):
        """Open the file, or create it.

        Args:
            specification: What to decide.
            path: The file.
            accept_change: Whether cost and feasible set may have been edited: see `Agent.change`.
                All streams of the file are changed, each in a commit of its own.

        Raises:
            StoreError: If the file is damaged, or belongs to another problem.
            SpecificationError: If the specification can only be backtested.
        """
        self.specification, self.path = specification, path
        feasible, split, data = specification.feasible, specification.split_by, specification.data
        self._agents: dict[Stream, Agent] = {}
        self._notes = normal_form(specification)
        self._built = None if data.item_names is None else build(specification, data.item_names)
        joint = self.together or (feasible is not None and feasible.joint)
        if joint and data.item is not None:
            rule = "items that are decided together must come in one row"
            instead = "rows that name their item can be backtested, not run"
            raise SpecificationError(f"{rule}: give each a column, data.items; {instead}")
        self._groups = (None,) if split is None else split.groups
        self._contexts: RowContexts | None = None
        if specification.context is not None:
            dated = data.date is not None
            self._contexts = RowContexts(specification.context, dated, self.together)
        self._asked: set[Stream] = set()
        self._accept_change = accept_change
        self._database = Database(path)
        if accept_change:
            for stream in self.streams():
                self.agent(*stream)

    def __exit__(self, *error: object) -> None:
        self._database.close()

    @property
    def together(self) -> tuple[str, ...]:
        """The names of the items that are decided together; none, if each is decided by itself."""
        return self._built.items if self._built is not None and self._built.joint else ()

    @property
    def in_contexts(self) -> bool:
        """Whether each decision is for a context."""
        return self._contexts is not None

    def streams(self) -> list[Stream]:
        """The streams of the file, in the order of their first rows.

        Raises:
            StoreError: If the file holds a stream that no specification has made.
        """
        return streams_of(self._database)

    def agent(self, item: str, group: str | None = None) -> Agent:
        """The agent of an item (`ALL_ITEMS`, if the items are decided together) and a group.

        Raises:
            StoreError: If the file is damaged, or belongs to another problem.
        """
        if (item, group) not in self._agents:
            # Without a list of the items, each item is built when its first row comes.
            built = self._built or build(self.specification, (item,))
            if not built.joint and item not in built.items:
                raise StoreError(
                    f"{self.path} is about {item!r}, which the specification does not have"
                )
            place = 0 if built.joint else built.items.index(item)
            problem, start = built.problems[place], built.starts[place]
            stream: Any = {"path": self._database, "name": stream_name(item, group)}
            self._agents[item, group] = Agent(
                problem,
                built.belief,
                start,
                **stream,
                accept_change=self._accept_change,
                alpha=built.alpha,
                notes=self._notes,
                pool=self._pool(built.pool, item),
                context=built.context,
                **built.options,
            )
        return self._agents[item, group]

    def _pool(self, pool: Pool | None, item: str) -> Pool | None:
        """The population of an item's groups, or that of all items."""
        if pool is None:
            return None
        return Pool(pool.strength, "all" if self.specification.split_by is None else f"of {item}")

    def deliver(self, rows: Iterable[DatedRow], *, at_once: int = 1) -> Iterator[dict[str, Any]]:
        """Observe rows, and report the decisions after each; also of rows observed before.

        With contexts, decisions are for rows without a demand: for those at the end, or, one row at
        a time, for each. The first one is issued, under the id of its row; those that follow it are
        computed and not stored, since more will be known when their time has come. Where the
        calendar alone makes the context, and no row asks, the day after the last row is decided.

        A report is given when its row has been committed. The first row that is refused ends the
        iteration with an error; all rows before it have been committed and reported.

        Args:
            rows: The rows.
            at_once: How many rows may share a commit. More than one is faster, and must not be used
                if a row is only sent after the report of the row before it.

        Raises:
            DataError: If a row cannot be read, or lacks a demand that is needed.
            PostgradError: If an agent refuses a row.
        """
        found = Rows(rows, hold=self._contexts is not None and at_once > 1)
        source = iter(found)
        while True:
            taken, unreadable = self._take(source, at_once)
            if not taken and unreadable is None:
                break
            while taken:
                reports, refused = self._commit(taken)
                yield from reports
                if refused is not None:
                    raise refused
            if unreadable is not None:
                raise unreadable
        if self._contexts is not None:
            for row in found.left_to_decide(self._contexts, self.specification.split_by):
                yield self._report(row)

    def decide(
        self, item: str, group: str | None, date: str | None, given: Mapping[str, str]
    ) -> Decided:
        """The decision of a stream for a date and a context; nothing is written.

        Args:
            item: The item, or `ALL_ITEMS`.
            group: The group.
            date: The date, such as 2026-01-31.
            given: The values of columns, by the names of the context or of the data.

        Raises:
            DataError: If a value is missing or wrong, or a level was never seen.
            SpecificationError: If the specification has no `[context]`.
        """
        if (contexts := self._contexts) is None:
            raise SpecificationError("it has no [context]: decisions are for all dates")
        row = contexts.row_of(item, group, date, given)
        return sought(contexts, self.agent(item, group), row, contexts.cells(row, item))

    def occasion(self, stream: Stream, date: str | None, given: Mapping[str, str]) -> Any:
        """The context and the date of a question to a stream: see `occasion_of`."""
        return occasion_of(self._contexts, self.agent(*stream), stream, date, given)

    def correct(self, rows: Iterable[DatedRow]) -> Iterator[dict[str, Any]]:
        """Correct what was observed of some rows by their ids, and report what is decided now.

        Each item is corrected in a commit of its own; a row that is right already changes nothing,
        so that what was broken off can be repeated. See `Agent.correct`.

        Args:
            rows: The rows as they should have been.

        Raises:
            DataError: If a row cannot be read, or was never observed.
            PostgradError: If an agent refuses a row.
        """
        self.specification.check_correctable()
        for row in rows:
            changed = {}
            for item, values, decisions in self._batches(row):
                agent = self._agent_of(item, row.group, row.id, f"{row.where}: ")
                with reworded(f"{row.where}: {row.id}", DataError, BatchError):
                    changed[item] = agent.correct(row.id, values, x=decisions)
            yield self._corrected(row.id, row.group, changed)

    def withdraw(self, name: str, streams: Iterable[Stream]) -> Iterator[dict[str, Any]]:
        """Take back what some streams observed under an id, and report what is decided now.

        Raises:
            DataError: If none of the streams has observed it.
        """
        self.specification.check_correctable()
        found = [stream for stream in streams if self.agent(*stream).record(name) is not None]
        if not found:
            raise DataError(f"{name!r} was never observed")
        for item, group in found:
            decision = self.agent(item, group).withdraw(name)
            yield self._corrected(name, group, {item: decision})

    def _agent_of(self, item: str, group: str | None, name: str, where: str) -> Agent:
        """The agent that has observed the batch of an id."""
        agent = self.agent(item, group) if (item, group) in self.streams() else None
        if agent is None or agent.record(name) is None:
            raise DataError(f"{where}{name}: {item!r} was never observed under this id")
        return agent

    def _corrected(
        self, name: str, group: str | None, changed: dict[str, np.ndarray]
    ) -> dict[str, Any]:
        decided = [part for item, x in changed.items() for part in self.by_item(item, x, None)]
        report = {"id": name} | ({} if group is None else {"group": group})
        return {**report, "decision": {item: decision for item, decision, _ in decided}}

    def _take(
        self, source: Iterator[DatedRow], count: int
    ) -> tuple[list[DatedRow], PostgradError | None]:
        """At most `count` rows, and the error at the row after them, if any.

        The agents of the rows are made here, and their stages are computed, since other processes
        wait for transactions. Fewer rows are taken where that takes longer than `_COMMIT_S`.
        """
        taken: list[DatedRow] = []
        began = time.monotonic()
        try:
            for row in itertools.islice(source, count):
                for item, values, decisions in self._batches(row):
                    self._prepare(item, row, values, decisions)
                if self._contexts is not None and asks(row):
                    self._decide(row, issue=False)  # compiled before the transaction begins
                taken.append(row)
                if time.monotonic() - began > _COMMIT_S:
                    break
        except PostgradError as error:
            return taken, error
        return taken, None

    def _commit(self, rows: list[DatedRow]) -> tuple[list[dict[str, Any]], PostgradError | None]:
        """Remove rows from the front of the list and commit them, for at most `_COMMIT_S`.

        Returns:
            The reports of the committed rows, and the error of the row that ended the commit.
        """
        reports: list[dict[str, Any]] = []
        began = time.monotonic()
        with self._database.transaction():
            while rows and (not reports or time.monotonic() - began < _COMMIT_S):
                try:
                    with self._database.transaction():
                        reports.append(self._report(rows.pop(0)))
                except StoreError:
                    raise
                except PostgradError as error:
                    return reports, error
        return reports, None

    def _report(self, row: DatedRow) -> dict[str, Any]:
        """Observe a row, and say what has been decided; decide for it, if it has no demand."""
        if self._contexts is not None and asks(row):
            return self._decide(row, issue=True)
        records = {item: self._observe(item, row, y, x) for item, y, x in self._batches(row)}
        report = self._heading(row, {item: record.stage for item, record in records.items()})
        if self._contexts is None:
            found = {item: (record.decision, record.interval) for item, record in records.items()}
        else:
            issued = {item: self.agent(item, row.group).issued(row.id) for item in records}
            found = {i: (one.decision, interval_of(one)) for i, one in issued.items() if one}
        if self.specification.pooled is not None:
            agents = {item: self.agent(item, row.group) for item in records}
            versions = {i: agents[i].population_version(r.stage) for i, r in records.items()}
            report["population"] = versions
        if found or self._contexts is None:
            report |= self._decisions(found)
        alarms = [f"{item}: {r.alarm}" for item, r in records.items() if r.alarm is not None]
        report |= {"alarms": alarms} if alarms else {}
        left_out = {} if self._contexts is None else self._contexts.all_left_out(row)
        return report | ({"left_out": left_out} if left_out else {})

    def _decide(self, row: DatedRow, *, issue: bool) -> dict[str, Any]:
        """The decisions for a row. Only the first one after a stream's last batch is issued."""
        assert self._contexts is not None  # rows ask for decisions in contexts only
        found: dict[str, Decided] = {}
        for item in [ALL_ITEMS] if self.together else row.values:
            agent, stream = self.agent(item, row.group), (item, row.group)
            cells, first = self._contexts.cells(row, item), stream not in self._asked
            found[item] = decided(self._contexts, agent, row, cells, issue=issue and first)
            if issue and found[item].issued:
                self._asked.add(stream)
        report = self._heading(row, {item: self.agent(item, row.group).stage for item in found})
        report |= self._decisions({i: (one.decision, one.interval) for i, one in found.items()})
        return report | {"issued": all(one.issued for one in found.values())}

    def _heading(self, row: DatedRow, stages: dict[str, int]) -> dict[str, Any]:
        group = {} if row.group is None else {"group": row.group}
        return {"id": row.id, **group, "stage": stages}

    def _decisions(self, found: Mapping[str, tuple[np.ndarray, Interval | None]]) -> dict[str, Any]:
        """Decisions, and their intervals if there are any, item by item."""
        parts = [part for item, one in found.items() for part in self.by_item(item, *one)]
        report: dict[str, Any] = {"decision": {item: decision for item, decision, _ in parts}}
        if any(ends is not None for _, _, ends in parts):
            report["interval"] = {item: ends for item, _, ends in parts}
        return report

    def _batches(self, row: DatedRow) -> Iterator[tuple[str, Any, Any]]:
        """The item of each stream that observes the row, the demand, and the decision in force."""
        left_out = {} if self._contexts is None else self._contexts.all_left_out(row)
        return batches_of_row(row, self.together, left_out)

    def _prepare(self, item: str, row: DatedRow, values: Any, decisions: Any) -> None:
        agent = self.agent(item, row.group)
        with contextlib.suppress(PostgradError):  # `_observe` says what is wrong
            on = self._occasion(agent, item, row)
            agent.prepare(values, id=row.id, x=decisions, **on)

    def _observe(self, item: str, row: DatedRow, values: Any, decisions: Any) -> Record:
        agent = self.agent(item, row.group)
        others = [stream_name(item, group) for group in self._groups if group != row.group]
        with warnings.catch_warnings():  # alarms are part of the report
            warnings.simplefilter("ignore")
            try:
                if (elsewhere := stream_of_batch(self._database, row.id, others)) is not None:
                    before = f"was observed before, in the group {json.loads(elsewhere)[1]!r}"
                    now = f"now comes in the group {row.group!r}; give the new row another id"
                    raise DuplicateBatchError(f"{before}, and {now}")
                on = self._occasion(agent, item, row)
                if on and decisions is None and (issued := agent.issued(row.id)) is not None:
                    decisions = issued.decision
                agent.observe(values, id=row.id, x=decisions, **on)
            except StoreError:
                raise
            except PostgradError as error:
                name = "" if item == ALL_ITEMS else f", {item!r}"
                raise type(error)(f"{row.where}: {row.id}{name}: {error}") from error
        self._asked.discard((item, row.group))
        record = agent.record(row.id)
        assert record is not None  # just observed
        return record

    def _occasion(self, agent: Agent, item: str, row: DatedRow) -> dict[str, Any]:
        """The arguments of `Agent.observe` that say on which occasion a row arose."""
        return {} if self._contexts is None else self._contexts.observed(agent, row, item)._asdict()

    def told(self, item: str, group: str | None = None) -> Agent:
        """What is told of an item and a group: see `agent`."""
        return self.agent(item, group)

    def by_item(
        self, item: str, decision: np.ndarray, interval: Interval | None
    ) -> Iterator[tuple[str, float, list[float] | None]]:
        """A stream's decision and interval as (item, number, [low, high]) for each of its items."""
        return by_item(self.together or (item,), decision, interval)

"""The agents of a specification, one for each item and group, all in one file."""

import contextlib
import itertools
import json
import time
import warnings
from collections.abc import Iterable, Iterator
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
from postgrad.records.record import Record
from postgrad.spec.build import build
from postgrad.spec.reading.normal_form import normal_form
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
                **built.options,
            )
        return self._agents[item, group]

    def _pool(self, pool: Pool | None, item: str) -> Pool | None:
        """The population of an item's groups, or that of all items."""
        if pool is None:
            return None
        return Pool(pool.strength, "all" if self.specification.split_by is None else f"of {item}")

    def _check_correctable(self) -> None:
        if self.specification.pooled is not None:
            raise SpecificationError(
                "rows of pooled streams cannot be corrected or withdrawn: other streams have "
                "learned from them. Put the data right, and run them into a new file (--state)"
            )

    def deliver(self, rows: Iterable[DatedRow], *, at_once: int = 1) -> Iterator[dict[str, Any]]:
        """Observe rows, and report the decisions after each; also of rows observed before.

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
        source = iter(rows)
        while True:
            taken, unreadable = self._take(source, at_once)
            if not taken and unreadable is None:
                return
            while taken:
                reports, refused = self._commit(taken)
                yield from reports
                if refused is not None:
                    raise refused
            if unreadable is not None:
                raise unreadable

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
        self._check_correctable()
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
        self._check_correctable()
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
                    self.agent(item, row.group).prepare(values, id=row.id, x=decisions)
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
        """Observe a row, and say what has been decided."""
        records = {item: self._observe(item, row, y, x) for item, y, x in self._batches(row)}
        report: dict[str, Any] = {"id": row.id}
        if row.group is not None:
            report["group"] = row.group
        report["stage"] = {item: record.stage for item, record in records.items()}
        if self.specification.pooled is not None:
            stages = [(item, self.agent(item, row.group), r.stage) for item, r in records.items()]
            report["population"] = {item: a.population_version(n) for item, a, n in stages}
        decided = [
            part
            for item, record in records.items()
            for part in self.by_item(item, record.decision, record.interval)
        ]
        report["decision"] = {item: decision for item, decision, _ in decided}
        if any(ends is not None for _, _, ends in decided):
            report["interval"] = {item: ends for item, _, ends in decided}
        alarms = [f"{item}: {r.alarm}" for item, r in records.items() if r.alarm is not None]
        return report | ({"alarms": alarms} if alarms else {})

    def _batches(self, row: DatedRow) -> Iterator[tuple[str, Any, Any]]:
        """The item of each stream that observes the row, the demand, and the decision in force."""
        missing = [item for item, value in row.values.items() if value is None]
        if not self.together:
            for item, value in row.values.items():
                if value is not None:
                    yield item, value, row.decisions.get(item)
        elif not missing:
            decisions = [row.decisions.get(item) for item in row.values]
            yield ALL_ITEMS, list(row.values.values()), None if None in decisions else decisions
        elif len(missing) < len(row.values):
            needed = "items that are decided together need all of them, or none"
            absent = f"{len(missing)} of {len(row.values)} demands are missing"
            raise DataError(f"{row.where}: {row.id}: {absent} ({', '.join(missing)}); {needed}")

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
                agent.observe(values, id=row.id, x=decisions)
            except StoreError:
                raise
            except PostgradError as error:
                name = "" if item == ALL_ITEMS else f", {item!r}"
                raise type(error)(f"{row.where}: {row.id}{name}: {error}") from error
        record = agent.record(row.id)
        assert record is not None  # just observed
        return record

    def told(self, item: str, group: str | None = None) -> Agent:
        """What is told of an item and a group: see `agent`."""
        return self.agent(item, group)

    def by_item(
        self, item: str, decision: np.ndarray, interval: Interval | None
    ) -> Iterator[tuple[str, float, list[float] | None]]:
        """A stream's decision and interval as (item, number, [low, high]) for each of its items."""
        return by_item(self.together or (item,), decision, interval)

"""A specification at work: an agent for each item and context, all in one file."""

import itertools
import json
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from postgrad.agent.agent import Agent
from postgrad.agent.record import Record
from postgrad.errors import DataError, DuplicateBatchError, PostgradError, SettingError, StoreError
from postgrad.spec import Setup, Specification
from postgrad.spec.data import names_of
from postgrad.spec.setup import build
from postgrad.spec.tables.row_reader import Arrival
from postgrad.store import Database

# Items that are decided together are one stream of this name.
TOGETHER = "*"
# How long rows are gathered for one commit: others that want to write must wait.
_GATHER_S = 0.2


class Live:
    """The agents of a specification. Each is a stream of its own in the file.

    A row of data is delivered to the streams of its items and its context. It counts for all of
    them or for none. Rows may come again: each counts once.
    """

    def __init__(self, specification: Specification, path: Path, *, recover: bool = False):
        """Opens the file, or begins it.

        Args:
            specification: What to decide.
            path: The file.
            recover: Whether to go on from the last good state if the file is damaged.

        Raises:
            StoreError: If the file is damaged, or belongs to another problem.
            SettingError: If the specification can only be backtested.
        """
        feasible, context = specification.feasible, specification.context
        if context is not None and context.pooling == "partial":
            raise SettingError(
                "contexts that lend each other strength can be backtested, not run: say "
                'pooling = "separate"'
            )
        self.specification, self.path = specification, path
        self._agents: dict[tuple[str, str | None], Agent] = {}
        known = specification.data.known
        self._setup = None if known is None else build(specification, known)
        joint = self.together or (feasible is not None and feasible.joint)
        if joint and specification.data.item is not None:
            raise SettingError(
                "items that are decided together come in one row: give each a column, data.items; "
                "rows that name their item can be backtested, not run"
            )
        self._contexts = (None,) if context is None else names_of(context)
        self._database = Database(path, recover=recover)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def agent(self, item: str, context: str | None = None) -> Agent:
        """The agent of an item in a context; of `TOGETHER`, where items are decided together.

        Raises:
            StoreError: If the file is damaged, or belongs to another problem.
        """
        key = item, context
        if key not in self._agents:
            setup, place = self._of(item)
            agent = Agent(
                setup.problems[place],
                setup.belief,
                setup.starts[place],
                path=self._database,
                name=_stream(item, context),
                alpha=setup.alpha,
                **setup.options,
            )
            self._agents[key] = agent
        return self._agents[key]

    def _of(self, item: str) -> tuple[Setup, int]:
        if self._setup is None:  # the first time that an item is heard of
            return build(self.specification, (item,)), 0
        if self._setup.joint:
            return self._setup, 0
        if item not in self._setup.items:
            raise StoreError(f"{self.path} is about {item!r}, which the specification is not")
        return self._setup, self._setup.items.index(item)

    @property
    def together(self) -> bool:
        """Whether the items are decided together."""
        return self._setup is not None and self._setup.joint

    def deliver(self, arrivals: Iterable[Arrival], *, at_once: int = 1) -> Iterator[dict[str, Any]]:
        """What each row has led to, item by item, also if it was delivered before.

        A line is told when its row is there for good. A row that is refused ends it; all before it
        have counted.

        Args:
            arrivals: The rows.
            at_once: How many may share a commit. More than one is faster, and needs rows that do
                not wait for the lines before them.

        Raises:
            DataError: If a row lacks what is needed.
            PostgradError: If an agent refuses it.
        """
        source = iter(arrivals)
        while True:
            group, trouble = self._gathered(source, at_once)
            ended = len(group) < at_once
            while group:
                lines, refused = self._commit(group)
                yield from lines
                if refused is not None:
                    raise refused
            if trouble is not None:
                raise trouble
            if ended:
                return

    def _gathered(
        self, source: Iterator[Arrival], count: int
    ) -> tuple[list[Arrival], PostgradError | None]:
        """The next rows, with agents for all of them, and why there are no more."""
        group: list[Arrival] = []
        try:
            for arrival in itertools.islice(source, count):
                for item, _, _ in self._parts(arrival):
                    self.agent(item, arrival.context)
                group.append(arrival)
        except PostgradError as error:
            return group, error
        return group, None

    def _commit(self, group: list[Arrival]) -> tuple[list[dict[str, Any]], PostgradError | None]:
        """Takes rows from the group and makes them count, as many as there is time for."""
        lines: list[dict[str, Any]] = []
        began = time.monotonic()
        with self._database.transaction():
            while group and (not lines or time.monotonic() - began < _GATHER_S):
                try:
                    with self._database.transaction():
                        lines.append(self._line(group.pop(0)))
                except StoreError:
                    raise
                except PostgradError as error:
                    return lines, error
        return lines, None

    def _line(self, arrival: Arrival) -> dict[str, Any]:
        told = {
            item: self._observed(item, arrival, values, decisions)
            for item, values, decisions in self._parts(arrival)
        }
        line: dict[str, Any] = {"id": arrival.id}
        if arrival.context is not None:
            line["context"] = arrival.context
        line["stage"] = {item: record.stage for item, record in told.items()}
        line |= self._decisions(told)
        alarms = [f"{item}: {r.alarm}" for item, r in told.items() if r.alarm is not None]
        return line | ({"alarms": alarms} if alarms else {})

    def _parts(self, arrival: Arrival) -> Iterator[tuple[str, Any, Any]]:
        """Which stream gets which numbers."""
        if not self.together:
            for item, value in arrival.values.items():
                if value is not None:
                    yield item, value, arrival.decisions.get(item)
            return
        values = list(arrival.values.values())
        missing = [item for item, value in arrival.values.items() if value is None]
        if len(missing) == len(values):
            return
        if missing:
            raise DataError(
                f"{arrival.id}: where items are decided together, all must have a value; "
                f"missing: {', '.join(missing)}"
            )
        decisions = [arrival.decisions.get(item) for item in arrival.values]
        yield TOGETHER, values, None if None in decisions else decisions

    def _observed(self, item: str, arrival: Arrival, values: Any, decisions: Any) -> Record:
        agent = self.agent(item, arrival.context)
        others = [_stream(item, name) for name in self._contexts if name != arrival.context]
        with warnings.catch_warnings():  # alarms are told in the line
            warnings.simplefilter("ignore")
            try:
                if (elsewhere := self._database.holder(arrival.id, others)) is not None:
                    raise DuplicateBatchError(
                        f"was observed before, on {json.loads(elsewhere)[1]}, and now comes on "
                        f"{arrival.context}"
                    )
                agent.observe(values, id=arrival.id, x=decisions)
            except StoreError:
                raise
            except PostgradError as error:
                name = "" if item == TOGETHER else f", {item!r}"
                raise type(error)(f"{arrival.id}{name}: {error}") from error
        record = agent.record(arrival.id)
        assert record is not None  # it was just observed
        return record

    def _decisions(self, told: dict[str, Record]) -> dict[str, Any]:
        """Decisions and intervals, item by item."""
        decisions: dict[str, float] = {}
        intervals: dict[str, list[float] | None] = {}
        for stream, record in told.items():
            for item, number, ends in self.spelled(stream, record.decision, record.interval):
                decisions[item], intervals[item] = number, ends
        line: dict[str, Any] = {"decision": decisions}
        if any(ends is not None for ends in intervals.values()):
            line["interval"] = intervals
        return line

    def spelled(
        self, stream: str, decision: np.ndarray, interval: tuple[np.ndarray, np.ndarray] | None
    ) -> Iterator[tuple[str, float, list[float] | None]]:
        """A stream's decision and interval as one number and one pair for each item."""
        items = self._setup.items if self.together and self._setup else (stream,)
        numbers = np.atleast_1d(decision)
        for i, item in enumerate(items):
            ends = None
            if interval is not None:
                ends = [float(np.atleast_1d(end)[i]) for end in interval]
            yield item, float(numbers[i]), ends

    def streams(self) -> list[tuple[str, str | None]]:
        """The items and contexts that the file knows, in the order in which they began."""
        found = []
        for name in self._database.streams():
            try:
                item, context = json.loads(name)
            except (ValueError, TypeError) as error:
                raise StoreError(f"{self.path} was not made from a specification") from error
            found.append((item, context))
        return found


def _stream(item: str, context: str | None) -> str:
    """The name of a stream."""
    return json.dumps([item, context], ensure_ascii=False)

"""A specification at work: an agent for each item and context, all in one file."""

import json
import warnings
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

from postgrad.agent import Agent
from postgrad.errors import DataError, PostgradError, SettingError, StoreError
from postgrad.record import Record
from postgrad.spec import Setup, Specification
from postgrad.spec.feed import Arrival
from postgrad.spec.setup import build

# Items that are decided together are one stream of this name.
TOGETHER = "*"


class Live:
    """The agents of a specification. Each is a stream of its own in the file.

    A row of data is delivered to the stream of its item and its context. Rows may come again: each
    counts once.
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
        self.specification, self.path, self._recover = specification, path, recover
        self._open = ExitStack()
        self._agents: dict[tuple[str, str | None], Agent] = {}
        known = specification.data.known
        self._setup = None if known is None else build(specification, known)
        joint = self.together or (feasible is not None and feasible.joint)
        if joint and specification.data.item is not None:
            raise SettingError(
                "items that are decided together come in one row: give each a column, data.items; "
                "rows that name their item can be backtested, not run"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._open.close()

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
                path=self.path,
                name=json.dumps([item, context], ensure_ascii=False),
                recover=self._recover,
                alpha=setup.alpha,
                **setup.options,
            )
            self._agents[key] = agent
            self._open.callback(agent.close)
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

    def deliver(self, arrival: Arrival) -> dict[str, Any]:
        """One row: what it has led to, item by item, also if it was delivered before.

        Raises:
            DataError: If it lacks what is needed.
            PostgradError: If an agent refuses it. Items before that one have counted.
        """
        told = {
            item: self._observed(item, arrival, values, decisions)
            for item, values, decisions in self._parts(arrival)
        }
        line: dict[str, Any] = {"id": arrival.id}
        if arrival.context is not None:
            line["context"] = arrival.context
        line["stage"] = {item: record.stage for item, record in told.items()}
        line |= self._lines(told)
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
        with warnings.catch_warnings():  # alarms are told in the line
            warnings.simplefilter("ignore")
            try:
                agent.observe(values, id=arrival.id, x=decisions)
            except StoreError:
                raise
            except PostgradError as error:
                name = "" if item == TOGETHER else f", {item!r}"
                raise type(error)(f"{arrival.id}{name}: {error}") from error
        record = agent.record(arrival.id)
        assert record is not None  # it was just observed
        return record

    def _lines(self, told: dict[str, Record]) -> dict[str, Any]:
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
        from postgrad.store import names

        found = []
        for name in names(str(self.path)):
            try:
                item, context = json.loads(name)
            except (ValueError, TypeError) as error:
                raise StoreError(f"{self.path} was not made from a specification") from error
            found.append((item, context))
        return found

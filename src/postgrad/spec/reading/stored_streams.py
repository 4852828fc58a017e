"""What the agents of a specification have decided, read from their file without JAX."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from postgrad.records.alarm import Alarm
from postgrad.records.explanation import Explanation
from postgrad.records.issued import IssuedDecision
from postgrad.records.record import Record
from postgrad.records.streams.stored_stream import StoredStream
from postgrad.spec.reading.normal_form import differing_keys
from postgrad.spec.reading.stream_names import (
    ALL_ITEMS,
    Interval,
    Stream,
    by_item,
    stream_name,
    streams_of,
)
from postgrad.spec.specification import Specification, UserCode
from postgrad.store import Database


class ToldStream(Protocol):
    """What is told of a stream: by an `Agent`, and by what is stored."""

    @property
    def stage(self) -> int:
        """How many batches were observed."""

    @property
    def decision(self) -> np.ndarray:
        """The decision in force."""

    @property
    def interval(self) -> Interval | None:
        """Where the best decision lies."""

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """What was noticed so far."""

    def last_issued(self) -> IssuedDecision | None:
        """The decision that was issued last under an id; None if there is none."""

    def history(self, last: int | None = None, *, first: int = 1) -> Iterator[Record]:
        """What was observed and decided."""

    def explain(self) -> Explanation:
        """Why the decision is what it is."""


class ToldStreams(Protocol):
    """What is told of the streams of a specification: by `SpecAgents`, and by what is stored."""

    path: Path

    @property
    def together(self) -> tuple[str, ...]:
        """The names of the items that are decided together."""

    @property
    def in_contexts(self) -> bool:
        """Whether each decision is for a context."""

    def streams(self) -> list[Stream]:
        """The streams of the file."""

    def told(self, item: str, group: str | None = None) -> ToldStream:
        """What is told of an item and a group."""

    def by_item(
        self, item: str, decision: np.ndarray, interval: Interval | None
    ) -> Iterator[tuple[str, float, list[float] | None]]:
        """A stream's decision and interval for each of its items."""


class StoredStreams:
    """The streams of a file, as of one moment.

    Attributes:
        path: The file.
        in_contexts: Whether each decision is for a context.
    """

    def __init__(self, specification: Specification, path: Path, database: Database):
        """Read the list of streams; see `stored_streams`."""
        self.path, self._names = path, specification.data.item_names or ()
        self.in_contexts = specification.context is not None
        listed = streams_of(database)
        self._streams = {key: StoredStream(database, stream_name(*key)) for key in listed}

    @property
    def together(self) -> tuple[str, ...]:
        """The names of the items that are decided together; none, if each is decided by itself."""
        joint = [s for (item, _), s in self._streams.items() if item == ALL_ITEMS]
        return self._names if joint and np.ndim(joint[0].decision) == 1 else ()

    def streams(self) -> list[Stream]:
        """The streams of the file, in the order of their first rows."""
        return list(self._streams)

    def told(self, item: str, group: str | None = None) -> StoredStream:
        """What is told of an item (`ALL_ITEMS`, if they are decided together) and a group."""
        return self._streams[item, group]

    def by_item(
        self, item: str, decision: np.ndarray, interval: Interval | None
    ) -> Iterator[tuple[str, float, list[float] | None]]:
        """A stream's decision and interval as (item, number, [low, high]) for each of its items."""
        return by_item(self.together or (item,), decision, interval)

    def are_of(self, specification: Specification, last_move: bool) -> bool:
        """Whether all of them were made from a specification, and all there is to tell is stored.

        If not, an agent has to find out what the difference means, or to compute what is missing.

        Args:
            specification: What they should be made from.
            last_move: Whether it is also to be told what the last batch taught.
        """
        kept: list[Any] = []
        for stream in self._streams.values():
            if not stream.is_whole or (last_move and not stream.tells_last_move):
                return False
            if stream.notes not in kept:
                kept.append(stream.notes)
        names = [item for item, _ in self._streams if item != ALL_ITEMS]
        known = not self._names or set(names) <= set(self._names)
        return known and not any(differing_keys(notes, specification) for notes in kept)


@contextlib.contextmanager
def stored_streams(
    specification: Specification, path: Path, *, last_move: bool = False
) -> Iterator[StoredStreams | None]:
    """The streams of a file, to be read in the block; None if reading them takes JAX.

    It does if the specification names the user's own code, or is not the one that the file was
    made from, key by key, or if the file was made by an earlier version or recovered from damage.

    Raises:
        StoreError: If the file is damaged, or was not made from a specification.
    """
    if isinstance(specification.problem, UserCode):
        yield None
        return
    with Database(path) as database, database.snapshot():
        found = StoredStreams(specification, path, database)
        yield found if found.are_of(specification, last_move) else None

"""The population of live agents: a stream of its own in the store."""

import functools
import json
import time
import weakref
from typing import Any

import numpy as np

from postgrad.agent.settings_check import numbers_of, same_numbers
from postgrad.agent.stored_names import class_name
from postgrad.beliefs.pooling.population import Population
from postgrad.records.streams.population_stream import (
    contribution_id,
    population_stream,
    version_used,
)
from postgrad.store import Batch, Database, StaleStateError, Store, StoredState, StreamHead
from postgrad.store.array_codec import decode, encode
from postgrad.store.guards.sqlite_errors import WAY_OUT

_NOTHING = encode({})[0]


class LivePopulation:
    """The sum of what the members of a population have learned, after each batch of a member.

    A batch of this stream is the change of the sum that a batch of a member brings. Both are stored
    in one transaction, and only if nobody has written to either stream since the population that
    was lent was read: so the sum follows from the committed batches in their order.
    """

    def __init__(self, database: Database, name: str, population: Population, *, new: bool):
        """Find the stream, or create it; `check` compares.

        Args:
            database: The database.
            name: The name of the population.
            population: Whose statistics are summed.
            new: Whether it may be created: not if a member that has learned is there.

        Raises:
            StoreError: If the file is damaged, or has another population of that name.
        """
        self._database, self._size = database, population.size
        self._store = Store(database, population_stream(name))
        self._name = name
        if self._store.settings is None and not new:
            raise database.error(f"the population {name!r} is missing; {WAY_OUT}")
        if self._store.settings is None:
            self._store.create(json.dumps(_settings(population)), _saved(0, np.zeros(self._size)))
        self.check(population)
        self.load()

    def check(self, population: Population) -> None:
        """Check that the population is this one.

        Raises:
            StoreError: If it is of other beliefs, another prior or another strength.
        """
        was, now = json.loads(self._store.settings or "{}"), _settings(population)
        same = same_numbers(was.pop("numbers", []), now.pop("numbers"))
        if was != now or not same:
            raise self._database.error(
                f"the population {self._name!r} has another prior or strength: all members have "
                f"the same; use that, or another name in Pool(name=...)"
            )

    @property
    def head(self) -> StreamHead:
        """The latest state that was read or written."""
        return self._head

    @property
    def version(self) -> int:
        """How many batches of members are in the sum."""
        return self._head.saved.stage

    @property
    def total(self) -> np.ndarray:
        """The sum."""
        return self._total

    def load(self) -> None:
        """Takes up what is in the store.

        Raises:
            StoreError: If it is damaged.
        """
        with self._database.reading():
            self._head, self._known = self._store.load(), (0, np.zeros(self._size))
            saved = self._head.saved
            # The file may have been recovered, and the state lost.
            self._total = self._summed(saved.stage) if saved.is_missing else _total(saved)

    def refresh(self) -> None:
        """Takes up what others have written, if they have."""
        if not self._store.is_current(self._head):
            self.load()

    def is_current(self) -> bool:
        """Whether no process has written since the latest state was read."""
        return self._store.is_current(self._head)

    def verify(self) -> None:
        """Reads and checks everything, and sums all changes again.

        Raises:
            StaleStateError: If another process has written meanwhile.
            StoreError: If anything is damaged or missing, or the sum is another one.
        """
        self.refresh()
        self._store.verify(self._head, pages=False)
        total = np.zeros(self._size)
        for _, batch in self._store.batches(1, self.version):
            total = total + np.frombuffer(batch.rows, "<f8")
        if total.tobytes() != self._total.tobytes():
            raise self._database.error(f"the sum of the population is wrong; {WAY_OUT}")

    def at(self, version: int) -> np.ndarray:
        """The sum as it was at a version.

        Raises:
            StoreError: If a batch is damaged.
        """
        return self._total if version == self.version else self._summed(version)

    def _summed(self, version: int) -> np.ndarray:
        known, total = self._known
        kept = self._store.checkpoint(version)
        if kept is not None and (known > version or kept.stage > known):
            known, total = kept.stage, _total(kept)
        elif known > version:
            known, total = 0, np.zeros(self._size)
        for _, batch in self._store.batches(known + 1, version):
            total = total + np.frombuffer(batch.rows, "<f8")
        self._known = version, total
        return total

    def version_used(self, member: str, stage: int) -> int | None:
        """The version that a stage of a member used; None if there was no stage."""
        return version_used(self._store, member, stage)

    def append(self, head: StreamHead | None, member: str, stage: int, change: np.ndarray) -> None:
        """Stores what a batch of a member has changed, in the open transaction.

        Args:
            head: The state of the population that was lent for the batch.
            member: The member.
            stage: Its stage.
            change: The change of the sum.

        Raises:
            StaleStateError: If that is not the latest state any more; nothing was stored.
        """
        if head is not self._head:
            raise StaleStateError
        total = self._total + change
        saved = _saved(self.version + 1, total)
        rows, name = change.astype("<f8").tobytes(), contribution_id(member, stage)
        batch = Batch(id=name, time=time.time(), x=None, rows=rows, answer=b"", alarm=None)
        new = self._store.append(self._head, batch, saved, None)
        if self._database.in_transaction:
            self._database.on_undo(functools.partial(self._back, self._head, self._total))
        self._head, self._total = new, total

    def _back(self, head: StreamHead, total: np.ndarray) -> None:
        self._head, self._total, self._known = head, total, (0, np.zeros(self._size))
        self._store.array_headers.forget()


# A population holds its database; so it is held by its members alone.
_Named = weakref.WeakValueDictionary[str, LivePopulation]
_open: weakref.WeakKeyDictionary[Database, _Named] = weakref.WeakKeyDictionary()


def live_population(
    database: Database, name: str, population: Population, *, new: bool
) -> LivePopulation:
    """The population of a name; agents that share a database share it. See `LivePopulation`."""
    known = _open.setdefault(database, weakref.WeakValueDictionary())
    found = known.get(name)
    if found is not None:
        found.check(population)
        return found
    found = known[name] = LivePopulation(database, name, population, new=new)

    def forget() -> None:
        known.pop(name, None)

    if database.in_transaction:  # undone, it must be found again
        database.on_undo(forget)
    return found


def _settings(population: Population) -> dict[str, Any]:
    """What a population is made of, in JSON types."""
    return {"kind": class_name(type(population)), "numbers": numbers_of(population)}


def _saved(version: int, total: np.ndarray) -> StoredState:
    header, state = encode({"total": total})
    return StoredState(version, header, state, _NOTHING, b"", b"", 0)


def _total(saved: StoredState) -> np.ndarray:
    return decode(saved.header, saved.state)["total"]

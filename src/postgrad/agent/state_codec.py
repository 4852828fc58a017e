"""Snapshots in the form that a store keeps, and back.

An array of the state is stored under the names of the fields that lead to it, joined by dots, so
that files follow the fields and not the order of them. `stored_names.py` has the names of fields
that were renamed in Python.
"""

import functools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, PyTree

from postgrad.agent.settings_check import bound_form
from postgrad.agent.stored_names import field_name
from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.descent import Course
from postgrad.algorithm.stage_results import Descended, Learned
from postgrad.algorithm.surprise import Surprise
from postgrad.engine.no_report import no_descend_report, no_learn_report
from postgrad.engine.packing import Layout, Packed
from postgrad.engine.snapshot import Report, Snapshot
from postgrad.engine.stage import DescendReport, LearnReport
from postgrad.engine.stream import Stream
from postgrad.monitoring.progress_warnings import Stall
from postgrad.numerics.fixed import fixed_leaves, steps
from postgrad.numerics.validate import on_device
from postgrad.records.answer import Answer, read_answer, size_of_answer
from postgrad.store import StoredState
from postgrad.store.array_codec import Entries, as_bytes, decode, encode, entries_of, header_of

_COUNTERS = struct.Struct("<qddqqqq")
# What follows the counters if there is something to do without, or dates: then both.
_WITHOUT, _DATED = struct.Struct("<q"), struct.Struct("<qd")
_NOTHING = encode({})[0]
_LEAF: Any = 0  # any array
_LEARN = LearnReport(_LEAF, Learned(_LEAF, Surprise(*4 * [_LEAF])))
_DESCEND = DescendReport(_LEAF, Descended(Course(*8 * [_LEAF]), Outlook(*6 * [_LEAF])))


class OtherArraysError(Exception):
    """What is stored are not the arrays of the present code."""


class StateCodec:
    """Turns the snapshots of one stream into what is stored."""

    def __init__(self, stream: Stream):
        """Args: the stream, whose first snapshot says which arrays there are."""
        self._stream = stream
        self._test = _Names("monitor", stream.start.monitor)
        self._learn, self._descend = _Names("learn", _LEARN), _Names("descend", _DESCEND)
        self._parts = {0: _Parts(stream.start)}

    def _of(self, without: int) -> "_Parts":
        """The arrays of snapshots that do without some assumptions."""
        if without not in self._parts:
            self._parts[without] = _Parts(self._stream.begin(without))
        return self._parts[without]

    def save(self, snapshot: Snapshot) -> StoredState:
        """The snapshot, but for the arrays that stages do not change."""
        rows = 0 if snapshot.report is None else snapshot.report.rows
        counters = _COUNTERS.pack(*snapshot.stall, snapshot.next_look, snapshot.room, rows)
        if snapshot.report is None:
            return StoredState(0, _NOTHING, b"", _NOTHING, b"", counters, 0)
        if not math.isnan(snapshot.time):
            counters += _DATED.pack(snapshot.without, snapshot.time)
        elif snapshot.without:
            counters += _WITHOUT.pack(snapshot.without)
        parts = self._of(snapshot.without)
        leaves = jax.tree.leaves(snapshot.belief)
        belief = {name: _plain(leaves[i]) for name, i in parts.moving}
        search, test, (learn, descend, _) = snapshot.search, snapshot.test, snapshot.report
        data = [*belief.values(), np.asarray(search.words), np.asarray(test.words)]
        told = [np.asarray(learn.words), np.asarray(descend.words)]
        return StoredState(
            snapshot.stage,
            _header(
                entries_of(belief),
                (parts.search.names, search.layout),
                (self._test.names, test.layout),
            ),
            b"".join(map(as_bytes, data)),
            _header((), (self._learn.names, learn.layout), (self._descend.names, descend.layout)),
            b"".join(map(as_bytes, told)),
            counters,
            snapshot.fixed_since,
        )

    def save_fixed(self, snapshot: Snapshot) -> tuple[str, bytes] | None:
        """The arrays that stages do not change; None if they are those of the beginning."""
        if snapshot.fixed_since == 0:
            return None
        leaves, of = jax.tree.leaves(snapshot.belief), self._of(snapshot.without)
        each = zip(of.belief.names, leaves, of.belief.first, of.fixed, strict=True)
        return encode(
            {n: _plain(leaf) for n, leaf, first, fixed in each if fixed and leaf is not first}
        )

    def restore(
        self,
        saved: StoredState,
        fixed: tuple[str, bytes] | None,
        issued: Callable[[int], np.ndarray],
    ) -> Snapshot:
        """The snapshot that was stored.

        Where the arrays of the search are not those of the present code, the search knows nothing
        but the decision; `is_anew` tells.

        Args:
            saved: What was stored.
            fixed: The arrays that stages do not change.
            issued: Gives the decision in force after a stage.

        Raises:
            OtherArraysError: If the arrays of the belief or of the test are not those of the
                present code: they must be learned again.
            StoreError: If the bytes do not fit their description.
        """
        start = self._stream.start
        if saved.stage == 0:
            return start
        stored = decode(*(fixed or (_NOTHING, b""))) | decode(saved.header, saved.state)
        told = decode(saved.report_header, saved.report)
        size = _COUNTERS.size
        if len(saved.counters) not in (size, size + _WITHOUT.size, size + _DATED.size):
            raise OtherArraysError(f"{len(saved.counters)} bytes of counters instead of {size}")
        *stall, said, next_look, room, rows = _COUNTERS.unpack(saved.counters[:size])
        without, time = _without_and_time(saved.counters[size:])
        parts = self._of(without)
        parts.belief.check(stored, [name for name, _ in parts.moving])
        self._test.check(stored, self._test.names)
        report = Report(self._told(self._learn, told), self._told(self._descend, told), rows)
        snapshot = Snapshot(
            stage=saved.stage,
            decision=start.decision,
            belief=parts.belief.tree(stored),
            search=start.search,
            test=Packed.of(self._test.tree(stored), np.concatenate),
            report=report,
            answer=b"",
            alarm=None,
            stall=Stall(*stall)._replace(said=bool(said)),
            warning=None,
            next_look=next_look,
            room=room,
            fixed_since=saved.fixed_since,
            without=without,
            time=time,
        )
        if self._is_anew(parts, stored):
            return self._stream.anew(snapshot, issued(saved.stage))
        search = parts.search.tree(stored)
        return snapshot._replace(
            decision=np.asarray(search.decision), search=Packed.of(search, np.concatenate)
        )

    def is_anew(self, saved: StoredState) -> bool:
        """Whether `restore` lets the search begin anew."""
        parts = self._of(_without_and_time(saved.counters[_COUNTERS.size :])[0])
        return saved.stage > 0 and self._is_anew(parts, decode(saved.header, saved.state))

    def is_of_today(self, answer: bytes) -> bool:
        """Whether an answer, and with it the counters of its state, are laid out as today's."""
        shapes = self._stream.start.decision.shape, self._stream.event_shape
        return len(answer) == size_of_answer(*shapes)

    def _is_anew(self, parts: "_Parts", stored: dict[str, np.ndarray]) -> bool:
        each = zip(parts.search.names, parts.search.first, strict=True)
        shapes = {name: _plain(first).shape for name, first in each}
        found = {name: a.shape for name, a in stored.items() if name.startswith("search.")}
        return found != shapes

    def _told(self, names: "_Names", told: dict[str, np.ndarray]) -> Packed:
        """What a stage reported; nothing, if the present code reports something else."""
        if set(names.names) <= told.keys():
            return Packed.of(names.tree(told), np.concatenate)
        if names is self._learn:
            return no_learn_report(self._stream.event_shape, 1)
        return no_descend_report(self._stream.start.decision)

    @functools.cached_property
    def bound(self) -> dict[str, Any]:
        """What the stored numbers of the belief refer to: see `bound_form`."""
        of = self._parts[0]
        each = zip(of.belief.names, of.belief.first, of.fixed, strict=True)
        arrays = {name: _plain(first) for name, first, fixed in each if fixed}
        return bound_form(self._stream.start.belief, arrays)

    def read_answer(self, data: bytes) -> Answer:
        """What was kept with a batch; see `records.answer`."""
        return read_answer(data, self._stream.start.decision.shape, self._stream.event_shape)


def _without_and_time(data: bytes) -> tuple[int, float]:
    """What follows the counters: assumptions that are not made, and the latest date."""
    if len(data) == _DATED.size:
        without, time = _DATED.unpack(data)
        return without, time
    return (_WITHOUT.unpack(data)[0] if data else 0), math.nan


class _Parts:
    """What the arrays of the belief and of the search are called.

    Attributes:
        belief: The names of those of the belief.
        search: The names of those of the search.
        fixed: Which of the belief's stages do not change.
        moving: The names and the places of those that they change.
    """

    def __init__(self, start: Snapshot):
        """Args: the snapshot before the first batch."""
        self.belief = _Names("belief", start.belief)
        self.search = _Names("search", start.search.tree_of_arrays())
        self.fixed = jax.tree.leaves(fixed_leaves(start.belief))
        self.moving = [(n, i) for i, n in enumerate(self.belief.names) if not self.fixed[i]]


class _Names:
    """The names under which the arrays of one part of a snapshot are stored.

    Attributes:
        names: The names.
        first: The arrays of the first snapshot.
    """

    def __init__(self, part: str, first: PyTree):
        """Args: the name of the part, and the part in the first snapshot."""
        named, self._tree = jax.tree.flatten_with_path(first)
        self.names = tuple(f"{part}.{_stored_name(first, path)}" for path, _ in named)
        self.first = [leaf for _, leaf in named]

    def check(self, stored: dict[str, np.ndarray], needed: Sequence[str]) -> None:
        """Check that stored arrays are those of the present code.

        Raises:
            OtherArraysError: If an array is missing, has another number of axes, or is not known.
        """
        part = self.names[0].partition(".")[0] + "." if self.names else "."
        each = zip(self.names, self.first, strict=True)
        axes = {name: _plain(first).ndim for name, first in each}
        for name in needed:
            if name not in stored or stored[name].ndim != axes[name]:
                raise OtherArraysError(f"{name} is missing or has another shape")
        if unknown := [name for name in stored if name.startswith(part) and name not in axes]:
            raise OtherArraysError(f"{unknown[0]} is not known")

    def tree(self, stored: dict[str, np.ndarray]) -> Any:
        """The part, from the arrays of a file; those that are not there are the first ones."""
        leaves = [
            first if name not in stored and first is not _LEAF else _as_leaf(stored[name], first)
            for name, first in zip(self.names, self.first, strict=True)
        ]
        return jax.tree.unflatten(self._tree, leaves)


@functools.lru_cache(maxsize=256)
def _header(entries: Entries, *parts: tuple[tuple[str, ...], Layout]) -> str:
    """The header of some arrays, followed by the names and the layouts of packed parts."""
    for names, layout in parts:
        pairs = zip(names, layout.kinds, strict=True)
        entries += tuple((name, np.dtype(kind.word), kind.shape) for name, kind in pairs)
    return header_of(entries)


def _stored_name(tree: PyTree, path: tuple[Any, ...]) -> str:
    """The name under which the array at a path of a tree is stored."""
    return ".".join(field_name(kind, name) for kind, name, _ in steps(tree, path))


def _plain(leaf: Array) -> np.ndarray:
    """The numbers of an array; those that a random key is made of."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(leaf) if is_key else leaf)


def _as_leaf(array: np.ndarray, like: Any) -> Any:
    """A stored array in the form of the leaf whose place it takes."""
    if like is _LEAF:
        return array
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return random.wrap_key_data(jnp.asarray(array, "uint32"), impl=random.key_impl(like))
    return on_device(np.asarray(array, like.dtype))

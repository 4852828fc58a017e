"""Snapshots in the form that a store keeps, and back.

An array of the state is stored under the names of the fields that lead to it, joined by dots, so
that files follow the fields and not the order of them. A field that is renamed keeps its name in
files by `eqx.field(metadata={"stored_as": "old_name"})`.
"""

import dataclasses
import functools
import struct
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.tree_util import DictKey, GetAttrKey, SequenceKey
from jaxtyping import Array, PyTree

from postgrad.algorithm.bayesian_sgd import Descended, Learned
from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents import Course
from postgrad.algorithm.surprise import Surprise
from postgrad.engine.packing import Layout, Packed
from postgrad.engine.stage import DescendReport, LearnReport
from postgrad.engine.stream import Report, Snapshot, Stream
from postgrad.monitoring.progress_warnings import Stall
from postgrad.numerics.fixed import fixed_leaves
from postgrad.store import StoredState
from postgrad.store.array_codec import Entries, as_bytes, decode, encode, entries_of, header_of

_COUNTERS = struct.Struct("<qqddqqqq")
_NOTHING = encode({})[0]
_LEAF: Any = 0  # any array
_LEARN = LearnReport(_LEAF, Learned(_LEAF, Surprise(*4 * [_LEAF])))
_DESCEND = DescendReport(_LEAF, Descended(Course(*5 * [_LEAF]), Outlook(*4 * [_LEAF])))


@dataclasses.dataclass(frozen=True)
class Answer:
    """What is kept with each batch.

    Attributes:
        decision: x_{t+1} as issued.
        epistemic: The posterior standard deviation of the optimal decision; NaN if unknown.
        log_predictive: log f_hat of the whole batch, as a sum over its observations.
        surprise: Where the batch lay among those that were foreseen.
    """

    decision: np.ndarray
    epistemic: np.ndarray
    log_predictive: float
    surprise: Surprise


class StateCodec:
    """Turns the snapshots of one stream into what is stored."""

    def __init__(self, stream: Stream):
        """Args: the stream, whose first snapshot says which arrays there are."""
        self._stream, start = stream, stream.start
        self._belief = _Names("belief", start.belief)
        self._search = _Names("search", start.search.tree_of_arrays())
        self._test = _Names("monitor", start.monitor)
        self._learn, self._descend = _Names("learn", _LEARN), _Names("descend", _DESCEND)
        self._first = jax.tree.leaves(start.belief)
        self._fixed = jax.tree.leaves(fixed_leaves(start.belief))
        numbered = zip(self._belief.names, range(len(self._fixed)), strict=True)
        self._state_header = functools.lru_cache(self._make_state_header)
        self._report_header = functools.lru_cache(self._make_report_header)
        self._moving = [(name, i) for name, i in numbered if not self._fixed[i]]

    def save(self, snapshot: Snapshot) -> StoredState:
        """The snapshot, but for the arrays that stages do not change."""
        counters = self._counters(snapshot)
        if snapshot.report is None:
            return StoredState(0, _NOTHING, b"", _NOTHING, b"", counters, 0)
        leaves = jax.tree.leaves(snapshot.belief)
        belief = {name: _plain(leaves[i]) for name, i in self._moving}
        search, test, (learn, descend, _) = snapshot.search, snapshot.test, snapshot.report
        data = [*belief.values(), np.asarray(search.words), np.asarray(test.words)]
        told = [np.asarray(learn.words), np.asarray(descend.words)]
        return StoredState(
            snapshot.stage,
            self._state_header(entries_of(belief), search.layout, test.layout),
            b"".join(map(as_bytes, data)),
            self._report_header(learn.layout, descend.layout),
            b"".join(map(as_bytes, told)),
            counters,
            snapshot.fixed_since,
        )

    def save_fixed(self, snapshot: Snapshot) -> tuple[str, bytes] | None:
        """The arrays that stages do not change; None if they are those of the beginning."""
        if snapshot.fixed_since == 0:
            return None
        leaves = jax.tree.leaves(snapshot.belief)
        parts = zip(self._belief.names, leaves, self._first, self._fixed, strict=True)
        changed = {
            n: _plain(leaf) for n, leaf, first, fixed in parts if fixed and leaf is not first
        }
        return encode(changed)

    def restore(self, saved: StoredState, fixed: tuple[str, bytes] | None) -> Snapshot:
        """The snapshot that was stored.

        Raises:
            StoreError: If the bytes do not fit their description.
        """
        start = self._stream.start
        if saved.stage == 0:
            return start
        stored = decode(*(fixed or (_NOTHING, b""))) | decode(saved.header, saved.state)
        told = decode(saved.report_header, saved.report)
        search = self._search.tree(stored, start.search.tree_of_arrays())
        learn = Packed.of(self._learn.tree(told), np.concatenate)
        descend = Packed.of(self._descend.tree(told), np.concatenate)
        *stall, said, next_look, room, rows = _COUNTERS.unpack(saved.counters)
        return Snapshot(
            stage=saved.stage,
            decision=np.asarray(search.decision),
            belief=self._belief.tree(stored, start.belief),
            search=Packed.of(search, np.concatenate),
            test=Packed.of(self._test.tree(stored, start.monitor), np.concatenate),
            report=Report(learn, descend, rows),
            answer=b"",
            alarm=None,
            stall=Stall(*stall)._replace(said=bool(said)),
            warning=None,
            next_look=next_look,
            room=room,
            fixed_since=saved.fixed_since,
        )

    def _make_state_header(self, belief: Entries, search: Layout, test: Layout) -> str:
        return header_of(belief + self._search.entries(search) + self._test.entries(test))

    def _make_report_header(self, learn: Layout, descend: Layout) -> str:
        return header_of(self._learn.entries(learn) + self._descend.entries(descend))

    def _counters(self, snapshot: Snapshot) -> bytes:
        rows = 0 if snapshot.report is None else snapshot.report.rows
        return _COUNTERS.pack(*snapshot.stall, snapshot.next_look, snapshot.room, rows)

    def read_answer(self, data: bytes) -> Answer:
        """What was kept with a batch."""
        shape, event_shape = self._stream.start.decision.shape, self._stream.event_shape
        d, e = int(np.prod(shape)), int(np.prod(event_shape))
        numbers = np.frombuffer(data, "<f8")
        if len(numbers) != 2 * d + 1 + 4 * e:
            raise ValueError(f"expected {2 * d + 1 + 4 * e} numbers, got {len(numbers)}")
        return Answer(
            decision=numbers[:d].reshape(shape),
            epistemic=numbers[d : 2 * d].reshape(shape),
            log_predictive=float(numbers[2 * d]),
            surprise=Surprise(*numbers[2 * d + 1 :].reshape(4, *event_shape)),
        )


class _Names:
    """The names under which the arrays of one part of a snapshot are stored."""

    def __init__(self, part: str, like: PyTree):
        """Args: the name of the part, and what it looks like."""
        named, self._tree = jax.tree.flatten_with_path(like)
        self.names = tuple(f"{part}.{stored_name(like, path)}" for path, _ in named)

    def entries(self, layout: Layout) -> Entries:
        """What a header says about the arrays of the part."""
        pairs = zip(self.names, layout.kinds, strict=True)
        return tuple((name, np.dtype(kind.word), kind.shape) for name, kind in pairs)

    def tree(self, stored: dict[str, np.ndarray], like: PyTree = None) -> Any:
        """The part, from the arrays of a file; those that are not there are as in `like`."""
        leaves: list[Any]
        if like is None:
            leaves = [stored[name] for name in self.names]
        else:
            leaves = [
                _as_leaf(stored[name], first) if name in stored else first
                for name, first in zip(self.names, jax.tree.leaves(like), strict=True)
            ]
        return jax.tree.unflatten(self._tree, leaves)


def stored_name(node: Any, path: tuple[Any, ...]) -> str:
    """The name under which the array at a path of a tree is stored."""
    steps = []
    for key in path:
        if isinstance(key, GetAttrKey):
            fields = getattr(type(node), "__dataclass_fields__", {})
            stated = fields[key.name].metadata if key.name in fields else {}
            node, step = getattr(node, key.name), stated.get("stored_as", key.name)
        elif isinstance(key, SequenceKey | DictKey):
            index = key.idx if isinstance(key, SequenceKey) else key.key
            node, step = node[index], str(index)
        else:  # inside a class with a flattening of its own, such as numpyro's
            node, step = None, str(key.key)
        steps.append(step)
    return ".".join(steps)


def _plain(leaf: Array) -> np.ndarray:
    """The numbers of an array; those that a random key is made of."""
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(random.key_data(leaf) if is_key else leaf)


def _as_leaf(array: np.ndarray, like: Array) -> Array:
    """A stored array in the form of the leaf whose place it takes."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return random.wrap_key_data(jnp.asarray(array, "uint32"), impl=random.key_impl(like))
    return jnp.asarray(array, like.dtype)

"""Snapshots in the form that a store keeps, and back.

An array of the state is stored under the names of the fields that lead to it, joined by dots, so
that files follow the fields and not the order of them. A field that is renamed keeps its name in
files by `eqx.field(metadata={"stored_as": "old_name"})`.
"""

import dataclasses
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
from postgrad.engine.stream import Report, Snapshot, Stream
from postgrad.monitoring.progress_warnings import Stall
from postgrad.numerics.fixed import fixed_leaves
from postgrad.store import StoredState
from postgrad.store.array_codec import decode, encode

_COUNTERS = struct.Struct("<qqddqqq")
_NOTHING = encode({})[0]
_LEAF: Any = 0  # any array
_BLANK = Report(
    Learned(_LEAF, Surprise(*4 * [_LEAF])),
    Descended(Course(*5 * [_LEAF]), Outlook(*4 * [_LEAF])),
    rows=0,
)


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
        self._stream = stream
        first = _arrays(stream.start)
        named, self._tree = jax.tree.flatten_with_path(first)
        self._names = [stored_name(first, path) for path, _ in named]
        self._first = [leaf for _, leaf in named]
        self._fixed = jax.tree.leaves(fixed_leaves(first))
        report, self._report_tree = jax.tree.flatten_with_path(_BLANK)
        self._report_names = [stored_name(_BLANK, path) for path, _ in report]

    def save(self, snapshot: Snapshot) -> StoredState:
        """The snapshot, but for the arrays that stages do not change."""
        if snapshot.stage == 0:
            return StoredState(0, _NOTHING, b"", _NOTHING, b"", self._counters(snapshot), 0)
        leaves = jax.tree.leaves(_arrays(snapshot))
        parts = zip(self._names, leaves, self._fixed, strict=True)
        state = encode({name: _plain(leaf) for name, leaf, fixed in parts if not fixed})
        told = map(np.asarray, jax.tree.leaves(snapshot.report))
        report = encode(dict(zip(self._report_names, told, strict=True)))
        counters = self._counters(snapshot)
        return StoredState(snapshot.stage, *state, *report, counters, snapshot.fixed_since)

    def save_fixed(self, snapshot: Snapshot) -> tuple[str, bytes] | None:
        """The arrays that stages do not change; None if they are those of the beginning."""
        if snapshot.fixed_since == 0:
            return None
        leaves = jax.tree.leaves(_arrays(snapshot))
        parts = zip(self._names, leaves, self._first, self._fixed, strict=True)
        changed = {
            n: _plain(leaf) for n, leaf, first, fixed in parts if fixed and leaf is not first
        }
        return encode(changed)

    def restore(self, saved: StoredState, fixed: tuple[str, bytes] | None) -> Snapshot:
        """The snapshot that was stored.

        Raises:
            StoreError: If the bytes do not fit their description.
        """
        if saved.stage == 0:
            return self._stream.start
        stored = decode(*(fixed or (_NOTHING, b""))) | decode(saved.header, saved.state)
        leaves = [
            _as_leaf(stored[name], first) if name in stored else first
            for name, first in zip(self._names, self._first, strict=True)
        ]
        arrays = jax.tree.unflatten(self._tree, leaves)
        told = decode(saved.report_header, saved.report)
        rows = int(told["rows"])
        *stall, said, next_look, room = _COUNTERS.unpack(saved.counters)
        return Snapshot(
            stage=saved.stage,
            decision=np.asarray(arrays["search"].decision),
            **arrays,
            report=jax.tree.unflatten(self._report_tree, [*list(told.values())[:-1], rows]),
            stall=Stall(*stall)._replace(said=bool(said)),
            warning=None,
            next_look=next_look,
            room=room,
            fixed_since=saved.fixed_since,
        )

    def _counters(self, snapshot: Snapshot) -> bytes:
        return _COUNTERS.pack(*snapshot.stall, snapshot.next_look, snapshot.room)

    def answer(self, snapshot: Snapshot) -> bytes:
        """What is kept with the batch that led to a snapshot: see `Answer`."""
        assert snapshot.report is not None  # there was a batch
        (foreseen, surprise), (_, ahead), rows = snapshot.report
        log_predictive = np.sum(np.asarray(foreseen)[:rows])
        numbers = [snapshot.decision, ahead.epistemic, log_predictive]
        numbers += jax.tree.leaves(surprise)
        return b"".join(np.asarray(number, "<f8").tobytes() for number in numbers)

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


def _arrays(snapshot: Snapshot) -> dict[str, PyTree]:
    return {
        "belief": snapshot.belief,
        "search": snapshot.search,
        "monitor": snapshot.monitor,
    }


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
        return random.wrap_key_data(jnp.asarray(array), impl=random.key_impl(like))
    return jnp.asarray(array)

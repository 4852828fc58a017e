"""What agents of one problem share, so that a thousand of them try its parts on each other once."""

import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import PyTree

from postgrad.agent.state_codec import StateCodec
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs.belief import Belief
from postgrad.engine.programs import split
from postgrad.engine.stream import Stream

Told = TypeVar("Told")

# Arrays with more bytes are equal only if they are the same object.
_SMALL = 1 << 12


class SharedParts:
    """Parts that depend on problem, prior, first decision and settings, but on no data.

    Attributes:
        stream: Computes stages.
        codec: Turns snapshots into what is stored.
    """

    def __init__(self, policy: BayesianSGD, belief: Belief, x: Any, alpha: Any, context: PyTree):
        """Tries the parts on each other: see `Stream`."""
        self.stream = Stream(policy, belief, x, alpha, context)
        self.codec = StateCodec(self.stream)
        start, example = self.stream.start.decision, self.stream.contexts.example
        self._described = (policy, belief, start, alpha, example)
        self._given = (policy, belief, x, context)  # kept: see `_array`
        self._told: dict[Hashable, Any] = {}

    def once(self, describe: Callable[..., Told], *arguments: str) -> Told:
        """What a function tells of some texts and of what the parts are made of, computed once."""
        key = (describe, *arguments)
        if key not in self._told:
            self._told[key] = describe(*arguments, *self._described)
        return self._told[key]


_known: "weakref.WeakValueDictionary[Hashable, SharedParts]" = weakref.WeakValueDictionary()
# A loop may drop each agent before it makes the next.
_latest: list[SharedParts] = []


def shared_parts(
    policy: BayesianSGD, belief: Belief, x: Any, alpha: Any, context: PyTree = None
) -> SharedParts:
    """The parts of an agent: those of another one, if there is one that was made alike.

    Functions are alike if they are the same object. Everything else is compared by its numbers.

    Raises:
        PostgradError: If the parts do not fit each other: see `Stream`.
    """
    try:
        key: Hashable = tuple(map(_contents, (policy, belief, x, alpha, context)))
        found = _known.get(key)
    except (TypeError, ValueError):  # nothing that can be compared; it may be refused below
        key = found = None
    if found is None:
        found = SharedParts(policy, belief, x, alpha, context)
        if key is not None:
            _known[key] = found
    _latest[:] = [found]
    return found


def _contents(part: PyTree) -> Hashable:
    """What two parts have in common if they are alike."""
    if isinstance(part, BayesianSGD):
        numbers, plan = split(part)
        return plan, tuple(map(_array, numbers))
    arrays, rest = eqx.partition(part, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    leaves, others = jax.tree.leaves(arrays), jax.tree.leaves(rest)
    alike = tuple((type(leaf), leaf) for leaf in others), tuple(map(_array, leaves))
    return type(part), jax.tree.structure(part), *alike


def _array(array: Any) -> Hashable:
    if isinstance(array, jax.Array) and array.nbytes > _SMALL:
        # The parts that are known by this number keep the array, so that no other can have it.
        return type(array), id(array)
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    plain = np.asarray(random.key_data(array) if is_key else array)
    return type(array), str(array.dtype), plain.shape, plain.tobytes()

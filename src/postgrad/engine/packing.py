"""Trees of small arrays as one array, since each array that a compiled program returns has a price.

To make one on the device, to bring it to the host and to let go of it takes some five
microseconds, and a stage tells some forty arrays, most of them single numbers.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, PyTree, UInt64

from postgrad.numerics.validate import is_concrete, on_device


class Kind(NamedTuple):
    """What one array of a tree is.

    Attributes:
        shape: Its shape.
        dtype: The type of its numbers.
        word: As what they are packed: float64, or int64 for whole numbers and truths.
        start: At which word it begins.
        generator: Of an array of random keys, which generator they are for; else None.
    """

    shape: tuple[int, ...]
    dtype: str
    word: str
    start: int
    generator: Any


@dataclasses.dataclass(frozen=True)
class Layout:
    """What the words of a packed tree are.

    Attributes:
        tree: The structure of the tree.
        kinds: What the arrays are.
    """

    tree: Any
    kinds: tuple[Kind, ...]

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.kinds)

    def __hash__(self) -> int:
        return self._hash  # computed once: layouts are looked up at every stage


@functools.partial(jax.tree_util.register_dataclass, data_fields=["words"], meta_fields=["layout"])
@dataclasses.dataclass(frozen=True)
class Packed:
    """A tree of arrays as one array, 64 bits for each number, so that no bit is lost.

    Attributes:
        words: The bits of all numbers, array by array.
        layout: What they are.
    """

    words: UInt64[Array, " n"]
    layout: Layout

    @classmethod
    def of(cls, tree: PyTree, concatenate: Callable[..., Any] = jnp.concatenate) -> "Packed":
        """Packs a tree; with `numpy.concatenate` outside compiled programs."""
        leaves, structure = jax.tree.flatten(tree)
        kinds, words, start = [], [], 0
        for leaf in leaves:
            numbers = random.key_data(leaf) if _is_key(leaf) else leaf
            if concatenate is np.concatenate:  # on the host, where nothing needs to be compiled
                numbers = np.asarray(numbers)
            word = "float64" if jnp.issubdtype(numbers.dtype, jnp.floating) else "int64"
            generator = random.key_impl(leaf) if _is_key(leaf) else None
            kinds.append(Kind(numbers.shape, numbers.dtype.name, word, start, generator))
            words.append(numbers.astype(word).ravel().view("uint64"))
            start += numbers.size
        packed = concatenate(words)
        on_host = concatenate is np.concatenate
        return cls(on_device(packed) if on_host else packed, Layout(structure, tuple(kinds)))

    def tree_of_arrays(self) -> Any:
        """The tree, inside compiled programs and outside."""
        leaves = []
        # on the host, nothing needs to be compiled
        all_words: Any = np.asarray(self.words) if is_concrete(self.words) else self.words
        for kind in self.layout.kinds:
            words = all_words[kind.start : kind.start + math.prod(kind.shape)]
            leaf = words.view(kind.word).astype(kind.dtype).reshape(kind.shape)
            leaf = on_device(leaf) if isinstance(leaf, np.ndarray) else leaf
            is_key = kind.generator is not None
            leaves.append(random.wrap_key_data(leaf, impl=kind.generator) if is_key else leaf)
        return jax.tree.unflatten(self.layout.tree, leaves)

    def first(self) -> np.ndarray:
        """The first array of the tree on the host, of float64 or int64."""
        kind = self.layout.kinds[0]
        return np.ndarray(kind.shape, kind.word, np.asarray(self.words))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)

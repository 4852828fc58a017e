"""Trees of small arrays as one array, since each array that a compiled program returns has a price.

To make one on the device, to bring it to the host and to let go of it takes some five
microseconds, and a stage tells some forty arrays, most of them single numbers.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, PyTree, UInt64


class Kind(NamedTuple):
    """What one array of a tree is.

    Attributes:
        shape: Its shape.
        dtype: The type of its numbers.
        generator: Of an array of random keys, which generator they are for; else None.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    generator: Any

    @property
    def word(self) -> str:
        """As what its numbers are packed: float64, or int64 for whole numbers and truths."""
        return "float64" if jnp.issubdtype(self.dtype, jnp.floating) else "int64"


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["words"], meta_fields=["tree", "kinds"]
)
@dataclasses.dataclass(frozen=True)
class Packed:
    """A tree of arrays as one array, 64 bits for each number, so that no bit is lost.

    Attributes:
        words: The bits of all numbers, array by array.
        tree: The structure of the tree.
        kinds: What the arrays are.
    """

    words: UInt64[Array, " n"]
    tree: Any
    kinds: tuple[Kind, ...]

    @classmethod
    def of(cls, tree: PyTree, concatenate: Callable[..., Any] = jnp.concatenate) -> "Packed":
        """Packs a tree; with `numpy.concatenate` outside compiled programs."""
        leaves, structure = jax.tree.flatten(tree)
        generators = [random.key_impl(leaf) if _is_key(leaf) else None for leaf in leaves]
        plain = [random.key_data(leaf) if _is_key(leaf) else leaf for leaf in leaves]
        pairs = zip(plain, generators, strict=True)
        kinds = tuple(Kind(leaf.shape, leaf.dtype, generator) for leaf, generator in pairs)
        parts = [leaf.astype(kind.word) for leaf, kind in zip(plain, kinds, strict=True)]
        words = [part.ravel().view("uint64") for part in parts]
        return cls(jnp.asarray(concatenate(words)), structure, kinds)

    def tree_of_arrays(self) -> Any:
        """The tree, inside compiled programs and outside."""
        parts = zip(_parts(self.words, self.kinds), self.kinds, strict=True)
        leaves = [part.astype(kind.dtype) for part, kind in parts]
        leaves = [
            leaf if kind.generator is None else random.wrap_key_data(leaf, impl=kind.generator)
            for leaf, kind in zip(leaves, self.kinds, strict=True)
        ]
        return jax.tree.unflatten(self.tree, leaves)

    def on_host(self) -> Any:
        """The tree with NumPy arrays of float64 and int64 in it: cheap to make."""
        return jax.tree.unflatten(self.tree, _parts(np.asarray(self.words), self.kinds))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _parts(words: Any, kinds: tuple[Kind, ...]) -> list[Any]:
    return [
        words[start:stop].view(word).reshape(shape) for start, stop, word, shape in _spans(kinds)
    ]


@functools.lru_cache(maxsize=256)
def _spans(kinds: tuple[Kind, ...]) -> list[tuple[int, int, str, tuple[int, ...]]]:
    """Where each array lies among the words, and as what."""
    sizes = [int(np.prod(kind.shape)) for kind in kinds]
    ends = np.cumsum(sizes).tolist()
    return [
        (end - size, end, kind.word, kind.shape)
        for end, size, kind in zip(ends, sizes, kinds, strict=True)
    ]

"""Arrays as plain words: eight bytes for each number, and a header that says what they are.

The header is a line of JSON, `[[path, kind, shape], ...]`; the words of all arrays follow each
other in its order, little-endian. Kinds of fewer than eight bytes are widened. A compiled program
packs all it has to tell into one array of words, so that one transfer brings it to the host.
"""

import functools
import json
import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, UInt64

from postgrad.errors import StoreError

Words = UInt64[np.ndarray, " n"]

# Floats of fewer than eight bytes keep their bits, as whole numbers of this type.
_BITS = {"float32": "uint32", "float16": "uint16", "bfloat16": "uint16"}
_WHOLE = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def header_of(arrays: Mapping[str, Array]) -> str:
    """What the words of these arrays are; arrays may be those of a program being traced."""
    return json.dumps([[path, _kind(a), list(_plain(a).shape)] for path, a in arrays.items()])


def packed(arrays: Mapping[str, Array]) -> UInt64[Array, " n"]:
    """All arrays as one, inside or outside a compiled program."""
    return jnp.concatenate([_words(_plain(a)) for a in arrays.values()] or [jnp.zeros(0, "uint64")])


def unpacked(header: str, data: bytes | Words) -> dict[str, np.ndarray]:
    """The arrays back, read-only. Random keys come as the words that they are made of.

    Raises:
        StoreError: If the header does not fit the data.
    """
    words = np.frombuffer(data, "<u8") if isinstance(data, bytes) else data
    arrays, start = {}, 0
    for path, kind, shape in _entries(header):
        stop = start + math.prod(shape)
        arrays[path] = _from_words(words[start:stop], kind).reshape(shape)
        start = stop
    if start != len(words):
        raise StoreError(f"expected {start} words, got {len(words)}")
    return arrays


@functools.lru_cache(maxsize=256)
def _entries(header: str) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple((path, kind, tuple(shape)) for path, kind, shape in json.loads(header))


def as_leaf(array: np.ndarray, like: Array) -> Array:
    """An unpacked array in the form of the leaf whose place it takes."""
    if jnp.issubdtype(like.dtype, jax.dtypes.prng_key):
        return random.wrap_key_data(jnp.asarray(array), impl=random.key_impl(like))
    return jnp.asarray(array)


def _plain(array: Array) -> Array:
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return random.key_data(array) if is_key else array


def _kind(array: Array) -> str:
    kind = str(_plain(array).dtype)
    if kind != "float64" and kind not in _BITS and kind not in _WHOLE:
        raise TypeError(f"arrays of type {kind} cannot be stored")
    return kind


def _words(array: Array) -> UInt64[Array, " n"]:
    kind = _kind(array)
    if kind == "float64":
        return lax.bitcast_convert_type(array, jnp.uint64).ravel()
    if kind in _BITS:
        array = lax.bitcast_convert_type(array, jnp.dtype(_BITS[kind]))
    if kind == "uint64":
        return array.ravel()
    return lax.bitcast_convert_type(array.astype(jnp.int64), jnp.uint64).ravel()


def _from_words(words: Words, kind: str) -> np.ndarray:
    if kind == "float64":
        return words.view("<f8")
    if kind in _BITS:
        return words.astype(_BITS[kind]).view(jnp.dtype(kind))
    return words if kind == "uint64" else words.view("<i8").astype(kind)

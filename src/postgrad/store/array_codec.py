"""Named arrays as bytes, and a header that says what the bytes are.

The header is a line of JSON, `[[name, type, shape], ...]`; the numbers of all arrays follow each
other in its order, little-endian.
"""

import functools
import json
import math
import sys
from collections.abc import Mapping

import numpy as np

from postgrad.errors import StoreError

# The name, the type and the shape of each array.
Entries = tuple[tuple[str, np.dtype, tuple[int, ...]], ...]


def encode(arrays: Mapping[str, np.ndarray]) -> tuple[str, bytes]:
    """The header and the bytes of arrays of numbers.

    Raises:
        TypeError: If an array holds something else.
    """
    return header_of(entries_of(arrays)), b"".join(map(as_bytes, arrays.values()))


def entries_of(arrays: Mapping[str, np.ndarray]) -> Entries:
    """What a header says about arrays."""
    return tuple((name, array.dtype, array.shape) for name, array in arrays.items())


@functools.lru_cache(maxsize=256)
def header_of(entries: Entries) -> str:
    """The header of arrays.

    Raises:
        TypeError: If an array holds something else than numbers.
    """
    for name, kind, _ in entries:
        if kind.kind not in "biuf" and kind.name != "bfloat16":
            raise TypeError(f"arrays of type {kind} cannot be stored, got one in {name}")
    return json.dumps([[name, kind.name, shape] for name, kind, shape in entries])


def as_bytes(array: np.ndarray) -> bytes:
    """The numbers of an array, little-endian."""
    native = sys.byteorder == "little" and array.dtype.isnative
    return (array if native else array.astype(array.dtype.newbyteorder("<"))).tobytes()


def decode(header: str, data: bytes) -> dict[str, np.ndarray]:
    """The arrays back, read-only.

    Raises:
        StoreError: If the header does not fit the data.
    """
    arrays, start = {}, 0
    for name, kind, shape in _entries(header):
        size = math.prod(shape)
        stop = start + size * kind.itemsize
        if stop > len(data):
            raise StoreError(f"expected {stop} bytes or more, got {len(data)}")
        numbers = np.frombuffer(data, kind, size, start) if size else np.empty(0, kind)
        arrays[name] = numbers.reshape(shape)
        start = stop
    if start != len(data):
        raise StoreError(f"expected {start} bytes, got {len(data)}")
    return arrays


@functools.lru_cache(maxsize=256)
def _entries(header: str) -> Entries:
    kinds = [(name, np.dtype(kind), tuple(shape)) for name, kind, shape in json.loads(header)]
    return tuple((name, kind.newbyteorder("<"), shape) for name, kind, shape in kinds)

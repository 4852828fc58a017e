"""Named arrays as bytes."""

import jax.numpy as jnp
import numpy as np
import pytest

from postgrad.errors import StoreError
from postgrad.store.array_codec import decode, encode

ARRAYS = {
    "float64": np.asarray([1.5, -0.0, np.nan, -np.inf, 5e-324]),
    "scalar": np.asarray(2.5),
    "float32": np.asarray([[1.5, np.nan]], np.float32),
    "bfloat16": np.asarray([1.5, -2.0], jnp.bfloat16),
    "int32": np.asarray([-1, 2**31 - 1], np.int32),
    "int64": np.asarray([-(2**63), 2**63 - 1]),
    "uint64": np.asarray([2**64 - 1], np.uint64),
    "bool": np.asarray([True, False]),
    "empty": np.zeros((0, 3)),
    "other order": np.asarray([1.5, 2.5], ">f8"),
}


def test_every_bit_comes_back():
    back = decode(*encode(ARRAYS))
    assert list(back) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert back[name].shape == array.shape
        assert back[name].dtype == array.dtype.newbyteorder("<")
        np.testing.assert_array_equal(back[name], array)
    assert np.signbit(back["float64"][1])


def test_nothing_at_all():
    assert decode(*encode({})) == {}


def test_bytes_are_little_endian():
    assert encode({"a": np.asarray([1, 2], ">i4")})[1] == bytes([1, 0, 0, 0, 2, 0, 0, 0])


def test_what_cannot_be_stored_is_refused():
    with pytest.raises(TypeError, match="complex"):
        encode({"a": np.asarray(1j)})
    header = '[["a", "float64", []]]'
    with pytest.raises(StoreError, match="expected 8 bytes, got 16"):
        decode(header, bytes(16))
    with pytest.raises(StoreError, match="expected 8 bytes or more, got 4"):
        decode(header, bytes(4))

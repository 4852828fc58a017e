"""Arrays as words of eight bytes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from postgrad.errors import StoreError
from postgrad.store import array_codec as words

ARRAYS = {
    "float64": jnp.asarray([1.5, -0.0, jnp.nan, -jnp.inf, 5e-324]),
    "scalar": jnp.asarray(2.5),
    "float32": jnp.asarray([[1.5, jnp.nan]], jnp.float32),
    "bfloat16": jnp.asarray([1.5, -2.0], jnp.bfloat16),
    "int32": jnp.asarray([-1, 2**31 - 1], jnp.int32),
    "int64": jnp.asarray([-(2**63), 2**63 - 1]),
    "uint64": jnp.asarray([2**64 - 1], jnp.uint64),
    "bool": jnp.asarray([True, False]),
    "empty": jnp.zeros((0, 3)),
    "key": random.key(7),
}


@pytest.mark.parametrize("traced", [False, True])
def test_words_bring_back_every_bit(traced):
    pack = jax.jit(words.packed) if traced else words.packed
    header, data = words.header_of(ARRAYS), np.asarray(pack(ARRAYS)).tobytes()
    if traced:  # a compiled function sorts the names of a dictionary
        header = words.header_of(dict(sorted(ARRAYS.items())))
    back = words.unpacked(header, data)
    for name, array in ARRAYS.items():
        leaf = words.as_leaf(back[name], array)
        assert (leaf.dtype, leaf.shape) == (array.dtype, array.shape)
        if name == "key":
            leaf, array = random.key_data(leaf), random.key_data(array)
        assert np.asarray(leaf).tobytes() == np.asarray(array).tobytes()


def test_words_that_cannot_be_stored_are_refused():
    with pytest.raises(TypeError, match="complex"):
        words.packed({"a": jnp.asarray(1j)})
    with pytest.raises(StoreError, match="expected 1 words, got 2"):
        words.unpacked('[["a", "float64", []]]', bytes(16))

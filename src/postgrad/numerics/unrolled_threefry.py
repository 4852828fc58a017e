"""JAX's own random numbers, bit for bit, computed faster on a CPU.

JAX's generator is Threefry-2x32 (Salmon et al., *Parallel random numbers: as easy as 1, 2, 3*,
2011), a hash of (key, counter) of twenty add-rotate-xor rounds. On a CPU, JAX compiles the rounds
as a loop, to keep programs small. Spelled out, they fuse with what uses them and vectorise over
runs, which is much faster where every run has a key of its own, as in `simulate`.

The numbers are the same as with `jax.random.key`, so a run can be taken out of a simulation and
continued elsewhere.
"""

import math

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_Word = UInt32[Array, "..."]


def like(key: Array) -> Array:
    """The key that draws what `key` draws; a key of another generator is returned as it is."""
    if str(random.key_impl(key)) != "threefry2x32":
        return key
    return random.wrap_key_data(random.key_data(key), impl=_IMPLEMENTATION)


def _hash(key: UInt32[Array, "2"], high: _Word, low: _Word) -> tuple[_Word, _Word]:
    """Threefry-2x32 with 20 rounds: five groups of four, the key schedule injected after each."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    high, low = high + schedule[0], low + schedule[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            high = high + low
            low = high ^ (low << np.uint32(rotation) | low >> np.uint32(32 - rotation))
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low


def _counted(key: Array, shape: tuple[int, ...]) -> tuple[_Word, _Word]:
    size = math.prod(shape)
    if size >= 2**32:
        raise ValueError(f"cannot draw {size} numbers from one key")
    low = lax.iota(np.uint32, size).reshape(shape)
    return _hash(key, jnp.zeros_like(low), low)


def _seed(seed: Array) -> Array:
    return random.key_data(random.key(seed))


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_counted(key, shape), axis=-1)


def _fold_in(key: Array, data: int) -> Array:
    return jnp.stack(_hash(key, jnp.zeros((), np.uint32), jnp.asarray(data, np.uint32)))


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    high, low = _counted(key, shape)
    if width == 64:
        return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
    return (high ^ low).astype(f"uint{width}")


_IMPLEMENTATION = jax.extend.random.define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="postgrad_threefry2x32",
    tag="pg",
)

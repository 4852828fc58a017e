"""Random keys whose draws, taken together, fill space evenly: a shifted lattice behind `sample`.

`lattice_keys(key, n)` are n keys for JAX's generator. Whatever is drawn with one of them alone has
exactly its law; what is drawn with all of them is spread more evenly than independent draws are. So
models and beliefs need not know: `model(x, theta).sample(key)` is quasi-Monte-Carlo as it stands.

The i-th key draws in its j-th dimension, with n a power of two,

    u_ij  =  frac( i g_j / n  +  shift_j ),        g_j = a^j mod n,

a rank-1 lattice of Korobov's form, moved by shifts that are uniform, independent, and the same for
all i. Every one-dimensional projection is n equidistant points. The multiplier a = 17797 is good
for all powers of two at once (Hickernell, Hong, L'Ecuyer and Lemieux, 2000). Keys that are split or
folded get dimensions of their own: another odd multiplier and other shifts.
"""

import math

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jaxtyping import Array, Key, UInt64

_KOROBOV = 17797
# Constants of the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_WORDS = 6


def lattice_keys(key: Key[Array, ""], shape: tuple[int, ...], first: int = 0) -> Key[Array, "..."]:
    """Keys that share one lattice, in the given shape; their number must be a power of two.

    Args:
        key: Decides the shifts.
        shape: The i-th key, counted in the usual order, draws the i-th point.
        first: The number of the first dimension. What is drawn with the i-th keys of two calls goes
            well together only if their dimensions differ.
    """
    count = math.prod(shape)
    if count & (count - 1):
        raise ValueError(f"a lattice has a power of two points, got {count}")
    # The top bits of a 64-bit fraction; 2^64 / n overflows for n = 1, whose only point is 0.
    step = 0 if count == 1 else 2**64 // count * pow(_KOROBOV, first, 2**64) % 2**64
    place = jnp.arange(count, dtype=np.uint64) * np.uint64(step)
    root = random.bits(key, (), np.uint64)
    words = (place, jnp.broadcast_to(root, count), jnp.zeros(count, np.uint64))
    return random.wrap_key_data(_pack(*words), impl=_IMPLEMENTATION).reshape(shape)


def _pack(place: UInt64[Array, "..."], root: Array, branch: Array) -> Array:
    halves = [half for word in (place, root, branch) for half in _halves(word)]
    return jnp.stack(halves, axis=-1)


def _halves(word: Array) -> tuple[Array, Array]:
    return (word >> np.uint64(32)).astype(np.uint32), word.astype(np.uint32)


def _unpack(key: Array) -> tuple[Array, Array, Array]:
    """(i / n as a fraction of 2^64, what decides the shifts, which branch this is)."""
    wide = key.astype(np.uint64)
    place, root, branch = ((wide[k] << np.uint64(32)) | wide[k + 1] for k in (0, 2, 4))
    return place, root, branch


def _mix(word: Array) -> Array:
    """A bijection of 64 bits that leaves no trace of the order of its arguments."""
    word = word + _GAMMA
    for shift, factor in _MIX:
        word = (word ^ (word >> np.uint64(shift))) * np.uint64(factor)
    return word ^ (word >> np.uint64(31))


def _seed(seed: Array) -> Array:
    word = jnp.asarray(seed).astype(np.uint64)
    return _pack(jnp.zeros_like(word), word, jnp.zeros_like(word))


def _child(key: Array, number: Array) -> Array:
    place, root, branch = _unpack(key)
    number = number.astype(np.uint64)
    below = _mix(branch ^ _mix(number))
    spread = jnp.zeros_like(number)
    return _pack(place + spread, _mix(root ^ below), below)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return _child(key, lax.iota(np.uint32, math.prod(shape)).reshape(shape))


def _fold_in(key: Array, data: int) -> Array:
    return _child(key, ~jnp.asarray(data, np.uint32))  # apart from the children of a split


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    place, root, branch = _unpack(key)
    size = math.prod(shape)
    factors = np.full(size, _KOROBOV, np.uint64)
    factors[:1] = 1  # the first dimension is that of i itself
    powers = np.cumprod(factors)  # a^j mod 2^64
    odd = jnp.where(branch == 0, np.uint64(1), branch | np.uint64(1))
    shift = _mix(root ^ _mix(jnp.arange(size, dtype=np.uint64)))
    bits = place * (powers * odd) + shift
    return (bits >> np.uint64(64 - width)).astype(f"uint{width}").reshape(shape)


_IMPLEMENTATION = jax.extend.random.define_prng_impl(
    key_shape=(_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="postgrad_lattice",
    tag="lat",
)

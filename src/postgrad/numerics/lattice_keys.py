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

Keys can be mirrored: they draw 1 - u where the others draw u, so that the mean of such a pair is
exact for whatever is odd around u = 1/2. And `table_keys` draw given numbers.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

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
_WORDS = 8
_PAIRS = 64
_ALL = np.uint64(2**64 - 1)


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
    root = _mix(_word(key))
    none = np.uint64(0)
    return random.wrap_key_data(_pack(place, root, none, none), impl=_IMPLEMENTATION).reshape(shape)


def even_keys(
    draw: Callable[[Array], Any], key: Key[Array, ""], shape: tuple[int, ...], first: int = 0
) -> Key[Array, "..."]:
    """Keys of one lattice, the second half mirroring the first, if `draw` can use them.

    Else independent keys: if their number is no power of two, or JAX draws with its own generator
    only.
    """
    count = math.prod(shape)
    if count & (count - 1):
        return random.split(key, shape)
    # Half of very few points would lie on a line in some planes.
    pairs = count >= _PAIRS
    plain = lattice_keys(key, (count // 2 if pairs else count,), first)
    try:
        jax.eval_shape(draw, plain[0])
    except NotImplementedError:
        return random.split(key, shape)
    return (jnp.concatenate([plain, mirrored(plain)]) if pairs else plain).reshape(shape)


def quick_keys(
    draws: Sequence[Callable[[Array], Any]], key: Key[Array, ""], count: int
) -> Key[Array, " count"]:
    """Independent keys, by mixing if all draws can use them: that compiles to far less.

    A lattice of one point is random numbers by mixing: SplitMix64 with a counter.
    """
    keys = random.split(lattice_keys(key, ()), count)
    try:
        for draw in draws:
            jax.eval_shape(draw, keys[0])
    except NotImplementedError:
        return random.split(key, count)
    return keys


def purpose(key: Key[Array, ""], number: int | Array) -> Key[Array, ""]:
    """A key for one of several lattices: `fold_in` by mixing, which compiles to far less."""
    words = jnp.stack(_halves(_mix(_word(key) ^ _mix(jnp.uint64(number)))))
    return random.wrap_key_data(words, impl="threefry2x32")


def mirrored(keys: Key[Array, "..."]) -> Key[Array, "..."]:
    """Keys that draw 1 - u where these draw u, as do all keys that are split from them."""
    *words, flip = _unpack(random.key_data(keys))
    return random.wrap_key_data(_pack(*words, flip ^ _ALL), impl=_IMPLEMENTATION)


def lattice_bits(key: Key[Array, ""], count: int, dimensions: int) -> UInt64[Array, "count d"]:
    """The points of a lattice, as fractions of 2^64."""
    words = random.key_data(lattice_keys(key, (count,)))
    return jax.vmap(lambda key: _random_bits(key, 64, (dimensions,)))(words)


def table_keys(bits: UInt64[Array, "... d"]) -> Key[Array, "..."]:
    """Keys that draw these numbers, fractions of 2^64, whatever they are asked for.

    They can be drawn from, but not split; and for d numbers at most. Other uses raise
    NotImplementedError when they are computed or compiled.
    """
    halves = jnp.stack(_halves(bits), axis=-1)
    words = halves.reshape(*bits.shape[:-1], -1)
    return random.wrap_key_data(words, impl=_table(bits.shape[-1]))


# What follows is traced whenever a program with such keys is lowered, under `vmap` and for each
# shape. It calls `lax` itself: functions of `jax.numpy` take several times as long to trace there.


def _word(key: Key[Array, ""]) -> UInt64[Array, ""]:
    """The first two words of a key's data."""
    wide = random.key_data(key).astype(np.uint64)
    return (wide[0] << np.uint64(32)) | wide[1]


def _pack(*words: Any) -> Array:
    """A key's words, single ones or all of one shape."""
    shape = np.broadcast_shapes(*(np.shape(word) for word in words))
    spread = [word if np.shape(word) == shape else lax.broadcast(word, shape) for word in words]
    return jnp.stack([half for word in spread for half in _halves(word)], axis=-1)


def _halves(word: Any) -> tuple[Array, Array]:
    high = lax.shift_right_logical(word, np.uint64(32))
    return lax.convert_element_type(high, np.uint32), lax.convert_element_type(word, np.uint32)


def _unpack(key: Array) -> tuple[Array, ...]:
    """(i / n as a fraction of 2^64, what decides the shifts, which branch, which bits to flip)."""
    last = key.ndim - 1
    halves = lax.split(lax.convert_element_type(key, np.uint64), (1,) * _WORDS, axis=last)
    return tuple(
        lax.squeeze(lax.bitwise_or(lax.shift_left(high, np.uint64(32)), low), (last,))
        for high, low in zip(halves[::2], halves[1::2], strict=True)
    )


def _mix(word: Any) -> Array:
    """A bijection of 64 bits that leaves no trace of the order of its arguments."""
    word = lax.add(word, _GAMMA)
    for shift, factor in _MIX:
        word = lax.mul(_folded(word, shift), np.uint64(factor))
    return _folded(word, 31)


def _folded(word: Array, shift: int) -> Array:
    return lax.bitwise_xor(word, lax.shift_right_logical(word, np.uint64(shift)))


def _seed(seed: Array) -> Array:
    word = jnp.asarray(seed).astype(np.uint64)
    none = np.uint64(0)
    return _pack(none, word, none, none)


def _child(key: Array, number: Array) -> Array:
    place, root, branch, flip = _unpack(key)
    number = _mix(lax.convert_element_type(number, np.uint64))
    below = _mix(_xor(branch, number))
    return _pack(place, _mix(_xor(root, below)), below, flip)


def _xor(word: Array, words: Array) -> Array:
    """A single word with each of some."""
    return lax.bitwise_xor(lax.broadcast(word, words.shape), words)


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return _child(key, lax.reshape(lax.iota(np.uint32, math.prod(shape)), shape))


def _fold_in(key: Array, data: int) -> Array:
    return _child(key, ~jnp.asarray(data, np.uint32))  # apart from the children of a split


def _random_bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    place, root, branch, flip = _unpack(key)
    size = math.prod(shape)
    factors = np.full(size, _KOROBOV, np.uint64)
    factors[:1] = 1  # the first dimension is that of i itself
    powers = np.cumprod(factors)  # a^j mod 2^64
    one = lax.full_like(branch, 1)
    odd = lax.select(lax.eq(branch, np.uint64(0)), one, lax.bitwise_or(branch, one))
    shift = _mix(_xor(root, _mix(lax.iota(np.uint64, size))))
    along = lax.mul(lax.broadcast(lax.mul(place, odd), (size,)), powers)
    bits = _xor(flip, lax.add(along, shift))
    top = lax.shift_right_logical(bits, np.uint64(64 - width))
    return lax.reshape(lax.convert_element_type(top, f"uint{width}"), shape)


_IMPLEMENTATION = jax.extend.random.define_prng_impl(
    key_shape=(_WORDS,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="postgrad_lattice",
    tag="lat",
)


@functools.cache
def _table(dimensions: int) -> Any:
    """The generator behind `table_keys`."""

    def draw(key: Array, width: int, shape: tuple[int, ...]) -> Array:
        if math.prod(shape) > dimensions:
            raise NotImplementedError(f"a table of {dimensions} numbers, asked for {shape}")
        wide = key.astype(np.uint64)
        bits = (wide[0::2] << np.uint64(32)) | wide[1::2]
        bits = bits[: math.prod(shape)].reshape(shape)
        return (bits >> np.uint64(64 - width)).astype(f"uint{width}")

    def refuse(*_: Any) -> Any:
        raise NotImplementedError("keys of a table cannot be made or split")

    return jax.extend.random.define_prng_impl(
        key_shape=(2 * dimensions,),
        seed=refuse,
        split=refuse,
        random_bits=draw,
        fold_in=refuse,
        name=f"postgrad_table_{dimensions}",
        tag="tab",
    )

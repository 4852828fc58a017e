"""Numbers that a compiled program computes once."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, PyTree


def normal_once(key: Array, shape: tuple[int, ...]) -> Array:
    """Standard normal draws; runs of a `vmap` that share the key share the numbers."""
    return computed_once(random.normal(key, shape), key)


def computed_once(draws: PyTree, key: Array) -> PyTree:
    """The same numbers, divided by ones that XLA cannot fold.

    XLA repeats chains of cheap operations in each place that uses their result, and a normal draw
    is such a chain, of some four hundred operations. It does not repeat divisions, unless they are
    all by one number. (XLA removes its own optimisation barriers before it repeats chains.)

    Args:
        draws: Numbers that were drawn, or computed from many.
        key: Any key at hand; of single numbers that are drawn side by side, one for each. Or any
            numbers of the computation; if the first is NaN, so is the result.
    """
    is_key = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    number = jnp.ravel(random.key_data(key) if is_key else key)[0]
    if jnp.issubdtype(number.dtype, jnp.floating):
        nothing = jnp.where(jnp.isnan(number), jnp.nan, 0.0)
    else:
        nothing = jnp.where(number | 1 != 0, 0.0, jnp.nan)

    def once(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        zeros = (
            nothing * lax.iota(leaf.dtype, leaf.size).reshape(leaf.shape) if leaf.ndim else nothing
        )
        return leaf / (1.0 + zeros).astype(leaf.dtype)

    return jax.tree.map(once, draws)

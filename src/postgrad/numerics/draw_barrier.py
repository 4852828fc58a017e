"""Numbers that a compiled program computes once."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, PyTree


def computed_once(draws: PyTree, key: Array) -> PyTree:
    """The same numbers, divided by ones that XLA cannot fold.

    XLA repeats chains of cheap operations in each place that uses their result, and a normal draw
    is such a chain, of some four hundred operations. It does not repeat divisions, unless they are
    all by one number. (XLA removes its own optimisation barriers before it repeats chains.)

    Args:
        draws: Numbers that were drawn, or computed from many.
        key: Any key at hand; of single numbers that are drawn side by side, one for each. Or any
            floating-point numbers of the computation; if the first is NaN, so is the result.
    """
    if jnp.issubdtype(key.dtype, jnp.floating):
        nothing = jnp.where(jnp.isnan(jnp.ravel(key)[0]), jnp.nan, 0.0)
    else:
        nothing = jnp.where(jnp.ravel(random.key_data(key))[0] | 1 > 0, 0.0, jnp.nan)

    def once(leaf: Array) -> Array:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        zeros = (
            nothing * lax.iota(leaf.dtype, leaf.size).reshape(leaf.shape) if leaf.ndim else nothing
        )
        return leaf / (1.0 + zeros).astype(leaf.dtype)

    return jax.tree.map(once, draws)

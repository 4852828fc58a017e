"""Random numbers that a compiled program computes once."""

import jax
import jax.numpy as jnp
from jax import random
from jaxtyping import Array, PyTree


def computed_once(draws: PyTree, key: Array) -> PyTree:
    """The same numbers, divided by a runtime 1.0 that XLA cannot fold.

    XLA repeats chains of cheap operations in each place that uses their result, and a normal draw
    is such a chain, of some four hundred operations. It does not repeat divisions. (XLA removes its
    own optimisation barriers before it repeats chains.)

    Args:
        draws: Numbers that were drawn.
        key: Any key at hand.
    """
    one = jnp.where(jnp.ravel(random.key_data(key))[0] | 1 > 0, 1.0, jnp.nan)
    return jax.tree.map(
        lambda leaf: leaf / one if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, draws
    )

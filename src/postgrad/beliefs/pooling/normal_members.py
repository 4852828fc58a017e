"""Members around a common mean: the normal law of their parameters, from sums over members."""

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from postgrad.numerics.small_matrices import positive_inverse

# The share of the prior's variance that lies between members, before there are any, and how many
# rounds of the fixed point below are made: each divides the error by strength + C.
_BETWEEN, _ROUNDS = 0.1, 24


def size_of(dimension: int) -> int:
    """How many numbers `statistics` has: z, z z' and 1."""
    return dimension + dimension**2 + 1


def statistics(mean: Float[Array, " d"], second: Float[Array, "d d"]) -> Float[Array, " m"]:
    """(E z, E z z', 1) of a member."""
    return jnp.concatenate([mean, second.ravel(), jnp.ones(1)])


def law_of_another(
    others: Float[Array, " m"], strength: Float[Array, ""]
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """Mean and covariance of one more member's z, from the sum of `statistics` over the others.

        mu  ~  N(0, .9 I),     z_i  ~  N(mu, S),     S  =  .1 I  before there are members,

    so that a first member has z ~ N(0, I). With the sums a = sum E z_j, B = sum E z_j z_j' over C
    members, mu has the posterior N(m, V), and S is its mode under a prior worth `strength` members:

        V  =  (I / .9 + C S^-1)^-1,     m  =  V S^-1 a,
        S  =  (.1 strength I + B - a m' - m a' + C (m m' + V)) / (strength + C)

    The law of one more is N(m, S + V). V keeps it wide as long as there are few members: after one,
    S is about what it was.
    """
    d = _dimension(others.shape[0])
    one, a, count = jnp.eye(d), others[:d], jnp.round(others[-1])
    second = others[d:-1].reshape(d, d)

    def common(between: Array) -> tuple[Array, Array]:
        inverse = positive_inverse(between)
        spread = positive_inverse(one / (1.0 - _BETWEEN) + count * inverse)
        return spread @ (inverse @ a), spread

    def improve(_: Array, between: Array) -> Array:
        mean, spread = common(between)
        cross = jnp.outer(a, mean)
        scatter = second - cross - cross.T + count * (jnp.outer(mean, mean) + spread)
        new = (_BETWEEN * strength * one + scatter) / (strength + count)
        return (new + new.T) / 2

    between = lax.fori_loop(0, _ROUNDS, improve, _BETWEEN * one)
    mean, spread = common(between)
    return mean, between + spread


def _dimension(size: int) -> int:
    """d, from the size of the statistics."""
    return next(d for d in range(size) if size_of(d) == size)

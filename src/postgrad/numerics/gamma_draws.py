"""Gamma draws, faster than JAX's."""

import jax
import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float

from postgrad.numerics.draw_barrier import computed_once

# So many candidates are drawn before the loop; one draw in eight thousand needs more, at most.
_AHEAD = 3


def gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """Gamma(shape, 1) draws, one for each shape; for tiny shapes a draw may underflow to zero.

    Marsaglia and Tsang (2000): for a >= 1, d = a - 1/3 and normal z, the candidate
    d (1 + z / sqrt(9 d))^3 is accepted with a probability that makes it Gamma(a) exactly; for
    a < 1, Gamma(a + 1) U^(1/a) is Gamma(a). `jax.random.gamma` draws all candidates in a loop,
    whose random numbers cannot be drawn ahead; here a few candidates are drawn before the loop,
    and the loop repeats what was rejected every time. So streams with the same key share the
    numbers of all candidates: those of a loop belong to each stream, as its length does.
    """
    large, log_small = _factors(key, shape)
    return large * jnp.exp(log_small)


def log_gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithms of `gamma(key, shape)`, which do not underflow."""
    large, log_small = _factors(key, shape)
    return jnp.log(large) + log_small


def _factors(key: Array, a: Float[Array, "..."]) -> tuple[Array, Array]:
    """A Gamma(a) or, if a < 1, Gamma(a + 1) draw, and log U^(1/a) if a < 1, else 0."""
    d = jnp.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    root = lax.rsqrt(9.0 * d)

    def numbers(i: Array) -> tuple[Array, Array]:
        """z and log U of the i-th candidate."""
        key_z, key_u = random.split(random.fold_in(key, i))
        return random.normal(key_z, a.shape), jnp.log(random.uniform(key_u, a.shape))

    def judged(z: Array, log_u: Array) -> tuple[Array, Array]:
        """A candidate divided by d, and log U - log p: it is accepted if that is negative."""
        v = (1.0 + z * root) ** 3
        log_p = 0.5 * z**2 + d * (1.0 - v + jnp.log(jnp.where(v > 0, v, 1.0)))
        return v, jnp.where(v <= 0, jnp.inf, log_u - log_p)

    def unless_accepted(v: Array, margin: Array, other: Array, new: Array) -> tuple[Array, Array]:
        accepted = margin < 0
        return jnp.where(accepted, v, other), jnp.where(accepted, margin, new)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, v, margin = carry
        return i + 1, *unless_accepted(v, margin, *judged(*numbers(i)))

    ahead = computed_once(jax.vmap(numbers)(jnp.arange(_AHEAD, dtype=jnp.uint32)), key)
    each = [judged(z, log_u) for z, log_u in zip(*ahead, strict=True)]
    v, margin = each[0]
    for candidate in each[1:]:
        v, margin = unless_accepted(v, margin, *candidate)
    # A candidate is accepted with probability 0.95 at least. If a is NaN, so is the margin, and the
    # loop ends.
    first = jnp.asarray(_AHEAD, jnp.uint32), v, margin
    _, v, margin = lax.while_loop(lambda carry: jnp.any(carry[2] >= 0), again, first)
    # Given that U < p, U / p is uniform again.
    return d * v, jnp.where(a < 1.0, margin / a, 0.0)

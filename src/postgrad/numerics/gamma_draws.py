"""Gamma draws, faster than JAX's."""

import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float


def gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """Gamma(shape, 1) draws, one for each shape; for tiny shapes a draw may underflow to zero.

    Marsaglia and Tsang (2000): for a >= 1, d = a - 1/3 and normal z, the candidate
    d (1 + z / sqrt(9 d))^3 is accepted with a probability that makes it Gamma(a) exactly; for
    a < 1, Gamma(a + 1) U^(1/a) is Gamma(a). `jax.random.gamma` draws all candidates in a loop,
    whose random numbers cannot be drawn ahead; here the first candidate is drawn before the loop,
    and the loop repeats what was rejected.
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

    def attempt(i: Array) -> tuple[Array, Array]:
        """A candidate divided by d, and log U - log p: it is accepted if that is negative."""
        key_z, key_u = random.split(random.fold_in(key, i))
        z = random.normal(key_z, a.shape)
        log_u = jnp.log(random.uniform(key_u, a.shape))
        v = (1.0 + z * root) ** 3
        log_p = 0.5 * z**2 + d * (1.0 - v + jnp.log(jnp.where(v > 0, v, 1.0)))
        return v, jnp.where(v <= 0, jnp.inf, log_u - log_p)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, v, margin = carry
        other, new = attempt(i)
        accepted = margin < 0
        return i + 1, jnp.where(accepted, v, other), jnp.where(accepted, margin, new)

    # The first candidate is accepted with probability 0.95 at least. If a is NaN, so is the margin,
    # and the loop ends.
    first = (jnp.ones((), jnp.uint32), *attempt(jnp.zeros((), jnp.uint32)))
    _, v, margin = lax.while_loop(lambda carry: jnp.any(carry[2] >= 0), again, first)
    # Given that U < p, U / p is uniform again.
    return d * v, jnp.where(a < 1.0, margin / a, 0.0)

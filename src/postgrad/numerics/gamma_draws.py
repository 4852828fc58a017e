"""Random numbers that JAX draws slowly."""

import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float


def gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """Gamma(shape, 1) draws, one for each shape; those of tiny shapes may underflow to zero.

    Marsaglia and Tsang (2000): with d = a - 1/3 and normal z, d (1 + z / sqrt(9 d))^3 is taken with
    a probability that makes it Gamma(a) exactly, for a >= 1; below that, Gamma(a + 1) U^(1/a) is
    Gamma(a). `jax.random.gamma` tries one candidate after another, in a loop whose random numbers
    cannot be drawn ahead; here those of the first are, and the loop is there for what remains.
    """
    large, log_small = _factors(key, shape)
    return large * jnp.exp(log_small)


def log_gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """The logarithms of the same draws, which do not underflow."""
    large, log_small = _factors(key, shape)
    return jnp.log(large) + log_small


def _factors(key: Array, a: Float[Array, "..."]) -> tuple[Array, Array]:
    """A draw for a shape of one or more, and the logarithm of what makes it one for a smaller."""
    d = jnp.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    root = lax.rsqrt(9.0 * d)

    def attempt(i: Array) -> tuple[Array, Array]:
        """A candidate, and log U - log p with its probability p: taken if that is negative."""
        key_z, key_u = random.split(random.fold_in(key, i))
        z = random.normal(key_z, a.shape)
        log_u = jnp.log(random.uniform(key_u, a.shape))
        v = (1.0 + z * root) ** 3
        log_p = 0.5 * z**2 + d * (1.0 - v + jnp.log(jnp.where(v > 0, v, 1.0)))
        return v, jnp.where(v <= 0, jnp.inf, log_u - log_p)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        i, v, margin = carry
        other, new = attempt(i)
        taken = margin < 0
        return i + 1, jnp.where(taken, v, other), jnp.where(taken, margin, new)

    # The first is drawn ahead, and taken with probability 0.95 at least. A shape that is not a
    # number takes nothing: it must not wait for ever.
    first = (jnp.ones((), jnp.uint32), *attempt(jnp.zeros((), jnp.uint32)))
    _, v, margin = lax.while_loop(lambda carry: jnp.any(carry[2] >= 0), again, first)
    # Given that U < p, U / p is uniform again.
    return d * v, jnp.where(a < 1.0, margin / a, 0.0)

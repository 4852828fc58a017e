"""Random numbers that JAX draws slowly."""

import jax.numpy as jnp
from jax import lax, random
from jaxtyping import Array, Float

# So many candidates are drawn at once. Each is taken with probability 0.95 at least, and nearly
# always if the shape is large, so hardly ever does anyone have to wait for more.
_CANDIDATES = 1


def gamma(key: Array, shape: Float[Array, "..."]) -> Float[Array, "..."]:
    """Gamma(shape, 1) draws, one for each shape; those of tiny shapes may underflow to zero.

    Marsaglia and Tsang (2000): with d = a - 1/3 and normal z, d (1 + z / sqrt(9 d))^3 is taken with
    a probability that makes it Gamma(a) exactly, for a >= 1; below that, Gamma(a + 1) U^(1/a) is
    Gamma(a). `jax.random.gamma` tries one candidate after another, in a loop whose random numbers
    cannot be drawn ahead; here the first few are, and the loop is there for what remains.
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
    key_small, key_first, key_rest = random.split(key, 3)

    def attempt(key: Array) -> tuple[Array, Array]:
        z = random.normal(random.fold_in(key, 0), a.shape)
        log_u = jnp.log(random.uniform(random.fold_in(key, 1), a.shape))
        v = (1.0 + z * root) ** 3
        log_v = jnp.log(jnp.where(v > 0, v, 1.0))
        return v, (v > 0) & (log_u < 0.5 * z**2 + d * (1.0 - v + log_v))

    v, taken = attempt(random.fold_in(key_first, 0))
    for i in range(1, _CANDIDATES):
        other, good = attempt(random.fold_in(key_first, i))
        v, taken = jnp.where(taken, v, other), taken | good

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, v, taken = carry
        other, good = attempt(random.fold_in(key_rest, count))
        return count + 1, jnp.where(taken, v, other), taken | good

    # A shape that is not a number takes nothing: it must not wait for ever.
    start = (jnp.zeros((), jnp.uint32), v, taken | ~(d > 0))
    _, v, _ = lax.while_loop(lambda carry: ~jnp.all(carry[2]), again, start)
    log_u = jnp.log1p(-random.uniform(key_small, a.shape))
    return d * v, jnp.where(a < 1.0, log_u / a, 0.0)

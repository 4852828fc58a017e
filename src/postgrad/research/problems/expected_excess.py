"""How far random numbers lie above a level, on average: E max(xi - level, 0).

With it the expected costs of stock and of risk are closed forms, since

    E min(x, xi)  =  E xi - E max(xi - x, 0),    E max(x - xi, 0)  =  x - E xi + E max(xi - x, 0).
"""

import jax.numpy as jnp
from jax.scipy.special import ndtr
from jax.scipy.stats import norm
from jaxtyping import Array, Float

Number = Float[Array, "..."]


def normal(mean: Number, scale: Number, level: Number) -> Number:
    """Of xi ~ N(m, s^2): s (phi(z) - z Phi(-z)), with z = (level - m) / s."""
    z = (level - mean) / scale
    return scale * (norm.pdf(z) - z * ndtr(-z))


def exponential(mean: Number, level: Number) -> Number:
    """Of exponential xi with mean m, at a level >= 0: m exp(-level / m)."""
    return mean * jnp.exp(-level / mean)


def lognormal(median: Number, scale: Number, level: Number) -> Number:
    """Of log xi ~ N(log m, s^2), at a level > 0, with z = log(level / m) / s.

    m exp(s^2 / 2) Phi(s - z) - level Phi(-z)
    """
    z = jnp.log(level / median) / scale
    return median * jnp.exp(0.5 * scale**2) * ndtr(scale - z) - level * ndtr(-z)

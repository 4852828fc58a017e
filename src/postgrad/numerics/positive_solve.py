"""Linear equations with a curvature, which may be all but singular."""

import jax.numpy as jnp
from jaxtyping import Array, Float

# Added to a matrix of unit diagonal, so that rounding makes it no worse than singular.
_LEAST = 1e-16


def positive_solve(
    matrix: Float[Array, "d d"], right: Float[Array, "*n d"]
) -> Float[Array, "*n d"]:
    """A^-1 b for positive A, in the metric of its diagonal; b over that where A is singular.

    Args:
        matrix: A.
        right: b, or several of them.
    """
    root = jnp.sqrt(jnp.diagonal(matrix))
    unit = matrix / (root[:, None] * root) + _LEAST * jnp.eye(root.size)
    solution = jnp.linalg.solve(unit, (right / root).T).T / root
    return jnp.where(jnp.isfinite(solution), solution, right / jnp.square(root))

"""Linear algebra of small matrices, by operations on their columns.

LAPACK works on one matrix at a time; operations on columns vectorise over runs. Larger matrices are
left to LAPACK.
"""

from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

# The largest size of a small matrix.
SMALL = 8
# Added to a matrix of unit diagonal, so that rounding makes it no worse than singular.
_LEAST = 1e-16


def gram(a: Float[Array, "m d"]) -> Float[Array, "d d"]:
    """a' a."""
    if a.shape[1] > SMALL:
        return a.T @ a
    return jnp.sum(a[:, :, None] * a[:, None, :], axis=0)


def times(matrix: Float[Array, "d d"], vector: Float[Array, "*n d"]) -> Float[Array, "*n d"]:
    """A v for symmetric A, or for several v; XLA compiles a kernel for each product of matrices."""
    if matrix.shape[0] > SMALL:
        return vector @ matrix
    return jnp.sum(matrix * vector[..., None, :], axis=-1)


def cholesky(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The lower root L of L L'; NaN if the matrix is not positive definite."""
    d = matrix.shape[0]
    if d > SMALL:
        return jnp.linalg.cholesky(matrix)
    columns = []
    for k in range(d):
        column = jnp.where(np.arange(d) >= k, matrix[:, k], 0.0) / jnp.sqrt(matrix[k, k])
        matrix = matrix - column[:, None] * column
        columns.append(column)
    return jnp.stack(columns, axis=1)


def solve_lower(lower: Float[Array, "d d"], b: Float[Array, "d ..."]) -> Float[Array, "d ..."]:
    """L^-1 b."""
    if lower.shape[0] > SMALL:
        return solve_triangular(lower, b, lower=True)
    return _substitute(lower.T, b, range(len(b)))


def solve_upper(lower: Float[Array, "d d"], b: Float[Array, "d ..."]) -> Float[Array, "d ..."]:
    """L'^-1 b."""
    if lower.shape[0] > SMALL:
        return solve_triangular(lower, b, lower=True, trans=1)
    return _substitute(lower, b, reversed(range(len(b))))


def _substitute(columns: Float[Array, "d d"], b: Array, order: Iterable[int]) -> Array:
    """The solution of a triangular system, given its columns, by its entries in some order."""
    solved = {}
    for k in order:
        solved[k] = b[k] / columns[k, k]
        b = b - columns[k].reshape(-1, *(1,) * (b.ndim - 1)) * solved[k]
    return jnp.stack([solved[k] for k in range(len(solved))])


def positive_solve(
    matrix: Float[Array, "d d"], right: Float[Array, "*n d"]
) -> Float[Array, "*n d"]:
    """A^-1 b for positive A, in the metric of its diagonal; b over that where A is singular.

    Args:
        matrix: A.
        right: b, or several of them.
    """
    root = jnp.sqrt(matrix[np.diag_indices(len(matrix))])
    unit = matrix / (root[:, None] * root) + _LEAST * np.eye(root.size)
    solution = times(positive_inverse(unit), right / root) / root
    return jnp.where(jnp.isfinite(solution), solution, right / jnp.square(root))


def positive_inverse(matrix: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """A^-1 for positive A; not finite where A is singular.

    A small matrix is inverted by sweeps (Goodnight, 1979), one for each pivot: a loop of a few
    operations, where a factorisation and its substitutions are hundreds of them to compile.
    """
    d = matrix.shape[0]
    if d > SMALL:
        return jnp.linalg.inv(matrix)
    if d == 1:
        return 1.0 / matrix

    def sweep(k: Array, a: Array) -> Array:
        here = np.arange(d) == k
        column, row = a[:, k], a[k]
        pivot = row[k]
        # Outside of row and column k: a_ij - a_ik a_kj / a_kk.
        rest = a - jnp.where(here, 0.0, column)[:, None] * (row / pivot)
        swept = jnp.where(
            here[:, None], row / pivot, jnp.where(here, -column[:, None] / pivot, rest)
        )
        return jnp.where(here[:, None] & here, 1.0 / pivot, swept)

    return lax.fori_loop(0, d, sweep, matrix)

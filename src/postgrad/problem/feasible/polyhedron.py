"""Any number of linear constraints."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int

from postgrad.errors import FeasibleSetError
from postgrad.numerics.module import replaced
from postgrad.numerics.validate import as_array, is_concrete, on_device
from postgrad.problem.feasible.box import as_decision, as_metric
from postgrad.problem.feasible.feasible_set import FeasibleSet

_EPS = float(np.finfo(np.float64).eps)


class Polyhedron(FeasibleSet):
    """X = {x : A x <= b}. An equality is a pair of rows, a x <= b and -a x <= -b.

    Proj_X(x) = x - A^T u, with u >= 0 and u_i = 0 where (A Proj_X(x))_i < b_i.

    The multipliers u come from the dual active-set method of Goldfarb & Idnani (1983), which ends
    after finitely many steps with the exact solution, whether or not constraints are redundant,
    repeated or meet in one vertex. Rows that are nearly parallel without being so cost accuracy:
    about 1e-16 over their angle. The rows are scaled to unit length, so an excess is a distance.
    In a metric m, y = sqrt(m) x is projected onto {y : (A / sqrt(m)) y <= b}.

    Args:
        A: One row per constraint, shape (m, d).
        b: The right-hand sides, shape (m,).

    Raises:
        FeasibleSetError: On numbers that are not finite, on shapes that do not fit, and if no x
            satisfies all constraints.
    """

    A: Float[Array, "m d"]
    b: Float[Array, " m"]

    def __init__(self, A: npt.ArrayLike, b: npt.ArrayLike):
        rows = as_array(A, FeasibleSetError, "A")
        sides = as_array(b, FeasibleSetError, "b")
        if rows.ndim != 2 or 0 in rows.shape or sides.shape != rows.shape[:1]:
            shapes = f"{rows.shape} and {sides.shape}"
            raise FeasibleSetError(f"A and b must have shapes (m, d) and (m,), got {shapes}")
        # First by the largest entry: the square of 1e200 is infinite.
        self.A, self.b = rows, sides
        for order in (np.inf, 2):
            length = jnp.linalg.norm(self.A, ord=order, axis=1)
            length = jnp.where(length == 0, 1.0, length)
            self.A, self.b = self.A / length[:, None], self.b / length
        origin = jnp.zeros(rows.shape[1])
        if is_concrete(self.A, self.b) and np.isnan(_nearest(self.A, self.b, origin)).any():
            raise FeasibleSetError(
                "A x <= b must have a solution, got constraints that exclude all x"
            )

    def project(
        self, x: Float[Array, " d"], metric: Float[Array, " d"] | None = None
    ) -> Float[Array, " d"]:
        """The solution x - A^T u / metric; NaN if the set is empty."""
        x = as_decision(x, self.A.shape[1:], exact=True)
        scale = None if metric is None else jnp.sqrt(as_metric(metric, x))
        return _nearest(self.A, self.b, x.astype(jnp.float64), scale).astype(x.dtype)

    def with_given(
        self, mask: Bool[np.ndarray, "..."], values: Float[np.ndarray, "..."]
    ) -> FeasibleSet:
        """The constraints of the other entries: A without those columns, b - A v."""
        A, fixed = np.asarray(self.A), np.where(mask, values, 0.0)
        rows, sides = np.where(mask, 0.0, A), np.asarray(self.b) - A @ fixed
        # Rows of length one again; a row without entries says nothing of the others.
        length = np.linalg.norm(rows, axis=1)
        says = length > 1e-12
        unit = np.where(says, length, 1.0)
        rows = np.where(says[:, None], rows / unit[:, None], 0.0)
        sides = np.where(says, sides / unit, np.maximum(sides, 0.0))
        return replaced(self, A=on_device(rows), b=on_device(sides))

    def violation(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """The largest entry of A x - b, in rows of unit length, or zero."""
        x = as_decision(x, self.A.shape[1:], exact=True)
        return jnp.max(self.A @ x - self.b, initial=0.0)

    def bounds(self) -> tuple[Float[Array, " d"], Float[Array, " d"]]:
        """The solutions of 2 d linear programmes, min x_i and max x_i, by scipy.

        Inside a compiled program scipy is called back when the program runs.
        """
        side = jax.ShapeDtypeStruct(self.A.shape[1:], jnp.float64)
        return jax.pure_callback(_bounds, (side, side), self.A, self.b, vmap_method="sequential")


class _Iterate(NamedTuple):
    """x solves the programme with the constraints `rows[used]` alone, plus a share of `entering`.

    That is: x = v - sum_k u[k] A[rows[k]] - share * A[entering], and the used rows are tight.
    At most d rows are linearly independent, hence d places for them.
    """

    x: Float[Array, " d"]
    rows: Int[Array, " d"]
    used: Bool[Array, " d"]
    u: Float[Array, " d"]
    entering: Int[Array, ""]  # -1: none
    share: Float[Array, ""]
    left: Int[Array, ""]  # the number of steps that may follow; 0 when solved


@jax.jit
def _nearest(
    A: Float[Array, "m d"],
    b: Float[Array, " m"],
    v: Float[Array, " d"],
    scale: Float[Array, " d"] | None = None,
) -> Float[Array, " d"]:
    """The projection of v in the metric scale^2; NaN if A x <= b has no solution."""
    # The first projection is exact to rounding at the scale of v; a second one, which mostly takes
    # no step, makes the point feasible to rounding at its own scale, and the projection idempotent.

    def once(i: Array, point: Array) -> Array:
        if scale is None:
            return _dual_active_set(A, b, point)
        # The second one is Euclidean: where the scales differ much, entries of small scale have
        # rounding errors of the size of the others, and feasible means so in the units of A and b.
        unit = jnp.where(i == 0, scale, 1.0)
        length = jnp.linalg.norm(A / unit, axis=1)
        length = jnp.where(length == 0, 1.0, length)
        return _dual_active_set(A / unit / length[:, None], b / length, point * unit) / unit

    x = jax.lax.fori_loop(0, 2, once, v)
    feasible = jnp.all(A @ x - b <= 1e-9 * _scale(b, v, x))
    return jnp.where(feasible, x, jnp.nan)


def _dual_active_set(
    A: Float[Array, "m d"], b: Float[Array, " m"], v: Float[Array, " d"]
) -> Float[Array, " d"]:
    """Goldfarb & Idnani (1983), for min |x - v|^2 / 2 subject to A x <= b.

    Starts at v, without constraints, and adds the most violated one at a time; a constraint whose
    multiplier would turn negative on the way is dropped. The objective grows with every addition,
    so no set of constraints comes twice.
    """
    m, d = A.shape

    def step(at: _Iterate) -> _Iterate:
        # An orthonormal basis Q of the used normals N = A[rows[used]]^T = Q R. The unused places
        # hold unit vectors in d further dimensions, orthogonal to the used normals.
        N = jnp.where(at.used[:, None], A[at.rows], 0.0).T
        Q, R = jnp.linalg.qr(jnp.concatenate([N, jnp.diag(jnp.where(at.used, 0.0, 1.0))]))
        Q = jnp.where(at.used, Q[:d], 0.0)

        # Make used rows tight again, so that rounding errors of the steps do not add up.
        gap = jnp.where(at.used, b[at.rows] - A[at.rows] @ at.x, 0.0)
        x = at.x + Q @ solve_triangular(R, gap, trans=1)

        # Which constraint enters.
        excess = A @ x - b
        rounding = 16 * d * _EPS * _scale(b, v, x)
        resting = ~jnp.zeros(m, bool).at[at.rows].max(at.used)
        worst = jnp.argmax(jnp.where(resting, excess - rounding, -jnp.inf))
        solved = (at.entering < 0) & ~(resting[worst] & (excess[worst] > rounding[worst]))
        p = jnp.where(at.entering < 0, worst, at.entering)

        # Its normal is N r + z, with z orthogonal to N (orthogonalised twice against rounding).
        along = Q.T @ A[p]
        r = solve_triangular(R, along)
        z = A[p] - Q @ along
        z = z - Q @ (Q.T @ z)
        independent = (z @ z > (1e3 * _EPS) ** 2) & ~jnp.all(at.used)

        # x - t z meets constraint p at t = full; multiplier k reaches zero at t = ratio[k].
        full = jnp.where(independent, jnp.maximum(excess[p], 0.0) / (z @ z), jnp.inf)
        ratio = jnp.where(at.used & (r > 0), at.u / r, jnp.inf)
        k = jnp.argmin(ratio)
        t = jnp.minimum(full, ratio[k])
        empty = jnp.isinf(t)  # p is violated, and the used constraints exclude any remedy

        enters = full <= ratio[k]
        place = jnp.where(enters, jnp.argmin(at.used), k)
        u = jnp.where(at.used, at.u - t * r, 0.0)
        after = _Iterate(
            x=jnp.where(independent, x - t * z, x),
            rows=jnp.where(enters, at.rows.at[place].set(p), at.rows),
            used=at.used.at[place].set(enters),
            u=u.at[place].set(jnp.where(enters, at.share + t, 0.0)),
            entering=jnp.where(enters, -1, p),
            share=jnp.where(enters, 0.0, at.share + t),
            left=at.left - 1,
        )
        stay = at._replace(x=x, left=jnp.zeros_like(at.left))
        return jax.tree.map(lambda a, b: jnp.where(solved | empty, a, b), stay, after)

    start = _Iterate(
        x=v,
        rows=jnp.zeros(d, int),
        used=jnp.zeros(d, bool),
        u=jnp.zeros(d),
        entering=jnp.asarray(-1),
        share=jnp.asarray(0.0),
        # Far more steps than needed; rounding must not make the loop endless.
        left=jnp.asarray(10 * (m + d) + 50),
    )
    return jax.lax.while_loop(lambda at: at.left > 0, step, start).x


def _scale(b: Float[Array, " m"], v: Float[Array, " d"], x: Float[Array, " d"]) -> Array:
    """The size of the numbers in A x - b, row by row."""
    return jnp.abs(b) + jnp.max(jnp.abs(v)) + jnp.max(jnp.abs(x))


def _bounds(A: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each coordinate subject to A x <= b."""
    from scipy.optimize import linprog

    A, b = np.asarray(A), np.asarray(b)

    def least(direction: np.ndarray) -> float:
        """min direction @ x; -inf if scipy finds no optimum: the set is not empty."""
        solution = linprog(direction, A_ub=A, b_ub=b, bounds=(None, None))
        return float(solution.fun) if solution.success else -np.inf

    units = np.eye(A.shape[1])
    return np.array([least(unit) for unit in units]), np.array([-least(-unit) for unit in units])

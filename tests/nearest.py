"""Independent solutions of min_z sum_i m_i (z_i - v_i)^2, z in X, to check projections against.

All take v and the metric m, which is 1 if not given.
"""

import numpy as np
from scipy.optimize import brentq, lsq_linear, nnls


def least_distance(A, b, v):
    """The point of {A x <= b} nearest to v, by Lawson & Hanson's least-distance programming.

    Least squares with u >= 0 on E = [G^T; h^T], f = e_{d+1}, for y = x - v and G y >= h. Every
    feasible x that comes out is the solution; but both of SciPy's solvers stop short of the optimum
    now and then, so we ask both, at two scales of h.
    """
    length = np.linalg.norm(A, axis=1)
    A, b = A / length[:, None], b / length
    G, h = -A, A @ v - b
    scale = h.max(initial=0.0)
    if scale <= 1e-14 * size(v):
        return v
    f = np.append(np.zeros(len(v)), 1.0)
    for solver in (nonnegative_bvls, nnls) * 2:
        E = np.vstack([G.T, h / scale])
        r = E @ solver(E, f)[0] - f
        y = -scale * r[:-1] / r[-1]
        scale = np.linalg.norm(y)
        if np.max(A @ (v + y) - b) <= 1e-11 * size(v):
            return v + y
    raise AssertionError("SciPy found no solution")


def nonnegative_bvls(E, f):
    solution = lsq_linear(E, f, (0, np.inf), method="bvls", tol=1e-15, max_iter=1000)
    return solution.x, np.linalg.norm(E @ solution.x - f)


def distance_bound(A, b, v, p):
    """A bound on the error of a feasible p, from the Karush-Kuhn-Tucker conditions.

    If v - p = A^T u + rest, with u >= 0 and zero for rows with slack, then p is the projection of
    v - rest, hence within |rest| of that of v. Any u will do, so it does not matter who found it.
    """
    length = np.linalg.norm(A, axis=1)
    A, b = A / length[:, None], b / length
    tight = A[b - A @ p <= 1e-10 * size(v)].T
    if not tight.size:
        return np.linalg.norm(v - p)
    wanted = (v - p) / size(v)
    return size(v) * min(solver(tight, wanted)[1] for solver in (nnls, nonnegative_bvls))


def size(*points):
    return 1.0 + max(np.max(np.abs(point)) for point in points)


def linear(A, b):
    """The solution for a set of linear constraints, with x flattened."""
    A, b = np.asarray(A, float), np.asarray(b, float)

    def solve(v, metric=1.0):
        s = np.broadcast_to(np.sqrt(metric), v.shape).ravel()
        return (least_distance(A / s, b, v.ravel() * s) / s).reshape(v.shape)

    return solve


def box_rows(low, high):
    """Low <= x <= high as rows of A x <= b; missing sides give none."""
    unit = np.eye(len(low))
    A, b = np.vstack([-unit, unit]), np.concatenate([-np.asarray(low), np.asarray(high)])
    return A[np.isfinite(b)], b[np.isfinite(b)]


def simplex(n, total):
    one = np.ones((1, n))
    return linear(np.vstack([-np.eye(n), one, -one]), np.r_[np.zeros(n), total, -total])


def budget(low, high, weights, total):
    A, b = box_rows(low, high)
    return linear(np.vstack([A, np.ravel(weights)]), np.r_[b, total])


def round_ball(center, radius):
    """Stationarity m (x - v) + mu (x - center) = 0 with mu >= 0 found numerically."""

    def solve(v, metric=1.0):
        y = v - center
        length = np.sqrt(np.sum(y**2))
        if length <= radius:
            return v
        excess = lambda mu: np.sqrt(np.sum((y * metric / (metric + mu)) ** 2)) - radius  # noqa: E731
        mu = brentq(excess, 0.0, np.max(metric) * length / radius, xtol=1e-300, rtol=1e-15)
        return center + y * metric / (metric + mu)

    return solve

"""Projections onto polyhedra and budgets at random, with everything that makes them hard."""

import numpy as np
import pytest
from nearest import budget, distance_bound, size
from test_feasible import ROOF_A, ROOF_B, SQUARE, project, violation

from postgrad.problem.feasible import (
    Ball,
    Budget,
    Polyhedron,
    Simplex,
)


@pytest.mark.parametrize(("m", "d"), [(9, 3), (16, 6), (5, 8)])
def test_random_polyhedra(m, d):
    rng = np.random.default_rng([m, d])
    for trial in range(60):
        A = rng.integers(-2, 3, (m, d)).astype(float) if trial % 3 else rng.normal(size=(m, d))
        A[~A.any(axis=1)] = 1.0
        inside = rng.integers(-3, 4, d).astype(float)
        # Slack zero for many rows, for all of them in every fourth trial: degenerate vertices.
        b = A @ inside + rng.integers(0, 3, m) * (trial % 4 > 0)
        if trial % 2:  # an equality, and rows repeated at other lengths
            b[0] = A[0] @ inside
            A[-1], b[-1] = -7 * A[0], -7 * b[0]
            A[-2], b[-2] = 3 * A[1], 3 * b[1]
        v = inside + rng.normal(size=d) * 10.0 ** rng.uniform(-1, 6)
        feasible = Polyhedron(A, b)
        p = np.asarray(project(feasible, v))
        assert violation(feasible, p) <= 1e-13 * size(p, b)
        np.testing.assert_allclose(project(feasible, p), p, rtol=0, atol=1e-13 * size(p, b))
        assert distance_bound(A, b, v, p) <= 1e-9 * size(v)


def test_random_budgets():
    rng = np.random.default_rng(5)
    for trial in range(100):
        weights = 10.0 ** rng.uniform(-2, 2, 7)
        low = rng.integers(-3, 1, 7).astype(float)
        high = low + rng.integers(0, 4, 7)
        total = weights @ (low + rng.uniform() * (high - low))
        v = (
            rng.integers(-9, 9, 7)
            * 10.0 ** rng.integers(0, 4)
            * (1 + (trial % 2) * rng.uniform(size=7))
        )
        feasible = Budget(low, high, weights, total)
        p = np.asarray(project(feasible, v))
        assert violation(feasible, p) <= 1e-13 * size(weights * 4)
        np.testing.assert_allclose(p, budget(low, high, weights, total)(v), atol=1e-9 * size(v))


def test_far_points():
    """However far the start, the answer lies in the set to rounding at its own scale."""
    np.testing.assert_allclose(project(Simplex(), np.array([1e17, 1e17, 1e17])), np.ones(3) / 3)
    np.testing.assert_allclose(project(Ball(0.0, 2.0), np.array([3e200, 4e200])), [1.2, 1.6])
    np.testing.assert_allclose(project(Ball(1.0, 2.0), np.array([1.0, 1.0])), [1.0, 1.0])
    np.testing.assert_allclose(project(Budget(0, 9, [1, 1], 4), np.array([1e15, 1e15])), [2, 2])
    np.testing.assert_allclose(project(Simplex(), np.array([1e16, 1e16 + 2, 1e16])), [0, 1, 0])
    square = Polyhedron(SQUARE, np.ones(4))
    np.testing.assert_allclose(project(square, np.array([1e12, 1.001])), [1, 1], rtol=1e-15)
    corner = project(Polyhedron(ROOF_A, ROOF_B), np.array([1e12, 3e12, -1e12]))
    assert violation(Polyhedron(ROOF_A, ROOF_B), corner) <= 1e-14


def test_huge_rows_are_constraints_too():
    p = project(Polyhedron([[3e200, 4e200]], [5e200]), np.array([30.0, 40.0]))
    np.testing.assert_allclose(p, [0.6, 0.8], rtol=1e-14)

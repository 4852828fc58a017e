"""The laws of whole numbers, lots and minimum orders: every final class is found and tested."""

import itertools

import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooms import examples

import postgrad.problem.feasible
from postgrad.errors import FeasibleSetError
from postgrad.problem.feasible import (
    Ball,
    Box,
    Budget,
    Integers,
    Lots,
    MinimumOrder,
    Polyhedron,
    Product,
    Reals,
)
from postgrad.problem.feasible.whole.whole_set import WholeSet

pytestmark = pytest.mark.sample(30, of="whole sets")

LAW = settings(deadline=None, derandomize=True, max_examples=15, database=None)
THREE = Budget(0.0, 9.0, [1.0, 2.0, 1.5], 14.0)
SIX = [0.0, 6, 12, 18]


def grid(*values):
    """All points whose entries have these values."""
    return np.asarray(list(itertools.product(*values)), float)


def affordable(points, weights=(1.0, 2.0, 1.5), total=14.0):
    return points[points @ np.asarray(weights) <= total + 1e-9]


NINE, EVEN = [range(10)] * 3, [0, 2, 4, 6, 8]
# (set, shape of x, all its points near the origin)
SETS = {
    Integers: [
        (Integers(Box(-3.4, 7.2)), (), np.arange(-3.0, 8.0)[:, None]),
        (Integers(Reals()), (2,), grid(range(-6, 7), range(-6, 7))),
        (Integers(Box([0.3, -1.0], 4.0)), (2,), grid(range(1, 5), range(-1, 5))),
        (Integers(THREE), (3,), affordable(grid(*NINE))),
        (
            Integers(Product((Box(0.0, 2.0), Budget(0.0, 3.0, [1.0, 1.0], 4.0)), (1, 2))),
            (3,),
            affordable(grid(range(3), range(4), range(4)), (0, 1, 1), 4),
        ),
    ],
    Lots: [
        (Lots(Box(-13.0, 20.0), 6), (), np.asarray([-12.0, -6, *SIX])[:, None]),
        (Lots(Box(0.0, 0.7), 0.2), (), np.asarray([0, 0.2, 0.4, 0.6])[:, None]),
        (Lots(Box(1.0, [9.0, 19.0]), [3, 6]), (2,), grid([3, 6, 9], [6, 12, 18])),
        (Lots(THREE, [1, 2, 2]), (3,), affordable(grid(range(10), EVEN, EVEN))),
        (Lots(MinimumOrder(Box(0.0, 20.0), 7.0), 6), (), np.asarray([0.0, 12, 18])[:, None]),
    ],
    MinimumOrder: [
        (MinimumOrder(Lots(Box(0.0, 20.0), 6), 7.0), (), np.asarray([0.0, 12, 18])[:, None]),
        (MinimumOrder(Integers(Box(2.0, 9.0)), 5), (), np.arange(5.0, 10.0)[:, None]),
        (MinimumOrder(Integers(THREE), [0, 3, 4]), (3,), affordable(
            grid(range(10), [0, *range(3, 10)], [0, *range(4, 10)]))),
    ],
}  # fmt: skip
CASES = examples("postgrad.problem.feasible.whole", WholeSet, SETS)
law = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{type(case[0]).__name__}{case[1]}")

# Compiled once per class and shape: the numbers of a set are leaves.
project = eqx.filter_jit(lambda feasible, x: feasible.project(x))
relaxed = eqx.filter_jit(lambda feasible, x: feasible.relaxation.project(x))
violation = eqx.filter_jit(lambda feasible, x: feasible.violation(x))


def points(shape):
    near = st.floats(-6, 25, allow_subnormal=False) | st.integers(-5, 20).map(float)
    return hnp.arrays(float, shape, elements=near)


def is_one_of(x, known):
    return np.min(np.max(np.abs(np.ravel(x) - known), axis=1)) < 1e-9


@law
def test_the_projection_is_a_point_of_the_set_and_stays(case):
    feasible, shape, known = case

    @LAW
    @given(v=points(shape))
    def check(v):
        p = project(feasible, v)
        if np.max(np.abs(v)) < 6 or np.isfinite(feasible.bounds()[0]).all():
            assert is_one_of(p, known), f"{v} -> {p}"
        assert violation(feasible, p) < 1e-9
        assert np.array_equal(project(feasible, p), p)

    check()


@law
def test_every_point_of_the_set_is_its_own_projection(case):
    feasible, shape, known = case
    at = known.reshape(-1, *shape)
    stays = eqx.filter_jit(lambda feasible, x: jax.vmap(feasible.project)(x))(feasible, at)
    assert np.allclose(stays, at, atol=1e-12)
    excess = eqx.filter_jit(lambda feasible, x: jax.vmap(feasible.violation)(x))(feasible, at)
    assert np.max(excess) < 1e-9
    outside = at + 0.3
    excess = eqx.filter_jit(lambda feasible, x: jax.vmap(feasible.violation)(x))(feasible, outside)
    # A third of a lot of 0.2 is 0.1 off the next one.
    assert np.min(excess) > 0.09


@law
def test_the_relaxation_holds_all_points_and_bounds_are_attained(case):
    feasible, shape, known = case
    at = known.reshape(-1, *shape)
    stays = eqx.filter_jit(lambda feasible, x: jax.vmap(feasible.relaxation.project)(x))
    assert np.allclose(stays(feasible, at), at, atol=1e-9)
    low, high = (np.broadcast_to(side, shape).ravel() for side in feasible.bounds())
    if np.isfinite(low).all():
        assert np.allclose(low, known.min(axis=0))
        assert np.allclose(high, known.max(axis=0))


@law
def test_the_projection_is_near(case):
    """The nearest point where entries share nothing; elsewhere less than a step off."""
    feasible, shape, known = case
    if not np.isfinite(feasible.bounds()[0]).all():
        return
    step = np.max(np.asarray(feasible.values().step))

    @LAW
    @given(v=points(shape))
    def check(v):
        p, near = np.ravel(project(feasible, v)), np.ravel(relaxed(feasible, v))
        if feasible.relaxation.separates:
            nearest = np.min(np.sum((known - near) ** 2, axis=1))
            assert np.sum((p - near) ** 2) <= nearest + 1e-9
        else:
            gap = np.max(np.asarray(feasible.values().least), initial=0.0) + step
            assert np.max(np.abs(p - near)) <= gap + 1e-9

    check()


def test_a_product_rounds_its_whole_blocks_alone():
    feasible = Product((Lots(Budget(0.0, 9.0, [1.0, 1.0], 7.0), 2), Ball(0.0, 1.0)), (2, 1))
    assert np.allclose(project(feasible, np.asarray([5.2, 1.1, 0.3])), [6.0, 0.0, 0.3])
    assert violation(feasible, np.asarray([4.0, 2.0, 0.5])) < 1e-12
    assert np.isclose(violation(feasible, np.asarray([4.0, 2.5, 0.5])), 0.5)
    assert feasible.relaxation.values() is None
    weights, totals = feasible.budgets(3)
    assert np.array_equal(weights, [[1.0, 1.0, 0.0]])
    assert np.array_equal(totals, [7.0])


def test_without_lots_a_minimum_order_leaves_the_rest_as_it_is():
    feasible = MinimumOrder(Box(0.0, 50.0), 12.0)
    found = [float(project(feasible, x)) for x in (5.0, 7.0, 17.3, 60.0)]
    assert found == [0.0, 12.0, 17.3, 50.0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Integers(Ball(0.0, 1.0)), "Box, Reals, a Budget or a Product"),
        (lambda: Integers(Polyhedron([[1.0]], [1.0])), "Box, Reals, a Budget or a Product"),
        (lambda: Integers(3), "must be taken of a feasible set, got 3"),
        (lambda: Integers(Box(0.2, 0.8)), "got none from 0.2 to 0.8"),
        (lambda: Lots(Integers(Box(0, 9)), 6), "one lot size each"),
        (lambda: Lots(Box(0, 9), 0), "size must be positive, got 0"),
        (lambda: Lots(Budget(1, 10, np.ones(3), 12.0), 6), "18.0 > 12.0"),
        (lambda: MinimumOrder(Box(-1, 2), 1), "got the lower bound -1"),
        (lambda: MinimumOrder(Box(0, 2), -1), "must not be negative, got -1"),
        (lambda: MinimumOrder(Integers(Box(1, 4)), 6), "got none from 1.0 to 4.0"),
    ],
)
def test_errors_name_the_value(make, message):
    with pytest.raises(FeasibleSetError, match=message.replace(".", r"\.")):
        make()


def test_every_class_is_exported():
    for kind in SETS:
        assert getattr(postgrad.problem.feasible, kind.__name__) is kind

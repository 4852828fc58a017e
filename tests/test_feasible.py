"""The laws of the feasible sets: every final class under postgrad.feasible is found and tested."""

import dataclasses
from collections.abc import Callable
from functools import cached_property, partial

import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nearest import box_rows, budget, linear, round_ball, simplex, size
from rooms import first_of_each, members

import postgrad.problem.feasible
from postgrad.errors import DecisionError, FeasibleSetError
from postgrad.problem.feasible import (
    Ball,
    Box,
    Budget,
    FeasibleSet,
    Polyhedron,
    Product,
    Reals,
    Simplex,
)
from postgrad.problem.feasible.whole.whole_set import WholeSet

LAW = settings(deadline=None, derandomize=True, max_examples=20, database=None)


# Examples: several of each class


@dataclasses.dataclass(frozen=True, eq=False)
class Example:
    name: str
    made: FeasibleSet | Callable[[], FeasibleSet]  # a polyhedron compiles to see that it has points
    shape: tuple[int, ...]
    solve: Callable[..., np.ndarray]  # the quadratic programme, solved independently

    @cached_property
    def set(self) -> FeasibleSet:
        return self.made if isinstance(self.made, FeasibleSet) else self.made()


INF = np.inf
SQUARE = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
# Six facets meet in the apex (0, 0, 2) of this roof over a square.
ROOF_A = [[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1], [1, 1, 1], [0, 0, 1], [0, 0, -1]]
ROOF_B = [2, 2, 2, 2, 2, 2, 0]
AGAIN_A = [[1, 1], [2, 2], [1, 1], [-1, 0], [0, -1], [0, -3], [1, 1]]
AGAIN_B = [1, 2, 1, 0, 0, 0, 5]
# The first two rows are the equality x + 2y - z = 1, and the last two follow from the others.
PLANE_A = [[1, 2, -1], [-3, -6, 3], [1, 0, 0], [0, 1, 0], [-1, -1, 0], [0, 0, 1], [1, 1, 0]]
PLANE_B = [1, -3, 2, 2, 2, 5, 4]
# Two equalities and three redundant rows.
POINT_A = [[1, 1], [-1, -1], [1, -1], [-2, 2], [1, 0], [0, 1], [1, 2]]
POINT_B = [3, -3, 1, -2, 2, 1, 4]
WEDGE_A = [[1e-3, 1.0], [1e-3, -1.0]]  # an acute corner: the nearest point may be far away
WEDGE_B = [0.0, 0.0]


MATRIX = np.array([[0.5, 2.0], [1.0, 3.0]])


def blocks(*parts):
    """Solutions of parts (solve, size) of a vector, one after the other."""

    def solve(v, metric=1.0):
        ends = np.cumsum([size for _, size in parts])[:-1]
        metric = np.broadcast_to(metric, v.shape)
        three = zip(parts, np.split(v, ends), np.split(metric, ends), strict=True)
        return np.concatenate([solve(block, part) for (solve, _), block, part in three])

    return solve


def itself(v, metric=1.0):
    return v


def always(point):
    return lambda v, metric=1.0: np.array(point)


# By the name of the class: (name, set, shape of x, the quadratic programme solved independently).
SETS = {
    "Reals": [("scalar", Reals(), (), itself), ("matrix", Reals(), (2, 3), itself)],
    "Box": [
        ("scalar", Box(1.0, 100.0), (), linear(*box_rows([1], [100]))),
        ("shared", Box(-1, 2), (3,), linear(*box_rows([-1] * 3, [2] * 3))),
        ("arrays", Box([0.0, -2.0], [1.0, -2.0]), (2,), linear(*box_rows([0, -2], [1, -2]))),
        ("half open", Box(0.0, INF), (2, 2), linear(*box_rows([0] * 4, [INF] * 4))),
        ("mixed", Box([-INF, 1], [3, INF]), (2,), linear(*box_rows([-INF, 1], [3, INF]))),
    ],
    "Ball": [
        ("scalar", Ball(1.0, 2.5), (), round_ball(1.0, 2.5)),
        ("shared", Ball(0.0, 1.0), (3,), round_ball(0.0, 1.0)),
        ("vector", Ball([3.0, -4.0], 0.1), (2,), round_ball(np.array([3.0, -4.0]), 0.1)),
        ("matrix", Ball(np.ones((2, 2)), 7.0), (2, 2), round_ball(np.ones((2, 2)), 7.0)),
    ],
    "Simplex": [
        ("one", Simplex(), (1,), simplex(1, 1.0)),
        ("unit", Simplex(), (4,), simplex(4, 1.0)),
        ("large", Simplex(250.0), (3,), simplex(3, 250.0)),
        ("matrix", Simplex(2.0), (2, 3), simplex(6, 2.0)),
    ],
    "Budget": [
        ("scalar", Budget(0, 5, 2.0, 3.0), (), budget([0], [5], [2.0], 3.0)),
        ("slack", Budget(-1, 1, np.ones(3), 3), (3,), budget([-1] * 3, [1] * 3, [1] * 3, 3)),
        ("tight", Budget(0, 9, [1, 2, 4], 5), (3,), budget([0] * 3, [9] * 3, [1, 2, 4], 5)),
        ("open", Budget(0, INF, [1, 1], 1), (2,), budget([0] * 2, [INF] * 2, [1, 1], 1)),
        ("free", Budget(-INF, INF, [3, 4], 1), (2,), budget([-INF] * 2, [INF] * 2, [3, 4], 1)),
        ("one point", Budget(0.1, 1, [1, 1, 1], 0.3), (3,), always([0.1] * 3)),
        ("matrix", Budget(-2, 4, MATRIX, -1.5), (2, 2), budget([-2] * 4, [4] * 4, MATRIX, -1.5)),
    ],
    "Polyhedron": [
        ("one row", partial(Polyhedron, [[3.0, 4.0]], [5.0]), (2,), linear([[3, 4]], [5])),
        ("square", partial(Polyhedron, SQUARE, [1, 1, 1, 1]), (2,), linear(SQUARE, [1, 1, 1, 1])),
        ("apex", partial(Polyhedron, ROOF_A, ROOF_B), (3,), linear(ROOF_A, ROOF_B)),
        ("repeated", partial(Polyhedron, AGAIN_A, AGAIN_B), (2,), linear(AGAIN_A, AGAIN_B)),
        ("plane", partial(Polyhedron, PLANE_A, PLANE_B), (3,), linear(PLANE_A, PLANE_B)),
        ("point", partial(Polyhedron, POINT_A, POINT_B), (2,), always([2.0, 1.0])),
        ("wedge", partial(Polyhedron, WEDGE_A, WEDGE_B), (2,), linear(WEDGE_A, WEDGE_B)),
    ],
    "Product": [
        ("one", Product([Ball(1.0, 2.5)], [2]), (2,), round_ball(1.0, 2.5)),
        (
            "shares and a level",
            Product((Simplex(), Box(-1.0, 2.0)), (3, 1)),
            (4,),
            blocks((simplex(3, 1.0), 3), (linear(*box_rows([-1], [2])), 1)),
        ),
        (
            "nested",
            Product((Product((Ball(0.0, 1.0), Reals()), (2, 1)), Budget(0, 9, [1, 2], 5)), (3, 2)),
            (5,),
            blocks(
                (round_ball(0.0, 1.0), 2),
                (itself, 1),
                (budget([0] * 2, [9] * 2, [1, 2], 5), 2),
            ),
        ),
    ],
}


def examples(kind: type[FeasibleSet]) -> list[Example]:
    """Several members of a class."""
    return [
        Example(f"{kind.__name__}-{name}", *rest) for name, *rest in SETS.get(kind.__name__, [])
    ]


FOUND = members("postgrad.problem.feasible", FeasibleSet)
FINAL = [kind for kind in FOUND if not issubclass(kind, WholeSet)]  # see `test_whole_sets.py`
EXAMPLES = [example for kind in FINAL for example in examples(kind)]
law = pytest.mark.parametrize(
    "example",
    first_of_each(EXAMPLES, lambda example: example.name.partition("-")[0], count=2),
    ids=[example.name for example in EXAMPLES],
)

# Compiled once per class and shape: the numbers of a set are leaves.
project = eqx.filter_jit(lambda feasible, x: feasible.project(x))
violation = eqx.filter_jit(lambda feasible, x: feasible.violation(x))
bounds = eqx.filter_jit(lambda feasible: feasible.bounds())
batched = eqx.filter_jit(lambda feasible, x: jax.vmap(feasible.project)(x))


def points(shape):
    """Points near and far, with many ties and zeros."""
    near = st.floats(-5, 5, allow_subnormal=False) | st.integers(-4, 4).map(float)
    far = st.floats(-1e4, 1e4, allow_subnormal=False)
    return hnp.arrays(float, shape, elements=near) | hnp.arrays(float, shape, elements=near | far)


# Laws


@pytest.mark.parametrize("kind", FINAL)
def test_every_set_has_examples_and_is_exported(kind):
    assert len(examples(kind)) >= 2, f"{kind.__name__} is not tested: add examples of it to SETS"
    assert getattr(postgrad.feasible, kind.__name__) is kind


@law
def test_projection_is_feasible(example):
    @LAW
    @given(v=points(example.shape))
    def check(v):
        p = project(example.set, v)
        # Relative to the answer, not to v: a far start must not leave the set.
        assert violation(example.set, p) <= 1e-13 * size(p) * (1 + p.size)

    check()


@law
def test_projection_is_idempotent(example):
    @LAW
    @given(v=points(example.shape))
    def check(v):
        p = project(example.set, v)
        np.testing.assert_allclose(project(example.set, p), p, rtol=0, atol=1e-13 * size(p))

    check()


@law
def test_feasible_points_stay(example):
    @LAW
    @given(v=points(example.shape))
    def check(v):
        if violation(example.set, v) == 0:
            np.testing.assert_allclose(project(example.set, v), v, rtol=0, atol=1e-15 * size(v))

    check()


@law
def test_projection_is_non_expansive(example):
    @LAW
    @given(v=points(example.shape), w=points(example.shape))
    def check(v, w):
        before = np.linalg.norm(np.ravel(v - w))
        after = np.linalg.norm(np.ravel(project(example.set, v) - project(example.set, w)))
        assert after <= before + 1e-12 * size(v, w)

    check()


@law
def test_projection_solves_the_quadratic_programme(example):
    @LAW
    @given(v=points(example.shape))
    def check(v):
        solution = example.solve(v)
        p = project(example.set, v)
        np.testing.assert_allclose(p, solution, rtol=0, atol=1e-9 * size(v))

    check()


@law
def test_variational_inequality(example):
    """(v - P v).(z - P v) <= 0 for every feasible z: this characterises the projection."""

    @LAW
    @given(v=points(example.shape), w=points(example.shape))
    def check(v, w):
        p, z = project(example.set, v), example.solve(w)  # z is feasible by another hand
        assert violation(example.set, z) <= 1e-9 * size(w)
        assert np.sum((v - p) * (z - p)) <= 1e-9 * size(v, w) ** 2

    check()


@law
def test_vmap_equals_loop(example):
    rng = np.random.default_rng(1)
    v = rng.normal(size=(9, *example.shape)) * 10.0 ** rng.integers(
        -1, 4, (9,) + (1,) * len(example.shape)
    )
    stacked = batched(example.set, v)
    np.testing.assert_allclose(
        stacked, [project(example.set, each) for each in v], rtol=0, atol=1e-13 * size(v)
    )


@pytest.mark.parametrize("kind", FINAL)
def test_sets_stack(kind):
    """One program serves sets with different numbers, built inside or outside of it."""
    example = examples(kind)[-1]
    leaves, structure = jax.tree.flatten(example.set)
    wider = jax.tree.unflatten(structure, [leaf * 1.25 for leaf in leaves])
    stack = jax.tree.map(lambda *each: jnp.stack(each), example.set, wider)
    v = np.random.default_rng(2).normal(size=example.shape) * 10
    both = eqx.filter_jit(eqx.filter_vmap(lambda feasible: feasible.project(v), axis_size=2))(stack)
    assert both.shape == (2, *example.shape)
    for found, feasible in zip(both, (example.set, wider), strict=True):
        np.testing.assert_allclose(found, project(feasible, v), atol=1e-12)


@pytest.mark.parametrize("kind", FINAL)
@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_shape_and_dtype_are_kept(kind, dtype):
    example = examples(kind)[-1]
    for value in (0.5, -300.0):
        x = jnp.full(example.shape, value, dtype)
        p = project(example.set, x)
        assert (p.shape, p.dtype) == (example.shape, dtype)
        far = 1e-6 if dtype == jnp.float32 else 1e-12
        np.testing.assert_allclose(p, example.solve(np.asarray(x, float)), rtol=far, atol=300 * far)
        assert violation(example.set, x).shape == ()


@pytest.mark.parametrize("kind", FINAL)
def test_whole_numbers_become_floats(kind):
    example = examples(kind)[-1]
    x = jnp.full(example.shape, 3)
    np.testing.assert_array_equal(project(example.set, x), project(example.set, x.astype(float)))


@law
def test_nan_stays_visible(example):
    for flat in range(int(np.prod(example.shape))):
        v = np.full(example.shape, 0.3)
        v.flat[flat] = np.nan
        p = project(example.set, v)
        assert np.isnan(np.ravel(p)[flat])
        assert np.isnan(violation(example.set, v))


@law
def test_infinity_is_a_limit(example):
    """An infinite x goes where a very large one goes, or to NaN, but never quietly elsewhere."""
    for value in (INF, -INF):
        v = np.full(example.shape, value)
        p = np.asarray(project(example.set, v))
        if np.isfinite(p).all():
            far = np.asarray(project(example.set, np.full(example.shape, np.sign(value) * 1e6)))
            np.testing.assert_allclose(p, far, atol=1e-9)


@law
def test_violation_is_positive_outside(example):
    @LAW
    @given(v=points(example.shape))
    def check(v):
        moved = np.max(np.abs(project(example.set, v) - v))
        excess = violation(example.set, v)
        assert excess >= 0
        # Moving each entry by at most `moved` mends at most |row|_1 * moved.
        assert excess <= 8 * moved + 1e-12 * size(v)
        if moved > 1e-9 * size(v):
            assert excess > 0

    check()


@law
def test_projections_lie_within_the_bounds(example):
    low, high = (np.asarray(side) for side in bounds(example.set))

    @LAW
    @given(v=points(example.shape))
    def check(v):
        p = np.asarray(project(example.set, v))
        assert np.all(p >= low - 1e-9 * size(p))
        assert np.all(p <= high + 1e-9 * size(p))

    check()


@law
def test_bounds_are_attained(example):
    """The nearest point to one far along an axis has the largest entry, if there is a largest."""
    low, high = (np.broadcast_to(side, example.shape) for side in bounds(example.set))
    if example.name == "Simplex-one":  # a single point: (0, total) is only an outer bound
        low = high
    for index in np.ndindex(example.shape):
        for sign, bound in ((-1.0, low), (1.0, high)):
            far = np.zeros(example.shape)
            far[index] = sign * 1e10
            reached = np.asarray(project(example.set, far))[index]
            if np.isinf(bound[index]):
                assert bound[index] == sign * INF
                assert sign * reached > 1e3  # and there is none, if the bound says so
            else:
                np.testing.assert_allclose(reached, bound[index], rtol=1e-6, atol=1e-4)


# Products that do not fit


@pytest.mark.parametrize(
    ("sets", "sizes", "said"),
    [
        ([], [], "one size for each set"),
        ([Simplex()], [2, 3], "1 sets and 2 sizes"),
        ([Simplex(), 3.0], [2, 1], "must be feasible sets, got 3.0"),
        ([Simplex()], [0], "positive whole number, got 0"),
        ([Simplex()], [2.0], "positive whole number, got 2.0"),
    ],
)
def test_products_that_are_none(sets, sizes, said):
    with pytest.raises(FeasibleSetError, match=said):
        Product(sets, sizes)


def test_decisions_that_do_not_fit_a_product():
    feasible = Product((Simplex(), Box(0.0, 1.0)), (2, 1))
    for x in (jnp.zeros(2), jnp.zeros((3, 1)), jnp.zeros(())):
        with pytest.raises(DecisionError, match="shape"):
            feasible.project(x)

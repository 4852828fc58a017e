"""The laws of projections in a metric, for every feasible set."""

import equinox as eqx
import hypothesis.extra.numpy as hnp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nearest import size
from test_feasible import (
    FINAL,
    LAW,
    PLANE_A,
    PLANE_B,
    ROOF_A,
    ROOF_B,
    examples,
    law,
    points,
    project,
    violation,
)

from postgrad.errors import DecisionError
from postgrad.problem.feasible import Ball, Box, Budget, Polyhedron, Product, Simplex

weighed = eqx.filter_jit(lambda feasible, x, metric: feasible.project(x, metric))


def metrics(shape, decades):
    """Positive numbers that differ by many powers of ten, with ties."""
    powers = st.integers(-decades, decades) | st.floats(-decades, decades, allow_subnormal=False)
    return hnp.arrays(float, shape, elements=powers.map(lambda power: 10.0**power))


@law
def test_feasible_and_idempotent_in_every_metric(example):
    @LAW
    @given(v=points(example.shape), metric=metrics(example.shape, 12))
    def check(v, metric):
        p = weighed(example.set, v, metric)
        assert violation(example.set, p) <= 1e-13 * size(p) * (1 + p.size)
        again = weighed(example.set, p, metric)
        np.testing.assert_allclose(again, p, rtol=0, atol=1e-13 * size(p))

    check()


@law
def test_feasible_points_stay_in_every_metric(example):
    @LAW
    @given(v=points(example.shape), metric=metrics(example.shape, 12))
    def check(v, metric):
        for point in (v, example.solve(v)):
            if violation(example.set, point) == 0:
                stays = weighed(example.set, point, metric)
                np.testing.assert_allclose(stays, point, rtol=0, atol=4e-15 * size(point))

    check()


@law
def test_solves_the_quadratic_programme_in_the_metric(example):
    @LAW
    @given(v=points(example.shape), metric=metrics(example.shape, 2))
    def check(v, metric):
        p = weighed(example.set, v, metric)
        # SciPy's solution is feasible to 1e-11, which a corner of 1e-4 makes 1e-7.
        np.testing.assert_allclose(p, example.solve(v, metric), rtol=0, atol=1e-7 * size(v))

    check()


@law
def test_variational_inequality_in_the_metric(example):
    """sum m (v - P v) (z - P v) <= 0 for every feasible z, however much m differs."""

    @LAW
    @given(v=points(example.shape), w=points(example.shape), metric=metrics(example.shape, 12))
    def check(v, w, metric):
        p, z = weighed(example.set, v, metric), example.solve(w)
        rounding = np.sum(metric * size(v) * size(w, p))
        assert np.sum(metric * (v - p) * (z - p)) <= 1e-9 * rounding

    check()


@law
def test_only_ratios_matter(example):
    rng = np.random.default_rng(4)
    v = rng.normal(size=example.shape) * 20
    metric = 10.0 ** rng.uniform(-3, 3, example.shape)
    p = weighed(example.set, v, metric)
    for factor in (1e-290, 2.0**30, 1e290):
        same = weighed(example.set, v, metric * factor)
        np.testing.assert_allclose(same, p, rtol=0, atol=1e-12 * size(p))
    alike = weighed(example.set, v, np.full(example.shape, 7.0))
    np.testing.assert_allclose(alike, project(example.set, v), rtol=0, atol=1e-12 * size(v))


@law
def test_vmap_equals_loop_in_metrics(example):
    rng = np.random.default_rng(1)
    v = rng.normal(size=(9, *example.shape)) * 30
    metric = 10.0 ** rng.uniform(-6, 6, (9, *example.shape))
    stacked = eqx.filter_jit(lambda x, m: jax.vmap(example.set.project)(x, m))(v, metric)
    one_by_one = [weighed(example.set, *each) for each in zip(v, metric, strict=True)]
    np.testing.assert_allclose(stacked, one_by_one, rtol=0, atol=1e-12 * size(v))


@law
def test_huge_and_tiny_numbers(example):
    """Finite in, finite and feasible out; polyhedra only if x is not too far away for float64."""
    rng = np.random.default_rng(6)
    huge = () if isinstance(example.set, Polyhedron) else (1e150, 1e250)
    for scale in (0.0, 1e-300, 1e-150, 1e12, *huge):
        for spread in (0, 12, 300):
            v = rng.choice([-1.0, 1.0], example.shape) * rng.uniform(size=example.shape) * scale
            metric = 10.0 ** rng.uniform(-spread, spread, example.shape)
            p = weighed(example.set, v, metric)
            assert np.isfinite(p).all()
            assert violation(example.set, p) <= 1e-13 * size(p) * (1 + p.size)


@pytest.mark.parametrize("kind", FINAL)
def test_shape_dtype_and_nan_are_kept_in_a_metric(kind):
    example = examples(kind)[-1]
    for dtype in (jnp.float32, jnp.float64):
        p = weighed(example.set, jnp.full(example.shape, -3.0, dtype), np.ones(example.shape))
        assert (p.shape, p.dtype) == (example.shape, dtype)
    v = np.full(example.shape, 0.3)
    v.flat[0] = np.nan
    assert np.isnan(np.ravel(weighed(example.set, v, np.ones(example.shape)))[0])


LOW, HIGH, COSTS = np.array([0.0, -1.0, 0.5]), np.array([4.0, 9.0, 0.7]), np.array([1.0, 2.0, 4.0])
# Each set as a function of the units s: it holds x / s where the set in units of 1 holds x.
IN_UNITS = {
    "box": lambda s: Box(LOW / s, HIGH / s),
    "budget": lambda s: Budget(LOW / s, HIGH / s, COSTS * s, 5.0),
    "shares": lambda s: Budget(np.zeros(3), np.full(3, np.inf), s, 1.0),
    "plane": lambda s: Polyhedron(np.array(PLANE_A) * s, PLANE_B),
    "roof": lambda s: Polyhedron(np.array(ROOF_A) * s, ROOF_B),
}


@pytest.mark.parametrize("in_units", IN_UNITS.values(), ids=IN_UNITS.keys())
def test_units_do_not_matter(in_units):
    rng = np.random.default_rng(7)
    one = in_units(np.ones(3))
    for _ in range(50):
        v = rng.normal(size=3) * 10.0 ** rng.integers(0, 3)
        s, metric = 10.0 ** rng.uniform(-6, 6, 3), 10.0 ** rng.uniform(-1, 1, 3)
        p = weighed(one, v, metric)
        rescaled = s * np.asarray(weighed(in_units(s), v / s, metric * s**2))
        np.testing.assert_allclose(rescaled, p, rtol=0, atol=1e-9 * size(v))


def test_what_is_light_gives_way():
    """A unit of an entry that weighs little is given up first."""
    v, metric = np.array([1.0, 1.0]), np.array([1.0, 1e12])
    for feasible in (Simplex(), Budget(0.0, 9.0, [1.0, 1.0], 1.0), Polyhedron([[1.0, 1.0]], [1.0])):
        np.testing.assert_allclose(weighed(feasible, v, metric), [0.0, 1.0], atol=1e-11)
    ball = weighed(Ball(0.0, 1.0), np.array([1.0, 0.6]), np.array([1e-12, 1.0]))
    np.testing.assert_allclose(ball, [0.8, 0.6], atol=1e-11)
    both = Product((Simplex(), Simplex()), (2, 2))
    p = weighed(both, np.ones(4), np.array([1.0, 3.0, 3.0, 1.0]))
    np.testing.assert_allclose(p, [0.25, 0.75, 0.75, 0.25])


@pytest.mark.parametrize(
    "feasible",
    [Ball(0.0, 1.0), Simplex(), Budget(0, 1, [1.0, 1.0], 1), Polyhedron([[1.0, 1.0]], [1.0])],
)
def test_metrics_of_another_shape_are_refused(feasible):
    for metric in (np.ones(()), np.ones(3), np.ones((1, 2))):
        with pytest.raises(DecisionError, match="metric must have the shape"):
            feasible.project(jnp.zeros(2), metric)

"""Feasible sets that are none, and decisions that do not fit them, get a clear error."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from postgrad.errors import DecisionError, FeasibleSetError
from postgrad.problem.feasible import Ball, Box, Budget, Polyhedron, Simplex

INF = np.inf
NAN = np.nan
SQUARE = [[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
BAD = {
    "box nan": lambda: Box(NAN, 1.0),
    "box nan entry": lambda: Box([0.0, NAN], 1.0),
    "box bool": lambda: Box(False, 1.0),
    "box string": lambda: Box("0", 1.0),
    "box infinite string": lambda: Box("-inf", 1.0),
    "box none": lambda: Box(None, 1.0),
    "box ragged": lambda: Box([[1.0], [1.0, 2.0]], 3.0),
    "box crossed": lambda: Box(2.0, 1.0),
    "box crossed entry": lambda: Box([0.0, 2.0], [1.0, 1.0]),
    "box low at inf": lambda: Box(INF, INF),
    "box high at -inf": lambda: Box(-INF, -INF),
    "box shapes": lambda: Box(np.zeros(2), np.ones(3)),
    "ball nan": lambda: Ball(NAN, 1.0),
    "ball inf": lambda: Ball([0.0, INF], 1.0),
    "ball radius zero": lambda: Ball(0.0, 0.0),
    "ball radius negative": lambda: Ball(0.0, -1.0),
    "ball radius nan": lambda: Ball(0.0, NAN),
    "ball radius inf": lambda: Ball(0.0, INF),
    "ball radius bool": lambda: Ball(0.0, True),
    "ball radius vector": lambda: Ball(0.0, [1.0, 2.0]),
    "simplex zero": lambda: Simplex(0.0),
    "simplex negative": lambda: Simplex(-1.0),
    "simplex nan": lambda: Simplex(NAN),
    "simplex string": lambda: Simplex("1"),
    "simplex vector": lambda: Simplex([1.0, 1.0]),
    "budget nan": lambda: Budget(0.0, 1.0, [1.0, NAN], 1.0),
    "budget low nan": lambda: Budget(NAN, 1.0, [1.0, 1.0], 1.0),
    "budget crossed": lambda: Budget(1.0, 0.0, [1.0, 1.0], 1.0),
    "budget weight zero": lambda: Budget(0.0, 1.0, [1.0, 0.0], 1.0),
    "budget weight negative": lambda: Budget(0.0, 1.0, [1.0, -1.0], 1.0),
    "budget total inf": lambda: Budget(0.0, 1.0, [1.0, 1.0], INF),
    "budget total vector": lambda: Budget(0.0, 1.0, [1.0, 1.0], [1.0, 1.0]),
    "budget shapes": lambda: Budget(np.zeros(3), 1.0, [1.0, 1.0], 1.0),
    "budget empty": lambda: Budget(1.0, 2.0, [1.0, 1.0], 1.999),
    "polyhedron nan": lambda: Polyhedron([[NAN]], [1.0]),
    "polyhedron inf": lambda: Polyhedron([[1.0]], [INF]),
    "polyhedron bool": lambda: Polyhedron([[True]], [1.0]),
    "polyhedron string": lambda: Polyhedron([["a"]], [1.0]),
    "polyhedron ragged": lambda: Polyhedron([[1.0], [1.0, 2.0]], [1.0, 1.0]),
    "polyhedron flat": lambda: Polyhedron([1.0, 2.0], [1.0, 2.0]),
    "polyhedron shapes": lambda: Polyhedron([[1.0, 2.0]], [1.0, 2.0]),
    "polyhedron no rows": lambda: Polyhedron(np.zeros((0, 2)), np.zeros(0)),
    "polyhedron empty": lambda: Polyhedron([[1.0, 0.0], [-1.0, 0.0]], [0.0, -1.0]),
    "polyhedron empty slab": lambda: Polyhedron([[0.3, 0.7], [-0.9, -2.1]], [0.0, -1.0]),
    "polyhedron empty in small units": lambda: Polyhedron([[1.0], [-1.0]], [1e-12, -2e-12]),
    "polyhedron zero row": lambda: Polyhedron([[0.0, 0.0]], [-1.0]),
    "polyhedron empty triangle": lambda: Polyhedron([[1, 1], [-1, 0], [0, -1]], [1, 0, -1.001]),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_bad_sets_are_refused(bad):
    with pytest.raises(FeasibleSetError, match="must"):
        bad()


@pytest.mark.parametrize(
    ("feasible", "x"),
    [
        (Box(np.zeros(3), 1.0), np.zeros(())),
        (Box(np.zeros(3), 1.0), np.zeros(2)),
        (Ball(np.zeros(3), 1.0), np.zeros(())),
        (Budget(0.0, 1.0, np.ones(3), 1.0), np.zeros((2, 3))),
        (Budget(0.0, 1.0, np.ones(3), 1.0), np.zeros(())),
        (Polyhedron(SQUARE, np.ones(4)), np.zeros(3)),
        (Polyhedron(SQUARE, np.ones(4)), np.zeros(())),
    ],
)
def test_decisions_of_the_wrong_shape_are_refused(feasible, x):
    with pytest.raises(DecisionError, match="shape"):
        feasible.project(x)
    with pytest.raises(DecisionError, match="shape"):
        feasible.violation(x)


def test_errors_name_the_value():
    with pytest.raises(FeasibleSetError, match=r"low 2\.0 > high 1\.5 at index \[1\]"):
        Box([0.0, 2.0], 1.5)
    with pytest.raises(FeasibleSetError, match=r"radius .* -3"):
        Ball(0.0, -3.0)
    with pytest.raises(FeasibleSetError, match=r"4\.0 > 3\.5"):
        Budget(2.0, 9.0, [1.0, 1.0], 3.5)


def test_checks_vanish_while_tracing():
    """Sets can be built inside compiled programs, from traced and from known numbers."""

    @jax.jit
    def inside(high):
        sets = (
            Box(-INF, high),
            Ball(0.0, high),
            Simplex(high),
            Budget(0.0, INF, [1.0, 1.0], high),
            Polyhedron([[1.0, 1.0]], [1.0]),
            Polyhedron([[1.0, 1.0]], high[None]),
        )
        return [feasible.project(jnp.array([3.0, 3.0])) for feasible in sets]

    box, ball, simplex_, shared, known, traced = inside(jnp.asarray(2.0))
    np.testing.assert_allclose(box, [2, 2])
    np.testing.assert_allclose(ball, [np.sqrt(2), np.sqrt(2)])
    for each in (simplex_, shared, traced):
        np.testing.assert_allclose(each, [1, 1], rtol=1e-14)
    np.testing.assert_allclose(known, [0.5, 0.5])

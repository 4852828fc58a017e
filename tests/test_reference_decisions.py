"""Small seeded jobs decide what they decided when they were recorded: see `reference_decisions`."""

import inspect

import numpy as np
import pytest
from reference_case import Tolerance, differences
from reference_decisions import CASES, compute, load

import postgrad as pg

RECORDED = load()


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", CASES)
def test_decides_as_recorded(name):
    tolerance, numbers = RECORDED[name]
    lines = differences(numbers, compute(name), tolerance)
    assert not lines, "\n".join([name, *lines])


def test_the_file_has_the_cases_and_their_tolerances():
    assert {name: tolerance for name, (tolerance, _) in RECORDED.items()} == {
        name: case.tolerance for name, case in CASES.items()
    }


@pytest.mark.parametrize(
    ("room", "base"),
    [
        ("beliefs", pg.beliefs.Belief),
        ("gradients", pg.gradients.Gradient),
        ("risks", pg.risks.Risk),
        ("feasible", pg.feasible.FeasibleSet),
    ],
)
def test_every_public_member_of_a_room_has_a_case(room, base):
    public = [value for value in vars(getattr(pg, room)).values() if inspect.isclass(value)]
    members = {
        value.__name__
        for value in public
        if issubclass(value, base) and not inspect.isabstract(value)
    }
    assert members, room
    assert members <= {name.split("/")[1] for name in CASES if name.startswith(f"{room}/")}


def test_a_difference_is_noticed():
    """Of an entry, a shape, a NaN that comes or goes, an array too many or too few."""
    old = {"decisions": [[1.0, 2.0], [3.0, None]]}
    same = np.asarray([[1.0, 2.0], [3.0, np.nan]])
    assert not differences(old, {"decisions": same * (1 + 1e-10)}, Tolerance())
    for other in (same + 1e-7, same[0], np.nan_to_num(same), np.where(same < 2, np.nan, same)):
        assert differences(old, {"decisions": other}, Tolerance())
    assert differences(old, {}, Tolerance())
    assert differences(old, {"decisions": same, "more": 1.0}, Tolerance())


def test_a_spread_is_the_unit_of_a_statistical_tolerance():
    old = {"x": [1.0, 1.0], "x spread": [0.1, 1.0]}
    tolerance = Tolerance(relative=0.0, absolute=0.0, fraction=0.2)
    assert not differences(old, old | {"x": [1.01, 1.1]}, tolerance)
    (line,) = differences(old, old | {"x": [1.1, 1.1]}, tolerance)
    assert "at (0,)" in line
    assert differences(old, old | {"x spread": [0.1, 2.0]}, tolerance)

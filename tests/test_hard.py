"""A part of the gallery of hard problems: each decision against the best one by brute force."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import hard

EXCESS = 0.02

NAMES = (
    "advertising",
    "two-segments",
    "choke-price",
    "stockout-jump",
    "fixed-cost",
    "whole-lots",
    "spare-part",
    "roots-on-a-simplex",
    "four-nines",
    "unlike-units",
    "three-branches",
    "screws-and-machines",
    # Many coordinates, whose brute force takes longest.
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("twenty-on-a-budget", "fifty-on-a-simplex")
    ),
    "rosenbrock-5",
    "egg-tray",
    "three-grids",
)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", NAMES)
def test_decisions_are_the_best_ones_from_every_start(name):
    problem = hard.GALLERY[name]()
    rows = hard.run(problem, stages=(1, 5), seeds=(0,))
    assert len(rows) == 2 * len(problem.starts)
    assert not [row.refused for row in rows if row.refused]
    assert max(row.doubt for row in rows) == 0.0  # else the brute force is not
    dear = {(row.start, row.stage): row.excess for row in rows if not row.excess <= EXCESS}
    assert not dear
    said = {(row.start, row.stage): row.warned for row in rows if row.excess < hard.FINE}
    assert not any(said.values()), said

"""Decisions for contexts against brute force: see `benchmarks/decisions_in_contexts.py`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import decisions_in_contexts as cases


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", list(cases.CASES))
def test_decisions_cost_hardly_more_than_the_best(name):
    assert max(cases.excesses(cases.CASES[name](), seed=5, batches=(4,))) < 0.01

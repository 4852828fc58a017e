"""Simulation-based calibration of the exact beliefs, at a size that fits; and what it notices.

`benchmarks/calibration.py` has all of it, with 100,000 replications and up to 1,000 batches.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import calibration
from calibration_cases import EXACT, approximate

# One model for each belief here; the others differ in the statistics alone, which the laws compare.
ONE_EACH = {type(case.belief): name for name, case in EXACT.items()}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ONE_EACH.values())
def test_exact_beliefs_are_calibrated(name):
    p, _ = calibration.calibrate(EXACT[name], 20_000, 3)
    assert p.min() * len(p) * len(EXACT) > 1e-3


@pytest.mark.sample(1)
@pytest.mark.parametrize("bug", calibration.BUGS)
def test_planted_bugs_are_noticed(bug):
    p, _ = calibration.calibrate(EXACT["Normal of Normal"], 100_000, 3, calibration.BUGS[bug])
    assert p.min() * len(p) < 1e-3


def test_regression_of_counts_in_contexts_is_almost_calibrated():
    """Laplace's approximation, a row at a time: off by a tenth of a standard deviation at most."""
    p, errors = calibration.calibrate(
        approximate()["Regression of NegativeBinomial, contexts"], 5_000, 10
    )
    assert p.min() > 1e-6
    assert abs(errors.mean()) < 0.1
    assert abs(errors.std() - 1.0) < 0.05

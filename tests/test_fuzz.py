"""Hostile files at random: a sample of `benchmarks/fuzz.py`."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import fuzz

# Few through `run`: specifications that are accepted would have to be compiled.
COUNTS = {
    "specifications": 120, "csv": 200, "parquet": 80, "csv, run": 10,
}  # fmt: skip
SLOW = {"csv, run"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in COUNTS]
)
def test_hostile_files_are_read_or_refused_in_words(kind, monkeypatch):
    monkeypatch.setattr(fuzz, "SECONDS", float("inf"))  # no test depends on a clock
    told = fuzz.fuzz(*fuzz.kinds()[kind], COUNTS[kind], seed=1, keep=None)
    assert told["failures"] == []
    assert told["read"] > 0
    assert told["refused"] > 0


def test_files_that_fail_are_noticed(tmp_path):
    """An error that is not in postgrad's words, time, and memory."""

    def breaks(path):
        raise KeyError(path)

    def takes(path):
        np.ones(fuzz.MEGABYTES << 18)  # twice as much

    def is_good_only(read):
        return lambda path: None if path.stem == "good" else read(path)

    def make(rng):
        return rng.bytes(3)

    for read in (breaks, takes, lambda path: [0] * (1 << 32)):
        told = fuzz.fuzz("a.csv", make, is_good_only(read), 2, 0, tmp_path / "kept")
        assert told["failed"] == len(told["failures"]) == 2
    assert len(list((tmp_path / "kept").iterdir())) == 2

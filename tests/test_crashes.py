"""Kills and losses of power at any change of a store: a sample of `benchmarks/faults.py`."""

import numpy as np
import pytest
from recorded_disk import Disk
from shims import compiled, totals_under

NOTHING = ("lost", "counted twice", "wrong", "wrong afterwards", "refused", "told")


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compiled("recorded_disk", tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize(("kind", "points"), [("crash", 50), ("power", 150)])
def test_what_was_acknowledged_is_there_and_nothing_else(shim, tmp_path, kind, points):
    total = totals_under(shim, "recorded_disk", tmp_path, kind, points, 1)
    assert total["points"] == points
    torn, reordered, gone = (b"a", b"\0", b""), (b"\0", b"b", b"b"), (b"\0", b"\0", b"")
    assert {torn, reordered, gone, (b"a", b"b", b"\0")} <= found

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
    assert {name: total.get(name, 0) for name in NOTHING} == dict.fromkeys(NOTHING, 0)
    # Some commits that were under way count, others do not: so the points lie within commits.
    assert 0 < total["commits under way that count"] < points


def test_writers_are_killed_among_others(tmp_path):
    total = totals_under(None, "recorded_disk", tmp_path, "writers", 8, 1)
    assert total["points"] == 12
    assert total["acknowledged"] > 0
    assert {name: total.get(name, 0) for name in NOTHING} == dict.fromkeys(NOTHING, 0)


def test_a_loss_of_power_tears_and_reorders_what_was_not_forced_to_the_disk():
    disk, found = Disk(), set()
    disk.change("w", 0, bytes(1024))
    disk.change("s", 0, b"")
    disk.change("w", 0, b"a" * 1024)
    disk.change("w", 512, b"b" * 1024)
    rng = np.random.default_rng(0)
    for _ in range(200):
        content = disk.after_power_loss(rng)
        found.add(tuple(content[place : place + 1] for place in range(0, 1536, 512)))
    torn, reordered, gone = (b"a", b"\0", b""), (b"\0", b"b", b"b"), (b"\0", b"\0", b"")
    assert {torn, reordered, gone, (b"a", b"b", b"\0")} <= found

"""Damaged files: a sample; `python benchmarks/damage.py` has all of them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import damage

from postgrad.store.opening import connecting, open_checked


@pytest.mark.parametrize(
    ("kinds", "count"),
    [
        (["small", "small, in the log", "small, half in the log"], 24),
        (["streams, half in the log", "as above 16 MB"], 8),
    ],
)
def test_damage_is_noticed_or_harmless_and_recovery_keeps_a_beginning(monkeypatch, kinds, count):
    monkeypatch.setattr(connecting, "PATIENCE_S", connecting.PATIENCE_S)
    monkeypatch.setattr(open_checked, "SMALL", open_checked.SMALL)
    wrong = []
    totals = damage.run(count, 1, kinds, wrong.append)
    assert not wrong
    whole = {verdict for total in totals.values() for verdict in total}
    assert whole <= {"refused", "noticed at use", "harmless"}
    assert "refused" in whole

"""Pooling in specifications: `run` pools, and decides as the backtest does."""

import warnings

import numpy as np
import pytest

from postgrad import errors
from postgrad.spec.reading.stored_streams import stored_streams
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.spec_backtest import backtest_specification
from postgrad.spec.specification import parse
from postgrad.spec.tables.row_reader import dated_rows

SPEC = {
    "start": 5.0,
    "data": {"date": "date", "items": ["rolls", "bread", "buns"]},
    "cost": {"kind": "newsvendor", "underage": [4, 2, 3], "overage": 1},
    "model": {"kind": "poisson"},
    "belief": {
        "kind": "grid",
        "forget": [1.0, 0.9],
        "levels": {"mean": {"from": 0.5, "to": 40, "points": 20, "spacing": "log"}},
    },
    "feasible": {"kind": "box", "low": 0, "high": 50},
    "settings": {"preset": "paper"},
}
POOLED = {
    "items": {"pooling": {"over": "items", "strength": 0.5}},
    "weekdays": {"split_by": {"kind": "weekday", "pooling": "partial"}},
}


WRONG = {
    "items that are split cannot be pooled": POOLED["items"] | {"split_by": {"kind": "weekday"}},
    "items that are decided together": {
        "pooling": {}, "feasible": {"kind": "budget", "low": 0, "high": 50, "total": 60}
    },
    "over": {"pooling": {"over": "weekdays"}},
    "strength": {"pooling": {"strength": 0}},
}  # fmt: skip


@pytest.mark.parametrize("words", WRONG)
def test_specifications_that_cannot_be_pooled_are_refused(words):
    with pytest.raises(errors.SpecificationError, match=words):
        parse(SPEC | WRONG[words])


def table(days):
    rng = np.random.default_rng(0)
    found = []
    for day in range(days):
        counts = rng.poisson([6.0, 9.0, 12.0]).astype(str)
        if day % 5 == 3:
            counts[1] = ""
        date = str(np.datetime64("2026-01-01") + day)
        found.append(dict(zip(("date", "rolls", "bread", "buns"), (date, *counts), strict=True)))
    return found


def read(spec, some):
    return dated_rows(some, spec.data, spec.split_by)


@pytest.mark.slow
@pytest.mark.parametrize("over", POOLED)
def test_a_run_is_the_backtest(tmp_path, over):
    """To rounding: live stages and backtests are compiled apart."""
    spec, days = parse(SPEC | POOLED[over]), table(16)
    with SpecAgents(spec, tmp_path / "a.db") as agents, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = list(agents.deliver(read(spec, days), at_once=8))
        assert all(agents.agent(*stream).replay().identical for stream in agents.streams())
        with pytest.raises(errors.SpecificationError, match="cannot be corrected"):
            next(agents.correct(read(spec, days)))
    with stored_streams(spec, tmp_path / "a.db") as told:  # read without making an agent
        assert told is not None
        for line in lines[-1:]:
            found = {item: told.told(item, line.get("group")).decision for item in line["decision"]}
            assert found == line["decision"]
    versions = [list(line["population"].values()) for line in lines]
    if over == "items":
        assert [n for line in versions for n in line] == list(range(sum(map(len, versions))))
    with SpecAgents(spec, tmp_path / "one by one.db") as agents, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert list(agents.deliver(read(spec, days[:6]), at_once=1)) == lines[:6]
    result = backtest_specification(spec, days).result
    ours, latest = result.decisions["postgrad"], {}
    for day, line in enumerate(lines):
        for i, item in enumerate(SPEC["data"]["items"]):
            key = (item, line.get("group"))
            assert ours[day, i] == pytest.approx(latest.get(key, 5.0), rel=1e-6), (day, item)
            latest[key] = line["decision"].get(item, latest.get(key, 5.0))

"""Whole numbers, lots and minimum orders in specification files."""

import json

import numpy as np
import pytest

from postgrad import errors
from postgrad.problem.feasible import Box, Budget, Integers, Lots, MinimumOrder
from postgrad.records.explanation import in_plain_text, plain_number
from postgrad.spec.build import build
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.specification import parse
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows

GOOD = {
    "data": {"value": "demand", "item": "item", "names": ["a", "b"]},
    "cost": {"kind": "newsvendor", "underage": 4, "overage": 1.5},
    "model": {"kind": "poisson"},
    "belief": {"kind": "gamma", "shape": 2, "rate": 0.2},
    "start": 12,
    "settings": {"preset": "paper"},
}


def spec(kind="box", **allowed):
    feasible = {"kind": kind, "low": 0, "high": 50000, **allowed}
    return parse(GOOD | {"feasible": feasible | ({"total": 60000} if kind == "budget" else {})})


def sets(specification):
    return [problem.feasible for problem in build(specification, ("a", "b")).problems]


def test_each_key_makes_its_set():
    assert [type(each) for each in sets(spec())] == [Box, Box]
    assert [type(each) for each in sets(spec(whole=True))] == [Integers, Integers]
    lots = sets(spec(lot=[6, 12]))
    assert [float(each.size) for each in lots] == [6.0, 12.0]
    assert all(isinstance(each, Lots) and isinstance(each.set, Box) for each in lots)
    (both,) = sets(spec("budget", lot=[6, 4], minimum=12))
    assert isinstance(both, MinimumOrder)
    assert isinstance(both.set, Lots)
    assert isinstance(both.set.set, Budget)
    assert np.array_equal(both.least, [12.0, 12.0])
    assert np.array_equal(both.set.size, [6.0, 4.0])


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ({"whole": True, "lot": 6}, "feasible: `whole = true` is `lot = 1`: give one of the two"),
        ({"lot": 0}, "feasible.lot: must be"),
        ({"whole": 1}, "feasible.whole: must be"),
        ({"low": -1, "minimum": 3}, "`low` must not be negative where there is a `minimum`"),
        ({"lot": [1, 2, 3]}, "feasible.lot: must be one number, or one for each of 2 items, got 3"),
    ],
)
def test_what_does_not_fit_is_refused(allowed, message):
    with pytest.raises(errors.SpecificationError) as caught:
        spec(**allowed)
    assert message in str(caught.value)


def test_the_start_must_be_a_multiple():
    with pytest.raises(errors.SpecificationError, match=r"start: x = 12\.0 violates"):
        build(spec(lot=5), ("a", "b"))


def test_decisions_are_printed_as_whole_numbers(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("item,demand\na,9\nb,9\na,14\nb,14\n")
    with SpecAgents(spec(lot=[3, 4], minimum=9), tmp_path / "orders.db") as agents:
        source = dated_rows(rows(str(data)), agents.specification.data, None)
        lines = list(agents.deliver(source))
        decided = {item: (agents.agent(item).decision, lot) for item, lot in (("a", 3), ("b", 4))}
    for line in lines:
        ((item, decision),) = json.loads(json.dumps(line["decision"])).items()
        assert isinstance(decision, int), line
        assert decision % decided[item][1] == 0
    for decision, lot in decided.values():
        assert decision % lot == 0


def test_numbers_are_written_as_people_write_them():
    assert [plain_number(value) for value in (40.0, np.float64(0.5), -0.0)] == [40, 0.5, 0]
    assert plain_number(np.inf) == np.inf
    assert [in_plain_text(value) for value in (12345.0, 12345.5, 40, 1e300, np.nan)] == [
        "12345", "1.235e+04", "40", "1e+300", "nan",
    ]  # fmt: skip
    assert in_plain_text(12345.0, "+.3g") == "+1.23e+04"

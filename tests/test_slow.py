"""What `make test` leaves out to `make test-all`: cases, but no member of a room."""

import tomllib
from pathlib import Path

import pytest
import test_beliefs
import test_feasible
import test_gradients
from rooms import drawn, first_of_each

ROOT = Path(__file__).parents[1]


def quick(cases):
    return [case.values for case in cases if not case.marks]


def test_the_first_cases_of_each_sort_are_quick():
    cases = first_of_each([1, 2, 11, 3, 12, 21], lambda case: case // 10)
    assert quick(cases) == [(1,), (11,), (21,)]
    assert {mark.name for case in cases for mark in case.marks} == {"slow"}
    assert [case.values for case in cases] == [(1,), (2,), (11,), (3,), (12,), (21,)]
    two = first_of_each([("a", 1), ("a", 2), ("a", 3)], lambda sort, _: sort, count=2)
    assert quick(two) == [("a", 1), ("a", 2)]


def test_a_sample_is_the_same_every_time_and_another_for_each_test():
    cases = list(range(100))
    assert drawn("one", cases, 4) == drawn("one", cases, 4) == [80, 74, 55, 64]
    assert drawn("one", cases, 4) != drawn("other", cases, 4)
    assert sorted(drawn("one", cases, 200)) == cases


@pytest.mark.parametrize("laws", ["LAW", "EXACT_LAW"])
def test_every_belief_keeps_a_case(laws):
    law = getattr(test_beliefs, laws).mark
    kinds = {name: name.partition("-")[0] for name in law.kwargs["ids"]}
    kept = {
        kinds[name]
        for name, case in zip(law.kwargs["ids"], law.args[1], strict=True)
        if not case.marks
    }
    assert kept == set(kinds.values())
    if laws == "LAW":
        assert kept == {kind.__name__ for kind in test_beliefs.CASES}


def test_every_feasible_set_and_every_gradient_keeps_a_case():
    sets = {type(example.set) for (example,) in quick(test_feasible.law.mark.args[1])}
    assert sets == set(test_feasible.FINAL)
    kept = quick(test_gradients.two_each(test_gradients.PAIRS))
    assert {member for member, _ in kept} == set(test_gradients.GRADIENTS)
    assert {member for member, name in kept if test_gradients.depends(name)} == {
        member for member, name in test_gradients.PAIRS if test_gradients.depends(name)
    }


def test_slow_is_left_out_unless_asked_for():
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    assert "-m 'not slow'" in options["addopts"]
    assert '\n\t$(PYTEST) -m ""\n' in (ROOT / "Makefile").read_text()
    assert "`make test-all`" in (ROOT / "CONTRIBUTING.md").read_text()

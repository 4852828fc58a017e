"""Simulations side by side: what is reported of them, and that one that fails ends the others."""

import threading

import pytest

from postgrad.research.progress import RunStages, silent
from postgrad.research.side_by_side import side_by_side


def test_all_that_runs_is_told_and_what_is_done_adds_up():
    told, both = [], threading.Barrier(2, timeout=10)
    counter = RunStages(lambda *report: told.append(report), 6)

    def job(name):
        counter.tell(name)
        both.wait()
        counter._tell(threading.get_ident(), name, 3)
        both.wait()
        return name.upper()

    jobs = {name: lambda name=name: job(name) for name in ("a", "b")}
    assert dict(side_by_side(jobs, counter)) == {"a": "A", "b": "B"}
    assert {"a | b", "b | a"} & {label for label, _, _ in told}
    assert told[-1][1:] == (6, 6)
    counter.tell("alone")
    assert told[-1][0] == "alone"


def test_a_failure_ends_the_other():
    counter, started = RunStages(silent, 1), threading.Event()

    def endless():
        while True:
            counter.tell("endless")
            started.set()

    def fails():
        assert started.wait(10)
        raise ValueError("lost")

    with pytest.raises(ValueError, match="lost"):
        list(side_by_side({"endless": endless, "fails": fails}, counter))

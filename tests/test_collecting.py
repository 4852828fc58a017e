"""What tracing makes is not searched for cycles, and what users told the collector stands."""

import contextlib
import gc

import pytest

from postgrad.engine import compiling
from postgrad.engine.compiling import quietly


@pytest.fixture(autouse=True)
def thawed():
    """As in a process of a user's own: conftest.py freezes what exists."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.fixture
def collected():
    """The generations that were searched since."""
    found = []

    def note(phase, about):
        if phase == "start":
            found.append(about["generation"])

    gc.collect()
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


@contextlib.contextmanager
def many_young(made):
    """Many young objects that the block did not make."""
    gc.disable()
    made.extend(traced())
    yield
    gc.enable()


def traced():
    return [[number] for number in range(3 * compiling._TRACED)]


def test_what_tracing_makes_is_old_at_once(collected):
    with quietly():
        made = traced()
    assert collected == []
    assert gc.isenabled()
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert all(id(one) in old for one in made)


def test_cycles_that_tracing_makes_are_found_later():
    class Node:
        found = 0

        def __init__(self):
            self.me = self

        def __del__(self):
            Node.found += 1

    with quietly():
        nodes = [Node() for _ in range(2 * compiling._TRACED)]
        del nodes
    gc.collect()
    assert Node.found == 2 * compiling._TRACED


def test_stages_leave_young_objects_young():
    with quietly():
        made = [[number] for number in range(100)]
    old = {id(one) for one in gc.get_objects(generation=2)}
    assert not any(id(one) in old for one in made)


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with quietly():
            made = traced()
        assert not gc.isenabled()
    finally:
        gc.enable()
    assert made


def test_what_is_frozen_is_not_counted_by_stages(monkeypatch):
    """That takes a look at all of it."""
    made = traced()
    gc.freeze()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: pytest.fail("counted"))
    with many_young(made), quietly():
        found = [[number] for number in range(100)]
    assert found


def test_what_is_frozen_stays_frozen():
    mine = traced()
    gc.freeze()
    with quietly():
        made = traced()
    seen = {id(one) for one in gc.get_objects()}
    assert not any(id(one) in seen for one in mine)
    assert all(id(one) in seen for one in made)

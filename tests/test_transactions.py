"""Agents that share a database: one commit for many batches, which count together or not at all."""

import os
import shutil
import threading
import warnings
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from test_durable import POINTS, PROBLEM, everything, feed, make

import postgrad as pg
from postgrad import errors
from postgrad.store.stream_list import stream_of_batch

FILES = ("", "-wal", "-acknowledged")


class BreakError(Exception):
    """What ends a transaction."""


@contextmanager
def broken(database):
    """A transaction that comes to nothing at its end."""
    with suppress(BreakError), database.transaction():
        yield
        raise BreakError


def named(database, name, x=0.0):
    return pg.Agent(
        PROBLEM,
        pg.beliefs.Grid(POINTS),
        x,
        path=database,
        name=name,
        alpha=1e-30,
        **pg.presets.paper(),
    )


def straight(numbers):
    agent = make()
    feed(agent, numbers)
    return everything(agent)


def as_a_crash_leaves_it(path, copy):
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    return copy


@pytest.fixture(params=["memory", "file"])
def database(request, tmp_path):
    path = None if request.param == "memory" else tmp_path / "a.db"
    with pg.Database(path) as database:
        yield database


def test_agents_share_a_database(database):
    milk, bread = named(database, "milk"), named(database, "bread")
    assert database.streams() == ["milk", "bread"]
    feed(milk, [1, 2])
    feed(bread, [3])
    assert (everything(milk), everything(bread)) == (straight([1, 2]), straight([3]))
    milk.close()  # it is not the agent's own
    feed(bread, [4])
    assert everything(named(database, "bread")) == straight([3, 4])
    assert stream_of_batch(database, "2", ["bread", "nobody"]) is None
    assert stream_of_batch(database, "2", ["bread", "milk"]) == "milk"


def test_a_shared_memory_remembers_settings():
    with pg.Database() as database:
        named(database, "milk")
        with pytest.raises(errors.StoreError, match="other settings"):
            named(database, "milk", x=1.0)


def test_all_of_a_transaction_counts_at_its_end(tmp_path):
    path = str(tmp_path / "a.db")
    with pg.Database(path) as database:
        milk, bread = named(database, "milk"), named(database, "bread")
        with database.transaction():
            answers = feed(milk, range(5)) + feed(bread, [7, 7])  # one of them twice
            assert answers[5] == answers[6]
            early = as_a_crash_leaves_it(path, str(tmp_path / "early.db"))
        late = as_a_crash_leaves_it(path, str(tmp_path / "late.db"))
        assert (everything(milk), everything(bread)) == (straight(range(5)), straight([7]))
    for copy, seen in ((early, ([], [])), (late, (range(5), [7]))):
        with pg.Database(copy) as database:
            found = [everything(named(database, name)) for name in ("milk", "bread")]
            assert found == [straight(numbers) for numbers in seen]
            named(database, "milk").verify()


def test_commits_are_marked_at_the_end(tmp_path):
    """Or else what never counted would be missed."""
    path = str(tmp_path / "a.db")
    with pg.Database(path) as database:
        agent = named(database, "main")
        noted = database.commit_marker.read()
        with broken(database):
            feed(agent, [0])
        assert database.commit_marker.read() == noted
        with database.transaction():
            feed(agent, [0])
            with broken(database):
                feed(agent, [1])
            assert database.commit_marker.read() == noted
        assert database.commit_marker.read() != noted
    with pg.Database(path) as database:
        assert named(database, "main").stage == 1


@pytest.mark.parametrize("past", [0, 3])
def test_agents_are_as_they_were_after_a_transaction_that_broke(database, past):
    agent, other = named(database, "main"), named(database, "other")
    feed(agent, range(past))
    before = everything(agent)
    with broken(database):
        feed(agent, [10, 11])
        agent.rollback(0)
        feed(other, [12])
    assert everything(agent) == before
    assert other.stage == 0
    assert agent.record("10") is None
    feed(agent, [10])  # and what is written now can be read
    assert everything(agent) == everything(named(database, "main"))
    assert everything(agent) == straight([*range(past), 10])
    assert agent.explain().stage == past + 1
    agent.verify()


def test_a_part_that_broke_does_not_take_the_rest_with_it(database):
    agent = named(database, "main")
    with database.transaction():
        feed(agent, [0])
        for _ in range(2):
            with broken(database):
                feed(agent, [1])
                with database.transaction():
                    feed(agent, [2])
                with broken(database):
                    feed(agent, [3])
        with pytest.raises(errors.BatchError):
            agent.observe([], id="3")
        feed(agent, [4])
    assert everything(agent) == straight([0, 4]) == everything(named(database, "main"))


@pytest.mark.parametrize("mine", [FileNotFoundError("data.csv"), errors.StoreError("other.db")])
def test_errors_of_the_block_are_its_own(database, mine):
    """They say nothing about this file."""
    agent = named(database, "main")

    def block():
        with database.transaction():
            feed(agent, [0])
            raise mine

    with pytest.raises(type(mine)) as caught:
        block()
    assert caught.value is mine
    assert agent.stage == 0


def test_alarms_of_a_broken_transaction_are_none(database):
    agent = pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=database, **pg.presets.paper())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with broken(database):
            while not agent.alarms:
                agent.observe(agent.decision + 40.0)
    assert told
    assert agent.alarms == ()


def test_what_another_wrote_is_taken_up(tmp_path):
    path = str(tmp_path / "a.db")
    with pg.Database(path) as one, pg.Database(path) as two:
        here, there, twin = named(one, "main"), named(two, "main"), named(one, "main")
        feed(there, [0, 1])
        with one.transaction():
            feed(here, [2])
            feed(twin, [3])
        feed(there, [4])
        assert everything(there) == straight([0, 1, 2, 3, 4])
        # One that took up what then came to nothing, while others have written as much.
        with broken(one):
            feed(here, [5])
            feed(twin, [5])
        feed(there, [6])
        feed(twin, [7])
        assert everything(twin) == straight([0, 1, 2, 3, 4, 6, 7])


def test_full_disk_inside_a_transaction(tmp_path):
    path = str(tmp_path / "a.db")
    with pg.Database(path) as database:
        agent, other = named(database, "main"), named(database, "other")
        feed(agent, [0])
        pages = database.connection.execute("PRAGMA page_count").fetchone()[0]
        database.connection.execute(f"PRAGMA max_page_count = {pages + 1}")

        def fill():
            with database.transaction():
                feed(other, [1])
                agent.observe(np.full(10_000, 6.0), id="large")

        with pytest.raises(errors.StoreError, match="disk is full"):
            fill()
        database.connection.execute("PRAGMA max_page_count = 1000000")
        assert (agent.stage, other.stage) == (1, 0)
        feed(other, [1])
    with pg.Database(path) as database:
        assert everything(named(database, "main")) == straight([0])
        assert everything(named(database, "other")) == straight([1])


def test_a_transaction_that_was_lost_does_not_go_on(tmp_path):
    """A fork closes connections; what comes after must not count on its own."""
    with pg.Database(tmp_path / "a.db") as database:
        agent = named(database, "main")

        def lose():
            with database.transaction():
                feed(agent, [0])
                with warnings.catch_warnings(action="ignore"):  # JAX's threads are not needed here
                    child = os.fork()
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)
                with pytest.raises(errors.StoreError, match="broken off"):
                    feed(agent, [1])

        with pytest.raises(errors.StoreError):
            lose()
        assert agent.stage == 0
        feed(agent, [2])
        assert everything(named(database, "main")) == straight([2])


def test_what_is_refused(database):
    agent = named(database, "main")
    database.close()
    with pytest.raises(errors.StoreError, match="closed"):
        feed(agent, [0])


def test_another_thread_waits_for_the_end(database):
    """It neither joins the transaction nor is refused; also an agent that begins meanwhile."""
    agent, found = named(database, "main"), []

    def elsewhere():
        other = named(database, "other")
        feed(other, [1])
        found.append((agent.stage, other.stage))

    thread = threading.Thread(target=elsewhere)
    with broken(database):
        feed(agent, [0])
        thread.start()
        thread.join(timeout=0.3)
        assert not found
    thread.join()
    assert found == [(0, 1)]


def test_checkpoints_and_headers_are_those_of_the_rest(tmp_path):
    """A header first stored in a transaction that broke is not there for later ones."""
    with pg.Database(tmp_path / "a.db") as database:
        agent = named(database, "main")
        with broken(database):
            feed(agent, [0, 1])  # the second finds the header that the first has written
        feed(agent, [0])
        (count,) = database.connection.execute("SELECT count(*) FROM array_headers").fetchone()
        assert count == 3  # of the beginning, of a state, of a report

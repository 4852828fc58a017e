"""Commits that the disk fails at: what they wrote may count, until it is overwritten.

POSTGRAD_FAULTS=800 lets the disk fail at that many points instead of some, with and without a loss
of power; so does `benchmarks/faults.py`, with all other faults.
"""

import os
import sqlite3
import warnings
from pathlib import Path

import pytest
from shims import compiled, totals_under
from test_durable import batch, everything, feed, make
from test_store import fill

from postgrad import errors
from postgrad.store import schema

FAULTS = int(os.environ.get("POSTGRAD_FAULTS", "24"))


class FailingConnection:
    """A connection whose next commits fail."""

    def __init__(self, connection, times):
        self.connection, self.times = connection, times

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, statement, *values):
        if statement == "COMMIT" and self.times:
            self.times -= 1
            self.connection.execute("ROLLBACK")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = "SQLITE_IOERR_FSYNC"
            raise error
        return self.connection.execute(statement, *values)


def fail(agent, times=1):
    database = agent._database
    database._connection = FailingConnection(database.connection, times)


def test_a_batch_in_doubt_can_be_delivered_again(tmp_path):
    agent, straight = make(tmp_path / "a.db"), make()
    feed(agent, [0, 1])
    before = everything(agent)
    fail(agent)
    with pytest.raises(errors.StoreError, match=r"may count or not.*with the same id$"):
        feed(agent, [2])
    assert everything(agent) == before
    assert feed(agent, [2, 3]) == feed(straight, range(4))[2:]
    assert everything(make(tmp_path / "a.db")) == everything(straight)


def test_a_batch_in_doubt_that_has_no_id_is_told_of(tmp_path):
    agent = make(tmp_path / "a.db")
    fail(agent)
    with pytest.raises(errors.StoreError, match=r"may count or not.*without an id.*count twice"):
        agent.observe(batch(0))
    assert list(agent.history()) == []
    fail(agent)

    def several():
        with agent._database.transaction():
            agent.observe(batch(0))
            feed(agent, [1])

    with pytest.raises(errors.StoreError, match="without an id"):
        several()
    feed(agent, [1])
    assert [record.id for record in agent.history()] == ["1"]


def test_doubt_that_stays_is_for_the_next_to_settle(tmp_path):
    agent = make(tmp_path / "a.db")
    feed(agent, [0])
    fail(agent, times=2)
    with pytest.raises(errors.StoreError, match="may count or not"):
        feed(agent, [1])
    for use in (lambda: feed(agent, [1]), lambda: list(agent.history()), agent.verify):
        for _ in range(2):
            with pytest.raises(errors.StoreError, match=r"a\.db: .*again.*reopen the file"):
                use()
    assert "to be reopened" in repr(agent._database)
    agent.close()
    with make(tmp_path / "a.db") as agent:
        feed(agent, [0, 1])
        assert agent.stage == 2


def test_a_fork_leaves_no_doubt_behind(tmp_path):
    """It closes the connection, and only that one knows where the log ended."""
    agent = make(tmp_path / "a.db")
    fail(agent)
    with pytest.raises(errors.StoreError, match="may count or not"):
        feed(agent, [0])
    with warnings.catch_warnings(action="ignore"):  # JAX's threads are not needed here
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(errors.StoreError, match="reopen the file"):
        feed(agent, [0])


def test_writing_nothing_new_writes(tmp_path):
    path = str(tmp_path / "a.db")
    store, head = fill(path, 3)
    before = Path(f"{path}-wal").read_bytes()
    schema.write_nothing_new(store.database.connection)
    after = Path(f"{path}-wal").read_bytes()
    assert after[: len(before)] == before
    assert len(after) == len(before) + 24 + 4096  # one page and its header
    assert store.load() == head


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return compiled("failing_disk", tmp_path_factory.mktemp("shim"))


def totals_of(shim, folder, power):
    totals = totals_under(shim, "failing_disk", folder, FAULTS, 0, power)
    for total in totals.values():
        assert total["points"] == FAULTS // len(totals)
        assert total["acknowledged"] == total["acknowledged, counted"]
        assert not total["counted twice"]
        assert not total["wrong in the end"]
    return totals


def test_a_disk_that_fails_loses_nothing_and_counts_nothing_twice(shim, tmp_path):
    """Points where log or database cannot be written, read or forced to the disk; then SIGKILL."""
    totals = totals_of(shim, tmp_path, power="0")
    for total in totals.values():
        assert not total.get("refused, counted")
        assert not total.get("overwritten, counted")
    assert totals["end"]["doubtful, counted"] > 0  # so the message says the truth
    assert totals["read"]["overwritten"] > 0
    assert totals["go on"]["overwritten"] > 0


def test_what_never_reached_the_disk_is_not_built_on(shim, tmp_path):
    """A second process takes up the log that the first has left; then the power is lost."""
    totals_of(shim, tmp_path, power="1")

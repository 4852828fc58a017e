"""What others wait for: stages inside a lock, and streams that are made anew."""

import contextlib
import logging

import jax
import numpyro.distributions as dist
import pytest
from test_spec_agents import ROWS, call, shop, write

import postgrad as pg
from postgrad.engine.stream import Stream
from postgrad.errors import DecisionError, StoreError
from postgrad.store import Database, Store, StoredState
from postgrad.store.stream_list import check_streams

__all__ = ["shop"]  # a fixture


def test_stages_are_computed_before_the_lock_is_taken(shop, monkeypatch):
    """Else another process waits until all is compiled. None is computed twice, either."""
    monkeypatch.setattr("postgrad.spec.spec_agents._COMMIT_S", 60.0)
    whole = call("run", "shop.toml", "data.csv", "--state", "whole.db").stdout
    inside, computed, transaction, after = 0, [], Database.transaction, Stream.after

    @contextlib.contextmanager
    def watched(database):
        nonlocal inside
        with transaction(database):
            inside += 1
            yield
            inside -= 1

    def noted(*arguments):
        computed.append(inside)
        return after(*arguments)

    monkeypatch.setattr(Database, "transaction", watched)
    monkeypatch.setattr(Stream, "after", noted)
    write(shop / "part.csv", ROWS[:2])
    call("run", "shop.toml", "part.csv")
    assert call("run", "shop.toml", "data.csv").stdout == whole
    assert computed == [0] * 7


def test_a_new_stream_costs_the_same_however_many_there_are(tmp_path, monkeypatch):
    """Checking all of them each time would take a time that grows with its square."""
    checked, checksum = [], Database.checksum
    monkeypatch.setattr(
        Database, "checksum", lambda *fields: checked.append(fields) or checksum(*fields)
    )
    state, costs = StoredState(0, "[]", b"", "[]", b"", b"", 0), []
    with Database(tmp_path / "a.db") as database:
        for number in range(40):
            checked.clear()
            Store(database, f"stream {number}").create("settings", state)
            costs.append(len(checked))
        assert max(costs) <= costs[1] + 1
        with contextlib.suppress(KeyError), database.transaction():
            Store(database, "undone").create("settings", state)
            raise KeyError
        Store(database, "another").create("settings", state)
        database.rows("UPDATE streams SET settings = 'x' WHERE stream = 3")
        with pytest.raises(StoreError, match="the list of streams is damaged"):
            check_streams(database)
    with pytest.raises(StoreError, match="the list of streams is damaged"):
        Store(Database(tmp_path / "a.db"), "one more")


def test_a_problem_is_compiled_once_for_all_its_streams():
    """That x_1 is feasible, and how demand is drawn, is found out by compiled programs."""
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2,
        lambda x, theta: dist.Normal(theta, 1.0),
        pg.feasible.Box(0.0, 9.0),
    )

    def make(start):
        return pg.Agent(problem, pg.beliefs.Normal(1.0, 1.0), start)

    make(1.0)
    compiled = []
    with jax.log_compiles(True):
        handler = logging.Handler()
        handler.emit = compiled.append
        logging.getLogger("jax").addHandler(handler)
        try:
            make(2.0)
        finally:
            logging.getLogger("jax").removeHandler(handler)
    assert [record.getMessage() for record in compiled] == []
    with pytest.raises(DecisionError, match="violates"):
        make(10.0)


def test_what_is_prepared_changes_nothing(tmp_path):
    """Not even if other batches come, or another agent was faster."""
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0))
    batches = {"a": [1.0], "b": [2.0, 3.0], "c": [0.5], "d": [4.0]}

    def make(path=None):
        return pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 0.0, path=path, **pg.presets.paper())

    plain = make()
    expected = [plain.observe(batch, id=name) for name, batch in batches.items()]
    with make(tmp_path / "a.db") as agent, make(tmp_path / "a.db") as other:
        agent.prepare(batches["a"], id="a")
        agent.prepare(batches["b"], id="b")
        found = [agent.observe(batches["a"], id="a")]
        agent.prepare([9.0], id="b")  # after that of "b", and never observed
        found.append(agent.observe(batches["b"], id="b"))
        agent.prepare(batches["a"], id="a")  # was observed before
        agent.prepare(batches["d"], id="d", x=0.0)
        found.append(other.observe(batches["c"], id="c"))
        agent.prepare("nonsense", id="d")
        found.append(agent.observe(batches["d"], id="d"))
        assert found == expected
        assert agent.replay().identical

"""Many streams of one problem: what they share, and streams that begin in a transaction."""

import contextlib
import gc
import weakref

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from test_durable import POINTS, PROBLEM, everything, feed
from test_transactions import broken, named, straight

import postgrad as pg
from postgrad import errors
from postgrad.agent import shared_parts
from postgrad.agent.changes import changing
from postgrad.algorithm.bayesian_sgd import BayesianSGD


@pytest.fixture
def counted(monkeypatch):
    """How often parts were tried on each other, described, and compared with what is stored."""
    shared_parts._known.clear()
    calls = []

    def count(owner, name):
        called = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given: calls.append(name) or called(*given))

    count(BayesianSGD, "init")
    count(changing, "fingerprint")
    count(changing, "differences")
    return calls


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("kept", [True, False])
def test_parts_are_tried_on_each_other_once_for_all_streams(tmp_path, counted, together, kept):
    for wanted in (["init", "fingerprint"], ["differences"]):
        agents = []
        with pg.Database(tmp_path / "a.db") as database:
            with database.transaction() if together else contextlib.nullcontext():
                for number in range(50):
                    agents.append(named(database, f"stream {number}"))
                    if not kept:
                        agents.clear()
            assert len(database.streams()) == 50
        assert counted == wanted
        counted.clear()


def test_what_differs_is_not_shared(database, counted):
    agents = {
        "x": named(database, "x", x=1.0),
        "whole x": named(database, "whole x", x=1),
        "prior": pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS + 1), 0.0, path=database, name="prior"),
        "seed": pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=database, name="s", seed=3),
        "alpha": pg.Agent(
            PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=database, name="a", alpha=0.1
        ),
        "all": named(database, "all"),
    }
    assert counted.count("init") == len(agents)
    assert float(agents["x"].decision) == 1.0
    assert float(agents["all"].decision) == 0.0
    large = [pg.beliefs.Grid(np.linspace(1.0, 9.0, 1000) + shift) for shift in (0.0, 1e-3)]
    counted.clear()
    for number, belief in enumerate([*large, *large]):
        pg.Agent(PROBLEM, belief, 0.0, path=database, name=f"l{number}", **pg.presets.paper())
    assert counted.count("init") >= 2
    with pytest.raises(errors.StoreError, match="other settings"):
        pg.Agent(PROBLEM, large[1], 0.0, path=database, name="l0", **pg.presets.paper())
    for wrong in ([[1.0], [2.0, 3.0]], "a", None, {"a": 1.0}):
        with pytest.raises(errors.DecisionError):
            named(database, "wrong", x=wrong)


@pytest.fixture(params=["memory", "file"])
def database(request, tmp_path):
    with pg.Database(None if request.param == "memory" else tmp_path / "a.db") as opened:
        yield opened


def test_streams_begin_in_a_transaction(database):
    with database.transaction():
        agents = [named(database, str(number)) for number in range(3)]
        feed(agents[1], [0])
        again = named(database, "1")
        feed(again, [1])
        feed(agents[1], [2])
    assert everything(named(database, "1")) == everything(agents[1]) == straight([0, 1, 2])
    feed(agents[2], [5])
    assert everything(named(database, "2")) == straight([5])


def test_streams_of_a_transaction_that_came_to_nothing_are_made_again(database):
    """Their numbers may be those of other streams by then."""
    with broken(database):
        undone = named(database, "undone")
        feed(undone, [0])
    other = named(database, "other")
    feed(other, [1])
    uses = (lambda: feed(undone, [2]), undone.verify, lambda: undone.rollback(0), undone.explain)
    for use in (*uses, lambda: list(undone.history()), undone.replay):
        with pytest.raises(errors.StoreError, match="make it again"):
            use()
    assert everything(other) == straight([1])
    assert database.streams() == ["other"]
    undone = named(database, "undone")
    feed(undone, [2])
    assert everything(undone) == straight([2])


def test_a_stream_opened_in_a_transaction_that_came_to_nothing(database):
    first = named(database, "main")
    feed(first, [0])
    with database.transaction():
        outer = named(database, "outer")
        with broken(database):
            feed(first, [1])
            second = named(database, "main")
            assert second.stage == 2
        feed(outer, [7])
    with pytest.raises(errors.StoreError, match="make it again"):
        feed(second, [1])
    feed(first, [2])
    assert everything(first) == straight([0, 2])
    assert everything(named(database, "outer")) == everything(outer) == straight([7])


def test_new_streams_of_one_transaction_are_checked_once(tmp_path, monkeypatch):
    """To check all of them for each would take a time that grows with the square."""
    checked, checksum = [], pg.Database.checksum
    monkeypatch.setattr(
        pg.Database, "checksum", lambda *fields: checked.append(fields) or checksum(*fields)
    )
    costs = []
    with pg.Database(tmp_path / "a.db") as database:
        with database.transaction():
            for number in range(40):
                checked.clear()
                named(database, str(number))
                costs.append(len(checked))
        assert max(costs[1:]) == min(costs[1:])
        with broken(database):
            named(database, "undone")
        assert database.streams_checked <= 40
        named(database, "another")
    with pg.Database(tmp_path / "a.db") as database:
        assert len(database.streams()) == 41
        named(database, "another").verify()


def test_large_arrays_by_which_parts_are_known_are_kept():
    """They are known by their places in memory, which another array could take."""
    problem = pg.Problem(
        lambda x, xi: jnp.mean((x - xi) ** 2), lambda x, theta: dist.Normal(theta, 1.0)
    )
    x = jnp.arange(1000.0)
    kept, agent = weakref.ref(x), pg.Agent(problem, pg.beliefs.Grid(POINTS), x, steps=0.1)
    del x
    gc.collect()
    assert kept() is not None
    assert agent.decision[3] == 3.0

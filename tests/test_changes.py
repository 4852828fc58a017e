"""A new price, cost or feasible set of a running agent: what is believed stays."""

import functools

import numpy as np
import numpyro.distributions as dist
import pytest
from test_corrections import leaves, same
from test_durable import POINTS, PROBLEM, batch, feed, model
from test_transactions import broken

import postgrad as pg
from postgrad import errors

BOX = pg.feasible.Box(-20.0, 20.0)


def anew(price, low=-20.0, high=20.0, law=model):
    feasible = pg.feasible.Box(low, high)
    return pg.Problem(lambda x, xi: (x - 5.0) ** 2 + price * xi * x, law, feasible)


priced = functools.cache(anew)  # all tests share the programs of a price


def open_agent(problem, path=None, x=0.0, **options):
    options = {"alpha": 1e-30, **pg.presets.paper(), **options}
    return pg.Agent(problem, pg.beliefs.Grid(POINTS), x, path=path, **options)


NARROW = pg.feasible.Box(-20.0, 2.0)
CHANGES = {
    "cost": pg.Problem(lambda x, xi: (x - 1.0) ** 2 + xi, model, BOX),
    "feasible set": priced(0.5, high=2.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_believed_stays(tmp_path, name):
    path, changed = tmp_path / "a.db", CHANGES[name]
    agent = open_agent(priced(0.5), path)
    answers = feed(agent, range(4))
    believed = leaves(agent)
    decision = agent.change(changed)
    assert all(map(np.array_equal, leaves(agent), believed))
    assert (agent.stage, agent.decision) == (4, decision)
    assert agent.problem is changed
    (event,) = agent.events
    assert (event.stage, event.kind) == (4, "changed")
    with pytest.raises(errors.StoreError, match="other settings"):
        open_agent(priced(0.5), path)
    back = open_agent(changed, path)
    assert back.decision == decision
    assert same(back, agent)
    back.observe(batch(4), id="4")
    records = list(back.history())
    assert [record.decision for record in records[:4]] == answers
    assert records[4].x == decision
    assert decision <= changed.feasible.high
    back.verify()
    replay = back.replay()
    assert (replay.first, replay.stages, replay.identical) == (5, 1, True)
    assert [(part.first, part.last, part.identical) for part in replay.others] == [(1, 4, None)]
    assert "changed since" in str(replay)
    assert back.replay(earlier=[priced(0.5)]) == pg.Replay(1, 5, True, None)
    assert not back.replay(earlier=[priced(0.6)]).identical
    # what was before the change can still be corrected
    back.correct("1", [1.0, 2.0])
    fresh = open_agent(changed)
    for record in back.history():
        fresh.observe(record.rows, x=record.x)
    assert same(back, fresh)
    assert back.replay(earlier=[priced(0.5)]) == pg.Replay(1, 5, True, None)
    assert [part.identical for part in back.replay().others] == [None, None]
    assert back.rollback(2) == answers[1]
    back.verify()


@pytest.mark.slow
def test_decisions_are_those_of_a_fresh_search():
    """The default searches the whole set, as under a problem that it has never seen."""
    changed = priced(1.2, high=1.0)
    agent, fresh = (
        pg.Agent(problem, pg.beliefs.Grid(POINTS), 0.0) for problem in (priced(0.5), changed)
    )
    feed(agent, range(3))
    agent.change(changed)
    for record in agent.history():
        fresh.observe(record.rows, x=record.x)
    assert agent.decision == pytest.approx(fresh.decision, abs=5e-3)
    both = [one.observe(batch(3), x=0.5) for one in (agent, fresh)]
    assert both[0] == pytest.approx(both[1], abs=5e-3)


def test_an_edited_problem_is_taken_up_where_that_is_confirmed(tmp_path):
    path = tmp_path / "a.db"
    agent = open_agent(priced(0.5), path)
    feed(agent, range(3))
    believed = leaves(agent)
    with pytest.raises(errors.StoreError, match=r"price\) differ: 0.5, now 0.7.*Agent.change"):
        open_agent(priced(0.7), path)
    back = open_agent(priced(0.7), path, accept_change=True)
    assert all(map(np.array_equal, leaves(back), believed))
    assert [event.kind for event in back.events] == ["changed"]
    decision = back.decision
    back.close()
    again = open_agent(anew(0.7), path, accept_change=True)  # nothing more to change
    assert len(again.events) == 1
    assert again.decision == decision
    # and the agent of before, in another process, goes no further
    with pytest.raises(errors.StoreError, match="another process has changed the problem"):
        agent.observe(batch(7))


def test_the_first_decision_may_lie_outside_the_new_set(tmp_path):
    path = tmp_path / "a.db"
    agent = open_agent(priced(0.5), path)
    feed(agent, range(3))
    small = priced(0.5, low=1.0, high=2.0)
    with pytest.raises(errors.DecisionError):
        agent.change(small)
    assert agent.problem is not small
    assert agent.stage == 3
    agent.change(small, x=1.0)
    assert 1.0 <= agent.decision <= 2.0
    back = open_agent(small, path, x=1.0)
    assert next(back.history()).x == 0.0
    back.correct("0", [4.0])
    assert next(back.history()).x == 0.0
    assert back.replay(earlier=[priced(0.5)]).identical
    back.rollback(2)
    assert next(back.history()).x == 0.0


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (priced(0.5, law=lambda x, theta: dist.Normal(x + theta, 3.0)), "the model gives"),
        (priced(0.5, law=lambda x, theta: dist.StudentT(5.0, theta, 4.0)), "model"),
    ],
)
def test_another_model_is_refused(tmp_path, other, words):
    path = tmp_path / "a.db"
    named = pg.Problem(other.cost, other.model, BOX)
    object.__setattr__(named.model, "__qualname__", "model")
    agent = open_agent(priced(0.5), path)
    feed(agent, range(2))
    before = agent._codec.save(agent._now)
    with pytest.raises(errors.SettingError, match=f"no posterior: .*{words}"):
        agent.change(named)
    with pytest.raises(errors.StoreError, match=words):
        open_agent(named, path, accept_change=True)
    assert agent._codec.save(agent._now) == before
    assert open_agent(priced(0.5), path).events == ()


def test_another_prior_is_refused(tmp_path):
    path = tmp_path / "a.db"
    open_agent(priced(0.5), path).close()
    options = {"alpha": 1e-30, **pg.presets.paper(), "path": path, "accept_change": True}
    with pytest.raises(errors.StoreError, match=r"belief\.points"):
        pg.Agent(priced(0.7), pg.beliefs.Grid(POINTS + 1.0), 0.0, **options)


def test_changed_twice_before_any_batch_and_in_a_transaction(tmp_path):
    with pg.Database(tmp_path / "a.db") as database:
        agent = open_agent(priced(0.5), database)
        agent.change(priced(0.6))
        feed(agent, range(3))
        before = agent._codec.save(agent._now)
        with broken(database):
            agent.change(priced(0.7))
            agent.observe(batch(5), id="5")
        assert agent._codec.save(agent._now) == before
        agent.observe(batch(3), id="3")
        agent.change(priced(0.7))
        feed(agent, [4])
        assert agent.replay(earlier=[priced(0.6)]) == pg.Replay(1, 5, True, None)
        assert agent.change(anew(0.7)) == agent.decision  # nothing changes
        assert len(agent.events) == 2
        agent.verify()


@pytest.mark.slow
def test_a_large_grid_is_learned_again_where_its_form_depends_on_the_first_decision(tmp_path):
    """Statistics refer to the first decision; the posterior is then equal to rounding."""

    def sales(x, theta):
        return dist.Poisson(theta * (30.0 - x))

    wide, narrow = (pg.Problem(PROBLEM.cost, sales, feasible) for feasible in (BOX, NARROW))
    prior, path = pg.beliefs.Grid(np.linspace(0.1, 2.0, 20_000)), tmp_path / "a.db"
    options = {"path": path, "alpha": 1e-30, **pg.presets.paper(gradient=pg.gradients.Score())}
    agent = pg.Agent(wide, prior, 0.0, **options)
    agent.observe([30.0], id="0", x=0.0)
    agent.correct("0", [20.0])
    first = np.asarray(agent.belief.mean())
    for number in (1, 2):
        agent.observe([20.0 + number], x=number)
    before = np.asarray(agent.belief.mean())
    agent.change(narrow, x=-3.0)
    assert agent.events[-1].details["rebound"]
    assert np.asarray(agent.belief.mean()) == pytest.approx(before, rel=1e-12)
    agent.observe([19.0], id="3")
    agent.close()
    back = pg.Agent(narrow, prior, -3.0, **options)
    assert same(back, agent)
    assert back.replay(earlier=[wide]).identical
    back.verify()
    back.rollback(2)  # what is stored before the change refers to the first decision of old
    assert np.asarray(next(back.beliefs([1])).mean()) == pytest.approx(first, rel=1e-12)

"""The agent in a file: kept, found again, told about, undone; and another's file is refused."""

import os
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg
from postgrad import errors
from postgrad.store.state_rows import EVERY

ROOT = Path(__file__).parent.parent


def cost(x, xi):
    return (x - 5.0) ** 2 + 0.5 * xi * x


def model(x, theta):
    return dist.Normal(x + theta, 4.0, validate_args=False)


PROBLEM = pg.Problem(cost, model, pg.feasible.Box(-20.0, 20.0))
POINTS = np.arange(1.0, 9.0)


def make(path=None, **options):
    options = {"alpha": 1e-30, **pg.presets.paper(**options)}
    return pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=path, **options)


def batch(number):
    return np.random.default_rng(number).normal(6.0, 2.0, 2)


def feed(agent, numbers):
    return [agent.observe(batch(number), id=str(number)) for number in numbers]


def everything(agent):
    """All that is carried on."""
    return agent._codec.save(agent._now), agent.stage, agent.alarms


def test_an_agent_goes_on_where_it_was(tmp_path):
    path, straight = tmp_path / "orders.db", make()
    expected = feed(straight, range(12))
    answers = []
    for first in (0, 1, 5, 6):
        agent = make(path)  # the one before was never closed
        answers += feed(agent, range(first, {0: 1, 1: 5, 5: 6, 6: 12}[first]))
    assert answers == expected
    assert everything(agent) == everything(straight)
    assert agent.info.log_predictive.shape == (2,)
    back = make(path)
    assert back.decision == straight.decision
    assert everything(back) == everything(straight)
    assert jnp.array_equal(back.info.log_predictive, straight.info.log_predictive)
    assert jnp.array_equal(back.belief.probabilities, straight.belief.probabilities)


STUDENT = pg.Problem(
    lambda x, xi: (x - xi) ** 2,
    lambda x, theta: dist.StudentT(5.0, theta, 1.0),
    pg.feasible.Box(-9, 9),
)


KINDS = {
    "newton": (PROBLEM, lambda: pg.beliefs.Grid(POINTS), {"samples": 16, "iterations": 1}, (6, 2)),
    "history that grows": (
        STUDENT,
        lambda: pg.beliefs.Particles(dist.Normal(0.0, 3.0), 16),
        pg.presets.paper(),
        (2, 40),
    ),
    "focus": (
        PROBLEM,
        lambda: pg.beliefs.Grid(np.linspace(0.0, 9.0, 20_000)),
        pg.presets.paper(),
        (6, 2),
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_state_goes_on_bit_for_bit(tmp_path, kind):
    problem, belief, options, shape = KINDS[kind]
    data = np.random.default_rng(0).normal(3.0, 1.0, shape)

    def fresh(path=None):
        return pg.Agent(problem, belief(), 0.0, path=path, **options)

    straight, path = fresh(), tmp_path / "a.db"
    agent = fresh(path)
    for number, rows in enumerate(data):
        agent = fresh(path) if number in (1, 2, 5) else agent
        assert agent.observe(rows) == straight.observe(rows)
        assert agent._codec.save(agent._now) == straight._codec.save(straight._now)
    again = fresh(path)
    assert again.replay().identical
    assert (again._codec.save(again._now).fixed_since > 0) == (kind == "focus")
    again.rollback(len(data) - 1)
    for rows in data[-1:]:
        again.observe(rows)
    assert again._codec.save(again._now) == straight._codec.save(straight._now)


def test_warnings_come_where_they_would_have_come(tmp_path):
    """Counts of stages in a row are kept, and so is the evidence of the monitor."""

    def run(path):
        stages, agent = [], make(path, alpha=1e-3)
        for number in range(12):
            agent = agent if path is None else make(path, alpha=1e-3)
            rows = np.random.default_rng(number).normal(-8.0, 4.0, 2)
            with warnings.catch_warnings(record=True, action="always") as caught:
                agent.observe(rows)
            stages += [(number, str(warning.message)) for warning in caught]
        return stages, agent.alarms

    expected = run(None)
    assert expected[0]
    assert run(tmp_path / "a.db") == expected


def test_streams_are_independent(tmp_path):
    path = tmp_path / "a.db"
    one, two = make(path, name="one"), make(path, name="two")
    feed(one, range(3))
    feed(two, range(5, 7))
    assert (make(path, name="one").stage, make(path, name="two").stage) == (3, 2)
    assert everything(make(path, name="two")) == everything(two)
    assert [record.id for record in two.history()] == ["5", "6"]


HOSTILE = [
    "../x",
    "a/b\\c",
    "'; DROP TABLE batches; --",
    "\u2028\u202e\N{PILE OF POO}",
    " ",
    "x" * 512,
]


def test_ids_are_opaque(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    for number, name in enumerate(HOSTILE):
        agent.observe(batch(number), id=name)
    agent.close()
    agent = make(path)
    assert [record.id for record in agent.history()] == HOSTILE
    for number, name in enumerate(HOSTILE):
        agent.observe(batch(number), id=name)
    assert agent.stage == len(HOSTILE)
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-acknowledged", "a.db-shm", "a.db-wal"]


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 513, "\ud800", 3, b"a"])
def test_names_that_cannot_be_kept_are_refused(tmp_path, name):
    agent = make()
    with pytest.raises(errors.BatchError, match="id must"):
        agent.observe([1.0], id=name)
    assert agent.stage == 0
    with pytest.raises(errors.SettingError, match="name must"):
        make(tmp_path / "a.db", name=name)
    assert os.listdir(tmp_path) == []


def settings(problem=PROBLEM, points=POINTS, x=0.0, **options):
    return lambda path: pg.Agent(
        problem,
        pg.beliefs.Grid(points),
        x,
        path=path,
        **{"alpha": 1e-30, **pg.presets.paper(), **options},
    )


def dearer(x, xi):
    return (x - 5.0) ** 2 + 0.6 * xi * x


dearer.__qualname__ = "cost"

OTHERS = {
    "x": (settings(x=1.0), "the numbers in x differ: 0, now 1"),
    "seed": (settings(seed=3), "algorithm.key"),
    "alpha": (settings(alpha=0.01), "the numbers in alpha differ: 1e-30, now 0.01"),
    "prior": (settings(points=POINTS + 1.0), "belief.points"),
    "one point more": (settings(points=np.append(POINTS, 9.0)), r"belief.points was float64\[8\]"),
    "structure": (settings(steps=None, gradient=None), "algorithm.descent was SGD and is Newton"),
    "bounds": (
        settings(pg.Problem(cost, model, pg.feasible.Box(-20.0, 19.0))),
        "feasible.*: 20, now 19",
    ),
    "cost": (settings(pg.Problem(dearer, model, pg.feasible.Box(-20.0, 20.0))), "the cost gives"),
    "K": (settings(iterations=2), "iterations differ: 1, now 2"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_problem_is_refused(tmp_path, name):
    path = tmp_path / "a.db"
    feed(make(path), range(2))
    other, words = OTHERS[name]
    with pytest.raises(errors.StoreError, match=words):
        other(path)
    assert make(path).stage == 2


def test_functions_made_anew_are_the_same(tmp_path):
    """Addresses do not matter, numbers that a function closes over do."""

    def priced(price):
        return pg.Problem(lambda x, xi: (x - price) ** 2 + xi, model, pg.feasible.Box(-20.0, 20.0))

    path = tmp_path / "a.db"
    settings(priced(5.0))(path)
    settings(priced(5.0))(path)
    with pytest.raises(errors.StoreError, match=r"cost\(price\) differ: 5, now 6"):
        settings(priced(6.0))(path)


def test_budget_is_found_once(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    monkeypatch.setattr("postgrad.agent.agent.affordable", lambda *_: 3)
    options = {**pg.presets.paper(), "budget_ms": 5.0}
    del options["iterations"]
    assert pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=path, **options).iterations == 3
    monkeypatch.setattr("postgrad.agent.agent.affordable", lambda *_: 7)
    assert pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, path=path, **options).iterations == 3
    assert pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0, **options).iterations == 7


def test_history_tells_what_happened(tmp_path):
    agent = make(tmp_path / "a.db")
    agent.observe(batch(0), id="monday")
    agent.observe(batch(1)[:1], x=2.5)
    agent.observe(batch(2))
    first, second, third = agent.history()
    assert (first.stage, first.id, first.alarm) == (1, "monday", None)
    assert (first.x, second.x, third.x) == (0.0, 2.5, second.decision)
    np.testing.assert_array_equal(first.rows, batch(0))
    assert second.rows.shape == (1,)
    assert third.decision == agent.decision
    assert first.interval is None  # the paper's steps measure no curvature
    assert first.time <= second.time <= third.time
    info = agent.info
    assert third.log_predictive == pytest.approx(float(jnp.mean(info.log_predictive)))
    assert third.surprise.z_location == info.surprise.z_location
    assert [record.stage for record in agent.history(last=2)] == [2, 3]
    assert list(agent.history(last=0)) == []
    with pytest.raises(errors.SettingError, match="last"):
        agent.history(last=-1)


@pytest.mark.slow
def test_history_of_vectors():
    problem = pg.Problem(
        lambda x, xi: jnp.sum((x - xi) ** 2),
        lambda x, theta: dist.Normal(theta * jnp.ones(3), 1.0).to_event(1),
    )
    agent = pg.Agent(problem, pg.beliefs.Grid([0.0, 1.0]), np.zeros(3), samples=256, iterations=1)
    agent.observe([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])
    (record,) = agent.history()
    assert record.rows.shape == (2, 3)
    assert record.surprise.pit_spread.shape == (3,)
    low, high = record.interval
    ahead = agent.info.outlook
    np.testing.assert_array_equal(low, ahead.low)
    np.testing.assert_array_equal(high, ahead.high)
    assert np.all(low <= high)
    text = str(agent.explain())
    assert "1 batch the decision is [" in text
    assert "Not knowing theta costs" in text


def test_explanation_adds_up(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    assert "no batch yet" in str(agent.explain())
    feed(agent, range(4))
    assert agent.explain().learned is None  # it takes a search, and nobody asked for it
    told = agent.explain(shares=True)
    records = list(agent.history())
    assert told.change == pytest.approx(records[-1].decision - records[-2].decision)
    assert told.learned + told.settled == pytest.approx(told.change)
    mean = float(agent.belief.probabilities @ POINTS)
    spread = told.after["theta"]
    assert spread.mean == pytest.approx(mean, abs=4 * float(spread.sd) / 32)
    assert told.before["theta"].mean != spread.mean
    assert str(make(path).explain(shares=True)) == str(told)  # the stage before is computed anew
    for words in ("After 4 batches", "moved it by", "'3', 2 observations", "theta: ", "No alarms"):
        assert words in str(told)


def test_rollback_is_for_good_and_frees_ids(tmp_path):
    path, straight = tmp_path / "a.db", make()
    agent = make(path)
    answers = feed(agent, range(EVERY + 6))
    feed(straight, range(EVERY + 2))
    assert agent.rollback(EVERY + 2) == answers[EVERY + 1]
    assert everything(agent) == everything(straight)
    assert everything(make(path)) == everything(straight)
    agent.observe([1.0], id=str(EVERY + 4))  # other data under the name of a batch undone
    straight.observe([1.0])
    assert agent.rollback(3) == answers[2]
    assert agent.rollback(0) == 0.0
    assert agent.stage == make(path).stage == 0
    assert feed(agent, range(5)) == answers[:5]
    for stage in (6, -1, True, 1.0):
        with pytest.raises(errors.SettingError, match="from 0 to 5"):
            agent.rollback(stage)
    agent.verify()


def test_replay_finds_what_differs(tmp_path, monkeypatch):
    agent = make(tmp_path / "a.db")
    feed(agent, range(5))
    assert agent.replay() == pg.Replay(1, 5, True, None)
    after = agent._stream.after

    def other(before, rows, x, on):  # as another machine's arithmetic might
        new = after(before, rows, x, on)
        numbers = np.frombuffer(new.answer).copy()  # the decision comes first
        numbers[0] += 1e-15 if new.stage == 3 else 0
        return new._replace(answer=numbers.tobytes())

    monkeypatch.setattr(agent._stream, "after", other)  # agents share it
    assert agent.replay() == pg.Replay(1, 5, False, 3)


def test_closed_agents_say_so(tmp_path):
    with make(tmp_path / "a.db") as agent:
        agent.observe([1.0])
    with pytest.raises(errors.StoreError, match="closed"):
        agent.observe([1.0])
    assert agent.stage == 1
    assert sorted(os.listdir(tmp_path)) == ["a.db", "a.db-acknowledged"]


def test_a_link_is_the_file_that_it_leads_to(tmp_path):
    real, link = tmp_path / "real.db", tmp_path / "link.db"
    link.symlink_to(real)
    with make(link) as agent:
        agent.observe([1.0], id="a")
    assert sorted(os.listdir(tmp_path)) == ["link.db", "real.db", "real.db-acknowledged"]
    with make(real) as agent:
        assert agent.stage == 1


def test_nothing_else_is_written(tmp_path):
    agent = make()
    agent.observe(batch(0))
    agent.explain()  # so that everything is imported
    touched, listening = set(), True

    def hook(event, arguments):
        if not listening:  # a hook cannot be taken away again
            return
        if event == "open":
            name, _, flags = arguments
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                touched.add(str(name))
        elif event == "sqlite3.connect":
            touched.add(str(arguments[0]))
        elif event.split(".")[0] in ("os", "shutil", "tempfile"):
            touched.update(str(a) for a in arguments if isinstance(a, str))

    sys.addaudithook(hook)
    path = str(tmp_path / "orders.db")
    with make(path) as agent:
        feed(agent, range(EVERY + 6))
        agent.rollback(EVERY - 4)
        agent.explain()
        agent.replay(EVERY - 6)
        agent.verify()
    listening = False
    assert touched == {path, f"{path}-acknowledged"}
    assert sorted(os.listdir(tmp_path)) == ["orders.db", "orders.db-acknowledged"]

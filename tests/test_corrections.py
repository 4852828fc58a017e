"""Batches that were wrong: corrected or withdrawn, durably and on record."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from test_durable import POINTS, PROBLEM, STUDENT, batch, feed, make
from test_transactions import broken

import postgrad as pg
from postgrad import errors
from postgrad.store.recovery import recover
from postgrad.store.schema import STAGES
from postgrad.store.state_rows import EVERY

RIGHT = np.array([2.0, 3.5, 1.0])  # also another number of rows


def leaves(agent):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(agent.belief) if hasattr(leaf, "dtype")]


def same(one, other):
    return all(map(np.array_equal, leaves(one), leaves(other)))


def believes(agent, fresh):
    """Whether an agent believes what a fresh one does that is fed with its data, under its x."""
    for record in agent.history():
        if len(record.rows):  # else it was withdrawn
            fresh.observe(record.rows, x=record.x)
    return same(agent, fresh)


def damage(path, *statements):
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


BELIEFS = {
    "forgets": (PROBLEM, lambda: pg.beliefs.Normal(3.0, 5.0, forget=0.9)),
    "particles": (STUDENT, lambda: pg.beliefs.Particles(dist.Normal(0.0, 3.0), 16)),
    "large grid": (PROBLEM, lambda: pg.beliefs.Grid(np.linspace(0.0, 9.0, 20_000))),
}


def kind_of_agent(kind, path=None):
    problem, belief = BELIEFS[kind]
    return pg.Agent(problem, belief(), 0.0, path=path, alpha=1e-30, **pg.presets.paper())


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", BELIEFS)
def test_what_is_believed_is_what_the_right_data_teach(tmp_path, kind):
    path = tmp_path / "a.db"
    agent = kind_of_agent(kind, path)
    answers = feed(agent, range(6))
    wrong = leaves(agent)
    decision = agent.correct("2", RIGHT)
    assert not all(map(np.array_equal, leaves(agent), wrong))
    assert agent.stage == 6
    assert agent.decision == decision != answers[-1]
    # the record keeps what was answered, and says that it was corrected
    records = list(agent.history())
    assert [record.decision for record in records] == answers
    np.testing.assert_array_equal(records[2].rows, RIGHT)
    np.testing.assert_array_equal(records[2].corrections[0].rows, batch(2))
    assert [len(record.corrections) for record in records] == [0, 0, 1, 0, 0, 0]
    assert believes(agent, kind_of_agent(kind))
    agent.verify()
    agent.close()
    back = kind_of_agent(kind, path)
    assert back.decision == decision
    assert same(back, agent)
    assert back.replay() == pg.Replay(1, 6, True, None)
    # and it goes on as the agent in memory does
    back.observe(batch(6), id="6")
    assert list(back.history())[-1].x == decision
    assert believes(back, kind_of_agent(kind))
    assert back.replay() == pg.Replay(1, 7, True, None)


def test_a_withdrawn_batch_was_never_seen(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    feed(agent, range(5))
    agent.withdraw("1")
    assert believes(agent, make())
    empty = agent.record("1")
    assert (empty.stage, empty.rows.shape, empty.corrections[0].withdrawn) == (2, (0,), True)
    assert agent.stage == make(path).stage == 5
    assert "batch '1' of stage 2 was withdrawn" in str(agent.explain())
    agent.verify()
    assert agent.replay().identical
    for name in ("0", "2", "3", "4"):
        agent.withdraw(name)
    assert same(agent, make())  # nothing is left but the prior
    assert make(path).decision == agent.decision
    agent.observe(batch(9))
    assert agent.replay().identical


def test_corrected_twice_and_after_more_batches(tmp_path):
    agent = make(tmp_path / "a.db")
    feed(agent, range(4))
    agent.correct("1", [9.0])
    feed(agent, range(4, 6))
    agent.correct("1", RIGHT)
    agent.correct("4", [1.0], x=0.25)
    assert agent.record("4").x == 0.25
    feed(agent, range(6, 8))
    assert [len(one.rows) for one in agent.record("1").corrections] == [2, 1]
    assert believes(agent, make())
    agent.verify()
    assert agent.replay() == pg.Replay(1, 8, True, None)
    events = len(agent.events)
    agent.correct("1", RIGHT)  # as it is already
    assert len(agent.events) == events


def test_corrections_begin_at_checkpoints(tmp_path):
    agent = make(tmp_path / "a.db")
    feed(agent, range(EVERY + 4))
    learned = []
    relearn = agent._stream.relearned
    agent._stream.relearned = lambda *args: learned.append(1) or relearn(*args)
    agent.correct(str(EVERY + 1), RIGHT)
    assert len(learned) == 4
    agent.correct("3", RIGHT)  # the checkpoint is then one of wrong data
    agent.correct(str(EVERY + 2), RIGHT)
    agent.verify()
    assert believes(agent, make())
    assert make(tmp_path / "a.db").replay().identical
    feed(agent, range(EVERY + 4, 2 * EVERY + 1))
    assert agent.replay(since=EVERY + 4) == pg.Replay(EVERY + 5, EVERY - 3, True, None)


def test_without_checkpoints_or_a_state_the_right_data_are_learned_again(tmp_path):
    """After damage: of the state and of all checkpoints nothing is left."""
    path = tmp_path / "a.db"
    with make(path) as agent:
        feed(agent, range(3))
        agent.correct("1", RIGHT)
        agent.withdraw("0")
        feed(agent, [3])
        history = list(agent.history())
    damage(path, "DELETE FROM checkpoints", "UPDATE heads SET state = zeroblob(8)")
    (told,) = recover(path).streams
    assert (told.kept, told.state, told.lost_events) == (4, 0, 0)
    for _ in range(2):  # it is learned once
        with make(path) as back:
            kinds = [event.kind for event in back.events]
            assert kinds == ["corrected", "withdrawn", "relearned"]
            assert back.decision == agent.decision
            assert same(back, agent)
            assert list(map(str, back.history())) == list(map(str, history))
            back.verify()


def test_of_a_recovered_stream_the_right_data_remain(tmp_path):
    """A batch is damaged that came before the corrections; what was corrected stays so."""
    path = tmp_path / "a.db"
    with make(path) as agent:
        feed(agent, range(6))
        agent.correct("1", RIGHT)
        agent.withdraw("0")
        agent.withdraw("5")
    damage(path, "UPDATE batches SET answer = zeroblob(16) WHERE id = '4'")
    (told,) = recover(path).streams
    assert (told.kept, told.stages, told.lost_events) == (4, 6, 0)
    with make(path) as back:
        assert [event.kind for event in back.events][3:] == ["went back", "relearned"]
        assert believes(back, make())
        assert [len(record.corrections) for record in back.history()] == [1, 1, 0, 0]
        feed(back, range(6))
        assert [len(record.corrections) for record in back.history()] == [1, 1, 0, 0, 0, 0]
        assert believes(back, make())
        assert back.replay(since=4).identical
        back.verify()


def test_lost_events_are_told_of(tmp_path):
    path = tmp_path / "a.db"
    with make(path) as agent:
        feed(agent, range(3))
        agent.withdraw("1")
        agent.correct("0", RIGHT)
    damage(path, "UPDATE events SET time = 1.0 WHERE kind = 'withdrawn'")
    with pytest.raises(errors.StoreError, match="event 1 is damaged"):
        make(path)
    (told,) = recover(path).streams
    assert (told.kept, told.state, told.lost_events) == (3, 3, 1)
    assert "lost are 1 of the events" in str(told)
    with make(path) as back:
        assert [event.kind for event in back.events] == ["corrected"]
        assert same(back, agent)
        assert [len(record.rows) for record in back.history()] == [3, 0, 2]
        back.verify()


def test_redelivered_batches_and_other_data(tmp_path):
    agent = make(tmp_path / "a.db")
    answers = feed(agent, range(3))
    agent.correct("1", RIGHT)
    for rows in (batch(1), RIGHT):  # as it was, and as it is
        assert agent.observe(rows, id="1") == answers[1]
    with pytest.raises(errors.DuplicateBatchError, match="correct"):
        agent.observe([1.0], id="1")
    agent.withdraw("2")
    assert agent.observe(batch(2), id="2") == answers[2]
    assert agent.stage == 3


def test_what_cannot_be_corrected_changes_nothing(tmp_path):
    agent = make(tmp_path / "a.db")
    feed(agent, range(2))
    before = agent._codec.save(agent._now)
    for wrong in (lambda: agent.correct("x", [1.0]), lambda: agent.withdraw("x")):
        with pytest.raises(errors.BatchError, match="no batch 'x'"):
            wrong()
    for data, error in (([np.nan], errors.BatchError), ([], errors.BatchError)):
        with pytest.raises(error):
            agent.correct("1", data)
    assert agent._codec.save(agent._now) == before
    assert agent.events == ()


def test_a_correction_in_a_transaction_that_comes_to_nothing(tmp_path):
    with pg.Database(tmp_path / "a.db") as database:
        agent = make(database)
        feed(agent, range(3))
        before = agent._codec.save(agent._now)
        with broken(database):
            agent.correct("1", RIGHT)
            agent.observe(batch(3), id="3")
        assert agent._codec.save(agent._now) == before
        assert agent.events == ()
        agent.verify()
        with database.transaction():
            agent.correct("1", RIGHT)
            agent.observe(batch(3), id="3")
        assert believes(agent, make())
        assert agent.replay().identical


def test_other_agents_take_up_a_correction(tmp_path):
    path = tmp_path / "a.db"
    one, other = make(path), make(path)
    feed(one, range(3))
    other.correct("1", RIGHT)
    one.observe(batch(3), id="3")
    assert believes(one, make())
    one.withdraw("2")
    other.correct("0", RIGHT)
    assert believes(other, make())
    other.verify()


def test_going_back_over_corrections(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    answers = feed(agent, range(6))
    agent.correct("1", RIGHT)
    feed(agent, [6])
    assert agent.rollback(4) == answers[3]
    assert [record.id for record in agent.history()] == ["0", "1", "2", "3"]
    assert believes(agent, make())
    back = make(path)
    assert same(back, agent)
    back.observe(batch(9), id="5")
    back.verify()
    assert back.replay(since=4).identical
    back.rollback(1)
    assert believes(back, make())
    assert back.observe(batch(3), id="1") is not None  # the id is free


KILLED = """
import os, signal, sys
sys.path[:0] = {paths!r}
from test_corrections import RIGHT, make
agent = make({path!r})
insert = agent._store._insert_events
def stop(*args):
    insert(*args)
    if {commits}:
        return
    os.kill(os.getpid(), signal.SIGKILL)
agent._store._insert_events = stop
agent.correct("2", RIGHT)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("commits", [False, True])
def test_a_correction_counts_whole_or_not_at_all(tmp_path, commits):
    path = str(tmp_path / "a.db")
    with make(path) as agent:
        feed(agent, range(4))
        before = agent._codec.save(agent._now)
    program = KILLED.format(paths=sys.path, path=path, commits=commits)
    environment = {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": os.environ["POSTGRAD_TEST_PROGRAMS"],
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    back = make(path)
    back.verify()
    assert (back._codec.save(back._now) == before) == (not commits)
    assert believes(back, make())
    assert back.replay().identical
    feed(back, range(5))
    assert back.stage == 5


@pytest.mark.parametrize("change", ["UPDATE events SET content = '{}'", "DELETE FROM events"])
def test_damaged_records_are_noticed(tmp_path, change):
    agent = make(tmp_path / "a.db")
    feed(agent, range(3))
    agent.withdraw("1")
    agent._database.rows(change)
    with pytest.raises(errors.StoreError, match="restore a backup"):
        agent.verify()
    agent.close()
    with pytest.raises(errors.StoreError, match="restore a backup"):
        make(tmp_path / "a.db")


def test_forged_records_are_refused_in_words(tmp_path):
    agent = make(tmp_path / "a.db")
    feed(agent, range(3))
    agent.withdraw("1")
    for kind, content in (("sold", "{}"), ("withdrawn", "{}"), ("withdrawn", "[]"), ("x", "{")):
        agent._database.insert("events", STAGES + 1, 3, 0.0, kind, content)
        with pytest.raises(errors.StoreError, match="never writes"):
            make(tmp_path / "a.db")


@pytest.mark.slow
def test_the_decision_is_that_of_the_right_data():
    """The default searches: from wherever it starts, it comes to where the right data lead."""
    agent, right = (pg.Agent(PROBLEM, pg.beliefs.Grid(POINTS), 0.0) for _ in range(2))
    feed(agent, range(4))
    agent.correct("2", RIGHT)
    for record in agent.history():
        right.observe(record.rows, x=record.x)
    assert agent.decision == pytest.approx(right.decision, abs=2e-3)


@pytest.mark.parametrize("seed", range(int(os.environ.get("POSTGRAD_SEQUENCES", "15")) // 3))
def test_any_sequence_of_corrections(tmp_path, seed):
    """Batches, corrections, withdrawals, going back and restarts, in any order."""
    path, random = tmp_path / "a.db", np.random.default_rng(seed)
    agent, ids = make(path), []
    for number in range(16):
        what = random.choice(["observe", "observe", "correct", "withdraw", "back", "reopen"])
        if what == "observe" or not ids:
            x = random.choice([None, 1.5])
            agent.observe(random.normal(6.0, 4.0, 2), id=str(number), x=x)
            ids.append(str(number))
        elif what == "correct":
            agent.correct(random.choice(ids), random.normal(6.0, 4.0, random.integers(1, 4)))
        elif what == "withdraw":
            agent.withdraw(random.choice(ids))
        elif what == "back":
            del ids[random.integers(len(ids) + 1) :]
            agent.rollback(len(ids))
        else:
            agent = make(path)
        assert [record.id for record in agent.history()] == ids
    assert believes(agent, make())
    assert same(make(path), agent)
    agent.verify()
    replay = agent.replay()
    assert replay.identical
    assert all(part.identical is None for part in replay.others)

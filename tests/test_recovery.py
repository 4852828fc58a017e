"""Damage, full disks and old backups: what an agent makes of them."""

import shutil
import sqlite3

import numpy as np
import pytest
from test_durable import KINDS, everything, feed, make

import postgrad as pg
from postgrad import errors
from postgrad.agent import stored_history
from postgrad.agent.changes import changing
from postgrad.store import Store
from postgrad.store.recovery import recover
from postgrad.store.state_rows import EVERY


def test_full_disk_leaves_the_agent_as_it_was(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    feed(agent, range(3))
    before = everything(agent)
    connection = agent._database.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(errors.StoreError, match="disk is full"):
        agent.observe(np.full(4096, 6.0), id="large")
    assert everything(agent) == before
    assert feed(agent, range(3)) == [record.decision for record in agent.history()]
    connection.execute("PRAGMA max_page_count = 100000")
    agent.observe(np.full(4096, 6.0), id="large")
    assert everything(make(path)) == everything(agent)


@pytest.mark.parametrize("count", [3, EVERY + 3])
def test_damaged_state_is_computed_anew(tmp_path, count):
    path = tmp_path / "a.db"
    agent = make(path)
    feed(agent, range(count))
    expected = everything(agent)
    agent.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE heads SET state = zeroblob(length(state))")
    connection.commit()
    connection.close()
    with pytest.raises(errors.StoreError, match=r"state is damaged.*postgrad store recover"):
        make(path)
    (told,) = recover(path).streams
    assert (told.kept, told.lost, told.state) == (count, 0, count // EVERY * EVERY)
    back = make(path)
    assert everything(back) == expected
    feed(back, range(count, count + 2))
    back.verify()
    assert make(path).stage == count + 2


def test_recovery_stops_at_the_first_damaged_batch(tmp_path):
    path = tmp_path / "a.db"
    agent = make(path)
    answers = feed(agent, range(5))
    agent.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE heads SET state = zeroblob(8)")
    connection.execute("UPDATE batches SET rows = zeroblob(16) WHERE id = '3'")
    connection.commit()
    connection.close()
    (told,) = recover(path).streams
    assert (told.kept, told.stages, told.lost_ids) == (3, 5, ("4",))
    back = make(path)
    assert (back.stage, back.decision) == (3, answers[2])
    assert feed(back, range(5)) == answers


def test_a_backup_without_its_log_is_noticed(tmp_path):
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    agent = make(path)
    feed(agent, range(2))
    agent.close()
    shutil.copy(path, tmp_path / "backup.db")
    agent = make(path)
    feed(agent, range(2, 5))
    agent.close()
    shutil.copy(tmp_path / "backup.db", copy)
    shutil.copy(f"{path}-acknowledged", f"{copy}-acknowledged")
    with pytest.raises(errors.StoreError, match=r"3 acknowledged batches .* are missing"):
        make(copy)
    (told,) = recover(copy).streams
    assert (told.kept, told.missing) == (2, 3)
    back = make(copy)
    assert back.stage == 2
    feed(back, range(5))
    assert everything(back) == everything(make(path))


def test_fixed_arrays_that_were_lost_are_computed_and_stored_again(tmp_path):
    """Those of a grid that has narrowed; states that refer to them are of no use."""
    problem, belief, options, _ = KINDS["focus"]
    path = tmp_path / "a.db"

    def focused():
        return pg.Agent(problem, belief(), 0.0, path=path, **options)

    agent = focused()
    feed(agent, range(4))
    expected = everything(agent)
    assert agent._now.fixed_since > 0
    agent.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE fixed_arrays SET arrays = zeroblob(8)")
    connection.commit()
    connection.close()
    with pytest.raises(errors.StoreError, match="the state is damaged"):
        focused()
    (told,) = recover(path).streams
    assert (told.kept, told.lost, told.state) == (4, 0, 0)
    for number in (4, 5):
        back = focused()
        assert number > 4 or everything(back) == expected
        feed(back, [number])
        back.verify()
        back.close()
    assert focused().replay().identical


def test_a_damaged_stream_does_not_keep_others_from_working(tmp_path):
    path = tmp_path / "a.db"
    for name in ("one", "two"):
        agent = make(path, name=name)
        feed(agent, range(3))
        agent.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE heads SET state = zeroblob(8) WHERE stream = 1")
    connection.commit()
    connection.close()
    with pytest.raises(errors.StoreError, match="postgrad store recover"):
        make(path, name="one")
    with make(path, name="two") as other:
        feed(other, [3])
    recover(path)
    assert (make(path, name="one").stage, make(path, name="two").stage) == (3, 4)


def lost_state(path):
    """A recovered file whose latest state is to be computed again; returns what it was."""
    with make(path) as agent:
        feed(agent, range(3))
        expected = everything(agent)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE heads SET state = zeroblob(length(state))")
    connection.commit()
    connection.close()
    recover(path)
    return expected


def is_missing(path):
    with pg.Database(path) as database:
        return Store(database, "main").load().saved.is_missing


def test_a_lost_state_is_stored_inside_a_transaction_too(tmp_path):
    path = tmp_path / "a.db"
    expected = lost_state(path)
    with pg.Database(path) as database, database.transaction():
        assert everything(make(database)) == expected
    assert not is_missing(path)


def test_a_lost_state_on_a_read_only_disk_is_stored_when_it_can_be(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    expected = lost_state(path)
    with monkeypatch.context() as patch:
        patch.setattr(changing, "is_writable", lambda path: False)
        agent = make(path)
        assert everything(agent) == expected
    assert is_missing(path)
    agent.rollback(3)
    assert everything(agent) == expected
    assert not is_missing(path)


def test_a_state_that_other_versions_computed_is_learned_again_on_record(tmp_path, monkeypatch):
    """Their decisions were in force, whatever the present versions would compute."""
    path = tmp_path / "a.db"
    lost_state(path)
    monkeypatch.setattr(stored_history, "versions_now", lambda: {"jax": "0.0"})
    for _ in range(2):  # it is learned once
        with make(path) as agent:
            assert [event.kind for event in agent.events] == ["relearned"]
            assert agent.decision == list(agent.history())[-1].decision

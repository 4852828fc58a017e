"""Reading while another process goes back in the stream: no damage, and none is reported."""

import functools

import pytest
from test_durable import EVERY, KINDS, batch, everything, feed, make
from test_store import batch as stored
from test_store import fill, saved

import postgrad as pg
from postgrad import errors
from postgrad.store import Database, StaleStateError, Store
from postgrad.store.batch_rows import _CHUNK


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def go_back(path, stage, numbers=()):
    """As another process does."""
    with make(path) as other:
        other.rollback(stage)
        feed(other, numbers)
        return everything(other)


def test_what_another_took_back_is_not_damage(path):
    """An agent that has not looked since takes up what there is."""
    agent = make(path)
    for look, expected in (
        (lambda: [record.id for record in agent.history()], list("012345")),
        (agent.replay, pg.Replay(1, 6, True, None)),
        (lambda: agent.explain().stage, 6),
        (lambda: agent.rollback(6) == agent.decision, True),
        (lambda: agent.record("7"), None),
    ):
        feed(agent, range(10))
        there = go_back(path, 6)
        assert look() == expected
        assert everything(agent) == there


def test_what_another_put_in_its_place_is_taken_up(path):
    """Stages are there again, but others: what is told is of one stream, not of two."""
    agent = make(path)
    feed(agent, range(5))
    there = go_back(path, 2, range(10, 16))
    assert agent.replay() == pg.Replay(1, 8, True, None)
    assert everything(agent) == there
    there = go_back(path, 2, range(20, 29))
    assert [record.id for record in agent.history()] == ["0", "1", *map(str, range(20, 29))]
    assert everything(agent) == there
    go_back(path, 2, range(30, 41))
    assert "'40', 2 observations" in str(agent.explain())


@pytest.mark.filterwarnings("ignore:the data no longer look")
def test_a_history_half_read_says_what_happened(path):
    agent = make(path)
    feed(agent, range(_CHUNK + 10))
    for more in ((), range(1000, 1030)):
        half = agent.history()
        assert [next(half).stage for _ in range(_CHUNK)] == list(range(1, _CHUNK + 1))
        _, stage, _ = go_back(path, _CHUNK - 5, more)
        with pytest.raises(errors.StoreError, match=r"a\.db: another process has gone back"):
            list(half)
        assert [record.stage for record in agent.history()] == list(range(1, stage + 1))
        feed(agent, range(2000, 2020))
        agent.verify()


def test_damage_is_still_told_as_damage(path):
    """Also where another has written since."""
    one, two = make(path), make(path)
    feed(one, range(6))
    feed(two, [6])
    two._database.connection.execute("UPDATE batches SET rows = zeroblob(16) WHERE id = '3'")
    for agent in (one, two):
        with pytest.raises(errors.StoreError, match="batch 4 is damaged or missing"):
            list(agent.history())
    two._database.connection.execute("DELETE FROM batches WHERE id = '6'")
    with pytest.raises(errors.StoreError, match=r"batch (4|7) is damaged or missing"):
        list(two.history(last=1))


class Meddler:
    """A connection before whose n-th statement another process does something."""

    def __init__(self, connection, turn, meddle):
        self.connection, self.turn, self.meddle = connection, turn, meddle

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def execute(self, *statement):
        self.turn -= 1
        if self.turn == 0 and not self.connection.in_transaction:
            self.meddle()
        return self.connection.execute(*statement)


READS = {
    "history": lambda agent: len(list(agent.history())),
    "record": lambda agent: agent.record("8"),
    "explain": lambda agent: agent.explain().stage,
    "replay": lambda agent: agent.replay().identical or pytest.fail("differs"),
    "verify": lambda agent: agent.verify(),
    "beliefs": lambda agent: list(agent.beliefs([4])),
    "rollback": lambda agent: agent.rollback(3),
    "observe": lambda agent: agent.observe(batch(8), id="8"),
    "alarms": lambda agent: agent.alarms,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("more", [0, 9])
def test_going_back_at_any_moment_is_no_damage(tmp_path, read, more):
    """Before each statement of each way to read, another goes back, and perhaps on again."""
    for turn in range(1, 40):
        path = tmp_path / f"{turn}.db"
        with make(path) as agent:
            feed(agent, range(9))
            meddle = functools.partial(go_back, path, 5, range(100, 100 + more))
            meddler = Meddler(agent._database.connection, turn, meddle)
            agent._database._connection = meddler
            told = ""
            try:
                READS[read](agent)
            except errors.StoreError as error:
                told = str(error)
            assert not told or "another process has gone back" in told, turn
            if meddler.turn > 0:
                break
            agent.verify()
            assert agent.replay().identical
    assert turn > 1


def test_checkpoints_and_fixed_arrays_that_are_taken_back(path):
    problem, belief, options, _ = KINDS["focus"]
    one = pg.Agent(problem, belief(), 0.0, path=path, **options)
    for number in range(4):
        one.observe(batch(number))
    two = pg.Agent(problem, belief(), 0.0, path=path, **options)
    meddler = Meddler(one._database.connection, 2, lambda: two.rollback(0))
    one._database._connection = meddler
    one._load()
    assert one._codec.save(one._now).fixed_since == one._head.saved.fixed_since


def test_a_store_tells_what_is_gone_from_what_is_damaged(path):
    one, head = fill(str(path), EVERY + 3)
    two = Store(Database(str(path)), "main")
    reading = one.batches(1, EVERY + 3)
    back = two.go_back(two.load(), saved(EVERY), None)
    with pytest.raises(StaleStateError):
        list(reading)
    with pytest.raises(StaleStateError):
        list(one.batches(1, EVERY + 3))
    assert len(list(one.batches(1, EVERY))) == EVERY
    assert one.find(f"id {EVERY + 1}") is None
    two.append(back, stored(EVERY + 1), saved(EVERY + 1), None)
    assert one.find(f"id {EVERY + 1}") == (EVERY + 1, stored(EVERY + 1))
    assert not one.is_past(head)

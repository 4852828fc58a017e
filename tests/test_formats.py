"""Files of every format are opened: what is believed and decided stays, and they go on."""

import gzip
import importlib.metadata
import json
import shutil
import sqlite3
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest
from format_agents import (
    CHANGED,
    batch,
    context,
    cost,
    fed_in_contexts,
    make,
    make_in_contexts,
    model,
    parts,
)
from test_store import fill

import postgrad as pg
from postgrad import errors
from postgrad.agent import shared_parts, stored_names
from postgrad.agent.changes import versions
from postgrad.records.streams import stream_events
from postgrad.spec import load
from postgrad.spec.spec_agents import SpecAgents
from postgrad.store import Database, Issue, Store, schema
from postgrad.store.changes import migrations
from postgrad.store.recovery import check, recover
from postgrad.store.recovery.checking import Checked

FORMATS = Path(__file__).parent / "formats"
# The decision of each stream, and that of the search, which was another one at first.
DECISIONS = {
    "conjugate": 7.9930999998190195,
    "grid": 8.944119019118958,
    "particles": 3.1125204267014697,
}
SEARCH = {"1-first": 2.5637374270853117, "1-last": 2.5637374270853117} | {
    "2-newton": 2.5637374270853117, "2-search": 2.563794980007954, "3": 2.563794980007954,
}  # fmt: skip


def file_of(name, folder):
    path = folder / "state.db"
    with gzip.open(FORMATS / f"{name}.db.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return path


def numbers(belief):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(belief, eqx.is_inexact_array))]


def learned(name, xs):
    """What the belief of a stream is after its batches under some decisions."""
    problem, belief, options = parts()[name]
    agent = pg.Agent(problem, belief, 0.0, **options)
    for stage, x in enumerate(xs):
        agent.observe(batch(stage), x=x)
    return agent.belief


@pytest.mark.parametrize("name", SEARCH)
def test_files_of_every_format_go_on(tmp_path, name):
    path = file_of(name, tmp_path)
    with pg.Database(path) as database:
        for stream in parts():
            agent = make(database, stream)
            expected = {**DECISIONS, "search": SEARCH[name]}[stream]
            assert (agent.stage, agent.decision) == (3, expected)
            xs = [record.x for record in agent.history()]
            right = numbers(learned(stream, xs))
            for found, expected in zip(numbers(agent.belief), right, strict=True):
                if found.shape[:1] == (256,):  # room for rows, of which there is more by now
                    expected = expected[:256]
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
            kinds = [event.kind for event in agent.events]
            # A search has since come to remember more.
            since = ["search anew"] if stream == "search" else []
            assert kinds == (since if name in ("2-search", "3") else ["relearned"])
            agent.observe(batch(1), id="1")  # delivered again
            agent.observe(batch(7), id="7", x=1.0)
            agent.verify()
    for stream in parts():
        with make(path, stream) as agent:
            assert agent.stage == 4
            if name != "3":  # its first stages were computed with other options of XLA
                assert agent.replay(since=3).identical


def test_corrections_and_changes_of_a_file_are_on_record(tmp_path):
    """From format 3 on."""
    path = file_of("3", tmp_path)
    _, belief, options = parts()["grid"]
    with pg.Agent(CHANGED, belief, 0.0, path=path, name="changed", **options) as agent:
        assert [event.kind for event in agent.events] == ["corrected", "withdrawn", "changed"]
        assert agent.decision == 4.0
        assert [len(record.rows) for record in agent.history()] == [0, 1, 2]
        assert [len(record.corrections) for record in agent.history()] == [1, 1, 0]
        agent.observe(batch(3), id="3")
        agent.verify()


def rows_of(path, *columns):
    """Some columns of all states and batches, and all events, as they are in the file."""
    states, batches = (", ".join(names) for names in columns)
    connection = sqlite3.connect(path)
    tables = (
        f"SELECT {states} FROM heads", f"SELECT {states} FROM checkpoints",
        f"SELECT {batches} FROM batches", "SELECT * FROM events", "SELECT * FROM array_headers",
    )  # fmt: skip
    found = [connection.execute(select).fetchall() for select in tables]
    connection.close()
    return found


def test_states_and_batches_of_format_3_stay_bit_for_bit(tmp_path):
    """They get columns, for contexts and issued decisions, and chains stay as they are."""
    path = file_of("3", tmp_path)
    states = (
        "stream", "stage", "commits", "chain", "events", "fixed_since",
        "header", "state", "report_header", "report", "counters",
    )  # fmt: skip
    batches = ("place", "stream", "id", "time", "x", "rows", "answer", "alarm", "chain")
    before = rows_of(path, states, batches)
    assert min(map(len, before)) > 0
    with Database(path) as database:
        for name in database.streams():
            store = Store(database, name)
            store.verify(head := store.load())
            assert (head.issued, store.last_issued()) == (0, None)
            store.issue(head, Issue("first", 3, 1.0, None, bytes(24)))
            assert store.issued("first") == store.last_issued()
    after = rows_of(path, states, (*batches, "context"))
    commits = states.index("commits")
    before[0] = [(*row[:commits], row[commits] + 1, *row[commits + 1 :]) for row in before[0]]
    before[2] = [(*row, None) for row in before[2]]
    assert after == before


def test_the_file_of_a_specification_goes_on(tmp_path):
    path = file_of("3-shop", tmp_path)
    with SpecAgents(load(FORMATS / "shop.toml"), path) as agents:
        assert agents.streams() == [("rolls", None), ("bread", None)]
        decisions = [agents.agent(*stream).decision for stream in agents.streams()]
        assert decisions == [4.130952380952381, 4.928571428571429]
        assert all(agents.agent(*stream).events == () for stream in agents.streams())


def test_files_of_adaptive_beliefs_go_on_as_mixtures(tmp_path):
    """Members were weighed before their past had faded: they are learned again, on record."""
    members = {
        "rates": [pg.beliefs.Grid(np.arange(1.0, 9.0), forget=rate) for rate in (1.0, 0.9)],
        "one rate": [pg.beliefs.Normal(3.0, 5.0, forget=0.9)],
    }
    decisions = {"rates": 8.787257994718116, "one rate": 7.371068768075391}
    problem, _, options = parts()["grid"]
    with pg.Database(file_of("3-adaptive", tmp_path)) as database:
        for name, beliefs in members.items():
            belief = pg.beliefs.Mixture(beliefs)
            agent = pg.Agent(problem, belief, 0.0, path=database, name=name, **options)
            assert (agent.stage, agent.decision) == (3, decisions[name])
            assert [event.kind for event in agent.events] == ["relearned"]
            afresh = pg.Agent(problem, belief, 0.0, **options)
            for stage, record in enumerate(agent.history()):
                afresh.observe(batch(stage), x=record.x)
            for found, expected in zip(*map(numbers, (agent.belief, afresh.belief)), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9)
            agent.observe(batch(3), id="3")
            agent.verify()


def test_files_with_contexts_and_issued_decisions_go_on(tmp_path):
    with pg.Database(file_of("4", tmp_path)) as database:
        agent, afresh = make_in_contexts(database), fed_in_contexts(make_in_contexts(None))
        assert (agent.stage, agent.decision) == (4, 6.562768231647514)
        assert agent.issued("day 1").context["z"] == {"heat": 0.5, "price": 2.0, "truck": 21}
        for found, expected in zip(*map(numbers, (agent.belief, afresh.belief)), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        agent.decide(context(7), id="day 7", date="2026-11-27")
        agent.observe(batch(4), of="day 7", date="2026-11-27")
        agent.verify()
        assert not agent.events


def test_a_replaced_search_begins_anew_on_record(tmp_path, monkeypatch):
    """Here a later version has given the search another array."""
    path = tmp_path / "a.db"
    with make(path, "search") as agent:
        for stage in range(3):
            agent.observe(batch(stage), id=str(stage))
        decision, belief = agent.decision, numbers(agent.belief)
    monkeypatch.setitem(stored_names.FIELDS, ("Track", "bend"), "curvature")
    monkeypatch.setattr(shared_parts, "_known", weakref.WeakValueDictionary())  # another process
    for _ in range(2):  # it begins anew once
        with make(path, "search") as agent:
            assert agent.decision == decision
            assert all(map(np.array_equal, numbers(agent.belief), belief))
            assert [event.kind for event in agent.events] == ["search anew"]
            assert "the search began anew" in str(agent.explain())
            assert agent.replay().others[0].identical is None
    with make(path, "search") as agent:
        agent.observe(batch(3), id="3")
        assert agent.replay(since=3).identical
        assert "search" in str(agent.replay())


def test_versions_are_stored_and_replays_say_what_is_comparable(tmp_path, monkeypatch):
    path = tmp_path / "a.db"
    later = {**versions.versions_now(), "jax": "99.0"}
    with make(path, "grid") as agent:
        for stage in range(2):
            agent.observe(batch(stage))
        assert agent.events == ()
        (settings,) = agent._database.row("SELECT settings FROM streams")
        assert json.loads(settings)["versions"] == versions.versions_now()
    for module in ("changing", "replaying"):
        monkeypatch.setattr(f"postgrad.agent.changes.{module}.versions_now", lambda: later)
    with make(path, "grid") as agent:
        assert agent.events == ()  # it only looks so far
        for stage in range(2, 5):
            agent.observe(batch(stage))
        (event,) = agent.events
        assert (event.stage, event.kind, event.details["versions"]) == (2, "versions", later)
        replay = agent.replay()
        assert (replay.first, replay.stages, replay.identical) == (3, 3, True)
        (other,) = replay.others
        assert (other.first, other.last, other.identical) == (1, 2, True)
        assert "jax 0." in str(replay)
        assert "now 99.0" in str(replay)
    monkeypatch.undo()
    with make(path, "grid") as agent:
        replay = agent.replay()
        assert [(part.first, part.last) for part in replay.others] == [(3, 5)]
        assert (replay.first, replay.stages, replay.identical) == (1, 2, True)
        agent.observe(batch(5))
        assert [event.stage for event in agent.events] == [2, 5]
        agent.rollback(3)
        assert [one.stage for _, one in agent._past.events.in_force] == [2, 3]
        agent.observe(batch(5))
        agent.verify()


class Wider(pg.feasible.Box):
    """A set that has got one more field than when the file was made."""

    slack: float

    def __init__(self, low, high, slack=0.0):
        super().__init__(low, high)
        self.slack = slack


Wider.__qualname__ = "Box"


def test_a_new_field_at_its_default_is_no_other_setting(tmp_path):
    path = tmp_path / "a.db"
    _, belief, options = parts()["grid"]
    make(path, "grid").close()

    def reopened(**more):
        problem = pg.Problem(cost, model, Wider(-20, 20, **more))
        pg.Agent(problem, belief, 0.0, path=path, name="grid", **options).close()

    reopened()
    with pytest.raises(errors.StoreError, match=r"feasible.slack was not there"):
        reopened(slack=1.0)


def test_settings_of_a_later_schema_are_refused_in_words(tmp_path):
    path = tmp_path / "a.db"
    with make(path, "grid") as agent:
        database = agent._database
        number, name, settings = database.row("SELECT stream, name, settings FROM streams")
        later = json.dumps({**json.loads(settings), "schema": 99})
        database.insert("streams", number, name, later)
    with pytest.raises(errors.StoreError, match=r"schema 99, .* install a newer postgrad"):
        make(path, "grid")


def test_files_of_a_later_format_are_refused_in_words(tmp_path):
    path = tmp_path / "a.db"
    make(path, "grid").close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    connection.close()
    with pytest.raises(errors.StoreError, match=r"newer than this postgrad.*install a newer"):
        make(path, "grid")


def damaged(path, table, folder):
    """A copy of a file whose rows are damaged; the damage is in the log that was left with it."""
    folder.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    column = {"heads": "state", "batches": "rows"}[table]
    connection.execute(f"UPDATE {table} SET {column} = zeroblob(length({column}))")
    connection.commit()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{path}{suffix}", f"{folder / path.name}{suffix}")
    connection.close()
    return folder / path.name


def contents(folder):
    """What is in the files of a folder; readers may leave an empty log, and shared memory."""
    files = [path for path in folder.iterdir() if path.suffix != ".db-shm"]
    return {path.name: found for path in files if (found := path.read_bytes())}


# Batches of formats 2 and 3 stay as they are, and are checked when they are read.
@pytest.mark.parametrize(
    ("name", "table"),
    [("1-first", "heads"), ("1-first", "batches"), ("2-search", "heads"), ("3", "heads")],
)
def test_damaged_files_of_earlier_formats_are_left_as_they_are(tmp_path, name, table):
    path = damaged(file_of(name, tmp_path), table, tmp_path / "damaged")
    before = contents(path.parent)
    assert f"{path.name}-wal" in before
    with pytest.raises(errors.StoreError, match=r"damaged.*postgrad store restore"):
        pg.Database(path)
    assert check(path).problems
    with pytest.raises(errors.StoreError, match=f"its format, {name[0]}, .*store restore"):
        recover(path)
    assert contents(path.parent) == before


@pytest.mark.parametrize("name", ["2-search", "3"])
def test_a_check_does_not_rewrite_an_earlier_format(tmp_path, name):
    path = file_of(name, tmp_path)
    before, streams = contents(tmp_path), {*parts(), *(["changed"] if name == "3" else [])}
    assert check(path) == Checked(dict.fromkeys(streams, 3), ())
    assert recover(path).folder is None
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["2-search", "3"])
def test_earlier_formats_on_a_disk_that_cannot_be_written_to(tmp_path, monkeypatch, name):
    path = file_of(name, tmp_path)
    before = contents(tmp_path)
    monkeypatch.setattr(migrations, "is_writable", lambda path: False)
    with pytest.raises(errors.StoreError, match=rf"its format, {name[0]}, .*permissions"):
        pg.Database(path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["1-first", "2-search", "3"])
def test_two_that_open_an_earlier_format_at_once(tmp_path, name):
    path = file_of(name, tmp_path)
    with ThreadPoolExecutor(4) as pool:
        databases = list(pool.map(pg.Database, [path] * 4))
    for database in databases:
        assert database.streams()[: len(parts())] == list(parts())
        database.close()
    with make(path, "grid") as agent:
        agent.verify()


def test_kinds_of_events_have_words():
    for kind in ("search anew", "relearned"):
        log = stream_events.EventLog([stream_events.event(2, kind)], None)
        assert "after stage 2" in str(log.all[0])


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_damaged_number_of_the_format_is_recovered(tmp_path, version):
    """Damage makes the present format an earlier one, by its number."""
    path = tmp_path / "a.db"
    fill(str(path), 3)[0].database.close()
    with path.open("r+b") as file:
        file.seek(60)
        file.write(version.to_bytes(4, "big"))
    before = contents(tmp_path)
    with pytest.raises(errors.StoreError, match="are damaged"):
        pg.Database(path)
    assert contents(tmp_path) == before
    (told,) = recover(path).streams
    assert (told.kept, told.lost, told.state) == (3, 0, 3)
    assert check(path) == Checked({"main": 3}, ())


def test_sources_that_are_not_installed_have_no_version(monkeypatch):
    def not_there(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(versions.metadata, "version", not_there)
    assert versions.versions_now.__wrapped__()["postgrad"] == "not installed"

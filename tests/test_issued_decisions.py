"""Decisions issued under ids, and the contexts of batches: durable, checked, recovered."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from test_store import batch, fill, saved
from test_store_recovery import change, damage, there, without
from test_transactions import broken

import postgrad as pg
from postgrad.errors import StoreError
from postgrad.records.issued import issued_bytes, read_issued
from postgrad.records.streams.stored_stream import StoredStream
from postgrad.store import Database, Issue, StaleStateError, Store
from postgrad.store.opening import open_checked
from postgrad.store.recovery import backup, check, recover, restore
from postgrad.store.recovery.checking import Checked


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.db")


def issue(number, **changes):
    context = json.dumps({"weekday": number % 7}) if number % 3 else None
    whole = Issue(f"for {number}", number % 5, float(number), context, b"answer %d" % number)
    return replace(whole, **changes)


def with_context(stage):
    return batch(stage, context=json.dumps({"promo": stage}) if stage % 2 else None)


def filled(path, batches, issues, name="main"):
    """A store with batches of which every other has a context, and decisions between them."""
    store, head = fill(path, 0, name)
    with store.database.transaction():
        for number in range(1, max(batches, issues) + 1):
            if number <= batches:
                stage = head.saved.stage + 1
                head = store.append(head, with_context(stage), saved(stage), None)
            if number <= issues:
                head = store.issue(head, issue(head.issued + 1))
    return store, head


def issues_in(path, name="main"):
    with Database(path) as database:
        return list(Store(database, name).issues())


@pytest.mark.parametrize("place", [None, "a.db"], ids=["memory", "file"])
def test_what_was_issued_is_there(tmp_path, place):
    store, head = filled(place and str(tmp_path / place), 3, 700)
    assert (head.issued, head.commits, head.saved.stage) == (700, 1 + 700 + 3, 3)
    assert store.load() == head
    assert list(store.issues()) == [issue(n) for n in range(1, 701)]
    for last in (0, 1, 256, 257, 700, 9999):
        assert list(store.issues(last)) == [issue(n) for n in range(701 - min(last, 700), 701)]
    assert store.last_issued() == issue(700)
    assert [store.issued(name) for name in ("for 7", "FOR 7", "for 701")] == [issue(7), None, None]
    assert list(store.batches(1, 3)) == [(n, with_context(n)) for n in (1, 2, 3)]
    assert store.find("id 3") == (3, with_context(3))
    store.verify(head)
    other = Store(store.database, "other")
    other.create("settings", saved(0))
    assert (other.last_issued(), other.issued("for 7"), list(other.issues())) == (None, None, [])
    other.issue(other.load(), issue(7, answer=b"another stream's"))
    assert store.issued("for 7") == issue(7)


def test_going_back_leaves_what_was_issued(path):
    store, head = filled(path, 5, 5)
    head = store.go_back(head, saved(2), None)
    assert (head.issued, list(store.issues())) == (5, [issue(n) for n in range(1, 6)])
    head = store.append(head, batch(3), saved(3), None)
    head = store.issue(head, issue(6))
    store.verify(head)
    assert store.last_issued() == issue(6)


def test_a_second_writer_is_noticed_and_nothing_is_issued(path):
    one, head = filled(path, 1, 1)
    two = Store(Database(path), "main")
    later = two.issue(two.load(), issue(2))
    for attempt in (
        lambda: one.issue(head, issue(3)),
        lambda: one.append(head, batch(2), saved(2), None),
    ):
        with pytest.raises(StaleStateError):
            attempt()
    assert one.load() == later
    assert list(one.issues()) == [issue(1), issue(2)]


def test_an_id_is_issued_once(path):
    store, head = filled(path, 1, 2)
    with pytest.raises(StoreError, match="UNIQUE"):
        store.issue(head, issue(1))
    assert store.load() == head
    assert store.issued("for 1") == issue(1)


def test_a_transaction_that_comes_to_nothing_issues_nothing(path):
    store, head = filled(path, 1, 1)
    with broken(store.database):
        store.issue(head, issue(2))
        assert store.last_issued() == issue(2)
    assert store.load() == head
    assert (store.last_issued(), store.issued("for 2")) == (issue(1), None)
    store.issue(head, issue(2))
    store.database.close()
    assert issues_in(path) == [issue(1), issue(2)]


CHANGES = {
    "answer": "UPDATE decisions SET answer = x'00' WHERE id = 'for 4'",
    "context": "UPDATE decisions SET context = NULL WHERE id = 'for 4'",
    "stage": "UPDATE decisions SET stage = 99 WHERE id = 'for 4'",
    "time": "UPDATE decisions SET time = 99 WHERE id = 'for 4'",
    "id": "UPDATE decisions SET id = 'for 44' WHERE id = 'for 4'",
    "missing": "DELETE FROM decisions WHERE id = 'for 4'",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_decision_that_was_changed_is_noticed(path, what):
    filled(path, 2, 9)[0].database.close()
    change(path, CHANGES[what])
    with Database(path) as database:
        store = Store(database, "main")
        assert store.last_issued() == issue(9)
        with pytest.raises(StoreError, match=r"issued decision 4 is damaged or missing.*recover"):
            list(store.issues())
        with pytest.raises(StoreError, match="issued decision 4"):
            store.verify(store.load())
    (problem,) = check(path).problems
    assert "issued decision 4" in problem


@pytest.mark.parametrize("kept", [8, 0])
def test_last_decisions_that_are_missing_are_noticed(path, kept):
    filled(path, 2, 9)[0].database.close()
    change(path, f"DELETE FROM decisions WHERE stage >= 0 AND place % 1024 > {kept}")
    with Database(path) as database:
        store = Store(database, "main")
        for ask in (store.last_issued, lambda: store.verify(store.load())):
            with pytest.raises(StoreError, match="issued decision 9 is damaged or missing"):
                ask()


def test_an_index_that_lacks_an_id_is_noticed_at_any_size(path, monkeypatch):
    """Else the same id would be decided anew."""
    monkeypatch.setattr(open_checked, "SMALL", 0)
    filled(path, 1, 9)[0].database.close()
    drop, sql, rename = without("decision_ids", "")
    change(path, drop, sql.replace(" AND ", " WHERE id <> 'for 4'"), rename)
    with pytest.raises(StoreError, match="damaged"), Database(path) as database:
        Store(database, "main").issued("for 4")


@pytest.mark.parametrize("value", ["NULL", "'{}'"])
def test_the_context_of_a_batch_is_checked(path, value):
    filled(path, 4, 0)[0].database.close()
    change(path, f"UPDATE batches SET context = {value} WHERE id IN ('id 2', 'id 3')")
    with Database(path) as database, pytest.raises(StoreError, match=r"batch [23] is damaged"):
        list(Store(database, "main").batches(1, 4))


def test_a_corrected_batch_keeps_its_context(path):
    store, head = filled(path, 3, 1)
    event = pg.store.Event(3, 1.0, "corrected", "{}")
    new = replace(with_context(1), rows=b"right", context='{"promo": 9}')
    head = store.amend(head, saved(3), None, event, corrected=(1, new))
    assert [found for _, found in store.batches(1, 3)] == [new, with_context(2), with_context(3)]
    store.verify(head)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_issued_decisions_that_a_lost_log_had_are_missed(path, count):
    """State and batches are as they were before: the number of the commit is what tells."""
    store, head = filled(path, 2, 3)
    store.database.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for _ in range(count):
        head = store.issue(head, issue(head.issued + 1))
    store.database.connection.execute("PRAGMA wal_autocheckpoint = 0")
    left = path.replace("a.db", "left.db")
    for suffix in ("", "-acknowledged"):
        with open(path + suffix, "rb") as source, open(left + suffix, "wb") as target:
            target.write(source.read())
    store.database.close()
    with pytest.raises(StoreError, match=rf"{count} acknowledged batches or issued decisions are"):
        Store(Database(left), "main").load()
    (told,) = recover(left).streams
    assert (told.kept, told.lost, told.issued, told.missing) == (2, 0, 3, count)
    assert f"up to {count} later batches or issued decisions" in str(told)
    assert issues_in(left) == [issue(1), issue(2), issue(3)]
    with Database(left) as database:
        again = Store(database, "main")
        again.issue(again.load(), issue(4))
    assert not check(left).problems


def test_recovery_keeps_the_decisions_that_are_good(path):
    filled(path, 12, 400)[0].database.close()
    filled(path, 3, 5, "other")[0].database.close()
    change(path, CHANGES["answer"] + " AND stream = 1")
    change(path, "UPDATE decisions SET chain = x'00' WHERE id = 'for 100'")
    change(path, "DELETE FROM decisions WHERE id = 'for 400'")
    done = recover(path)
    main, other = done.streams
    # What follows on a damaged checksum cannot be told from what was put there.
    lost = {4, 100, 101, 400}
    good = [issue(n) for n in range(1, 401) if n not in lost]
    assert (main.kept, main.lost, main.issued, main.lost_issued) == (12, 0, 396, 4)
    assert "lost are 4 of 400 decisions issued under an id" in str(done)
    assert (other.issued, other.lost_issued) == (5, 0)
    assert check(path) == Checked({"main": 12, "other": 3}, ())
    assert issues_in(path) == good
    assert issues_in(path, "other") == [issue(n) for n in range(1, 6)]
    with Database(path) as database:
        store = Store(database, "main")
        assert list(store.batches(1, 12)) == [(n, with_context(n)) for n in range(1, 13)]
        store.issue(store.load(), issue(4))
    assert issues_in(path) == [*good, issue(4)]
    assert recover(path).folder is None


def test_pages_without_their_tables_give_decisions_and_contexts(path):
    filled(path, 9, 300)[0].database.close()
    damage(path, 0, bytes(4096))
    (told,) = recover(path).streams
    assert (told.kept, told.lost, told.issued, told.lost_issued) == (9, 0, 300, 0)
    assert issues_in(path) == [issue(n) for n in range(1, 301)]
    with Database(path) as database:
        found = [one for _, one in Store(database, "main").batches(1, 9)]
    assert found == [with_context(n) for n in range(1, 10)]


def test_backups_have_what_was_issued(path):
    store, head = filled(path, 2, 3)
    backup(path, path + ".backup")
    store.issue(head, issue(4))
    store.database.close()
    restore(path + ".backup", path)
    assert issues_in(path) == [issue(1), issue(2), issue(3)]
    assert not check(path).problems


def test_a_disk_that_is_read_only(path, monkeypatch):
    filled(path, 2, 3)[0].database.close()
    before = there(path)
    monkeypatch.setattr(pg.store.database.connecting, "is_writable", lambda path: False)
    with Database(path) as database:
        store = Store(database, "main")
        assert store.last_issued() == store.issued("for 3") == issue(3)
        with pytest.raises(StoreError, match="cannot be written to"):
            store.issue(store.load(), issue(4))
        assert store.last_issued() == issue(3)
    assert there(path) == before


@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
def test_numbers_of_a_decision_come_back(shape):
    decision = np.random.default_rng(0).normal(size=shape)
    answer = issued_bytes(decision, decision - 1, np.nan)
    found = read_issued(issue(1, answer=answer), shape)
    np.testing.assert_array_equal(found.decision, decision)
    np.testing.assert_array_equal(found.low, decision - 1)
    assert found.high.shape == shape
    assert np.isnan(found.high).all()
    assert (found.id, found.stage, found.context) == ("for 1", 1, {"weekday": 1})
    assert found.time == datetime.fromtimestamp(1.0, UTC)
    with pytest.raises(ValueError, match="numbers, got"):
        read_issued(issue(1, answer=answer[8:]), shape)


def test_a_stored_stream_tells_what_was_issued(path):
    settings = json.dumps({"start": [0.0, 0.0]})
    with Database(path) as database:
        store = Store(database, "main")
        store.create(settings, replace(saved(0), report=b""))
        stream = StoredStream(database, "main")
        assert (stream.last_issued(), stream.issued("for 1")) == (None, None)
        answer = issued_bytes(np.array([1.0, 2.0]), np.zeros(2), np.ones(2))
        head = store.issue(store.load(), issue(1, answer=answer))
        store.issue(head, issue(2, answer=answer + answer))
        found = StoredStream(database, "main").issued("for 1")
        assert found.decision.tolist() == [1.0, 2.0]
        with pytest.raises(StoreError, match="expected 6 numbers, got 12"):
            StoredStream(database, "main").last_issued()


def test_a_definition_that_is_no_text_any_more_is_recovered(path):
    """SQLite quotes it, and Python cannot read the quotation."""
    filled(path, 2, 3)[0].database.close()
    with open(path, "rb") as file:
        page = file.read(4096)
    damage(path, page.index(b"TABLE decisions (place"), b"\x96")
    assert check(path).problems
    (told,) = recover(path).streams
    assert (told.kept, told.issued, told.lost_issued) == (2, 3, 0)
    assert not check(path).problems


def test_several_that_issue_at_once_lose_nothing(path):
    filled(path, 1, 0)[0].database.close()

    def work(who):
        with Database(path) as database:
            store = Store(database, "main")
            for number in range(20):
                while True:
                    with suppress(StaleStateError):
                        store.issue(store.load(), issue(number, id=f"{who} {number}"))
                        break

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    assert not check(path).problems
    names = [one.id for one in issues_in(path)]
    assert sorted(names) == sorted(f"{who} {n}" for who in range(3) for n in range(20))
    assert [n for n in names if n[0] == "1"] == [f"1 {n}" for n in range(20)]


@pytest.mark.parametrize("value", ["x", -1, 2, 4, 1 << 50])
def test_a_forged_number_of_decisions_is_refused(path, value):
    """Also if whoever wrote it computed the checksum as well."""
    filled(path, 2, 3)[0].database.close()
    with Database(path) as database:
        database.prepare_to_write()
        database.rows("UPDATE heads SET issued = ?", value)
        *fields, _ = database.row("SELECT * FROM heads")
        database.insert("heads", *fields)
    with Database(path) as database:
        store = Store(database, "main")
        for ask in (store.last_issued, lambda: store.verify(store.load())):
            with pytest.raises(StoreError, match=r"issued decision .* is damaged or missing"):
                ask()

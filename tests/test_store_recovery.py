"""Files that are refused stay as they are; what is good in them can be had, and losses are said."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from test_store import FILES, batch, contents, fill, saved

from postgrad.errors import StoreError
from postgrad.store import Database, Store, schema
from postgrad.store.opening import open_checked
from postgrad.store.recovery import backup, check, recover, restore
from postgrad.store.recovery.checking import Checked
from postgrad.store.recovery.recover import _rebuilt
from postgrad.store.state_rows import EVERY


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.db")


def there(path):
    """The bytes of database, log and marker; readers may leave an empty log."""
    found = {s: Path(path + s).read_bytes() for s in FILES if os.path.exists(path + s)}
    return {s: data for s, data in found.items() if data or s != "-wal"}


def as_left(path, count, *others):
    """A copy of a store that is open, as a crash leaves it."""
    store, _ = fill(path, count)
    for name, more in others:
        fill(path, more, name)[0].database.close()
    copy = path.replace("a.db", "left.db")
    for suffix in FILES:
        shutil.copy(path + suffix, copy + suffix)
    store.database.close()
    return copy


def change(path, *statements):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def damage(path, place, data):
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(data)


def cut_log(path):
    os.truncate(path + "-wal", os.path.getsize(path + "-wal") - 5000)


REFUSED = {
    "log cut short": cut_log,
    "empty": lambda path: os.truncate(path, 0),
    "gone": os.remove,
    "log damaged": lambda path: damage(path + "-wal", 5000, b"12345678"),
    "marker of another": lambda path: shutil.copy(
        fill(path + "2", 3)[0].database.path + "-acknowledged", path + "-acknowledged"
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_file_is_not_changed(path, what):
    """The log above all: SQLite would copy it into the database, and delete it."""
    path = as_left(path, 5)
    REFUSED[what](path)
    before = there(path)
    assert before["-wal"]
    with pytest.raises(StoreError, match="postgrad store recover"):
        Store(Database(path), "main").load()
    assert there(path) == before
    assert check(path).problems
    assert there(path) == before


def test_a_state_that_is_refused_leaves_the_log(path):
    """Also where the file opens, and a stream in it is damaged."""
    path = as_left(path, 3, ("other", 2))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE heads SET state = zeroblob(8) WHERE stream = 1")
    keeper = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    keeper.execute("SELECT * FROM heads").fetchall()
    connection.close()  # without copying the log, since another has it open
    keeper.close()
    before = there(path)
    with Database(path) as database, pytest.raises(StoreError, match="the state is damaged"):
        Store(database, "main").load()
    assert there(path) == before
    with Database(path) as database:
        assert Store(database, "other").load().saved == saved(2)


def test_what_is_only_read_is_not_changed(path):
    path = as_left(path, 5)
    before = there(path)
    assert len(contents(path)[2]) == 5
    assert there(path) == before
    with Database(path) as database:
        store = Store(database, "main")
        store.append(store.load(), batch(6), saved(6), None)
    assert not os.path.exists(path + "-wal")
    assert len(contents(path)[2]) == 6


def without(index, condition):
    """Statements that leave rows out of an index, with nothing else to be seen."""
    sql = schema.TABLES[index]
    quoted = sql.replace("'", "''")
    return (
        f"DROP INDEX {index}",
        f"{sql} AND {condition}",
        f"UPDATE sqlite_schema SET sql = '{quoted}' WHERE name = '{index}'",
    )


@pytest.mark.parametrize("large", [False, True])
def test_an_index_that_lacks_an_id_is_noticed_at_any_size(path, monkeypatch, large):
    """A batch that is not found would count twice."""
    monkeypatch.setattr(open_checked, "SMALL", 0 if large else 1 << 20)
    fill(path, 5)[0].database.close()
    change(path, *without("ids", "id <> 'id 3'"))
    with pytest.raises(StoreError, match="missing from index ids"), Database(path) as database:
        Store(database, "main").find("id 3")


@pytest.mark.parametrize("condition", ["place % 2", "alarm <> 'alarm'"])
def test_an_index_that_lacks_an_alarm_is_noticed_at_any_size(path, monkeypatch, condition):
    monkeypatch.setattr(open_checked, "SMALL", 0)
    fill(path, 9)[0].database.close()
    assert len(contents(path)[4]) == 2
    change(path, *without("alarms", condition))
    with (
        pytest.raises(StoreError, match="index of alarms is damaged"),
        Database(path) as database,
    ):
        Store(database, "main").alarms()


def test_a_stream_that_the_index_lacks_is_not_made_again(path, monkeypatch):
    monkeypatch.setattr(open_checked, "SMALL", 0)
    fill(path, 1, "one")[0].database.close()
    fill(path, 1, "two")[0].database.close()
    # The index of names has one name less: the count of entries on its page says so.
    connection = sqlite3.connect(path)
    select = "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_streams_1'"
    (page,) = connection.execute(select).fetchone()
    connection.close()
    damage(path, (page - 1) * 4096 + 3, b"\0\1")
    with Database(path) as database, pytest.raises(StoreError, match=r"index|missing"):
        Store(database, "two")


def test_the_number_of_a_lost_header_is_not_given_again(path):
    """States of other streams refer to it, and would be read as something else."""

    def new(stage, name):
        return replace(saved(stage), header=f'[["{name}", "float64", [50]]]')

    fill(path, 1, "other")[0].database.close()
    store, head = fill(path, 2)
    store.append(head, batch(3), new(3, "b"), None)
    store.database.connection.execute("DELETE FROM array_headers WHERE number = 3")
    again = Store(Database(path), "other")
    with pytest.raises(StoreError, match="a header of stored arrays is missing"):
        again.append(again.load(), batch(2), new(2, "c"), None)


def test_a_list_of_tables_that_was_lost_is_not_made_anew(path):
    fill(path, 2)[0].database.close()
    os.remove(path + "-acknowledged")
    damage(path, 103, b"\0\0")  # the number of its entries
    before = there(path)
    with pytest.raises(StoreError, match=r"list of tables is damaged|malformed"):
        Database(path)
    assert there(path) == before


def test_lost_commits_are_noticed_and_said(path):
    """A log that is cut short looks to SQLite like one that never was longer."""
    path = as_left(path, 5)
    cut_log(path)
    with pytest.raises(StoreError, match=r"1 acknowledged batches .* are missing.*store recover"):
        Store(Database(path), "main").load()
    (told,) = recover(path).streams
    assert (told.kept, told.missing, told.lost) == (4, 1, 0)
    assert "up to 1 later batches, which were acknowledged, left no trace" in str(told)
    recovered = Store(Database(path), "main")
    head = recovered.load()
    assert head.saved == saved(4)
    recovered.append(head, batch(5), saved(5), None)
    recovered.database.close()
    assert contents(path)[1] == saved(5)


@pytest.mark.parametrize("empty", [False, True])
def test_a_lost_database_is_noticed(path, empty):
    fill(path, 2)[0].database.close()
    os.remove(path)
    if empty:
        Path(path).touch()
    before = sorted(os.listdir(os.path.dirname(path)))
    with pytest.raises(StoreError, match=r"has commits, but the database has not \(it is empty"):
        Store(Database(path), "main")
    with pytest.raises(StoreError, match="nothing in it is good"):
        recover(path)
    assert sorted(os.listdir(os.path.dirname(path))) == before


def test_recovery_keeps_what_is_good_and_the_damaged_files(path):
    fill(path, 2 * EVERY + 9)[0].database.close()
    fill(path, 4, "other")[0].database.close()
    change(path, f"UPDATE batches SET rows = x'00' WHERE id = 'id {EVERY + 5}' AND stream = 1")
    before = there(path)
    done = recover(path)
    assert {s: (done.folder / f"a.db{s}").read_bytes() for s in before} == before
    main, other = done.streams
    assert (main.kept, main.stages, main.state) == (EVERY + 4, 2 * EVERY + 9, EVERY)
    # That of the damaged one is not known, that of the one after it is.
    assert main.lost_ids == tuple(f"id {n}" for n in range(EVERY + 6, 2 * EVERY + 10))
    assert (other.kept, other.lost) == (4, 0)
    assert f"lost are the batches of stages {EVERY + 5} to {2 * EVERY + 9}" in str(done)
    assert check(path) == Checked({"main": EVERY + 4, "other": 4}, ())
    with Database(path) as database:
        store = Store(database, "main")
        assert store.load().saved.is_missing
        assert store.checkpoint(1 << 40) == saved(EVERY)
        assert list(store.batches(1, EVERY + 4)) == [(n, batch(n)) for n in range(1, EVERY + 5)]
        assert Store(database, "other").load().saved == saved(4)
    assert recover(path).folder is None  # it is good now


def test_pages_without_their_tables_are_recovered(path):
    """The first page has the list of tables; SQLite can read nothing without it."""
    fill(path, EVERY + 3)[0].database.close()
    expected = contents(path)
    damage(path, 0, bytes(4096))
    (told,) = recover(path).streams
    assert (told.kept, told.lost, told.state) == (EVERY + 3, 0, EVERY + 3)
    assert contents(path) == expected


@pytest.mark.parametrize("marked", [True, False])
def test_a_log_is_read_behind_a_damaged_page_if_that_was_acknowledged(path, marked):
    """Else commits that were broken off, and refused, would count."""
    path = as_left(path, 5)
    size = os.path.getsize(path + "-wal")
    damage(path + "-wal", size - 4 * 4120, b"damaged")
    if not marked:
        os.remove(path + "-acknowledged")
        expected = contents(path)[2]
        (told,) = _rebuilt(path, path + "-new")
        assert told.kept == len(expected) < 5
        return
    assert [told.kept for told in recover(path).streams] == [5]
    assert len(contents(path)[2]) == 5


def test_a_stream_whose_name_is_lost_is_said_to_be(path):
    for name in ("one", "two", "three"):
        fill(path, 3, name)[0].database.close()
    change(path, "UPDATE streams SET settings = 'other' WHERE name = 'two'")
    done = recover(path)
    assert [(s.name, s.kept, s.lost) for s in done.streams] == [
        ("one", 3, 0), (None, 0, 3), ("three", 3, 0),
    ]  # fmt: skip
    assert "stream 2, whose name is lost: 0 of 3 batches were kept" in str(done)
    with Database(path) as database:
        assert database.streams() == ["one", "three"]
    assert contents(path, "three")[2] == [(n, batch(n)) for n in (1, 2, 3)]
    fill(path, 2, "two")[0].database.close()
    assert not check(path).problems


OPEN = """
import sys
from postgrad.store import Database
database = Database(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_nobody_may_have_the_file_open(path):
    store, _ = fill(path, 3)
    backup(path, path + ".backup")
    actions = (lambda: recover(path), lambda: restore(path + ".backup", path))
    for action in actions:
        with pytest.raises(StoreError, match="this process has it open"):
            action()
    store.database.close()
    before = there(path)
    other = subprocess.Popen(
        [sys.executable, "-c", OPEN, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"open\n"
    for action in actions:
        with pytest.raises(StoreError, match="another process has it open"):
            action()
    other.communicate()
    assert there(path) == before
    assert restore(path + ".backup", path).stages == {"main": 3}


def test_a_backup_can_be_restored(path):
    """By hand it is refused, since the marker tells of later commits."""
    store, _ = fill(path, 3)
    saved_to = path + ".backup"
    assert backup(path, saved_to) == {"main": 3}
    with pytest.raises(StoreError, match="exists"):
        backup(path, saved_to)
    fill(path, 2)
    store.database.close()
    fill(path, 1, "new")[0].database.close()
    late = there(path)
    done = restore(saved_to, path)
    assert done.stages == {"main": 3}
    assert {s: (done.folder / f"a.db{s}").read_bytes() for s in late} == late
    assert len(contents(path)[2]) == 3
    fill(path, 4)[0].database.close()
    assert len(contents(path)[2]) == 7
    assert not check(path).problems
    damage(saved_to, Path(saved_to).read_bytes().index(b"rows 2"), b"rows 3")
    before = there(path)
    with pytest.raises(StoreError, match="damaged"):
        restore(saved_to, path)
    assert there(path) == before


def test_a_file_that_lacks_commits_is_not_backed_up(path):
    path = as_left(path, 5)
    cut_log(path)
    with pytest.raises(StoreError, match=r"1 acknowledged batches .* are missing"):
        backup(path, path + ".backup")
    assert not os.path.exists(path + ".backup")


@pytest.mark.parametrize("at", [1, 2])
def test_a_replacement_that_is_broken_off_is_not_taken_for_a_new_file(path, monkeypatch, at):
    fill(path, 3)[0].database.close()
    damage(path, 0, bytes(200))
    real, steps = os.replace, []

    def fail(source, target):
        steps.append(target)
        if len(steps) == at:
            raise OSError("broken off")
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="broken off"):
            recover(path)
    with pytest.raises(StoreError, match="acknowledged batches are missing"):
        Database(path)
    (folder,) = Path(path).parent.glob("a.db-damaged-*")
    for name in folder.iterdir():
        shutil.copy(name, path + name.name[4:])
    assert [told.kept for told in recover(path).streams] == [3]


def test_the_commands_need_no_jax(path):
    fill(path, 3)[0].database.close()
    code = f"""
import sys
from typer.testing import CliRunner
from postgrad.cli import app
run = lambda *a: CliRunner().invoke(app, ["store", *a])
path = {path!r}
assert run("check", path).exit_code == 0
assert run("backup", path, path + ".b").exit_code == 0
with open(path, "r+b") as file:
    file.seek(0)
    file.write(bytes(200))
refused = run("check", path)
assert refused.exit_code == 5 and "recover" in refused.output, refused.output
print(run("recover", path, "--json").stdout)
assert "1 stream with 3 batches" in run("restore", path + ".b", path).stdout
assert run("check", path + "none").exit_code == 5
assert "jax" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (told,) = json.loads(done.stdout)["streams"]
    assert (told["kept"], told["lost"], told["name"]) == (3, 0, "main")

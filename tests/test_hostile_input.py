"""Clumsy or hostile input: refused in a sentence that says where, never with a traceback."""

import contextlib
import csv
import gc
import io
import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from test_spec_agents import SPEC, call, shop
from typer.testing import CliRunner

from postgrad import cli
from postgrad.cli import app
from postgrad.cli.output import say
from postgrad.cli.run import run
from postgrad.errors import DataError, SpecificationError, StoreError
from postgrad.monitoring import Alarm
from postgrad.spec import load
from postgrad.spec.build import build
from postgrad.spec.tables import parquet
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.output_files import text_cell
from postgrad.store import Database
from postgrad.store.batch_rows import chained
from postgrad.store.commit_marker import CommitMarker

__all__ = ["shop"]  # a fixture


def written_to(monkeypatch, file):
    monkeypatch.setattr("sys.stdout", file)
    with pytest.raises(SystemExit) as ended:
        run(Path("shop.toml"), "data.csv")
    return ended.value.code


def test_a_reader_that_ends_early_is_no_success(shop, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as file:
        assert written_to(monkeypatch, file) == 1
    assert "not everything was written" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no full device")
def test_a_full_output_is_an_error_in_words(shop, monkeypatch, capsys):
    with open("/dev/full", "w") as file:
        assert written_to(monkeypatch, file) == 1
    assert "cannot write to standard output: No space left" in capsys.readouterr().err
    with open("/dev/full", "w") as file:  # commands that print after their work
        monkeypatch.setattr("sys.stdout", file)
        monkeypatch.setattr("sys.argv", ["postgrad", "init", "new.toml"])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert ended.value.code == 1


TWICE = "date,rolls,bread\n2026-01-01,3,5\n\n2026-01-02,4,7\n2026-01-01,3,5\n2026-01-03,4,7\n"


@pytest.mark.parametrize("command", ["run", "backtest"])
def test_a_row_that_comes_twice_in_a_file_is_refused(shop, command):
    (shop / "twice.csv").write_text(TWICE)
    done = call(command, "shop.toml", "twice.csv", code=4)
    assert "twice.csv, line 5: 'rolls' has '2026-01-01' also in twice.csv, line 2" in done.stderr


def test_rows_that_are_delivered_again_count_once(shop):
    again = call("run", "shop.toml", "-", input=TWICE).stdout.splitlines()
    assert again[0] == again[2]
    assert json.loads(again[3])["stage"] == {"rolls": 3, "bread": 3}
    scored = json.loads(call("backtest", "shop.toml", "-", "--json", input=TWICE).stdout)
    assert scored["days"] == scored["scored"] == 1
    other = TWICE.replace("01-03,4", "01-02,4").replace("2026-01-02,4,7\n2", "2026-01-02,4,8\n2")
    refused = call("backtest", "shop.toml", "-", input=other, code=4).stderr
    assert "line 6: '2026-01-02' came before, in standard input, line 4, with other data" in refused


def test_rows_of_one_date_with_ids_of_their_own_all_count(shop):
    (shop / "shop.toml").write_text(SPEC.replace("[data]", '[data]\nid = "no"'))
    rows = [("date", "rolls", "bread", "no", "r", "b"), ("2026-01-01", 3, 5, 1, 6, 6)]
    rows += [("2026-01-02", 4, 7, 2, 6, 6), ("2026-01-01", 3, 5, 3, 6, 6)]
    rows += [("2026-01-03", 4, 7, 4, 6, 6)]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (shop / "data.csv").write_text(text)
    lines = call("run", "shop.toml", "data.csv").stdout.splitlines()
    assert json.loads(lines[-1])["stage"] == {"rolls": 4, "bread": 4}
    scored = json.loads(call("backtest", "shop.toml", "data.csv", "--json").stdout)
    assert (scored["days"], scored["scored"]) == (1, 1)
    (shop / "data.csv").write_text(text.replace("5,3,6", "5,3,7"))
    spec = (shop / "shop.toml").read_text().replace("[cost]", 'decision = ["r", "b"]\n[cost]')
    (shop / "shop.toml").write_text(spec)
    refused = call("backtest", "shop.toml", "data.csv", code=4).stderr
    assert "line 4: 'rolls' has two decisions in force on 2026-01-01" in refused


def forged(path, table, column, value):
    """Put a value into the last row of a table, with the checksums that go with it."""
    with Database(path) as database:
        database.prepare_to_write()
        keys = {"batches": "place", "array_headers": "number"}
        key = keys.get(table, "stream")
        (row,) = database.rows(f"SELECT max({key}) FROM {table}")[0]
        names = [name for _, name, *_ in database.rows(f"PRAGMA table_info({table})")]
        database.rows(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", value, row)
        *fields, _ = database.row(f"SELECT * FROM {table} WHERE {key} = ?", row)
        if table == "batches":
            (before,) = database.row("SELECT chain FROM batches WHERE place = ?", row - 1)
            *fields, _, context = database.row("SELECT * FROM batches WHERE place = ?", row)
            chain = chained(before, row, *fields[2:], context)
            database.rows("UPDATE batches SET chain = ? WHERE place = ?", chain, row)
            database.rows("UPDATE heads SET chain = ? WHERE stream = ?", chain, fields[1])
            table, key, row = "heads", "stream", fields[1]
            *fields, _ = database.row("SELECT * FROM heads WHERE stream = ?", row)
        checksum = database.checksum(*fields)
        database.rows(f"UPDATE {table} SET checksum = ? WHERE {key} = ?", checksum, row)
        assert column in names


FORGED = {
    "streams": {
        "name": ['["a"]', "[1, 2]", b"x"],
        "settings": ["", "[]", "{}", b"\xff", "1" * 5000, "[" * 100_000],
    },
    "heads": {
        "stage": ["x", -1, 2**62],
        "commits": ["x", b"x"],
        "fixed_since": ["x", 7],
        "header": ["x", 99],
        "state": ["x", b"x"],
        "report": ["x", b""],
        "counters": ["x", b"", b"x" * 51],
    },
    "array_headers": {"header": ["", "{}", "[[1]]", '[["a", "O", [1]]]', '[["a", "f8", ["x"]]]']},
    "batches": {
        "time": ["x", 1e300],
        "x": ["x", b"x"],
        "rows": ["x", b"", b"x"],
        "answer": ["x", b"", b"x" * 8],
        "alarm": ["", "[]", "{}", b"x"],
        "id": [b"x"],
        "context": ["", "{", b"x"],
    },
}
FORGED_VALUES = [
    (table, column, value)
    for table, columns in FORGED.items()
    for column, values in columns.items()
    for value in values
]


def test_forged_databases_are_refused_in_words(shop):
    """Whatever a reading command meets there: it answers, or ends with an error that is ours."""
    call("run", "shop.toml", "data.csv")
    original, refused = (shop / "shop.db").read_bytes(), 0
    for forgery in FORGED_VALUES:
        (shop / "shop.db").write_bytes(original)
        forged(shop / "shop.db", *forgery)
        for command in (["decide"], ["export", "out.csv"], ["run", "data.csv"]):
            done = CliRunner().invoke(app, [command[0], "shop.toml", *command[1:]])
            assert isinstance(done.exception, SystemExit | None), (forgery, done.exception)
            refused += done.exit_code == 5
            assert done.exit_code in (0, 5) or "other data" in done.output, (forgery, done.output)
            if done.exit_code == 5:
                assert "shop.db" in done.stderr
    assert refused > 2 * len(FORGED_VALUES)


def test_a_database_that_is_dropped_lets_go_of_its_files(tmp_path):
    """At once: also if Python's search for circles of references does not run."""
    gc.collect()
    gc.disable()
    try:
        before = len(os.listdir("/proc/self/fd"))
        for number in range(50):
            Database(tmp_path / f"{number}.db").streams()
        assert len(os.listdir("/proc/self/fd")) == before
    finally:
        gc.enable()


def test_the_commit_marker_is_a_plain_file(tmp_path):
    path, marker = tmp_path / "a.db", tmp_path / "a.db-acknowledged"
    other = tmp_path / "other"
    for put in (lambda: marker.symlink_to(other), lambda: os.mkfifo(marker), marker.mkdir):
        put()
        with pytest.raises(StoreError, match=r"a\.db-acknowledged must be a plain file"):
            Database(path)
        with pytest.raises(OSError, match=r"a\.db-acknowledged"):
            CommitMarker(str(path)).write(bytes(16), {1: 1})
        assert not other.exists()
        marker.rmdir() if marker.is_dir() else marker.unlink()


def test_an_export_is_never_written_over_what_it_is_made_from(shop):
    state = shop / "state.json"
    call("run", "shop.toml", "data.csv", "--state", state)
    for link, target in (("soft.csv", state), ("marker.csv", f"{state}-acknowledged")):
        (shop / link).symlink_to(target)
    (shop / "spec.csv").symlink_to("shop.toml")
    before = state.read_bytes()
    for out in ("state.json", "soft.csv", "marker.csv", "spec.csv"):
        done = call("export", "shop.toml", out, "--state", state, code=1)
        assert "would be overwritten" in done.stderr
    os.link(state, shop / "hard.csv")  # a database of two names is not even opened
    assert "hard link" in call("export", "shop.toml", "hard.csv", "--state", state, code=5).stderr
    (shop / "hard.csv").unlink()
    assert state.read_bytes() == before
    call("export", "shop.toml", "out.csv", "--state", state)
    call("export", "shop.toml", "out.csv", "--state", state)  # an export before it is replaced
    (shop / "decisions.csv").write_text((shop / "data.csv").read_text())
    done = call("backtest", "shop.toml", "decisions.csv", "--out", ".", code=1)
    assert "would be overwritten" in done.stderr


def test_text_is_no_formula_and_no_escape_code(shop, monkeypatch):
    for name in ("shop.toml", "data.csv"):
        text = (shop / name).read_text()
        (shop / name).write_text(text.replace("bread", "=cmd()").replace("2026-01-04", "-2+3"))
    call("run", "shop.toml", "data.csv")
    call("export", "shop.toml", "out.csv", "--item", "=cmd()")
    with open("out.csv", newline="") as file:
        _, *rows = csv.reader(file)
    assert {row[0] for row in rows} == {"'=cmd()"}
    assert [row[3] for row in rows] == ["2026-01-01", "2026-01-02", "2026-01-03", "'-2+3"]
    assert all(float(row[5]) for row in rows)
    call("backtest", "shop.toml", "data.csv", "--out", "out")
    assert "\n-2+3" not in (shop / "out" / "decisions.csv").read_text()
    assert ",=cmd()" not in (shop / "out" / "decisions.csv").read_text()
    assert [text_cell(v) for v in ("-5", "+1e3", "@a", "\tb", -5.0, "a=b")] == [
        "-5", "+1e3", "'@a", "'\tb", -5.0, "a=b",
    ]  # fmt: skip

    escape = chr(27) + "[2J"
    forged(shop / "shop.db", "streams", "name", json.dumps([f"{escape}a", None]))
    assert escape not in call("decide", "shop.toml", code=5).output
    monkeypatch.setattr("sys.stdout", shown := io.StringIO())
    say(f"{escape}\na")
    assert shown.getvalue() == "\\x1b[2J\na\n"


WORDS = {
    "a number of 4,300 digits": (f"start = {'9' * 5000}", "no TOML"),
    "an endless whole number": (f"start = 0x{'9' * 9000}", "start"),
    "bytes": (b"title = '\xff'", "no TOML"),
    "too many draws": ("[settings]\nsamples = [4096, 64]", "settings: .* at most 131072"),
    "too many steps": (
        "[settings]\nsamples = [131072]\niterations = 10000",
        "settings: .* multiply to 1310720000; at most 1048576",
    ),
    "too large a grid": (
        '[belief]\nkind = "grid"\nforget = [0.9, 1]\n'
        "levels.a = {from = 1, to = 2, points = 1000}\nlevels.b = {from = 1, to = 2, points = 600}",
        "belief: the grid has 1200000 points",
    ),
    "a long title": (f"title = '{300_000 * 'x'}'", "title: .* at most 200 characters"),
    "dots in a title": (f"title = '{101 * '.'}'\nb = 1", "wrong in"),
    "dots in a long title": ('title = """a""""\n' + "a." * 101 + "b = 1", "nested too deeply"),
    "dots after a title": ('a = {b = """a"""", ' + "a." * 101 + "b = 1}", "nested too deeply"),
    "a hidden key": ("'a'." * 101 + "b = 1", "nested too deeply"),
    "an escape code": ('title = "\\u001b[2J"', "title: must have no control characters"),
    "an escape code in a name": ('[data]\nvalue = "\\u001b[2J"', r"data.value: must have no"),
}


def test_a_mark_at_the_beginning_of_a_specification_is_read_over(tmp_path):
    example = (Path(__file__).parents[1] / "examples" / "yaz.toml").read_bytes()
    (tmp_path / "marked.toml").write_bytes(b"\xef\xbb\xbf" + example)
    assert load(tmp_path / "marked.toml").title


@pytest.mark.parametrize("name", WORDS)
def test_hostile_specifications_are_refused_by_name(tmp_path, name):
    content, words = WORDS[name]
    path = tmp_path / "hostile.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SpecificationError, match=f"(?s)hostile.toml.*{words}") as refused:
        load(path)
    if name == "dots in a title":
        assert "title" not in str(refused.value)


@pytest.mark.parametrize(
    ("items", "belief", "settings", "words"),
    [
        (300, "", "", "300 items that share a budget take 1228800 draws; at most 1048576"),
        (300, "", 'preset = "paper"', None),
        (
            20,
            'kind = "grid"\nlevels.mean = {from = 1, to = 9, points = 60000}',
            "",
            "20 items that share a budget have grids of 1200000 points; at most 1000000",
        ),
    ],
)
def test_what_items_that_share_a_budget_take_is_bounded(tmp_path, items, belief, settings, words):
    path, names = tmp_path / "shop.toml", [f"i{number}" for number in range(items)]
    content = SPEC.replace('["rolls", "bread"]', json.dumps(names)).replace("[4, 2]", "4")
    content = content.replace('kind = "box"', 'kind = "budget"\ntotal = 9999')
    content = content.replace('preset = "paper"', settings)
    if belief:
        content = content.replace('kind = "gamma"\nshape = 2\nrate = 0.2', belief)
    path.write_text(content)
    with pytest.raises(SpecificationError, match=words) if words else contextlib.nullcontext():
        build(load(path), names)


def table(**columns):
    return pyarrow.table(columns)


def test_hostile_parquet_is_refused_by_row(tmp_path, monkeypatch):
    path = tmp_path / "hostile.parquet"
    far = 300_000 * 31_556_952  # seconds until the year 301970
    text = pyarrow.StringArray.from_buffers(
        2, *(pyarrow.py_buffer(b) for b in (np.array([0, 1, 2], "i4").tobytes(), b"a\xff"))
    )
    hostile = {
        "row 2 cannot be read": [
            table(a=text),
            table(a=pyarrow.array([0, far], pyarrow.timestamp("s"))),
        ],
        "a cell after row 0 has more than 1000000": [table(a=["x" * 1_000_001] * 3)],
        "it has 70000000 rows": [table(a=pyarrow.nulls(70_000_000, pyarrow.bool_()))],
        "row group 0 has .* bytes when decompressed": [table(a=np.zeros(1 << 19))],
    }
    for words, tables in hostile.items():
        for content in tables:
            if "group" in words:
                monkeypatch.setattr(parquet, "_LARGEST_GROUP", 1 << 20)
            pyarrow.parquet.write_table(
                content, path, compression="zstd", row_group_size=1 << 30,
                use_dictionary="group" not in words,
            )  # fmt: skip
            with pytest.raises(DataError, match=f"hostile.parquet: {words}"):
                list(rows(path))


def test_texts_that_come_often_take_no_memory(tmp_path):
    """A kilobyte of Parquet that is a gigabyte of text is read a few rows at a time."""
    path = tmp_path / "a.parquet"
    often = pyarrow.DictionaryArray.from_arrays(np.zeros(1000, "i4"), ["x" * 1_000_000])
    nested = pyarrow.array([[1, 2]] * 1000)
    blocks = pyarrow.array([bytes(9)] * 1000, pyarrow.binary(9))
    content = table(a=often, b=nested, c=blocks, n=range(1000))
    pyarrow.parquet.write_table(content, path, store_schema=False)
    pool = pyarrow.default_memory_pool()
    before = pool.max_memory()
    assert path.stat().st_size < 1 << 18
    tracemalloc.start()
    try:
        found = sum(row["n"] + len(row["a"]) for row in rows(path))
        assert tracemalloc.get_traced_memory()[1] < 100 << 20
        assert pool.max_memory() < max(before + 1, 100 << 20)
    finally:
        tracemalloc.stop()
    assert found == 999 * 500 + 1000 * 1_000_000
    assert list(next(iter(rows(path)))) == ["a", "n"]


def test_what_is_no_plain_file_is_no_database(tmp_path):
    os.mkfifo(tmp_path / "pipe.db")
    (tmp_path / "folder.db").mkdir()
    for path in (tmp_path / "pipe.db", tmp_path / "folder.db", Path(os.devnull)):
        with pytest.raises(StoreError, match=f"{path.name}: it must be a plain file"):
            Database(path)


def test_a_specification_that_cannot_be_run_is_named(shop):
    split = '[split_by]\nkind = "weekday"\npooling = "partial"\n\n[backtest]'
    (shop / "shop.toml").write_text(SPEC.replace("[backtest]", split))
    done = call("run", "shop.toml", "data.csv", code=3)
    assert "error: shop.toml: pooling: only beliefs such as" in done.stderr


def test_an_alarm_about_a_huge_number_is_short():
    alarm = Alarm("outlier", 1, 1, 1e300, "location", (), 0.9, 1e300, 1e-3)
    assert len(str(alarm)) < 300

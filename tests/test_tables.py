"""Rows of data: what is read, and what is refused."""

import io
import json

import numpy as np
import numpyro.distributions as dist
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import postgrad as pg
from postgrad import errors
from postgrad.numerics.validate import as_matrix
from postgrad.spec.tables import files as tables

ROWS = [{"date": "2026-01-01", "demand": 3}, {"date": "2026-01-02", "demand": 4}]


def written(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


FILES = {
    "a.csv": "date,demand\n2026-01-01,3\n2026-01-02,4\n",
    "bom.csv": b"\xef\xbb\xbfdate,demand\r\n2026-01-01,3\r\n2026-01-02,4",
    "a.jsonl": "".join(json.dumps(row) + "\n\n" for row in ROWS),
}


@pytest.mark.parametrize("name", FILES)
def test_files_have_the_same_rows(tmp_path, name):
    path = written(tmp_path / name, FILES[name])
    found = [
        (tables.text(row, "date", "row"), tables.number(row, "demand", "row"))
        for row in tables.rows(path)
    ]
    assert found == [("2026-01-01", 3.0), ("2026-01-02", 4.0)]


@pytest.mark.parametrize("make", [pandas.DataFrame, polars.DataFrame, pyarrow.Table.from_pylist])
def test_parquet(tmp_path, make):
    pyarrow.parquet.write_table(pyarrow.table(make(ROWS)), tmp_path / "a.parquet")
    assert list(tables.rows(tmp_path / "a.parquet")) == ROWS


def test_a_frame_is_a_batch_and_a_table_of_demand():
    problem = pg.problems.quadratic.univariate_dependent()
    frame = polars.DataFrame({"seen": [1.0, 2.0]})
    one, other = (
        pg.Agent(problem.problem, problem.belief, 0.0, **pg.presets.paper()) for _ in range(2)
    )
    assert one.observe(frame) == other.observe([1.0, 2.0])
    matrix, names = as_matrix(pandas.DataFrame({"a": [1, 2], "b": [0.5, np.nan]}))
    assert names == ["a", "b"]
    np.testing.assert_array_equal(matrix, [[1.0, 0.5], [2.0, np.nan]])
    with pytest.raises(errors.DataError, match="'c' must hold numbers"):
        as_matrix(pandas.DataFrame({"c": ["x"]}))


BROKEN = {
    "no header.csv": ("", "name the columns"),
    "twice.csv": ("a,a\n1,2\n", "each once"),
    "ragged.csv": ("a,b\n1\n", "line 2 has 1 cells"),
    "quote.csv": ('a\n"' + "x\n" * 600_000, "more than 1000000 characters"),
    "long.csv": ("a\n" + "1" * 2_000_000, "more than 1000000 characters"),
    "long.jsonl": ('{"a": "' + "x" * 2_000_000 + '"}', "more than 1000000 characters"),
    "bytes.csv": (b"a\n\xff\xfe\n", "UTF-8"),
    "nul.csv": ("a\n\0\n", None),
    "deep.jsonl": ("[" * 100_000 + "\n", "nested too deeply"),
    "nested.jsonl": ('{"a": [1]}\n', "flat"),
    "nan.jsonl": ('{"a": NaN}\n', "NaN is no number"),
    "list.jsonl": ("[1]\n", "flat"),
    "pickle.jsonl": (b"\x80\x04cposix\nsystem\n.", None),
    "pickle.parquet": (b"\x80\x04cposix\nsystem\n.", "no Parquet"),
    "data.xlsx": ("a", "must be .csv"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(tmp_path, name):
    content, words = BROKEN[name]
    path = written(tmp_path / name, content)
    with pytest.raises(errors.DataError, match=words):
        [tables.number(row, "a", "row 1") for row in tables.rows(path)]


def test_only_rows_are_bounded_not_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_LONGEST", 40)
    for name, line in (("a.csv", "12345,6\n"), ("a.jsonl", '{"a": 12345}\n')):
        path = tmp_path / name
        path.write_text(("a,b\n" if name == "a.csv" else "") + 30 * line)
        assert len(list(tables.rows(path))) == 30


def test_what_does_not_exist_is_said(tmp_path):
    with pytest.raises(errors.DataError, match=r"cannot read .*No such file"):
        list(tables.rows(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    "value", ["nan", "inf", "-inf", "1e999", "x", True, "9" * 500, "0x10", "1_0"]
)
def test_only_finite_numbers_are_numbers(value):
    with pytest.raises(errors.DataError, match="row 7: 'a' must be a finite number"):
        tables.number({"a": value}, "a", "row 7")


def test_empty_cells_are_unknown_and_missing_columns_are_named():
    assert tables.number({"a": ""}, "a", "row 1") is None
    with pytest.raises(errors.DataError, match="no column 'b', only 'a'"):
        tables.number({"a": 1}, "b", "row 1")
    for text in ("", "a\nb", "x" * 600, None):
        with pytest.raises(errors.DataError, match="short text"):
            tables.text({"a": text}, "a", "row 1")


def test_standard_input_is_csv_or_json(monkeypatch):
    for content in (FILES["a.csv"], FILES["a.jsonl"]):
        stream = io.TextIOWrapper(io.BytesIO(content.encode()))
        monkeypatch.setattr("sys.stdin", stream)
        assert [int(row["demand"]) for row in tables.rows("-")] == [3, 4]


def test_a_followed_file_waits_for_whole_lines(tmp_path, monkeypatch):
    path = written(tmp_path / "a.csv", "a\n1\n2")
    more = iter(["", "2\n", "3\n"])

    def wait(_):
        with path.open("a") as file:
            file.write(next(more))

    monkeypatch.setattr(tables.time, "sleep", wait)
    rows = tables.rows(path, follow=True)
    assert [next(rows)["a"] for _ in range(3)] == ["1", "22", "3"]


@pytest.mark.parametrize("make", [pandas.Series, polars.Series])
def test_a_single_column_is_a_batch_and_a_demand(make):
    """A Series has the Arrow interface, too, but is no table."""
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0))
    options = pg.presets.paper()
    agent = pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 1.0, **options)
    twin = pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 1.0, **options)
    assert agent.observe(make([1.0, 2.0])) == twin.observe([1.0, 2.0])
    result = pg.backtest(problem, pg.beliefs.Normal(0.0, 1.0), 1.0, make([1.0, 2.0]), **options)
    assert result.demand.tolist() == [[1.0], [2.0]]

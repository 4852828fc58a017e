"""A specification at work: run, decide, explain, export, plot; and what hostile input cannot do."""

import gc
import json
import os
import sys

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray
from typer.testing import CliRunner

import postgrad as pg
from postgrad.cli import app
from postgrad.spec import load
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows

SPEC = """
title = "Bread"
start = 5.0

[data]
date = "date"
items = ["rolls", "bread"]

[cost]
kind = "newsvendor"
underage = [4, 2]
overage = 1

[model]
kind = "poisson"

[belief]
kind = "gamma"
shape = 2
rate = 0.2

[feasible]
kind = "box"
low = 0
high = 50

[settings]
preset = "paper"

[backtest]
burn_in = 2
"""
ROWS = [("2026-01-01", 3, 5), ("2026-01-02", 4, 7), ("2026-01-03", "", 6), ("2026-01-04", 6, 4)]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(SPEC)
    write(tmp_path / "data.csv", ROWS)
    return tmp_path


def write(path, rows):
    lines = ["date,rolls,bread", *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def call(*arguments, code=0, **options):
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False, **options)
    assert done.exit_code == code, done.output
    return done


def test_run_is_resumed_by_running_it_again(shop):
    whole = call("run", "shop.toml", "data.csv", "--state", "whole.db").stdout
    lines = [json.loads(line) for line in whole.splitlines()]
    assert [line["id"] for line in lines] == [row[0] for row in ROWS]
    assert lines[0]["decision"].keys() == {"rolls", "bread"}
    assert lines[2]["decision"].keys() == {"bread"}  # rolls were not counted that day
    assert lines[3]["stage"] == {"rolls": 3, "bread": 4}

    write(shop / "part.csv", ROWS[:2])
    first = call("run", "shop.toml", "part.csv").stdout
    again = call("run", "shop.toml", "data.csv").stdout
    assert whole.startswith(first)
    assert again == whole
    assert (shop / "shop.db").exists()


def test_a_stream_on_standard_input(shop):
    sent = [{"date": date, "rolls": rolls or None, "bread": bread} for date, rolls, bread in ROWS]
    lines = "".join(json.dumps(row) + "\n" for row in sent)
    piped = call("run", "shop.toml", "-", input=lines).stdout
    assert piped == call("run", "shop.toml", "data.csv", "--state", "other.db").stdout


@pytest.mark.parametrize("gather", [0.0, 60.0])
def test_a_row_counts_for_all_items_or_for_none(shop, monkeypatch, gather):
    """Also where rows share a commit: those before a refused one count."""
    monkeypatch.setattr("postgrad.spec.spec_agents._COMMIT_S", gather)
    split = '[split_by]\nkind = "column"\ncolumn = "rain"\nvalues = ["no", "yes"]\n'
    (shop / "shop.toml").write_text(SPEC + split)
    head, good, bad = "date,rolls,bread,rain\n", "1,3,5,no\n2,4,7,yes\n", "3,6,-1,no\n4,5,5,no\n"
    (shop / "data.csv").write_text(head + good + bad)
    done = call("run", "shop.toml", "data.csv", code=4)
    assert "'bread'" in done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == ["1", "2"]
    decided = json.loads(call("decide", "shop.toml", "--json").stdout)
    assert [line["stage"] for line in decided] == [1, 1, 1, 1]  # rolls of the refused row as well
    mended = head + good + bad.replace("-1", "1")
    whole = call("run", "shop.toml", "-", "--state", "other.db", input=mended).stdout
    (shop / "data.csv").write_text(mended)
    assert call("run", "shop.toml", "data.csv").stdout == whole
    moved = call("run", "shop.toml", "-", input=head + "2,4,7,no\n", code=4).stderr
    assert "observed before, in the group 'yes'" in moved


def open_files():
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_many_streams_are_one_file(shop):
    names = [f"item {number}" for number in range(20)]
    (shop / "shop.toml").write_text(
        SPEC.replace('["rolls", "bread"]', json.dumps(names)).replace("[4, 2]", "4")
    )
    row = ",".join("5" for _ in names)
    (shop / "data.csv").write_text(f"date,{','.join(names)}\n1,{row}\n2,{row}\n")
    with SpecAgents(load(shop / "shop.toml"), shop / "shop.db") as agents:
        gc.collect()  # what earlier tests left open is closed before, not meanwhile
        before = open_files()
        source = dated_rows(rows("data.csv"), agents.specification.data, None)
        lines = list(agents.deliver(source, at_once=2))
        assert open_files() == before
    assert [set(line["stage"].values()) for line in lines] == [{1}, {2}]
    assert len(set(lines[1]["decision"].values())) == 1


def test_decide_explain_export_plot(shop):
    call("run", "shop.toml", "data.csv")
    decided = json.loads(call("decide", "shop.toml", "--json").stdout)
    assert [(line["item"], line["stage"]) for line in decided] == [("rolls", 3), ("bread", 4)]
    assert call("decide", "shop.toml", "--item", "bread").stdout.startswith("bread: ")
    words = call("explain", "shop.toml", "--item", "rolls").stdout
    assert "After 3 batches the decision is" in words
    told = json.loads(call("explain", "shop.toml", "--json").stdout)
    assert told[1]["last"]["id"] == "2026-01-04"

    assert "7 records" in call("export", "shop.toml", "history.csv").stdout
    assert (shop / "history.csv").read_text().splitlines()[1].startswith("rolls,,1,2026-01-01,")
    call("export", "shop.toml", "history.json", "--item", "bread")
    records = json.loads((shop / "history.json").read_text())
    assert [record["data"] for record in records] == [[5.0], [7.0], [6.0], [4.0]]
    assert records[-1]["decision"] == decided[1]["decision"]
    call("export", "shop.toml", "history.xls", code=1)

    drawn = json.loads(call("plot", "shop.toml", "--item", "bread", "--json").stdout)
    assert [name.rpartition(".")[2] for name in drawn] == ["png", "svg"]
    assert (shop / "figures" / "stream-1.png").stat().st_size > 10_000


def test_posteriors_for_arviz(shop):
    call("run", "shop.toml", "data.csv")
    call("export", "shop.toml", "posterior.nc")
    posterior = xarray.open_dataset(shop / "posterior.nc", group="posterior")
    assert posterior["rolls: theta"].shape == (4, 1000)
    assert float(posterior["bread: theta"].mean()) == pytest.approx(24 / 4.2, rel=0.05)
    posterior.close()
    for name, text in (("shop.toml", SPEC), ("data.csv", (shop / "data.csv").read_text())):
        (shop / name).write_text(text.replace("bread", "bread/b"))
    call("run", "shop.toml", "data.csv", "--state", "slash.db")
    call("export", "shop.toml", "slash.nc", "--state", "slash.db")
    with xarray.open_dataset(shop / "slash.nc", group="posterior") as posterior:
        assert set(posterior) == {"rolls: theta", "bread%2Fb: theta"}


def test_groups_are_streams(shop):
    spec = SPEC + '\n[split_by]\nkind = "weekday"\n'
    (shop / "shop.toml").write_text(spec)
    lines = call("run", "shop.toml", "data.csv").stdout.splitlines()
    assert json.loads(lines[0])["group"] == "Thursday"
    assert "bread on Friday: " in call("decide", "shop.toml", "--group", "Friday").stdout
    (shop / "shop.toml").write_text(spec + 'pooling = "partial"\n')
    assert "can be pooled, got Gamma" in call("run", "shop.toml", "data.csv", code=3).output


@pytest.mark.slow
def test_items_decided_together(shop):
    spec = SPEC.replace('kind = "box"', 'kind = "budget"\ntotal = 12')
    (shop / "shop.toml").write_text(spec)
    write(shop / "data.csv", [ROWS[0], ROWS[1], ROWS[3]])
    lines = call("run", "shop.toml", "data.csv").stdout.splitlines()
    decision = json.loads(lines[-1])["decision"]
    assert decision.keys() == {"rolls", "bread"}
    assert sum(decision.values()) <= 12.0
    assert len(json.loads(call("decide", "shop.toml", "--json").stdout)) == 2
    (bread,) = json.loads(call("decide", "shop.toml", "--json", "--item", "bread").stdout)
    assert bread["decision"] == decision["bread"]
    assert "'cake'" in call("decide", "shop.toml", "--item", "cake", code=2).output
    write(shop / "more.csv", [("2026-01-05", "", 3)])
    refused = call("run", "shop.toml", "more.csv", code=4).output
    assert "1 of 2 demands are missing (rolls)" in refused
    named = spec.replace('items = ["rolls", "bread"]', 'item = "i"\nvalue = "v"')
    for names in ("", 'names = ["rolls", "bread"]\n'):
        (shop / "named.toml").write_text(named.replace("[cost]", f"{names}[cost]"))
        done = call("run", "named.toml", "data.csv", code=3)
        assert "data.items" in done.output
        assert not (shop / "named.db").exists()


@pytest.mark.parametrize("kind", ["box", "budget"])
def test_decisions_in_force_are_those_of_the_data(shop, kind):
    spec = SPEC.replace("[cost]", 'decision = ["stock r", "stock b"]\n[cost]')
    spec = spec.replace(
        'kind = "box"', 'kind = "budget"\ntotal = 90' if kind == "budget" else "kind = 'box'"
    )
    (shop / "shop.toml").write_text(spec)
    (shop / "data.csv").write_text("date,rolls,bread,stock r,stock b\n2026-01-01,3,9,7,8\n")
    call("run", "shop.toml", "data.csv")
    call("export", "shop.toml", "out.json")
    records = json.loads((shop / "out.json").read_text())
    assert [(one["item"], one["in_force"], one["data"]) for one in records] == [
        ("rolls", 7.0, [3.0]),
        ("bread", 8.0, [9.0]),
    ]


def test_an_item_may_be_called_as_all_of_them(shop):
    (shop / "shop.toml").write_text(SPEC.replace('"bread"', '"*"'))
    (shop / "data.csv").write_text("date,rolls,*\n2026-01-01,3,9\n")
    line = json.loads(call("run", "shop.toml", "data.csv").stdout)
    assert line["decision"].keys() == {"rolls", "*"}
    (rolls,) = json.loads(call("decide", "shop.toml", "--json", "--item", "rolls").stdout)
    assert rolls["decision"] == line["decision"]["rolls"]


def test_an_item_that_is_no_longer_there(shop):
    call("run", "shop.toml", "data.csv")
    fewer = SPEC.replace('["rolls", "bread"]', '["rolls"]').replace("[4, 2]", "4")
    (shop / "shop.toml").write_text(fewer)
    assert "is about 'bread'" in call("decide", "shop.toml", code=5).output
    assert "rolls: " in call("decide", "shop.toml", "--item", "rolls").stdout


def test_streams_of_other_agents_are_no_items(shop):
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0))
    with pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 0.0, path="shop.db", name="7"):
        pass
    assert "not made from a specification" in call("decide", "shop.toml", code=5).output


def test_backtest_prints_totals(shop):
    done = json.loads(call("backtest", "shop.toml", "data.csv", "--json", "--out", "out").stdout)
    assert list(done["total"]) == ["postgrad", "saa", "normal", "last-value", "hindsight"]
    assert done["scored"] == 2
    assert sorted(path.name for path in (shop / "out").iterdir()) == [
        "cumulative-cost.png",
        "cumulative-cost.svg",
        "decisions.csv",
        "summary.json",
    ]
    printed = call("backtest", "shop.toml", "data.csv")
    assert "hindsight" in printed.stdout
    assert "saa" in printed.stderr  # progress, also where there is no terminal
    squared = 'kind = "squared"\n[model]'  # has no rules, and no hindsight
    (shop / "shop.toml").write_text(
        f"{SPEC.split('[cost]')[0]}[cost]\n{squared}{SPEC.split('[model]')[1]}"
    )
    call("backtest", "shop.toml", "data.csv", "--out", "other")
    assert (shop / "other" / "cumulative-cost.png").stat().st_size > 10_000


def test_dollars_are_no_formulas(shop):
    dollars = r"$\frac{$"
    spec = SPEC.replace('"Bread"', f"'{dollars}'").replace('"bread"', f"'{dollars}'")
    (shop / "shop.toml").write_text(spec)
    rows = "".join(f"{dollars}{day},3,4\n" for day in range(4))
    (shop / "data.csv").write_text(f"date,rolls,{dollars}\n{rows}")
    done = call("backtest", "shop.toml", "data.csv", "--out", "out")
    assert "arning" not in done.stderr
    assert dollars not in done.stderr
    call("run", "shop.toml", "data.csv")
    call("plot", "shop.toml", "--item", dollars)


def test_init_writes_what_runs(shop):
    assert "Wrote problem.toml" in call("init").stdout
    assert "cannot write" in call("init", code=2).output  # nothing is overwritten
    assert "Bread rolls" in (shop / "problem.toml").read_text()


CODES = {
    "no such specification": (["run", "none.toml", "data.csv"], 3),
    "wrong specification": (["backtest", "bad.toml", "data.csv"], 3),
    "no set": (["backtest", "low.toml", "data.csv"], 3),
    "no prior of it": (["run", "exponential.toml", "data.csv"], 3),
    "no such data": (["run", "shop.toml", "none.csv"], 4),
    "wrong data": (["run", "shop.toml", "bad.csv"], 4),
    "impossible data": (["run", "shop.toml", "impossible.csv"], 4),
    "no file of decisions": (["decide", "shop.toml"], 5),
    "another file": (["decide", "shop.toml", "--state", "data.csv"], 5),
    "no such option": (["run", "shop.toml", "data.csv", "--magic"], 2),
}


@pytest.mark.parametrize("name", CODES)
def test_exit_codes(shop, name):
    (shop / "bad.toml").write_text("a = 1")
    (shop / "low.toml").write_text(SPEC.replace("low = 0", "low = 90"))
    (shop / "exponential.toml").write_text(SPEC.replace("poisson", "exponential"))
    (shop / "bad.csv").write_text("date,rolls,bread\n2026-01-01,x,1\n")
    (shop / "impossible.csv").write_text("date,rolls,bread\n2026-01-01,-1,1\n")
    arguments, code = CODES[name]
    done = call(*arguments, code=code)
    assert "Traceback" not in done.output
    assert "rror" in done.output
    if code in (3, 4):
        assert arguments[code - 2] in done.output
    if name == "impossible data":
        assert "2026-01-01, 'rolls': " in done.output


def test_another_problem_does_not_get_the_file(shop):
    call("run", "shop.toml", "data.csv")
    (shop / "shop.toml").write_text(SPEC.replace("[4, 2]", "[4, 3]"))
    assert "other settings" in call("run", "shop.toml", "data.csv", code=5).output


def test_the_same_name_with_other_data_is_an_error(shop):
    call("run", "shop.toml", "data.csv")
    write(shop / "data.csv", [("2026-01-01", 3, 6)])
    assert "with other data" in call("run", "shop.toml", "data.csv", code=4).output


HOSTILE = [
    "../../up,3,4",
    "/etc/passwd,3,4",
    "'; DROP TABLE batches; --,3,4",
    "$(touch pwned),3,4",
    "__import__('os').system('touch pwned'),3,4",
]
_written = None


def _watch(event, arguments):
    if _written is None:
        return
    if event == "open" and isinstance(arguments[0], str | bytes):
        mode, flags = arguments[1], arguments[2]
        if (mode and set("wax+") & set(mode)) or (mode is None and flags & 0b11):
            _written.append(str(arguments[0]))
    elif event in (
        "os.system",
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "pickle.find_class",
    ):
        _written.append(event)
    elif event == "sqlite3.connect":
        _written.append(str(arguments[0]))


def test_nothing_is_executed_or_written_elsewhere(shop):
    """Ids are text: they are counted, and lead nowhere."""
    global _written
    call("run", "shop.toml", "data.csv")  # whatever is loaded or cached once, is now
    (shop / "hostile.csv").write_text("\n".join(["date,rolls,bread", *HOSTILE]) + "\n")
    sys.addaudithook(_watch)
    _written = []
    try:
        lines = call("run", "shop.toml", "hostile.csv").stdout.splitlines()
    finally:
        seen, _written = _written, None
    assert [json.loads(line)["id"] for line in lines] == [row.split(",")[0] for row in HOSTILE]
    allowed = {str(shop / f"shop.db{end}") for end in ("", "-wal", "-shm", "-acknowledged")}
    allowed.add(f"file:{shop / 'shop.db'}?mode=ro")
    assert seen, "the hook saw nothing: it does not work"
    assert set(seen) <= allowed
    assert not (shop / "pwned").exists()


def test_settings_reach_the_agents(shop):
    """At a level of almost one alarms come soon; at the usual one there is none here."""
    counts = np.random.default_rng(0).poisson((5.0, 6.0), (20, 2))
    write(shop / "data.csv", [(day, *row) for day, row in enumerate(counts.tolist(), start=1)])
    for alpha, noticed in ((0.001, False), (0.999, True)):
        spec = SPEC.replace("[settings]", f"[settings]\nalpha = {alpha}")
        (shop / "shop.toml").write_text(spec)
        lines = call("run", "shop.toml", "data.csv", "--state", f"{alpha}.db").stdout
        assert ("alarms" in lines) == noticed

"""Clumsy or hostile input: refused in a sentence that says where, never with a traceback."""

import json
import os
from pathlib import Path

import pytest
from test_spec_agents import ROWS, SPEC, call, write

from postgrad import cli
from postgrad.cli.run import run


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.toml").write_text(SPEC)
    write(tmp_path / "data.csv", ROWS)
    return tmp_path


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

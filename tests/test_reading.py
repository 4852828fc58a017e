"""Commands that only read: without JAX, and with the words and numbers that an agent has."""

import dataclasses
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from postgrad.cli import app
from postgrad.spec import load
from postgrad.spec.reading.normal_form import differing_keys, normal_form
from postgrad.spec.reading.stored_streams import stored_streams
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.specification import parse

SPEC = """
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
rules = ["saa-60"]
"""
BUDGET = SPEC.replace('kind = "box"', 'kind = "budget"\ntotal = 11')
ROWS = "date,rolls,bread\n1,3,5\n2,4,7\n3,90,6\n4,6,4\n"
TOLD = """
import sys
from postgrad.cli import main
sys.argv = ["postgrad", *sys.argv[1:]]
try:
    main()
finally:
    slow = [name for name in ("jax", "jaxlib", "numpyro", "equinox") if name in sys.modules]
    sys.stderr.write(f"imported: {slow}")
"""


def call(*arguments, code=0):
    done = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.stdout


def alone(folder, *arguments):
    """A command in a process of its own: what it prints, and whether it went without JAX."""
    command = [sys.executable, "-c", TOLD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    return done, done.stderr.endswith("imported: []")


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    (folder / "data.csv").write_text(ROWS)
    for name, text in {"shop": SPEC, "budget": BUDGET}.items():
        (folder / f"{name}.toml").write_text(text)
        call("run", folder / f"{name}.toml", folder / "data.csv")
    return folder


READ = {
    "help": ["--help"],
    "help of a command": ["run", "--help"],
    "decide": ["decide", "shop.toml"],
    "decide together": ["decide", "budget.toml", "--json"],
    "history": ["history", "shop.toml", "--rows", "2"],
    "history as JSON": ["history", "shop.toml", "--json"],
    "explain": ["explain", "shop.toml"],
    "explain as JSON": ["explain", "budget.toml", "--json"],
    "csv": ["export", "shop.toml", "out.csv"],
    "json": ["export", "shop.toml", "out.json"],
    "init": ["init", "new.toml"],
    "store": ["store", "check", "shop.db"],
}


@pytest.mark.parametrize("arguments", READ.values(), ids=READ)
def test_reading_takes_no_jax(shop, arguments):
    done, plain = alone(shop, *arguments)
    assert done.returncode == 0, done.stderr
    assert plain, done.stderr


def test_errors_of_form_take_no_jax(shop):
    (shop / "wrong.toml").write_text(SPEC.replace("shape = 2", "shape = -2"))
    for command in ("run", "backtest", "correct"):
        done, plain = alone(shop, command, "wrong.toml", "data.csv")
        assert done.returncode == 3
        assert "belief.shape: must be greater than 0, got -2" in done.stderr
        assert plain, done.stderr
    (shop / "bounds.toml").write_text(re.sub(r"\nhigh = \d+", "\nhigh = -5", SPEC))
    done, plain = alone(shop, "run", "bounds.toml", "data.csv")
    assert done.returncode == 3
    assert "`low` must not exceed `high`" in done.stderr
    assert plain, done.stderr
    done, plain = alone(shop, "decide", "missing.toml")
    assert done.returncode == 3
    assert plain, done.stderr


def same(one, other):
    """Whether two records, or parts of them, are equal bit for bit; NaN equals NaN."""
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray | float):
        return np.array_equal(one, other, equal_nan=True)
    return one == other


@pytest.mark.parametrize("name", ["shop", "budget"])
def test_what_is_read_is_what_an_agent_tells(shop, name):
    spec, path = load(shop / f"{name}.toml"), shop / f"{name}.db"
    with SpecAgents(spec, path) as agents, stored_streams(spec, path) as stored:
        assert stored.streams() == agents.streams()
        assert stored.together == agents.together
        for stream in stored.streams():
            told, agent = stored.told(*stream), agents.agent(*stream)
            assert told.stage == agent.stage == 4
            assert same(told.decision, agent.decision)
            assert same(told.interval, agent.interval)
            assert told.alarms == agent.alarms
            assert same(list(told.history()), list(agent.history()))
            assert same(list(told.history(2)), list(agent.history(2)))
            assert same(list(told.history(first=3)), list(agent.history(first=3)))
            assert str(told.explain()) == str(agent.explain())
            assert "before the batch" in str(told.explain())
    # The third day is far off, so that there is an alarm to read.
    assert any(line["alarm"] for line in json.loads(call("history", shop / "shop.toml", "--json")))


def test_what_is_corrected_is_read_as_an_agent_tells_it(shop):
    (shop / "other.toml").write_text(SPEC)
    call("run", shop / "other.toml", shop / "data.csv")
    (shop / "right.csv").write_text("date,rolls,bread\n3,9,6\n")
    call("correct", shop / "other.toml", shop / "right.csv")
    spec, path = load(shop / "other.toml"), shop / "other.db"
    with SpecAgents(spec, path) as agents, stored_streams(spec, path) as stored:
        told, agent = stored.told("rolls"), agents.agent("rolls")
        assert same(list(told.history()), list(agent.history()))
        assert same(told.decision, agent.decision)
        assert told.explain().after.keys() == agent.explain().after.keys()
        assert same(told.explain().after, agent.explain().after)
        words = str(agent.explain())
    assert "before the batch" in words
    # What the last batch taught is not stored after a correction, so an agent tells it.
    assert words in call("explain", shop / "other.toml", "--item", "rolls")
    assert is_read(shop, "other.toml")
    lines = json.loads(call("history", shop / "other.toml", "--json", "--item", "rolls"))
    assert [line["correction"] for line in lines] == [None, None, "corrected", None]


def test_history_comes_in_pages(shop):
    def stages(*options):
        lines = json.loads(call("history", shop / "shop.toml", "--json", *options))
        return [line["stage"] for line in lines if line["item"] == "bread"]

    assert stages() == stages("--rows", "0") == [1, 2, 3, 4]
    assert stages("--rows", "3") == [2, 3, 4]
    assert stages("--from", "2", "--rows", "2") == [2, 3]
    assert stages("--from", "9") == []
    assert "there are 4 stages" in call("history", shop / "shop.toml", "--from", "9")
    table = call("history", shop / "shop.toml", "--rows", "2", "--item", "rolls")
    assert "Stages 3 to 4 of 4" in table
    assert "a batch unlike any foreseen" in table or "look like the model" in table


def test_how_much_was_learned_is_computed_on_request(shop):
    assert "by what it taught" not in call("explain", shop / "shop.toml")
    assert "by what it taught" in call("explain", shop / "shop.toml", "--shares")


def is_read(folder, name):
    with stored_streams(load(folder / name), (folder / name).with_suffix(".db")) as found:
        return found is not None


def test_an_edited_specification_is_compared_by_an_agent(shop):
    (shop / "edited.toml").write_text('title = "Bread"\n' + SPEC)
    call("run", shop / "edited.toml", shop / "data.csv")
    plain = SPEC.replace('["saa-60"]', '["saa"]')
    (shop / "edited.toml").write_text(plain)  # no title, and other rules
    assert is_read(shop, "edited.toml")
    (shop / "edited.toml").write_text(plain.replace('"date"', '"day"'))
    assert not is_read(shop, "edited.toml")
    assert "bread: " in call("decide", shop / "edited.toml")  # the problem is the same
    (shop / "more.csv").write_text("day,rolls,bread\n5,3,4\n")
    call("run", shop / "edited.toml", shop / "more.csv")
    assert is_read(shop, "edited.toml")  # it was noted
    (shop / "edited.toml").write_text(plain.replace("overage = 1", "overage = 2"))
    assert not is_read(shop, "edited.toml")
    call("decide", shop / "edited.toml", code=5)


def test_keys_are_compared_one_by_one():
    import tomllib

    was, now = tomllib.loads(SPEC), tomllib.loads(SPEC)
    kept = json.loads(json.dumps(normal_form(parse(was))))
    assert differing_keys(kept, parse(now)) == []
    now["cost"]["overage"], now["data"]["date"] = 2, "day"
    assert sorted(differing_keys(kept, parse(now))) == ["cost.overage", "data.date"]
    del kept["settings"]["alpha"]  # a key that an earlier version did not have
    assert differing_keys(kept, parse(was)) == []
    assert differing_keys({**kept, "schema": 99}, parse(was))
    assert differing_keys(None, parse(was))

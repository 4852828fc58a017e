"""Corrections and intended changes from the command line."""

import json

import pytest
from test_spec_agents import ROWS, SPEC, call, shop, write  # noqa: F401


def decided(*more):
    found = json.loads(call("decide", "shop.toml", "--json", *more).stdout)
    return {line["item"]: line["decision"] for line in found}


@pytest.fixture
def running(shop):  # noqa: F811
    call("run", "shop.toml", "data.csv")
    return shop


RIGHT = [("2026-01-02", 4, 2)]


def test_rows_are_corrected_by_their_ids(running):
    lines = call("run", "shop.toml", "data.csv").stdout
    before = decided()
    write(running / "right.csv", RIGHT)
    (line,) = map(json.loads, call("correct", "shop.toml", "right.csv").stdout.splitlines())
    assert line["id"] == "2026-01-02"
    assert line["decision"] == decided()
    assert decided()["rolls"] == before["rolls"]  # which was right
    assert decided()["bread"] != before["bread"]
    # both files may come again, and their lines are those of then
    write(running / "mended.csv", [ROWS[0], *RIGHT, *ROWS[2:]])
    for name in ("data.csv", "mended.csv"):
        assert call("run", "shop.toml", name).stdout == lines
    assert call("correct", "shop.toml", "right.csv").stdout == json.dumps(line) + "\n"
    assert "batch '2026-01-02' of stage 2 was corrected" in call("explain", "shop.toml").stdout


@pytest.mark.slow
def test_rows_are_withdrawn(running):
    done = call("correct", "shop.toml", "--withdraw", "2026-01-01", "--item", "bread")
    assert list(json.loads(done.stdout)["decision"]) == ["bread"]
    call("export", "shop.toml", "out.json")
    lines = json.loads((running / "out.json").read_text())
    marked = [line for line in lines if line["correction"]]
    assert [(line["item"], line["id"], line["data"]) for line in marked] == [
        ("bread", "2026-01-01", [])
    ]
    call("export", "shop.toml", "out.csv")
    told = json.loads(call("explain", "shop.toml", "--json").stdout)
    assert [len(line["events"]) for line in told] == [0, 1]
    call("plot", "shop.toml")


def test_what_was_never_observed_cannot_be_corrected(running):
    write(running / "right.csv", [("2026-02-01", 1, 1)])
    assert "was never observed" in call("correct", "shop.toml", "right.csv", code=4).stderr
    done = call("correct", "shop.toml", "--withdraw", "2026-02-01", code=4)
    assert "'2026-02-01' was never observed" in done.stderr
    call("correct", "shop.toml", code=2)


def test_an_edited_cost_is_taken_up_where_that_is_confirmed(running):
    before = decided()
    dearer = SPEC.replace("underage = [4, 2]", "underage = [4, 9]")
    (running / "shop.toml").write_text(dearer)
    done = call("run", "shop.toml", "data.csv", code=5)
    assert "differ: 2, now 9" in done.stderr
    lines = call("run", "shop.toml", "data.csv", "--accept-change").stdout
    assert len(lines.splitlines()) == len(ROWS)
    assert decided()["rolls"] == before["rolls"]
    assert decided()["bread"] != before["bread"]
    assert "the problem was changed" in call("explain", "shop.toml").stdout
    assert call("run", "shop.toml", "data.csv").stdout == lines  # no flag from now on


@pytest.mark.parametrize(
    ("old", "new"), [("shape = 2", "shape = 3"), ('kind = "poisson"', 'kind = "negative-binomial"')]
)
def test_an_edited_prior_or_model_is_refused(running, old, new):
    (running / "shop.toml").write_text(SPEC.replace(old, new))
    done = call("run", "shop.toml", "data.csv", "--accept-change", code=5 if "shape" in old else 3)
    assert done.stdout == ""

"""A specification with contexts at work: run, decide, backtest, and what must not be lost."""

import json

import numpy as np
import pytest
from test_spec_agents import call

from postgrad import errors
from postgrad.spec import load
from postgrad.spec.spec_agents import SpecAgents
from postgrad.spec.spec_backtest import backtest_specification
from postgrad.spec.tables.files import rows
from postgrad.spec.tables.row_reader import dated_rows

pytestmark = pytest.mark.sample(7, of="agents in contexts")

CODE = """
import jax.numpy as jnp
import numpy as np
import postgrad as pg
from postgrad.research.problems.newsvendor import Mismatch

def model(x, theta, z):
    rate = jnp.exp(theta["level"] + theta["promo"] * z["promo"] + 0.1 * z["rain"])
    return pg.distributions.Poisson(rate * (1.0 + (z["weather"] == 1)), validate_args=False)

def shop():
    cost = Mismatch(jnp.asarray(4.0), jnp.asarray(1.0))
    levels = {"level": np.linspace(0.0, 4.0, 17), "promo": np.linspace(0.0, 1.0, 5)}
    belief = pg.beliefs.Grid(pg.beliefs.product_grid(levels))
    return pg.Problem(cost, model, pg.feasible.Box(0.0, 100.0)), belief, 5.0
"""
SPEC = """
[data]
date = "date"
items = ["rolls", "bread"]

[problem]
python = "shop_in_contexts:shop"

[context]
first_rows = 2
[context.columns.promo]
kind = "number"
scale = [0, 1]
column = { rolls = "promo_rolls", bread = "promo_bread" }
[context.columns.weather]
kind = "category"
levels = 3
other = true
[context.columns.rain]
kind = "number"

[settings]
samples = [256, 16]

[backtest]
burn_in = 2
"""
NAMES = "date,rolls,bread,promo_rolls,promo_bread,weather,rain"
ROWS = [
    ("2026-01-01", 8, 9, 0, 1, "dry", 1.0),
    ("2026-01-02", 7, 6, 0, 0, "dry", 3.0),
    ("2026-01-03", 14, 11, 1, 0, "wet", 2.5),
    ("2026-01-05", 9, "", 0, 1, "dry", 1.5),
    ("2026-01-06", 8, 12, 0, 1, "dry", ""),
    ("2026-01-07", "", "", 1, 0, "ice", 2.0),
    ("2026-01-08", "", "", 0, 0, "dry", 2.0),
]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "shop_in_contexts.py").write_text(CODE)
    (tmp_path / "shop.toml").write_text(SPEC)
    write(ROWS)
    return tmp_path


def write(data, path="data.csv"):
    lines = [NAMES, *(",".join(map(str, row)) for row in data)]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def run(*arguments, data="data.csv", code=0):
    done = call("run", "shop.toml", data, "--allow-code", *arguments, code=code)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done


def decide(*arguments, code=0):
    done = call("decide", "shop.toml", "--allow-code", "--json", *arguments, code=code)
    return done if code else {one["item"]: one for one in json.loads(done.stdout)}


def test_rows_with_a_demand_teach_and_rows_without_one_ask(shop):
    lines, done = run()
    assert [line["id"] for line in lines] == [row[0] for row in ROWS]
    assert "decision" not in lines[0]  # nobody could have used it
    assert lines[3]["stage"] == {"rolls": 4}
    assert lines[4]["left_out"] == {"rolls": ["rain"], "bread": ["rain"]}
    assert "for want of 'rain': 2 demands" in done.stderr
    asked, later = lines[5:]
    assert asked["stage"] == {"rolls": 4, "bread": 3}
    assert (asked["issued"], later["issued"]) == (True, False)
    assert asked["decision"]["rolls"] > later["decision"]["rolls"]  # the promotion
    assert run()[0] == lines  # the same again
    now = decide()
    assert {name: one["decision"] for name, one in now.items()} == asked["decision"]
    assert now["rolls"]["id"] == "2026-01-07"
    assert now["rolls"]["context"] == {"promo_rolls": 1.0, "weather": "ice", "rain": 2.0}
    # What comes of it is learned under that decision, and the next row is decided for.
    write([*ROWS[:5], ("2026-01-07", 15, 6, 1, 0, "ice", 2.0), ROWS[6]])
    lines = run()[0]
    assert lines[5]["decision"] == asked["decision"]
    assert lines[6]["issued"]
    with SpecAgents(load("shop.toml", allow_code=True), shop / "shop.db") as agents:
        last = agents.agent("rolls").record("2026-01-07")
        assert last.x == asked["decision"]["rolls"]
        assert (last.context["elapsed"], last.context["z"]["weather"]) == (2.0, 2)
        assert agents.agent("rolls").replay().identical


def test_one_row_at_a_time_is_the_same(shop):
    whole = run("--state", "whole.db")[0]
    text = "\n".join([NAMES, *(",".join(map(str, row)) for row in ROWS)]) + "\n"
    done = call("run", "shop.toml", "-", "--allow-code", input=text)
    assert [json.loads(line) for line in done.stdout.splitlines() if line[:1] == "{"] == whole


def test_a_file_in_parts_is_the_same(shop):
    whole = run("--state", "whole.db")[0]
    parts = []
    for end in (1, 4, 7):
        write(ROWS[:end])
        parts = run()[0]
    assert parts == whole


def test_decisions_are_those_of_the_backtest(shop):
    spec = load("shop.toml", allow_code=True)
    result = backtest_specification(spec, rows("data.csv")).result
    lines = run()[0]
    for line, day in zip(lines[5:], (5, 6), strict=True):
        np.testing.assert_allclose(
            result.decisions["postgrad"][day], list(line["decision"].values()), rtol=0.05
        )
    assert result.left_out == {"rain": 2}
    assert "rain (2)" in str(result)
    assert np.isnan(result.decisions["postgrad"][4]).all()
    call("backtest", "shop.toml", "data.csv", "--allow-code")


def test_decide_computes_for_a_date_and_a_context(shop):
    run()
    before = (shop / "shop.db").read_bytes()
    given = "--context", "weather=wet", "--context", "rain=2"
    plain = decide("--date", "2026-01-09", *given, "--context", "promo=0")
    promo = decide("--date", "2026-01-09", *given, "--context", "promo=1")
    assert promo["rolls"]["decision"] > plain["rolls"]["decision"]
    one = decide("--item", "rolls", *given, "--context", "promo_rolls=1")
    assert one["rolls"]["decision"] == pytest.approx(promo["rolls"]["decision"])
    assert decide()["rolls"]["id"] == "2026-01-07"
    assert (shop / "shop.db").read_bytes() == before
    wrong = {
        "'rain' is empty; to decide, it must be known": (*given[:2], "--context", "promo=1"),
        "'rain' must be a finite number, got 'much'": (*given[:2], "--context", "rain=much"),
        "there is no column 'snow'": ("--context", "snow=1"),
    }
    for message, options in wrong.items():
        assert message in decide(*options, code=4).output
    assert "promo=1, got 'promo'" in decide("--context", "promo", code=2).output


def test_what_if_asks_for_a_date_and_a_context(shop):
    run()
    given = "--date", "2026-01-09", "--context", "weather=wet", "--context", "rain=2"

    def ask(decision, promo):
        asked = "--item", "rolls", "--json", *given, "--context", f"promo={promo}"
        done = call("what-if", "shop.toml", "--allow-code", "--decision", str(decision), *asked)
        return json.loads(done.stdout)[0]

    best = {promo: ask(9, promo)["best"] for promo in (0, 1)}
    decided = decide(*given, "--context", "promo=1")["rolls"]["decision"]
    assert best[1] == decided > best[0]
    found = ask(best[1], 1)
    assert found["of_the_decision"] == pytest.approx(0.0, abs=1e-9)
    assert found["cost"]["mean"] < ask(best[1] + 5, 1)["cost"]["mean"]
    refused = call("what-if", "shop.toml", "--allow-code", "-d", "9", *given, code=4)
    assert "'promo" in refused.output


def test_before_anything_was_issued(shop):
    write(ROWS[:3])
    run()
    assert "no decision has been issued yet" in decide(code=2).output


def test_an_id_is_decided_for_once(shop):
    run()
    write([*ROWS[:5], (*ROWS[5][:5], "dry", 2.0)])
    _, done = run(code=4)
    assert "'2026-01-07' was decided for before: 'weather' was 'ice', now 'dry'" in done.output
    write([*ROWS[:2], (*ROWS[2][:3], 0, *ROWS[2][4:])])
    _, done = run(code=4)
    assert (
        "2026-01-03, 'rolls': was observed before in another context: 'promo_rolls'" in done.output
    )


def test_to_decide_with_a_missing_value_names_the_column(shop):
    write([*ROWS[:5], ("2026-01-07", "", "", 1, 0, "ice", "")])
    lines, done = run(code=4)
    assert len(lines) == 5
    assert "line 7: 'rain' is empty; to decide, it must be known" in done.output


def test_a_level_never_seen_is_an_error_without_other(shop):
    (shop / "shop.toml").write_text(SPEC.replace("other = true\n", ""))
    lines, done = run(code=4)
    assert len(lines) == 5
    assert "the level 'ice' of 'weather' was never seen" in done.output


def test_late_rows_are_learned_in_their_own_context_and_move_no_time(shop):
    write([ROWS[0], ROWS[2]])
    run()
    write([ROWS[0], ROWS[2], ROWS[1]])
    run()
    with SpecAgents(load("shop.toml", allow_code=True), shop / "shop.db") as agents:
        told = [(r.context["elapsed"], r.context["z"]) for r in agents.agent("rolls").history()]
    assert [elapsed for elapsed, _ in told] == [0.0, 2.0, 0.0]
    # Two rows give the scale: rain 1.0 and 2.5 had no effect, 3.0 has.
    assert [z["rain"] for _, z in told] == pytest.approx([0.0, 0.0, (3.0 - 1.75) / 0.75])
    assert [z["weather"] for _, z in told] == [0, 1, 0]


def test_what_rows_have_shown_is_undone_with_them(shop):
    """A row that is refused for one item leaves nothing behind, its level neither."""
    write([*ROWS[:2], ("2026-01-03", 5, -1, 0, 0, "hail", 1.0)])
    run(code=4)
    write(ROWS[:3])
    run()
    with SpecAgents(load("shop.toml", allow_code=True), shop / "shop.db") as agents:
        last = agents.agent("rolls").record("2026-01-03")
    assert last.context["note"]["memory"]["levels"] == {"weather": ["dry", "wet"]}


def test_a_context_that_nothing_depends_on_is_refused(shop):
    spec = load("shop.toml", allow_code=True)
    without = spec.model_copy(update={"context": None})
    with pytest.raises(errors.SpecificationError, match="the problem takes a context"):
        SpecAgents(without, shop / "other.db").agent("rolls")


def test_where_the_calendar_is_all_the_day_after_the_last_row_is_decided(shop):
    (shop / "shop_of_weekdays.py").write_text(
        CODE.replace('z["promo"] + 0.1 * z["rain"]', '(z["weekday"] >= 5)').replace(
            ' * (1.0 + (z["weather"] == 1))', ""
        )
    )
    head = (
        SPEC.replace("in_contexts", "of_weekdays")[: SPEC.index("first_rows")]
        + 'calendar = ["weekday"]\n'
    )
    (shop / "shop.toml").write_text(head + SPEC[SPEC.index("[settings]") :])
    write(ROWS[:2])
    lines = run()[0]
    assert [line["id"] for line in lines] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert lines[2]["issued"]
    assert decide()["rolls"]["id"] == "2026-01-03"
    assert "--date is needed" in decide("--context", "weather=1", code=4).output
    saturday, monday = (decide("--date", f"2026-01-{day}") for day in ("10", "12"))
    assert saturday["rolls"]["decision"] > monday["rolls"]["decision"]


def test_rows_are_read_with_their_contexts(shop):
    spec = load("shop.toml", allow_code=True)
    found = list(dated_rows(rows("data.csv"), spec.data, None, spec.context))
    assert found[2].contexts["rolls"].columns["promo"].value == 1.0
    assert found[4].contexts["bread"].missing == ("rain",)

"""Specification files: everything that is wrong is said at once, and nothing is executed."""

import itertools
import sys
import tomllib
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import postgrad as pg
from postgrad import errors
from postgrad.spec import load
from postgrad.spec.build import build
from postgrad.spec.spec_backtest import backtest_specification
from postgrad.spec.specification import parse
from postgrad.spec.tables.row_reader import dated_rows, demand_table

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.toml"))

GOOD = {
    "data": {"value": "demand", "date": "date"},
    "cost": {"kind": "newsvendor", "underage": 4, "overage": 1.5},
    "model": {"kind": "poisson"},
    "belief": {"kind": "gamma", "shape": 2, "rate": 0.2},
    "feasible": {"kind": "box", "low": 0, "high": 50},
    "start": 5,
    "settings": {"preset": "paper"},
}


def changed(**changes):
    """The good one, with parts replaced, changed or (None) left out."""
    content = {**GOOD}
    for key, value in changes.items():
        if value is None:
            content.pop(key)
        elif isinstance(value, dict) and key in content and "kind" not in value:
            content[key] = content[key] | value
        else:
            content[key] = value
    return content


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_right(path):
    setup = build(load(path), load(path).data.item_names or ("a", "b"))
    assert setup.joint == (path.stem == "yaz-capacity")
    problem = setup.problems[0]
    if setup.context is not None:
        problem = problem.at(setup.context)
    algorithm = pg.BayesianSGD(problem, **setup.options)
    assert algorithm.init(setup.belief, setup.starts[0]).x.shape == setup.starts[0].shape


def test_the_example_that_init_writes_is_right():
    text = resources.files("postgrad.spec").joinpath("example.toml").read_text()
    assert parse(tomllib.loads(text)).title == "Bread rolls"
    told = "\n".join(line.removeprefix("# ") for line in text.splitlines())
    for part in ("[split_by]", 'kind = "weekday"', 'pooling = "partial"'):
        assert part in told


LEVELS = {
    name: [1.0, 2.0, 3.0] if name != "probability" else [0.2, 0.5]
    for name in ("mean", "scale", "median", "spread", "concentration", "probability", "intercept")
} | {"slope": {"from": 0.5, "to": 2, "points": 3, "spacing": "log"}}
MODELS = {
    "normal": {"kind": "normal"},
    "normal of scale": {"kind": "normal", "scale": 2},
    "log-normal": {"kind": "log-normal", "shift": 1},
    "poisson": {"kind": "poisson"},
    "negative-binomial": {"kind": "negative-binomial"},
    "exponential": {"kind": "exponential"},
    "bernoulli": {"kind": "bernoulli"},
    "linear": {"kind": "linear", "scale": 2},
}
CONJUGATE = {
    "normal": {"kind": "normal-inverse-gamma", "mean": 3, "count": 1, "shape": 2, "scale": 2},
    "normal of scale": {"kind": "normal", "mean": 3, "deviation": 2},
    "poisson": {"kind": "gamma", "shape": 2, "rate": 0.5, "forget": [1, 0.9]},
    "exponential": {"kind": "inverse-gamma", "shape": 3, "scale": 4, "forget": 0.9},
    "bernoulli": {"kind": "beta", "yes": 2, "no": 3},
    "linear": {
        "kind": "gaussian",
        "mean": {"intercept": 5, "slope": 1},
        "deviation": {"intercept": 1, "slope": 1},
    },
}
COSTS = {
    "newsvendor": {"kind": "newsvendor", "underage": 4, "overage": 1},
    "profit": {"kind": "profit", "cost": 2, "price": 4},
    "squared": {"kind": "squared"},
    "revenue": {"kind": "revenue", "unit_cost": 1},
}


PAIRS = [*itertools.product(MODELS, ["grid"]), *itertools.product(CONJUGATE, ["conjugate"])]
OF_EACH_KIND = {"grid": pytest.mark.sample(4), "conjugate": pytest.mark.sample(1)}


@pytest.mark.parametrize(
    ("model", "kind"), [pytest.param(*pair, marks=OF_EACH_KIND[pair[1]]) for pair in PAIRS]
)
def test_every_word_of_the_vocabulary_means_something(model, kind):
    """Each model learns with each of its beliefs; each cost is met on the way."""
    cost = list(COSTS)[PAIRS.index((model, kind)) % len(COSTS)]
    names = {
        "normal": ("mean", "scale"),
        "normal of scale": ("mean",),
        "log-normal": ("median", "spread"),
        "poisson": ("mean",),
        "negative-binomial": ("mean", "concentration"),
        "exponential": ("mean",),
        "bernoulli": ("probability",),
        "linear": ("intercept", "slope"),
    }[model]
    belief = CONJUGATE.get(model)
    if kind == "grid":
        belief = {"kind": "grid", "levels": {name: LEVELS[name] for name in names}}
    spec = parse(changed(model=MODELS[model], belief=belief, cost=COSTS[cost], start=2))
    setup = build(spec, ("demand",))
    agent = pg.Agent(setup.problems[0], setup.belief, setup.starts[0], **setup.options)
    before = agent.belief
    agent.observe([1.0])
    assert np.isfinite(agent.decision)
    assert agent.belief.effective_size > before.effective_size


WRONG = {
    "unknown key": (changed(cots=1), ["cots: there is no such key; did you mean cost?"]),
    "unknown key within": (
        changed(cost={"overrage": 1}),
        ["cost.overrage: there is no such key; did you mean overage?"],
    ),
    "a key of another table": (
        changed(feasible={"start": 3, "hihg": 3}),
        [
            "feasible.start: there is no such key\n",
            "feasible.hihg: there is no such key; did you mean high?",
        ],
    ),
    "unknown word": (
        changed(model={"kind": "magic"}),
        ["model: `kind` must be one of 'normal', ", "got 'magic'"],
    ),
    "a whole number": (
        changed(cost={"underage": [3, -2]}),
        ["cost.underage[1]: must be", "got -2"],
    ),
    "bounds": (
        changed(feasible={"kind": "box", "low": 0, "high": -5}),
        ["feasible: `low` must not exceed `high`, got 0.0 and -5.0"],
    ),
    "bounds of a budget": (
        changed(feasible={"kind": "budget", "low": [0, 7], "high": 5, "total": 9}),
        ["feasible: `low` must not exceed `high`, got [0.0, 7.0] and 5.0"],
    ),
    "as many numbers as items": (
        changed(start=[1, 2, 3]) | {"data": {"items": ["a", "b"]}},
        ["\n  start: must be one number, or one for each of 2 items, got 3"],
    ),
    "several": (
        changed(cost={"underage": -1, "overage": "x"}, start=True),
        ["cost.underage", "cost.overage", "start"],
    ),
    "nan": (changed(start=float("nan")), ["start", "finite"]),
    "infinite": (changed(cost={"underage": float("inf")}), ["underage", "finite"]),
    "huge": (changed(start=10**400), ["start"]),
    "boolean": (changed(belief={"shape": True}), ["belief.shape"]),
    "text": (changed(belief={"shape": "2"}), ["belief.shape"]),
    "missing": (changed(cost=None), ["cost"]),
    "no data": (changed(data=None), ["data"]),
    "both": (changed(problem={"name": "pricing-linear"}), ["leave out cost"]),
    "other parameters": (
        changed(model={"kind": "negative-binomial"}),
        ["'concentration', 'mean'", "'gamma' is about ['mean']"],
    ),
    "value and items": (changed(data={"items": ["a"]}), ["either `value` or `items`"]),
    "items twice": (
        changed() | {"data": {"items": ["a", "a"]}},
        ["twice"],
    ),
    "weekday without dates": (
        changed(split_by={"kind": "weekday"}) | {"data": {"value": "demand"}},
        ["data.date"],
    ),
    "levels": (
        changed(
            belief={
                "kind": "grid",
                "levels": {"mean": {"from": 0, "to": 1, "points": 3, "spacing": "log"}},
            }
        ),
        ["belief.levels.mean"],
    ),
    "too many points": (
        changed(
            model={"kind": "negative-binomial"},
            belief={
                "kind": "grid",
                "levels": {
                    name: {"from": 1, "to": 2, "points": 10_000}
                    for name in ("mean", "concentration")
                },
            },
        ),
        ["100000000 points"],
    ),
    "forget": (changed(belief={"forget": 1.5}), ["belief.forget"]),
    "seed": (changed(settings={"seed": -1}), ["settings.seed"]),
    "no samples": (changed(settings={"samples": []}), ["settings.samples"]),
    "no kind": (changed() | {"model": {}}, ["model: `kind` is missing"]),
    "wrong entry": (
        changed(cost={"underage": [1, "a"]}),
        ["cost.underage[1]: must be a valid number, got 'a'"],
    ),
    "neither": (
        changed(start="a"),
        ["start: must be a valid number, got 'a'; or: must be a valid list"],
    ),
    "names twice": (
        changed() | {"data": {"value": "v", "item": "i", "names": ["a", "a"]}},
        ["`names`", "twice"],
    ),
    "rule": (changed(backtest={"rules": ["saa", "fortune"]}), ["backtest", "'fortune'"]),
    "profit": (
        changed(cost={"kind": "profit", "cost": 2, "price": [3, 2]}),
        ["cost", "`cost` than `price`"],
    ),
    "reference": (
        {"data": GOOD["data"], "problem": {"python": "os.system('x')"}},
        ["problem"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_everything_wrong_is_named(name):
    content, words = WRONG[name]
    with pytest.raises(errors.SpecificationError) as caught:
        parse(content)
    for word in words:
        assert word in str(caught.value)
    assert "function" not in str(caught.value)  # nothing of how it is checked
    assert "[_" not in str(caught.value)


def test_the_start_must_be_feasible():
    with pytest.raises(errors.SpecificationError, match=r"start: x = 1000\.0 violates"):
        build(parse(changed(start=1000)), ("demand",))


def test_numbers_for_each_item_must_be_as_many():
    data = {"data": {"value": "sold", "item": "product"}}  # only the rows tell how many there are
    spec = parse(changed(cost={"underage": [1, 2, 3]}) | data)
    with pytest.raises(errors.SpecificationError, match=r"cost\.underage: .* 2 items, got 3"):
        build(spec, ("a", "b"))


FILES = {
    "no file": (None, "cannot read"),
    "no TOML": (b"a = ", "no TOML"),
    "pickle": (b"\x80\x04cposix\nsystem\n(S'touch x'\ntR.", "no TOML"),
    "deep": (b"a = " + b"[" * 100_000, "nested too deeply|no TOML"),
    "deep tables": (b"[" + b"a." * 100_000 + b"b]", "nested too deeply"),
    "large": (b"#" * 2_000_000, "larger than"),
    "binary": (b"\xff\xfe\x00", "no TOML"),
}


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_are_refused(tmp_path, name):
    content, words = FILES[name]
    path = tmp_path / "problem.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.SpecificationError, match=words):
        load(path)


CODE = """
import jax.numpy as jnp
import postgrad as pg
LOADED = True


def mine():
    instance = pg.problems.quadratic.univariate_dependent()
    return instance.problem, instance.belief, instance.x


def nothing():
    return None
"""


def test_code_runs_only_where_it_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "theirs.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "problem.toml"
    path.write_text('[data]\nvalue = "demand"\n[problem]\npython = "theirs:mine"\n')
    with pytest.raises(errors.SpecificationError, match="nothing was run"):
        load(path)
    assert "theirs" not in sys.modules
    setup = build(load(path, allow_code=True), ("demand",))
    assert setup.starts[0].shape == ()
    for name in ("nothing", "none"):
        path.write_text(f'[data]\nvalue = "demand"\n[problem]\npython = "theirs:{name}"\n')
        with pytest.raises(errors.SpecificationError, match=f"theirs:{name} must be a function"):
            build(load(path, allow_code=True), ("demand",))


def test_ready_made_problems_have_names():
    spec = parse({"data": {"value": "demand"}, "problem": {"name": "newsvendor-1d-dependent"}})
    assert float(build(spec, ("demand",)).starts[0]) == 10.0
    spec = parse({"data": {"value": "demand"}, "problem": {"name": "magic"}})
    with pytest.raises(errors.SpecificationError, match=r"problem\.name: must be among .*queue"):
        build(spec, ("demand",))
    spec = parse({"data": {"items": ["a", "b"]}, "problem": {"name": "newsvendor-independent"}})
    with pytest.raises(errors.SpecificationError, match="3 numbers, got 2 items"):
        build(spec, ("a", "b"))


def fed(rows, **data):
    columns = {"value": "demand", "date": "date", **data}
    content = changed() | {"data": {k: v for k, v in columns.items() if v is not None}}
    spec = parse(content)
    return list(dated_rows(rows, spec.data, spec.split_by))


def test_rows_become_batches():
    rows = [
        {"date": "2026-01-01", "demand": "3", "shut": "0", "stock": "5"},
        {"date": "2026-01-02", "demand": "", "shut": 0, "stock": 6},
        {"date": "2026-01-03", "demand": "4", "shut": "1", "stock": "7"},
    ]
    one, two = fed(rows, skip={"shut": 1}, decision="stock")
    assert (one.id, one.values, one.decisions) == ("2026-01-01", {"demand": 3.0}, {"demand": 5.0})
    assert two.values == {"demand": None}
    odd = [{**row, "shut": value} for row, value in zip(rows, (10**400, [], None), strict=True)]
    assert len(fed(odd, skip={"shut": 1})) == len(fed(odd, skip={"shut": "None"})) == 3
    assert [row.id for row in fed(rows, date=None)] == ["1", "2", "3"]
    assert [row.id for row in fed(rows, id="stock")] == ["5", "6", "7"]


def test_a_table_has_days_in_order():
    rows = [
        {"date": date, "demand": demand, "what": what}
        for date, demand, what in [
            ("2026-01-02", 3, "b"),
            ("2026-01-01", 1, "a"),
            ("2026-01-02", 4, "a"),
        ]
    ]
    table = demand_table(fed(rows, item="what"))
    assert table.dates == ("2026-01-01", "2026-01-02")
    assert table.items == ("b", "a")
    np.testing.assert_array_equal(table.demand, [[np.nan, 1.0], [3.0, 4.0]])
    assert table.rows.tolist() == [1, 2]
    with pytest.raises(errors.DataError, match="row 4: 'a' has '2026-01-01' also in row 2"):
        demand_table(fed([*rows, rows[1]], item="what"))
    with pytest.raises(errors.DataError, match=r"must be among data\.names, got 'b'"):
        fed(rows, item="what", names=["a"])
    with pytest.raises(errors.DataError, match="no rows"):
        demand_table([])


def test_days_are_in_the_order_of_time_not_of_letters():
    dates = ["2026-01-02T00:30+05:00", "2026-01-01T23:00+00:00"]
    rows = [{"date": date, "demand": "3"} for date in dates[::-1]]
    assert demand_table(fed(rows)).dates == tuple(dates)


def test_groups_are_read_off_the_rows():
    weekday = parse(changed(split_by={"kind": "weekday"}))
    rows = [{"date": "2026-01-01", "demand": 3}]
    assert next(dated_rows(rows, weekday.data, weekday.split_by)).group == "Thursday"
    rows[0]["date"] = "yesterday"
    with pytest.raises(errors.DataError, match="row 1: 'yesterday' is no date"):
        next(dated_rows(rows, weekday.data, weekday.split_by))
    column = parse(changed(split_by={"kind": "column", "column": "rain", "values": ["yes", "no"]}))
    rows[0]["rain"] = "hail"
    with pytest.raises(errors.DataError, match=r"split_by\.values, got 'hail'"):
        next(dated_rows(rows, column.data, column.split_by))


def test_a_backtest_scores_rows():
    spec = parse(changed(backtest={"burn_in": 2, "rules": ["saa"]}))
    rows = [{"date": f"2026-01-{day:02}", "demand": day % 4} for day in range(1, 9)]
    summary = backtest_specification(spec, rows).summary()
    assert summary["scored"] == summary["days"] == 6
    assert summary["total"].keys() == {"postgrad", "saa", "hindsight"}
    assert summary["first"] == "2026-01-03"
    with pytest.raises(errors.DataError, match="burn_in"):
        backtest_specification(spec, rows[:2])

"""The examples on real data, as a user runs them: cheaper than what they are compared with."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
from typer.testing import CliRunner

import postgrad as pg
from postgrad.cli import app
from postgrad.problem import feasible
from postgrad.spec import load
from postgrad.spec import rules_of_thumb as rules
from postgrad.spec.build import build
from postgrad.spec.demand_table import DemandTable

ROOT = Path(__file__).parent.parent
SHARED = ROOT.parent / "shared" / "data"
PROGRAM = Path(sys.executable).with_name("postgrad")
# Compiled as for users: these programs run for longer than they are compiled.
PLAIN = {
    name: value
    for name, value in os.environ.items()
    if name not in ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")
}

# Specification: (data, rows scored, at most, and what the rules cost, from the data's own notes)
EXAMPLES = {
    "yaz": ("yaz", 700, 76_190, {"saa": 76_189.75, "normal": 78_157.57, "last-value": 117_228.5}),
    "yaz-weekday": ("yaz", 700, 60_720, {"saa": 60_719.5, "normal": 61_421.59}),
    "yaz-calendar": ("yaz", 700, 57_900, {"saa": 76_189.75, "last-value": 117_228.5}),
    "yaz-capacity": ("yaz", 700, 87_006, {"normal": 87_514.52, "last-value": 117_740.02}),
    "onlineretail-orders": (
        "onlineretail", 7350, 22_391, {"saa": 23_866, "normal": 23_666.09, "last-value": 37_170},
    ),
    "onlineretail-units": (
        "onlineretail", 7350, 708_151, {"saa": 719_765, "normal": 821_469.24},
    ),
}  # fmt: skip
HINDSIGHT = {
    "yaz": 75_093,
    "yaz-weekday": 57_903.5,
    "yaz-calendar": 75_093,
    "yaz-capacity": 86_345.25,
    "onlineretail-orders": 22_598,
    "onlineretail-units": 704_507,
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """As a user's, but the commands share compiled programs."""
    programs = str(tmp_path_factory.mktemp("programs"))
    return {
        **PLAIN,
        "JAX_COMPILATION_CACHE_DIR": programs,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }


def data(name):
    """The table; the restaurant's is shipped."""
    path = ROOT / "examples" / f"{name}.csv"
    path = path if path.exists() else SHARED / f"{name}.csv"
    if not path.exists():
        pytest.skip(f"{name}.csv is not shipped, and shared/data is not here")
    return path


@pytest.mark.slow
def test_forgetting_is_not_everything(tmp_path, environment):
    """With all of the past the negative binomial still costs less than the empirical quantile."""
    text = (ROOT / "examples" / "onlineretail-orders.toml").read_text()
    spec = tmp_path / "orders.toml"
    spec.write_text(re.sub(r"(?m)^forget = .*$", "forget = 1", text))
    done = subprocess.run(
        [PROGRAM, "backtest", spec, data("onlineretail"), "--json"],
        capture_output=True, text=True, check=False, timeout=900, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["total"]["postgrad"] < 23_866


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example_costs_less(name, tmp_path, environment):
    table, scored, most, expected = EXAMPLES[name]
    done = subprocess.run(
        [PROGRAM, "backtest", ROOT / "examples" / f"{name}.toml", data(table), "--json",
         "--out", tmp_path],
        capture_output=True, text=True, check=False, timeout=900, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["scored"] == scored
    total = result["total"]
    assert total["postgrad"] < most
    for rule, cost in (expected | {"hindsight": HINDSIGHT[name]}).items():
        assert total[rule] == pytest.approx(cost, abs=0.01), rule
    if name == "yaz-capacity":
        with (tmp_path / "decisions.csv").open() as file:
            lines = list(csv.DictReader(file))
        orders = np.asarray([float(line["decision postgrad"]) for line in lines]).reshape(700, 7)
        assert (orders >= 0).all()
        assert (orders.sum(axis=1) <= 125).all()
        # Solutions of the linear programme are many: near enough to what others found.
        assert total["saa"] == pytest.approx(87_006.11, rel=5e-4)


def test_a_part_of_an_example_costs_less(tmp_path):
    """Two of the seven ingredients, the first 200 days; in this process."""
    text = (ROOT / "examples" / "yaz.toml").read_text()
    for key, few in (
        ("items", '["chicken", "lamb"]'), ("underage", "[4, 5]"), ("overage", "[1, 1.25]"),
    ):  # fmt: skip
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {few}", text)
    spec, table = tmp_path / "yaz.toml", tmp_path / "yaz.csv"
    spec.write_text(text)
    table.write_text("".join(data("yaz").read_text().splitlines(keepends=True)[:201]))
    done = CliRunner().invoke(app, ["backtest", str(spec), str(table), "--json"])
    assert done.exit_code == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["scored"] == 139  # on one day the restaurant is closed
    total = result["total"]
    assert total["postgrad"] < total["saa"] < total["normal"] < total["last-value"]


def test_rules_do_not_know_the_future():
    """A rule on the first days alone is the rule on all of them."""
    rng = np.random.default_rng(0)
    demand = rng.integers(0, 20, (30, 1)).astype(float)

    class Cost:
        underage, overage = np.asarray([4.0]), np.asarray([1.0])

    def rule_backtest(days):
        table = DemandTable(demand[:days])
        return rules.RuleBacktest(table, np.zeros(1), [Cost()], [feasible.Box(0.0, 50.0)])

    for name in ("saa", "normal", "last-value", "saa-5"):
        few, all_ = rule_backtest(20).orders(name, 3), rule_backtest(30).orders(name, 3)
        np.testing.assert_array_equal(few[3:], all_[3:20])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["yaz", "yaz-capacity"])
def test_decisions_on_counts_come_to_rest(name):
    """At kinks no slope vanishes, and yet the search must say that there is nothing left to do."""
    specification = load(ROOT / "examples" / f"{name}.toml")
    items = list(specification.data.items)
    built = build(specification, items)
    with open(ROOT / "examples" / "yaz.csv") as file:
        rows = [row for row in csv.DictReader(file) if row["is_closed"] != "1"][:40]
    sold = np.array([[float(row[item]) for item in items] for row in rows])
    algorithm = pg.BayesianSGD(built.problems[0], **built.options)
    state, step = algorithm.init(built.belief, built.starts[0]), eqx.filter_jit(algorithm.step)
    for t, row in enumerate(sold if built.joint else sold[:, 0], 1):
        state, info = step(state, np.asarray(row)[None])
        assert t <= 10 or info.course.settled == 1.0, t

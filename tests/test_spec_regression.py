"""Regression models in specification files: their terms, their belief, and what is refused."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from test_spec import changed
from test_spec_agents import call

import postgrad as pg
from postgrad import errors
from postgrad.spec.build import build
from postgrad.spec.specification import parse

CONTEXT = {
    "calendar": ["weekday", "month", "day", "year_share"],
    "holidays": ["2026-12-25"],
    "columns": {
        "promo": {"kind": "number", "scale": [0, 1]},
        "weather": {"kind": "category", "levels": ["dry", "wet"], "other": True},
    },
}
MODEL = {"kind": "regression", "family": "poisson"}
BELIEF = {"kind": "regression"}


def specification(model=MODEL, belief=BELIEF, context=CONTEXT, **changes):
    content = changed(model=model, belief=belief, settings={}, **changes)
    return parse(content if context is None else content | {"context": context})


def test_the_untuned_specification_is_the_untuned_belief():
    """With all of the calendar."""
    model = {"kind": "regression", "family": "negative-binomial"}
    calendar = {"calendar": CONTEXT["calendar"]}
    built = build(specification(model, context=calendar), ["a"])
    untuned = pg.beliefs.daily_demand()
    names = {"day": "trend", "year_share": "waves"}
    renamed = [names.get(name, name) for name, _ in built.belief.beliefs.shapes]
    assert sorted(renamed) == [name for name, _ in untuned.beliefs.shapes]
    assert built.belief.discount == untuned.discount
    # Names are in another order, so coefficients are too.
    for name in ("scale", "drift", "half_life"):
        mine, other = (np.sort(getattr(b.beliefs, name), axis=-1) for b in (built.belief, untuned))
        np.testing.assert_array_equal(mine, other)
    numbers = [b.beliefs.numbers["concentration"] for b in (built.belief, untuned)]
    np.testing.assert_array_equal(*numbers)
    (observed,) = {type(problem.observation) for problem in built.problems}
    assert observed is pg.models.WithOutliers


def test_terms_follow_from_the_context():
    model = {**MODEL, "scales": {"promo": 2.0, "level": 3.0}, "drifts": {"weather": 0.1}}
    built = build(specification(model), ["demand"])
    terms = built.problems[0].model.predictor.terms
    kinds = {name: type(term).__name__ for name, term in terms.items()}
    assert kinds == {
        "level": "Level",
        "deviation": "Deviation",
        "weekday": "Categorical",
        "month": "Categorical",
        "day": "Trend",
        "year_share": "Harmonic",
        "holiday": "Numeric",
        "promo": "Numeric",
        "weather": "Categorical",
    }
    assert (terms["promo"].scale, terms["level"].scale, terms["weather"].drift) == (2.0, 3.0, 0.1)
    assert terms["weather"].levels == 3  # that of levels never seen too
    assert len(built.belief.members) == 3 * 3


FAMILIES = {
    "negative-binomial": ({}, 8 * 9),
    "poisson": ({}, 9),
    "log-normal": ({}, 7 * 9),
    "normal": ({"numbers": [1, 2]}, 2 * 9),
    "bernoulli": ({}, 9),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_learns(family):
    belief, members = FAMILIES[family]
    built = build(specification(MODEL | {"family": family}, BELIEF | belief), ["demand"])
    assert len(built.belief.members) == members
    problem = built.problems[0].at(jax.tree.map(np.asarray, built.context))
    before = built.belief.bind(problem, np.asarray(2.0))
    y = np.ones(1) if family == "bernoulli" else np.full(1, 4.0)
    after = jax.jit(lambda b: b.update(problem.likelihood, 2.0, y))(before)
    moved = after.mean()["level"] - before.mean()["level"]
    assert 0.1 < moved < 10.0


WRONG = {
    "no context": ({"context": None}, "model: a regression needs `context`"),
    "no scale": (
        {"model": MODEL | {"family": "normal"}},
        "belief.numbers: is missing; give values of the scale, in units of the data",
    ),
    "no number": (
        {"belief": BELIEF | {"numbers": [2.0]}},
        "belief.numbers: the family 'poisson' has no number; leave it out",
    ),
    "no term": (
        {"model": MODEL | {"scales": {"snow": 1.0}}},
        "model.scales: must name one of ['level', 'weekday', 'month', 'day', 'year_share', "
        "'holiday', 'promo', 'weather'], got 'snow'",
    ),
    "a trend that drifts": (
        {"model": MODEL | {"drifts": {"day": 0.1}}},
        "model.drifts: trend and season do not drift, got 'day'",
    ),
    "outliers": (
        {"model": MODEL | {"family": "bernoulli", "outliers": 0.1}},
        "model: `outliers` are for counts and numbers, not for bernoulli",
    ),
    "a taken name": (
        {"context": {"columns": {"level": {"kind": "number"}}}},
        "context.columns: 'level' and 'deviation' are terms of every model",
    ),
    "another belief": (
        {"belief": {"kind": "gamma", "shape": 2, "rate": 1}},
        "belief: the model 'regression' has the parameters ['coefficients'], but the belief "
        "'gamma' is about ['mean']",
    ),
    "half-life": (
        {"belief": BELIEF | {"changes": [[0.1, 0.0, 0.0]]}},
        "belief: `changes` are [deviation, half-life > 0, drift], got [0.1, 0.0, 0.0]",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_place(case):
    changes, message = WRONG[case]
    with pytest.raises(errors.SpecificationError) as error:
        specification(**changes)
    assert message in str(error.value)


def test_items_that_share_a_budget_have_a_context_each():
    budget = {"kind": "budget", "low": 0, "high": 50, "total": 20}
    belief = BELIEF | {"changes": [[0.1, 14, 0.003]]}
    built = build(specification(belief=belief, feasible=budget), ["a", "b"])
    assert {name: z.shape for name, z in built.context.items()}.keys() == set(
        built.problems[0].model.each.predictor.terms
    ) - {"level", "deviation"}
    problem = built.problems[0].at(built.context | {"promo": np.asarray([0.0, 1.0])})
    theta = jax.tree.map(lambda leaf: leaf[0], built.belief.examples())
    theta["promo"] = np.ones(2)
    first, second = problem.model(built.starts[0], theta).mean
    assert second == pytest.approx(np.e * first)


def test_a_model_without_contexts_is_refused_with_one():
    spec = parse(changed(context={"calendar": ["weekday"]}))
    with pytest.raises(errors.SpecificationError, match="the model 'poisson' takes none"):
        build(spec, ["demand"])


SHOP = """
start = 5

[data]
date = "date"
value = "sold"

[context]
calendar = ["weekday"]

[cost]
kind = "newsvendor"
underage = 4
overage = 1

[model]
kind = "regression"
family = "poisson"

[belief]
kind = "regression"
changes = [[0.1, 14, 0.003]]

[feasible]
kind = "box"
low = 0
high = 100

[settings]
preset = "paper"
"""


@pytest.mark.sample(2, of="tables of contexts")
def test_the_last_decision_is_read_without_jax_and_where_nothing_can_be_written(tmp_path):
    (tmp_path / "shop.toml").write_text(SHOP)
    rows = [f"2026-01-0{day},{day + 2}" for day in range(1, 6)]
    (tmp_path / "data.csv").write_text("\n".join(["date,sold", *rows]) + "\n")
    lines = call("run", tmp_path / "shop.toml", tmp_path / "data.csv").stdout.splitlines()
    last = json.loads(lines[-1])
    assert last["id"] == "2026-01-06"
    for path in (*tmp_path.iterdir(), tmp_path):
        path.chmod(0o555 if path.is_dir() else 0o444)
    script = (
        "import sys\nfrom postgrad.cli import main\n"
        f"sys.argv = ['postgrad', 'decide', {str(tmp_path / 'shop.toml')!r}, '--json']\n"
        "try:\n    main()\nfinally:\n    print(sorted({'jax', 'equinox'} & sys.modules.keys()))"
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
    finally:
        tmp_path.chmod(0o755)
    found, modules = done.stdout.splitlines()
    assert modules == "[]"
    (decided,) = json.loads(found)
    assert decided["id"] == "2026-01-06"
    assert decided["decision"] == last["decision"]["sold"]

"""Backtests in contexts: each day decides for its own, as a live agent does, and knows no more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.regression.predictive import predictive_quantile
from postgrad.research.problems.newsvendor import Mismatch
from postgrad.spec.contexts.decisions_in_contexts import schedule

pytestmark = pytest.mark.sample(10, of="backtests in contexts")

DAYS = 12
RNG = np.random.default_rng(0)
PROMO = RNG.integers(0, 2, (DAYS, 2)).astype(float)
WEEKDAY = np.arange(DAYS) % 3
DEMAND = RNG.normal(10.0 + 3.0 * PROMO + WEEKDAY[:, None], 2.0)
CONTEXT = {"promo": PROMO, "weekday": WEEKDAY}
DATES = [f"2026-01-{day + 1 + 3 * (day > 5):02d}" for day in range(DAYS)]
MODEL = pg.models.Normal(
    pg.models.Predictor(
        level=pg.models.Level(10.0, 5.0),
        weekday=pg.models.Categorical(3, scale=2.0, drift=0.5),
        promo=pg.models.Numeric(scale=5.0, drift=0.5),
    )
)
BELIEF = pg.beliefs.Regression(MODEL, scale=2.0)
BOX = pg.feasible.Box(0.0, 14.0)
# One step of the paper's compiles in a moment, and how good a decision is does not matter here.
PAPER = pg.presets.paper()


def squared(x, xi):
    return (x - xi) ** 2


NEWSVENDORS = [
    pg.Problem(Mismatch(jnp.asarray(underage), jnp.asarray(1.0)), MODEL, BOX)
    for underage in (4.0, 1.0)
]
FORECAST = [pg.Problem(squared, MODEL, BOX)] * 2


def z(day, item):
    return {"promo": PROMO[day, item], "weekday": WEEKDAY[day]}


def backtest(problems=NEWSVENDORS, demand=DEMAND, context=CONTEXT, **options):
    options = {"dates": DATES, **PAPER, **options}
    return pg.backtest(problems, BELIEF, 5.0, demand, context=context, **options)


def agent(problem, dates=True):
    return pg.Agent(problem, BELIEF, 5.0, context=z(0, 0), **PAPER)


@pytest.mark.parametrize("dates", [DATES, None])
def test_decisions_are_those_of_a_live_agent(dates):
    result = backtest(FORECAST, dates=dates)
    live = agent(FORECAST[0])
    for day in range(DAYS):
        date = None if dates is None else dates[day]
        decided = live.decide(z(day, 0), date=date)
        assert result.decisions["postgrad"][day, 0] == pytest.approx(float(decided), rel=1e-9)
        live.observe(DEMAND[day, 0], context=z(day, 0), date=date)
    assert len({*result.decisions["postgrad"][:, 0]}) == DAYS


@pytest.mark.parametrize("delay", [0, 1, 4])
def test_decisions_of_newsvendors_are_quantiles(delay):
    """Of a live belief that learns each row in its own context, when it has become known."""
    result = backtest(delay=delay)
    live, days = agent(NEWSVENDORS[0]), np.asarray(DATES, "datetime64[D]").astype(float)
    decided, clipped = result.decisions["postgrad"][:, 0], 0
    for day in range(DAYS):
        if (known := day - 1 - delay) >= 0:
            live.observe(DEMAND[known, 0], context=z(known, 0), date=DATES[known])
        ahead = live.belief.advance(days[day] - days[known] if known >= 0 else 0.0)
        level = predictive_quantile(ahead, NEWSVENDORS[0].at(z(day, 0)).model, 0.8)
        expected = np.clip(float(level), 0.0, 14.0)
        clipped += expected == 14.0
        assert decided[day] == pytest.approx(expected, rel=1e-9)
    assert 0 < clipped < DAYS


def test_a_schedule_learns_what_is_known_and_looks_ahead():
    days, times = np.asarray([0, 1, 4]), np.asarray([0.0, 1.0, 2.0, 3.0, 9.0])
    plan = schedule(days, np.asarray([0, 1, 4]), 0, times)
    assert plan.learned.tolist() == [-1, 0, 1, 4]
    assert plan.decided.tolist() == [0, 1, 4, -1]
    assert plan.elapsed.tolist() == [0.0, 0.0, 1.0, 8.0]
    assert plan.ahead.tolist() == [0.0, 1.0, 8.0, 0.0]
    late = schedule(days, np.asarray([0, 1, 4]), 2, times)
    assert late.learned.tolist() == [-1, -1, 0, 1, 4]  # two become known between days 1 and 4
    assert late.decided.tolist() == [0, 1, -1, 4, -1]
    assert late.ahead.tolist() == [0.0, 0.0, 0.0, 8.0, 0.0]
    plain = schedule(days, np.asarray([0, 4]), 0, None)  # without dates a day is one unit
    assert plain.elapsed.tolist() == [0.0, 1.0, 0.0, 4.0]
    assert plain.ahead.tolist() == [1.0, 1.0, 4.0, 0.0]


OTHERS = {
    "columns in another order": lambda p, y, rng: (rng.permutation(p), y),
    "other columns": lambda p, y, rng: (p + 50.0, y),
    "empty columns": lambda p, y, rng: (np.full_like(p, np.nan), y),
    "other demand": lambda p, y, rng: (p, y * 3.0),
    "no demand": lambda p, y, rng: (p, np.full_like(y, np.nan)),
}


@pytest.mark.parametrize("planted", OTHERS)
@pytest.mark.parametrize("delay", [0, 2])
def test_no_decision_knows_the_future(planted, delay):
    before = backtest(delay=delay).decisions["postgrad"]
    rng, known = np.random.default_rng(1), 7
    promo, demand = PROMO.copy(), DEMAND.copy()
    promo[known:], demand[known:] = OTHERS[planted](PROMO[known:], DEMAND[known:], rng)
    after = backtest(demand=demand, context=CONTEXT | {"promo": promo}, delay=delay)
    same = known + (planted in ("other demand", "no demand"))  # the demand of that very day too
    np.testing.assert_array_equal(after.decisions["postgrad"][:same], before[:same])
    assert not np.array_equal(after.decisions["postgrad"], before)


def test_days_without_a_value_are_left_out_and_counted():
    promo = PROMO.copy()
    promo[4, 1] = np.nan
    result = backtest(context=CONTEXT | {"promo": promo}, burn_in=2)
    assert result.left_out == {"promo": 1}
    assert "for want of: promo (1)" in result.table()
    assert np.isnan(result.decisions["postgrad"][4, 1])
    assert not result.known[4, 1]
    for costs in result.costs.values():
        assert costs[4, 1] == 0.0
    without = DEMAND.copy()
    without[4, 1] = np.nan
    same = backtest(demand=without, burn_in=2).decisions["postgrad"]
    others = np.delete(np.arange(DAYS), 4)
    np.testing.assert_array_equal(result.decisions["postgrad"][others], same[others])


def test_groups_learn_by_themselves():
    groups = ["even" if day % 2 == 0 else "odd" for day in range(DAYS)]
    whole = backtest(split_by=groups).decisions["postgrad"]
    even = {name: column[::2] for name, column in CONTEXT.items()}
    alone = backtest(demand=DEMAND[::2], context=even, dates=DATES[::2]).decisions["postgrad"]
    np.testing.assert_allclose(whole[::2], alone, rtol=1e-12)


def test_cost_and_feasible_set_may_depend_on_the_context():
    def cost(x, xi, z):
        return (1.0 + z["promo"]) * (x - xi) ** 2

    problem = pg.Problem(cost, MODEL, lambda z: pg.feasible.Box(0.0, 8.0 + z["promo"]))
    result = backtest([problem] * 2)
    decided, promo = result.decisions["postgrad"], PROMO
    assert (decided <= 8.0 + promo).all()
    np.testing.assert_allclose(result.costs["postgrad"], (1.0 + promo) * (decided - DEMAND) ** 2)
    assert set(result.costs) == {"postgrad"}
    with pytest.raises(errors.SettingError, match="rules of thumb need a newsvendor's cost"):
        backtest([problem] * 2, rules=["saa"])


def test_columns_may_be_of_all_items_or_of_each():
    shared = {"promo": PROMO[:, 0], "weekday": WEEKDAY}
    wide = {"promo": PROMO[:, :1], "weekday": np.stack([WEEKDAY, WEEKDAY], axis=1)}
    one, two = (backtest(context=context).decisions["postgrad"] for context in (shared, wide))
    np.testing.assert_array_equal(one, two)


def test_what_is_wrong_is_said():
    wrong = {
        "takes a context: give context=": None,
        r"promo must have a number for each of 12 days .* got shape \(3,\)": {
            "promo": PROMO[:3, 0]
        },
        r"promo must be days by 2 items, got shape \(12, 3\)": {"promo": np.zeros((DAYS, 3))},
        "promo must be finite": {"promo": np.full(DAYS, np.inf)},
        "promo must be an array of numbers": {"promo": ["yes"] * DAYS},
    }
    for message, context in wrong.items():
        with pytest.raises(errors.ContextError, match=message):
            backtest(context=context)
    with pytest.raises(errors.SettingError, match="cannot be pooled"):
        backtest(split_by=DATES, pool=pg.Pool(1.0))
    plain = pg.Problem(squared, lambda x, theta: MODEL.law(theta["level"], theta), BOX)
    with pytest.raises(errors.ContextError, match="takes no context"):
        backtest([plain] * 2)


def test_contexts_keep_their_kinds_of_numbers():
    kinds = []

    class Spy(pg.models.Categorical):
        def design(self, name, x, z):
            kinds.append(z["weekday"].dtype)
            return super().design(name, x, z)

    terms = {"level": pg.models.Level(), "weekday": Spy(3), "promo": pg.models.Numeric()}
    model = pg.models.Normal(pg.models.Predictor(**terms))
    problem = pg.Problem(squared, model, BOX)
    belief = pg.beliefs.Regression(model, scale=2.0)
    pg.backtest(problem, belief, 5.0, DEMAND, context=CONTEXT, rules=(), **PAPER)
    assert set(map(str, kinds)) == {"int64"}
    assert jax.config.jax_enable_x64

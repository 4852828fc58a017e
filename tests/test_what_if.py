"""What decisions would cost and bring, against closed forms."""

import json

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm
from test_programs import lowered
from test_reading import BUDGET, ROWS, SPEC, call

import postgrad as pg
from postgrad.errors import ContextError, CostError, DecisionError, SettingError, StoreError

pytestmark = pytest.mark.sample(8, of="what-if")

NOISE, PRICES = 10.0, (4.0, 1.0)


def newsvendor(x, xi):
    return PRICES[0] * jnp.maximum(xi - x, 0.0) + PRICES[1] * jnp.maximum(x - xi, 0.0)


OUTCOMES = {"short": lambda x, xi: xi > x, "sold": lambda x, xi: jnp.minimum(x, xi)}
PROBLEM = pg.Problem(
    cost=newsvendor,
    model=lambda x, theta: dist.Normal(theta, NOISE),
    feasible=pg.feasible.Box(0.0, 200.0),
    outcomes=OUTCOMES,
)
DATA = np.random.default_rng(0).normal(60.0, NOISE, (5, 4))


def expected_cost(x, mean, sd):
    z = (x - mean) / sd
    over = sd * (norm.pdf(z) + z * norm.cdf(z))
    return PRICES[0] * (over - (x - mean)) + PRICES[1] * over


@pytest.fixture(scope="module")
def agent():
    made = pg.Agent(PROBLEM, pg.beliefs.Normal(50.0, 20.0), 50.0)
    for batch in DATA:
        made.observe(batch)
    return made


def believed(agent):
    return float(agent.belief.mean()), float(agent.belief.spread())


@pytest.mark.parametrize("x", [40.0, 66.0, 71.0, 95.0])
def test_cost_and_outcomes_are_those_of_closed_forms(agent, x):
    mean, sd = believed(agent)
    ahead = np.hypot(sd, NOISE)
    found = agent.cost(x)
    exact = expected_cost(x, mean, ahead)
    assert found.cost.mean == pytest.approx(exact, abs=max(3.0 * found.cost.error, 1e-3 * exact))
    thetas = norm(mean, sd).ppf((np.arange(4000) + 0.5) / 4000)
    known = expected_cost(x, thetas, NOISE)
    low, high = np.quantile(known, [0.025, 0.975])
    spread = np.std(known)
    assert [found.cost.low, found.cost.high] == pytest.approx([low, high], abs=0.25 * spread + 0.05)
    assert found.spread == pytest.approx(spread, rel=0.15)
    short = found.outcomes["short"]
    assert short.event
    assert short.mean == pytest.approx(norm.sf(x, mean, ahead), abs=2e-3)
    ends = norm.sf(x, mean + np.array([-1.96, 1.96]) * sd, NOISE)
    assert [short.low, short.high] == pytest.approx(ends, abs=0.02)
    sold = found.outcomes["sold"]
    z = (x - mean) / ahead
    assert sold.mean == pytest.approx(x - ahead * (norm.pdf(z) + z * norm.cdf(z)), abs=0.02)
    assert not sold.event


def test_the_parts_add_up_to_the_cost(agent):
    mean, sd = believed(agent)
    for x in (50.0, 66.0, 90.0):
        found = agent.cost(x)
        parts = found.if_known + found.of_not_knowing + found.of_the_decision
        assert parts == pytest.approx(found.cost.mean, rel=1e-12)
    best = mean + norm.ppf(0.8) * NOISE
    assert found.if_known == pytest.approx(expected_cost(best, mean, NOISE), rel=0.01)
    least = expected_cost(mean + norm.ppf(0.8) * np.hypot(sd, NOISE), mean, np.hypot(sd, NOISE))
    assert found.of_the_decision == pytest.approx(found.cost.mean - least, rel=0.01)
    assert agent.cost(agent.decision).of_the_decision == pytest.approx(0.0, abs=1e-12)


def test_differences_are_paired(agent):
    mean, sd = believed(agent)
    ahead, a, b = np.hypot(sd, NOISE), 70.0, 70.01
    found = agent.compare(a, b)
    exact = expected_cost(a, mean, ahead) - expected_cost(b, mean, ahead)
    assert found.difference.mean == pytest.approx(exact, abs=1e-4)
    assert found.difference.error < 1e-4
    assert found.difference.mean == pytest.approx(
        agent.cost(a).cost.mean - agent.cost(b).cost.mean, abs=1e-12
    )
    back = agent.compare(b, a)
    assert back.difference.mean == -found.difference.mean
    assert back.a_is_better == pytest.approx(1.0 - found.a_is_better)
    # b is better where the best decision for theta lies above it.
    better = norm.cdf(a - norm.ppf(0.8) * NOISE, mean, sd)
    assert found.a_is_better == pytest.approx(better, abs=0.02)
    assert "70 costs" in str(found)
    assert agent.compare(a, a).a_is_better == 0.5
    assert "the same" in str(agent.compare(a, a))


def test_nothing_is_written_and_nothing_compiled_again(agent):
    first, other = agent.cost(71.0), agent.compare(60.0, 70.0)
    before = (agent.stage, agent.decision, agent._head)
    with lowered() as names:
        for x in (10.0, 60.0, 150.0):
            agent.cost(x)
            agent.compare(x, 70.0)
    assert names == []
    assert agent.cost(71.0) == first
    assert agent.compare(60.0, 70.0) == other
    assert (agent.stage, agent.decision, agent._head) == before


def test_outcomes_change_no_decision_and_no_program(agent):
    plain = pg.Problem(PROBLEM.cost, PROBLEM.model, PROBLEM.feasible)
    other = pg.Agent(plain, pg.beliefs.Normal(50.0, 20.0), 50.0)
    with lowered() as names:
        for batch in DATA:
            other.observe(batch)
    assert names == []
    assert [r.decision for r in other.history()] == [r.decision for r in agent.history()]
    assert other.cost(71.0).cost == agent.cost(71.0).cost
    assert other.cost(71.0).outcomes == {}


def test_words_name_what_matters(agent):
    text = str(agent.cost(71.0))
    for part in ("71 costs 15.4", "would be saved", "not knowing theta", "short: 10.3 %", "sold: "):
        assert part in text
    assert "as little as the best" in str(agent.cost(agent.decision))


def test_a_cost_in_a_context():
    problem = pg.Problem(
        cost=lambda x, xi, z: z["price"] * newsvendor(x, xi),
        model=lambda x, theta, z: dist.Normal(theta + 5.0 * z["promo"], NOISE),
        feasible=pg.feasible.Box(0.0, 200.0),
        outcomes={"short": lambda x, xi, z: xi > x + z["promo"]},
    )
    example = {"price": 1.0, "promo": 0.0}
    agent = pg.Agent(problem, pg.beliefs.Known(60.0), 50.0, context=example)
    agent.cost(66.0, example)
    for price, promo in ((1.0, 0.0), (2.0, 3.0)):
        with lowered() as names:
            found = agent.cost(66.0, {"price": price, "promo": promo})
        assert names == []
        mean = 60.0 + 5.0 * promo
        assert found.cost.mean == pytest.approx(price * expected_cost(66.0, mean, NOISE), rel=2e-3)
        assert found.cost.high - found.cost.low < 1e-9  # theta is known: no data would narrow it
        short = found.outcomes["short"].mean
        assert short == pytest.approx(norm.sf(66.0 + promo, mean, NOISE), abs=2e-3)
        best = mean + norm.ppf(0.8) * NOISE
        assert found.best == pytest.approx(best, abs=0.1)
        saved = price * (expected_cost(66.0, mean, NOISE) - expected_cost(best, mean, NOISE))
        assert found.of_the_decision == pytest.approx(saved, abs=0.02 * price)
    with pytest.raises(ContextError, match="a context is needed"):
        agent.cost(66.0)


def test_steps_of_the_paper_tell_the_cost_without_its_parts():
    policy = pg.presets.paper()
    agent = pg.Agent(PROBLEM, pg.beliefs.Normal(50.0, 20.0), 50.0, **policy)
    found = agent.cost(60.0)
    assert found.cost.mean == pytest.approx(expected_cost(60.0, 50.0, np.hypot(20, 10)), rel=0.01)
    assert np.isnan([found.if_known, found.of_not_knowing, found.of_the_decision]).all()
    assert "best" not in str(found)


@pytest.mark.parametrize(
    ("outcomes", "error", "words"),
    [
        ({"": lambda x, xi: x}, SettingError, "name of an outcome"),
        ({"short": 3.0}, SettingError, "'short' must be a function"),
        ([1], SettingError, "functions by their names"),
        ({"all": lambda x, xi: jnp.stack([x, xi])}, CostError, r"'all'.*shape \(2,\)"),
        ({"odd": lambda x, xi: jnp.log(-1.0 - x**2)}, CostError, "'odd'.*nan"),
    ],
)
def test_outcomes_that_are_none_are_refused(outcomes, error, words):
    def make():
        problem = pg.Problem(PROBLEM.cost, PROBLEM.model, PROBLEM.feasible, outcomes=outcomes)
        return pg.Agent(problem, pg.beliefs.Normal(50.0, 20.0), 50.0)

    with pytest.raises(error, match=words):
        make()


def test_decisions_that_are_none_are_refused(agent):
    for x, words in ((300.0, "violates"), ([1.0], "shape"), (np.nan, "finite")):
        with pytest.raises(DecisionError, match=words):
            agent.cost(x)


def test_the_command_line_says_the_same(tmp_path):
    spec, rows = tmp_path / "a.toml", tmp_path / "a.csv"
    spec.write_text(SPEC)
    rows.write_text(ROWS)
    call("run", spec, rows)
    before = (tmp_path / "a.db").read_bytes()
    [found] = json.loads(call("what-if", spec, "--decision", 4, "--item", "rolls", "--json"))
    assert found["item"] == "rolls"
    assert found["cost"]["low"] < found["cost"]["mean"] < found["cost"]["high"]
    assert found["if_known"] is None  # by the paper's steps, nobody looks for the best decision
    said = call("what-if", spec, "-d", 4)
    assert f"rolls\n4 costs {found['cost']['mean']:.4g}" in said
    assert "bread" in said
    [apart] = json.loads(
        call("what-if", spec, "-d", 4, "--against", 5, "--item", "rolls", "--json")
    )
    [other] = json.loads(call("what-if", spec, "--decision", 5, "--item", "rolls", "--json"))
    gap = found["cost"]["mean"] - other["cost"]["mean"]
    assert apart["difference"]["mean"] == pytest.approx(gap, abs=1e-12)
    assert (tmp_path / "a.db").read_bytes() == before
    refused = call("what-if", spec, "--decision", 99, code=4)
    assert refused == ""


def test_the_command_line_takes_a_decision_for_all_items(tmp_path):
    spec, rows = tmp_path / "a.toml", tmp_path / "a.csv"
    spec.write_text(BUDGET)
    rows.write_text(ROWS)
    call("run", spec, rows)
    [found] = json.loads(call("what-if", spec, "-d", 4, "-d", 6, "--json"))
    assert (found["item"], found["decision"]) == ("*", [4.0, 6.0])


def test_explanations_tell_the_outcomes(agent):
    found = agent.explain()
    assert found.outcomes == agent.cost(agent.decision).outcomes
    assert f"short: {found.outcomes['short']}." in str(found)


def test_outcomes_may_change_and_what_is_believed_stays(tmp_path):
    def made(outcomes, **options):
        problem = pg.Problem(PROBLEM.cost, PROBLEM.model, PROBLEM.feasible, outcomes=outcomes)
        belief, path = pg.beliefs.Normal(50.0, 20.0), tmp_path / "a.db"
        options |= pg.presets.paper()
        return pg.Agent(problem, belief, 50.0, path=path, **options)

    with made({}) as before:
        before.observe(DATA[0])
    with made({}) as same:
        mean = float(same.belief.mean())
    for outcomes in (OUTCOMES, {"short": lambda x, xi: xi > x + 5.0}):
        with pytest.raises(StoreError, match=r"outcomes.*accept-change"):
            made(outcomes)
        with made(outcomes, accept_change=True) as after:
            assert float(after.belief.mean()) == mean
            assert set(after.cost(60.0).outcomes) == set(outcomes)
        with made(outcomes) as again:
            assert again.stage == 1

"""Decisions under rules: service levels and changes, against closed forms and brute force."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, poisson
from test_programs import lowered

import postgrad as pg
from postgrad import rules
from postgrad.errors import ConstraintError, DecisionError, SettingError
from postgrad.monitoring.progress_warnings import ConstraintWarning

pytestmark = pytest.mark.sample(6, of="rules")

NOISE, UNDER = 10.0, 4.0
DATA = np.random.default_rng(0).normal(60.0, NOISE, (5, 4))
PAIRS = np.random.default_rng(0).normal([60.0, 40.0], NOISE, (4, 4, 2))


def cost(x, xi):
    return UNDER * jnp.maximum(xi - x, 0.0) + jnp.maximum(x - xi, 0.0)


OUTCOMES = {
    "short": lambda x, xi: xi > x,
    "lost": lambda x, xi: jnp.maximum(xi - x, 0.0),
}


def demand(x, theta):
    return dist.Normal(theta, NOISE)


def agent(batches=DATA, high=200.0, **parts):
    problem = pg.Problem(cost, demand, pg.feasible.Box(0.0, high), outcomes=OUTCOMES, **parts)
    made = pg.Agent(problem, pg.beliefs.Normal(50.0, 20.0), 50.0)
    for batch in batches:
        made.observe(batch)
    return made


def ahead(made):
    mean, sd = float(made.belief.mean()), float(made.belief.spread())
    return mean, np.hypot(sd, NOISE)


def over(z, sd):
    """E (xi - x)^+ for x = mean + z sd."""
    return sd * (norm.pdf(z) - z * norm.sf(z))


def expected_cost(x, mean, sd):
    z = (x - mean) / sd
    return UNDER * over(z, sd) + over(-z, sd)


@pytest.fixture(scope="module")
def plain():
    return agent()


@pytest.mark.parametrize("share", [0.01, 0.05, 0.15])
def test_a_chance_is_kept_where_a_quantile_says(share):
    made = agent(constraints=[rules.AtMost("short", share)])
    mean, sd = ahead(made)
    x = float(made.decision)
    assert x == pytest.approx(norm.isf(share, mean, sd), abs=0.005 * sd / share**0.5)
    said = made.cost(x).outcomes["short"].mean
    assert said <= share + 1e-12  # on the draws of what-if exactly
    assert norm.sf(x, mean, sd) <= share * 1.02


def test_an_expectation_is_kept_where_its_integral_says():
    made = agent(constraints=rules.AtMost("lost", 0.2))
    mean, sd = ahead(made)
    z = brentq(lambda z: over(z, sd) - 0.2, 0.0, 5.0)
    assert float(made.decision) == pytest.approx(mean + z * sd, abs=0.02 * sd)


def test_rules_that_hold_anyway_change_nothing(plain):
    made = agent(constraints=[rules.AtMost("short", 0.9), rules.AtLeast("lost", 0.0)])
    assert float(made.decision) == pytest.approx(float(plain.decision), abs=0.05)


def test_rules_that_no_decision_keeps(plain):
    problem = pg.Problem(
        lambda x, xi, z: cost(x, xi),
        lambda x, theta, z: dist.Normal(theta + z, NOISE),
        pg.feasible.Box(0.0, 70.0),
        outcomes={"short": lambda x, xi, z: xi > x},
        constraints=[rules.AtMost("short", 0.05)],
    )
    made = pg.Agent(problem, pg.beliefs.Known(60.0), 50.0, context=0.0)
    exact = norm.sf(1.0)
    words = rf"E\[short\] <= 0.05: the nearest to it is {exact:.4f}.*{exact - 0.05:.3f}.*x = 70"
    with pytest.raises(ConstraintError, match=words):
        made.decide(0.0)
    asked = made.cost(50.0, 0.0)  # any decision has a cost, if none to be compared with
    assert np.isfinite(asked.cost.mean)
    assert np.isnan(asked.of_the_decision)
    assert made.decide(-20.0) == pytest.approx(norm.isf(0.05, 40.0, NOISE), abs=0.05)
    with pytest.warns(ConstraintWarning, match="no decision keeps to"):  # data are learned anyway
        stuck = agent(DATA[:1], high=60.0, constraints=[rules.AtMost("short", 0.001)])
    assert (stuck.stage, float(stuck.decision)) == (1, 60.0)


def test_other_limits_and_contexts_compile_nothing():
    def made(share):
        return agent(constraints=[rules.AtMost("short", share)])

    made(0.05)
    with lowered() as names:
        first, second = made(0.04), made(0.1)
    assert names == []
    assert first.decision > second.decision
    assert made(0.04).decision == first.decision


def test_a_change_that_costs_has_a_band_in_which_nothing_moves(plain):
    """By brute force: H(x) + rate |x - previous| + a fixed price for moving at all."""

    def price(x, previous):
        return 0.3 * jnp.abs(x - previous) + 0.1 * (x != previous)

    problem = pg.Problem(
        cost,
        demand,
        pg.feasible.Box(0.0, 200.0),
        outcomes=OUTCOMES,
        change=rules.Change(cost=price),
    )
    made = pg.Agent(problem, pg.beliefs.Known(60.0), 50.0)
    x = np.linspace(40.0, 100.0, 60_001)
    stayed = 0
    with lowered() as names:
        for previous in (45.0, 62.0, 66.0, 67.5, 69.0, 72.0, 95.0):
            if previous == 62.0:
                names.clear()
            found = float(made.decide(previous=previous))
            places = np.append(x, previous)
            total = expected_cost(places, 60.0, NOISE) + np.asarray(price(places, previous))
            best = places[np.argmin(total)]
            value = expected_cost(found, 60.0, NOISE) + float(price(found, previous))
            assert value <= total.min() + 2e-3
            assert (found == previous) == (best == previous)
            stayed += found == previous
    assert 2 <= stayed <= 5
    assert names == []


@pytest.mark.parametrize(
    ("limits", "previous", "expected"),
    [
        ({"most": 2.0}, 50.0, 52.0),
        ({"most": 2.0}, 90.0, 88.0),
        ({"least": 3.0}, 67.5, 67.5),
        ({"least": 3.0}, 66.0, 69.0),
        ({"least": 3.0, "most": 10.0}, 80.0, 70.0),
    ],
)
def test_limits_of_change_are_kept(limits, previous, expected):
    problem = pg.Problem(cost, demand, pg.feasible.Box(0.0, 200.0), change=rules.Change(**limits))
    made = pg.Agent(problem, pg.beliefs.Known(60.0), 50.0)
    best = 60.0 + NOISE * norm.ppf(0.8)
    found = float(made.decide(previous=previous))
    if previous == 66.0:  # to stay or to move by three
        stay, move = (float(expected_cost(x, 60.0, NOISE)) for x in (66.0, 69.0))
        expected = 66.0 if stay < move else 69.0
    assert found == pytest.approx(expected, abs=0.1 if abs(expected - best) < 0.1 else 1e-9)


def test_stages_measure_changes_from_the_decision_in_force(tmp_path):
    path = tmp_path / "a.db"
    problem = pg.Problem(
        cost, demand, pg.feasible.Box(0.0, 200.0), change=rules.Change(cost=0.2, most=4.0)
    )
    decisions = [50.0]
    with pg.Agent(problem, pg.beliefs.Normal(50.0, 20.0), 50.0, path=path) as made:
        decisions += [float(made.observe(batch)) for batch in DATA[:3]]
    with pg.Agent(problem, pg.beliefs.Normal(50.0, 20.0), 50.0, path=path) as again:
        assert float(again.decision) == decisions[-1]
        decisions += [float(again.observe(batch)) for batch in DATA[3:]]
        assert [float(r.x) for r in again.history()] == decisions[:-1]
        assert again.replay().identical
    whole = pg.Agent(problem, pg.beliefs.Normal(50.0, 20.0), 50.0)
    assert [float(whole.observe(batch)) for batch in DATA] == decisions[1:]
    assert np.max(np.abs(np.diff(decisions))) <= 4.0 + 1e-9
    assert np.abs(decisions[1] - decisions[0]) == pytest.approx(4.0)


def test_two_items_share_a_budget_and_a_chance():
    under = np.array([4.0, 3.0])

    def both(x, xi):
        return jnp.sum(under * jnp.maximum(xi - x, 0.0) + jnp.maximum(x - xi, 0.0))

    problem = pg.Problem(
        both,
        lambda x, theta: dist.Normal(theta, NOISE).to_event(1),
        pg.feasible.Budget(0.0, 200.0, [1.0, 1.0], 150.0),
        outcomes={"short": lambda x, xi: jnp.any(xi > x)},
        constraints=[rules.AtMost("short", 0.1)],
    )
    made = pg.Agent(problem, pg.beliefs.Normal([50.0, 50.0], [20.0, 20.0]), [30.0, 30.0])
    for batch in PAIRS:
        made.observe(batch)
    x = made.decision
    assert made.cost(x).outcomes["short"].mean <= 0.1 + 1e-12
    mean, sd = np.asarray(made.belief.mean()), np.hypot(np.asarray(made.belief.spread()), NOISE)
    line = np.linspace(40.0, 110.0, 701)
    places = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1)

    def exact(x):
        z = (x - mean) / sd
        return np.sum(under * over(z, sd) + over(-z, sd), axis=-1)

    served = np.prod(norm.cdf((places - mean) / sd), axis=-1)
    allowed = (served >= 0.9) & (places.sum(axis=-1) <= 150.0)
    least = np.min(np.where(allowed, exact(places), np.inf))
    assert exact(x) == pytest.approx(least, rel=0.01)
    assert 1.0 - np.prod(norm.cdf((x - mean) / sd)) <= 0.103
    assert x.sum() <= 150.0 + 1e-9


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: agent([], constraints=[rules.AtMost("shrt", 0.05)]), "names no outcome"),
        (lambda: agent([], constraints=["short"]), "must be a list"),
        (lambda: agent([], change=3.0), "must be one such as"),
        (lambda: rules.Change(cost=-1.0), "must not be negative"),
        (lambda: rules.Change(least=3.0, most=2.0), "must not exceed most"),
        (lambda: rules.AtMost("short", np.nan), "limit"),
    ],
)
def test_rules_that_are_none_are_refused(make, words):
    with pytest.raises(SettingError, match=words):
        make()


def test_simulations_have_no_rules(plain):
    problem = pg.Problem(cost, demand, plain.problem.feasible, change=rules.Change(cost=1.0))
    with pytest.raises(SettingError, match="rules of agents"):
        pg.BayesianSGD(problem).init(pg.beliefs.Normal(50.0, 20.0), 50.0)


def test_whole_numbers_keep_rules_and_given_entries():
    problem = pg.Problem(
        cost,
        lambda x, theta: dist.Poisson(theta),
        pg.feasible.Integers(pg.feasible.Box(0.0, 100.0)),
        outcomes=OUTCOMES,
        constraints=[rules.AtMost("short", 0.02)],
    )
    made = pg.Agent(problem, pg.beliefs.Known(20.0), 20.0)
    with pytest.raises(DecisionError, match=r"violates it by 0\.5"):
        made.decide(fixed={0: 30.5})
    assert made.decide(fixed={0: 31.0}) == 31.0
    with pytest.raises(ConstraintError, match=r"x = 22"):
        made.decide(fixed={0: 22.0})
    found = made.decide(previous=20.0)
    assert found == poisson.isf(0.02, 20.0) == round(float(found))


def test_events_of_counts_are_kept_where_slopes_say_nothing():
    """A stranger's: a shortage of whole units is flat between these, and models saw no way out."""
    points, base = np.asarray([0.6, 0.8, 1.0, 1.2, 1.4]), np.asarray([8.0, 5.0])
    problem = pg.Problem(
        lambda x, d: jnp.sum(
            jnp.asarray([3.0, 5.0]) * jnp.maximum(d - x, 0) + jnp.maximum(x - d, 0)
        ),
        lambda x, t: dist.Poisson(jnp.asarray(base) * t).to_event(1),
        pg.feasible.Integers(pg.feasible.Box(jnp.zeros(2), jnp.full(2, 40.0))),
        outcomes={
            "short": lambda x, d: d[0] > x[0],
            "left": lambda x, d: jnp.sum(jnp.maximum(x - d, 0)),
        },
        constraints=[pg.rules.AtMost("left", 4.0), pg.rules.AtMost("short", 0.15)],
    )
    agent = pg.Agent(problem, pg.beliefs.Grid(jnp.asarray(points)), jnp.asarray([8.0, 5.0]))
    agent.observe([(7, 6), (9, 4), (11, 5)])
    np.testing.assert_array_equal(agent.decision, [12.0, 4.0])  # by exhaustive search

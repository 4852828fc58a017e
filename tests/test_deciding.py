"""Decisions for contexts: sought, issued under an id, learned from, and found again."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy.stats import norm

import postgrad as pg
from postgrad import errors
from postgrad.records.issued import IssuedDecision

BOX = pg.feasible.Box(0.0, 500.0)
SCALE, LEVEL = 3.0, 0.9


def cost(x, xi, z):
    return 9 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0) + 0 * z["day"]


def model(x, theta, z):
    return dist.Normal(theta["base"] + theta["slope"] * z["temp"], SCALE)


def moved(x, theta, z):
    return dist.Normal(theta["base"] + theta["slope"] * z["temp"] - 0.1 * x, SCALE)


PROBLEM, MOVED = pg.Problem(cost, model, BOX), pg.Problem(cost, moved, BOX)
EXAMPLE = {"temp": 20.0, "day": 0}


def belief(forget=None):
    wide = {"base": 50.0, "slope": 5.0}
    return pg.beliefs.Gaussian({"base": 100.0, "slope": 0.0}, wide, forget=forget)


def make(path=None, problem=PROBLEM, forget=None, example=EXAMPLE):
    return pg.Agent(problem, belief(forget), 100.0, context=example, path=path)


def z_of(temp, day=0):
    return {"temp": temp, "day": day}


def fed(agent, count=12, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(count):
        temp = rng.uniform(0.0, 30.0)
        sold = 80.0 + 2.0 * temp + SCALE * rng.standard_normal()
        agent.observe([sold], context=z_of(temp, i), id=f"batch {i}")
    return agent


def best(agent, temp):
    """The quantile of what is foreseen, in closed form."""
    loc, covariance = agent.belief.loc, np.asarray(agent.belief.covariance_matrix)
    row = np.asarray([1.0, temp])
    return float(loc["base"] + loc["slope"] * temp) + norm.ppf(LEVEL) * np.sqrt(
        SCALE**2 + row @ covariance @ row
    )


def test_a_context_that_was_never_met_is_decided_well_and_with_a_wider_interval():
    agent = fed(make())
    widths = {}
    for temp in (15.0, 60.0):
        decision, ahead = agent.decide(z_of(temp)), agent.outlook(z_of(temp))
        assert abs(decision - best(agent, temp)) < 0.2
        assert ahead.low < decision < ahead.high
        widths[temp] = ahead.high - ahead.low
    assert widths[60.0] > 3 * widths[15.0]


def test_deciding_changes_nothing_and_does_not_depend_on_what_was_decided(tmp_path):
    with fed(make(tmp_path / "a.db")) as agent:
        files = [(tmp_path / name).read_bytes() for name in ("a.db", "a.db-wal")]
        here = agent.decide(z_of(10.0))
        agent.decide(z_of(400.0))
        assert agent.decide(z_of(10.0)) == here
        assert [(tmp_path / name).read_bytes() for name in ("a.db", "a.db-wal")] == files
        assert agent.stage == 12
    with make(tmp_path / "a.db", example=z_of(-3.0, 5)) as again:  # any context is an example
        assert again.decide(z_of(10.0)) == here


def test_draws_follow_from_the_stage():
    agent = make()
    first = agent.decide(z_of(10.0))
    agent.observe([100.0], context=z_of(10.0))
    agent.rollback(0)
    assert agent.decide(z_of(10.0)) == first


def test_no_context_compiles_anything_anew():
    agent = fed(make(), 2)
    programs = agent._stream._programs
    agent.decide(z_of(1.0))
    sizes = [program._cache_size() for program in (programs.draw, programs.descend)]
    for temp in (2.0, 30.0, -5.0):
        agent.decide(z_of(temp, 3))
    assert [program._cache_size() for program in (programs.draw, programs.descend)] == sizes


def test_issued_decisions_are_kept_with_their_context(tmp_path):
    with fed(make(tmp_path / "a.db"), 3) as agent:
        issued = agent.decide(z_of(10.0, 2), id="monday", date="2026-11-23")
        assert agent.decision == issued
        agent.observe([120.0], of="monday", date="2026-11-23")
        # What was issued stays what it was, whatever was learned since.
        assert agent.decide(z_of(10.0, 2), id="monday", date="2026-11-23") == issued
        with pytest.raises(errors.ContextError, match=r"temp = 10\.0, and not day = 2, temp = 11"):
            agent.decide(z_of(11.0, 2), id="monday", date="2026-11-23")
        with pytest.raises(errors.ContextError, match="for the date 20780"):
            agent.decide(z_of(10.0, 2), id="monday", date="2026-11-24")
        assert agent.decide(z_of(10.0, 2)) != issued
    with make(tmp_path / "a.db") as again:
        assert again.decision == issued
        found = again.issued("monday")
        assert isinstance(found, IssuedDecision)
        assert found.low < found.decision < found.high
        assert found.context["z"] == {"temp": 10.0, "day": 2}
        assert again.issued("tuesday") is None
        again.verify()


def test_batches_arise_under_issued_decisions(tmp_path):
    # Learning is right only with the decision and the context that were in force.
    with make(tmp_path / "a.db", MOVED) as agent:
        first = agent.decide(z_of(10.0), id="first")
        agent.decide(z_of(25.0), id="second")
        agent.observe([110.0], of="first")
        agent.observe([112.0, 113.0], of="first", id="more")
        by_id = agent.belief.loc
        with pytest.raises(errors.BatchError, match="no decision 'third'"):
            agent.observe([1.0], of="third")
        with pytest.raises(errors.SettingError, match="leave x and context out"):
            agent.observe([1.0], of="first", context=z_of(1.0))
    by_hand = make(problem=MOVED)
    by_hand.observe([110.0], x=first, context=z_of(10.0))
    by_hand.observe([112.0, 113.0], x=first, context=z_of(10.0))
    assert by_hand.belief.loc == by_id
    with make(tmp_path / "a.db", MOVED) as again:
        assert again.belief.loc == by_id
        assert again.replay().identical
        with pytest.raises(errors.DuplicateBatchError):
            again.observe([112.0, 113.0], of="second", id="more")
        again.observe([112.0, 113.0], of="first", id="more")
        assert again.stage == 2


def test_the_decision_in_force_is_on_record_where_it_is_not_named():
    agent = make(problem=MOVED)
    issued = agent.decide(z_of(10.0), id="first")
    agent.observe([110.0], context=z_of(12.0))
    agent.decide(z_of(50.0), id="second")
    (record,) = agent.history()
    assert record.x == issued
    assert record.context["z"] == {"temp": 12.0, "day": 0}


def test_late_batches_are_learned_in_their_own_context_and_move_no_time():
    days = [(1, 10.0, 101.0), (2, 20.0, 119.0), (3, 5.0, 90.0)]
    orders = [0, 1, 2], [0, 2, 1]
    agents = [make(forget=0.9) for _ in orders]
    for agent, order in zip(agents, orders, strict=True):
        for i in order:
            day, temp, sold = days[i]
            agent.observe([sold], context=z_of(temp, i), date=float(day))
    sizes = [float(agent.belief.effective_size) for agent in agents]
    assert sizes[0] == pytest.approx(1 + 0.9 + 0.81)
    assert sizes[1] == pytest.approx(1 + 1 + 0.81)  # what came late has not faded


def test_time_passes_with_dates_and_deciding_looks_ahead_on_a_copy():
    agent = make(forget=0.5)
    agent.observe([100.0], context=z_of(10.0), date="20260101")
    agent.observe([100.0], context=z_of(10.0), date="2026-01-04T02:00:00+02:00")
    assert float(agent.belief.effective_size) == pytest.approx(1 + 0.5**3)
    near = agent.outlook(z_of(10.0), date="2026-01-05")
    far = agent.outlook(z_of(10.0), date="2026-01-11")
    assert far.high - far.low > 1.5 * (near.high - near.low)
    assert float(agent.belief.effective_size) == pytest.approx(1 + 0.5**3)
    # Without dates one unit passes for each batch.
    plain = make(forget=0.5)
    plain.observe([100.0], context=z_of(10.0))
    plain.observe([100.0], context=z_of(10.0))
    assert float(plain.belief.effective_size) == pytest.approx(1.5)


@pytest.mark.parametrize("date", ["yesterday", np.nan, True, [1], "NaT", "2026", "99999999"])
def test_what_is_no_date_is_refused(date):
    agent = make()
    with pytest.raises(errors.SettingError, match="date must be"):
        agent.observe([1.0], context=EXAMPLE, date=date)
    assert agent.stage == 0


def test_corrections_and_withdrawals_keep_the_context(tmp_path):
    with fed(make(tmp_path / "a.db", forget=0.95)) as agent:
        agent.correct("batch 4", [130.0])
        agent.withdraw("batch 6")
        assert agent.replay().identical
        corrected = agent.belief
    rng, by_hand = np.random.default_rng(0), make(forget=0.95)
    for i in range(12):
        temp = rng.uniform(0.0, 30.0)
        sold = 80.0 + 2.0 * temp + SCALE * rng.standard_normal()
        if i != 6:
            sold = 130.0 if i == 4 else sold
            by_hand.observe([sold], context=z_of(temp, i), date=float(i + 1))
    np.testing.assert_allclose(corrected.loc["base"], by_hand.belief.loc["base"], rtol=1e-9)
    np.testing.assert_allclose(corrected.effective_size, by_hand.belief.effective_size)


def test_changing_the_cost_keeps_what_is_believed(tmp_path):
    def dearer(x, xi, z):
        return 19 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0)

    with fed(make(tmp_path / "a.db")) as agent:
        before, loc = agent.decide(z_of(10.0)), agent.belief.loc
        agent.change(dataclasses.replace(PROBLEM, cost=dearer))
        assert agent.belief.loc == loc
        assert agent.decide(z_of(10.0)) > before + 0.5
    with pytest.raises(errors.StoreError, match="cost"):
        make(tmp_path / "a.db")


def test_decisions_without_contexts_look_ahead_to_a_date_too():
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0), BOX)
    prior = pg.beliefs.Normal(10.0, 20.0, forget=0.5)
    agent = pg.Agent(problem, prior, 50.0)
    agent.observe([100.0, 101.0], date=1.0)
    assert agent.decide() == agent.decision
    later = agent.decide(date=9.0)  # nearly all is forgotten
    assert later < agent.decision - 3.0
    assert agent.stage == 1


def test_an_agent_and_a_simulation_decide_alike():
    algorithm = pg.BayesianSGD(PROBLEM)
    temps, days = np.asarray([5.0, 25.0, 15.0, 30.0]), np.arange(4)
    truth = {"base": 80.0, "slope": 2.0}
    contexts = {"temp": temps, "day": days}
    run = pg.simulate(
        algorithm, belief(), 100.0, truth, runs=2, horizon=4, contexts=contexts, seed=3
    )
    np.testing.assert_array_equal(run.contexts["temp"], [temps, temps])
    for i in range(2):
        key_data, key = random.split(random.fold_in(random.key(3), i))
        agent = pg.Agent(PROBLEM, belief(), 100.0, context=EXAMPLE, seed=key)
        for t, (temp, day) in enumerate(zip(temps, days, strict=True), start=1):
            decision = agent.decide(z_of(temp, day))
            np.testing.assert_allclose(run.decisions[i, t], decision, rtol=1e-6)
            law = dist.Normal(80.0 + 2.0 * temp, SCALE)
            sold = law.sample(random.fold_in(key_data, t), (1,))
            agent.observe(np.asarray(sold), context=z_of(temp, day))


def test_contexts_of_a_simulation_are_drawn_or_given():
    algorithm = pg.BayesianSGD(PROBLEM, **pg.presets.paper())
    truth = {"base": 80.0, "slope": 2.0}
    options = {"runs": 3, "horizon": 5}

    def drawn(stage, key):
        return {"temp": random.uniform(key) + stage, "day": stage}

    run = pg.simulate(algorithm, belief(), 100.0, truth, contexts=drawn, **options)
    assert run.contexts["temp"].shape == (3, 5)
    assert (np.floor(run.contexts["temp"]) == np.arange(1, 6)).all()
    assert len(np.unique(run.contexts["temp"])) == 15
    with pytest.raises(errors.ContextError, match="one entry for each of 5 stages"):
        pg.simulate(
            algorithm, belief(), 100.0, truth, contexts={"temp": [1.0], "day": [1]}, **options
        )
    with pytest.raises(errors.ContextError, match="give an example"):
        pg.simulate(algorithm, belief(), 100.0, truth, **options)


def test_sets_of_contexts_need_not_hold_the_first_decision():
    """A stranger's: on days with a small truck, orders of 50 were issued for a truck of 10."""
    problem = pg.Problem(cost, model, lambda z: pg.feasible.Box(z["temp"] - 1.0, z["temp"]))
    agent = pg.Agent(problem, belief(), 20.0, context=EXAMPLE)
    for temp in (20.0, 3.0, 1.0, 50.0):
        assert agent.decide(z_of(temp)) == pytest.approx(temp)
    nothing = pg.Problem(cost, model, lambda z: pg.feasible.Box(0.0, z["temp"]))
    agent = pg.Agent(nothing, belief(), 0.0, context=EXAMPLE)
    agent.observe([100.0], context=z_of(0.0))
    assert agent.decide(z_of(0.0)) == 0.0  # a full truck
    one = pg.Problem(
        lambda x, xi, z: jnp.sum((x - xi) ** 2) + x[0] * x[1] / 8,
        lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
        lambda z: pg.feasible.Box(jnp.asarray([z, 0.0]), jnp.asarray([3.0, 6.0])),
    )
    prior = pg.beliefs.Gaussian(jnp.asarray([1.0, 2.0]), 0.1)
    pair = pg.Agent(one, prior, [1.0, 1.0], context=0.0).decide(3.0)
    np.testing.assert_allclose(pair, [3.0, 2.0 - 3.0 / 16], atol=1e-2)
    several = pg.Problem(
        lambda x, xi, z: jnp.sum((x - xi) ** 2),
        lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
        lambda z: pg.feasible.Simplex(z),
    )
    prior = pg.beliefs.Gaussian(jnp.asarray([1.0, 2.0]), 0.1)
    shares = pg.Agent(several, prior, [0.5, 0.5], context=1.0).decide(5.0)
    np.testing.assert_allclose(shares, [2.0, 3.0], atol=1e-2)

"""Members of a population in contexts: each learns in its own, and borrows to decide."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.pooling.population import lent_by, statistics_of
from postgrad.problem.contexts import InContext, as_context
from postgrad.store import Store

SCALE, LEVEL = 3.0, 0.8
EXAMPLE = {"heat": 20.0}


def cost(x, xi, z):
    return 4 * jnp.maximum(xi - x, 0) + jnp.maximum(x - xi, 0) + 0 * z["heat"]


def model(x, theta, z):
    return dist.Normal(theta["base"] + theta["slope"] * z["heat"], SCALE)


PROBLEM = pg.Problem(cost, model, pg.feasible.Box(0.0, 500.0))
BELIEF = pg.beliefs.Gaussian({"base": 80.0, "slope": 0.0}, {"base": 40.0, "slope": 3.0})
POOL = pg.Pool(0.5)


def make(path, name, pool=POOL):
    return pg.Agent(PROBLEM, BELIEF, 100.0, path=path, name=name, context=EXAMPLE, pool=pool)


def rows(count):
    """(member, id, context, demand): members in turn, whose demand depends on the heat alike."""
    rng = np.random.default_rng(0)
    for day in range(count):
        heat = rng.uniform(5.0, 25.0)
        sold = 90.0 + 5.0 * (day % 2) + 1.5 * heat + SCALE * rng.standard_normal()
        yield "ab"[day % 2], f"day {day}", {"heat": heat}, [sold]


def fed(path, count=8, first=0):
    with pg.Database(path) as database:
        members = {name: make(database, name) for name in "ab"}
        for name, batch_id, z, sold in list(rows(count))[first:]:
            members[name].observe(sold, id=batch_id, context=z)


def told(path):
    """What members know, and what they would decide."""
    with pg.Database(path) as database:
        members = [make(database, name) for name in "ab"]
        states = [one._codec.save(one._now).state for one in members]
        return states, [float(one.decide({"heat": 30.0})) for one in members]


@eqx.filter_jit
def learned_in(belief, z, batch):
    return belief.update(InContext(model, z), jnp.asarray(100.0), batch)


def best(belief, heat):
    """The quantile of what is foreseen, in closed form."""
    loc, places = belief.mean(), np.asarray([1.0, heat])
    mean = float(loc["base"] + loc["slope"] * heat)
    variance = places @ np.asarray(belief.covariance_matrix) @ places + SCALE**2
    return mean + norm.ppf(LEVEL) * variance**0.5


def test_the_evidence_of_members_is_that_of_their_rows_in_their_contexts(tmp_path):
    path, parts = tmp_path / "a.db", tmp_path / "parts.db"
    fed(path)
    fed(parts, 3)
    fed(parts, 8, first=3)
    assert told(parts) == told(path)  # goes on to the last bit
    start = BELIEF.bind(PROBLEM.at(as_context(EXAMPLE)), jnp.asarray(100.0))
    population, alone = POOL.population(start), {"a": start, "b": start}
    total, shares = 0.0, {"a": 0.0, "b": 0.0}
    for name, _, z, sold in rows(8):
        borrowed = total - shares[name]  # before this row
        alone[name] = learned_in(alone[name], as_context(z), jnp.asarray(sold))
        expected = lent_by(population, alone[name], jnp.broadcast_to(borrowed, population.size))
        learned = statistics_of(population, expected)
        total, shares[name] = total + learned - shares[name], learned
    with pg.Database(path) as database:
        a, b = make(database, "a"), make(database, "b")
        np.testing.assert_allclose(b.belief.loc["base"], expected.loc["base"], rtol=1e-9)
        np.testing.assert_allclose(
            b.belief.covariance_matrix, expected.covariance_matrix, rtol=1e-8
        )
        # To decide, a member hears what the others know by now.
        now = lent_by(population, alone["a"], total - shares["a"])
        assert float(a.decide({"heat": 30.0})) == pytest.approx(best(now, 30.0), rel=0.01)
        assert a.replay().identical
        assert b.replay().identical
        a.verify()


def on_disk(folder):
    return {file.name: file.read_bytes() for file in folder.glob("a.db*") if "shm" not in file.name}


def test_a_new_member_decides_as_the_others_have_learned(tmp_path):
    path = tmp_path / "a.db"
    fed(path)
    with pg.Database(path) as database:
        new, alone = make(database, "new"), make(None, "alone", pool=None)
        before = on_disk(tmp_path)
        leaning = float(new.decide({"heat": 15.0}))
        assert on_disk(tmp_path) == before  # nothing is written
        assert abs(leaning - 118.0) < 8.0 < abs(float(alone.decide({"heat": 15.0})) - 118.0)
        # What is issued stays, with the version that it used.
        assert float(new.decide({"heat": 15.0}, id="first")) == leaning
        assert new.issued("first").context == {"z": {"heat": 15.0}, "population": 8}
        make(database, "a").observe([135.0], id="other", context={"heat": 15.0})
        assert float(new.decide({"heat": 15.0}, id="first")) == leaning
        assert float(new.decide({"heat": 15.0})) != leaning
        with pytest.raises(errors.ContextError, match="issued before"):
            new.decide({"heat": 16.0}, id="first")
        new.observe([120.0], of="first", id="sold")
        batch = next(Store(database, "new").batches(1, 1))[1]
        assert np.frombuffer(batch.x)[0] == leaning
        assert new.population_version() == 9
        assert new.replay().identical

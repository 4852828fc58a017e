"""Populations: what they learn from their members, and what they lend to each."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.pooling.normal_members import law_of_another
from postgrad.beliefs.pooling.population import lent_by, statistics_of
from postgrad.spec.partial_pooling import Members, step

pytestmark = pytest.mark.sample(7, of="pooling")

POINTS = np.linspace(1.0, 20.0, 12)
PLACE = jnp.asarray(2.0)


def level(x, theta):
    return dist.Normal(theta, 2.0)


def line(x, theta):
    return dist.Normal(theta["base"] - theta["slope"] * x, 1.5)


PRICES = pg.Problem(lambda x, xi: -x * xi, line, pg.feasible.Box(0.0, 9.0))


def gaussian(**options):
    prior = pg.beliefs.Gaussian({"base": 5.0, "slope": 1.0}, {"base": 4.0, "slope": 0.5}, **options)
    return prior.bind(PRICES, PLACE)


def learned(belief, rows, model, places=(2.0,)):
    for row, place in zip(rows, np.resize(places, len(rows)), strict=True):
        belief = belief.update(model, jnp.asarray(place), jnp.asarray([row]))
    return belief


def test_a_grid_borrows_the_law_of_the_others():
    """Half of it the prior, half a normal law over the numbers of the levels."""
    weights = np.arange(1.0, 13.0)
    grid = pg.beliefs.Grid(POINTS**3, weights, forget=1.0)  # spaced as they like
    population = pg.Pool(2.0).population(grid)

    def likelihood(x, theta):
        return dist.Normal(theta ** (1 / 3), 2.0)

    one, two = (learned(grid, rows, likelihood) for rows in ([9.0, 10.0], [14.0]))
    total = sum(statistics_of(population, belief) for belief in (one, two))
    prior, z = weights / weights.sum(), np.arange(12.0)
    z = (z - prior @ z) / np.sqrt(prior @ z**2 - (prior @ z) ** 2)
    sums = [np.sum([belief.probabilities @ z**k for belief in (one, two)]) for k in (1, 2)]
    np.testing.assert_allclose(total, [*sums, 2.0], rtol=1e-9)
    m, variance = law_of_another(total, jnp.asarray(2.0))
    near = np.exp(-((z - m) ** 2) / (2 * variance[0]))
    both = (2.0 * prior + 2.0 * near / near.sum()) / 4.0
    np.testing.assert_allclose(lent_by(population, grid, total).probabilities, both, rtol=1e-9)
    # What was learned before is multiplied by it, and stays.
    posterior = np.asarray(one.probabilities) / prior * both
    found = lent_by(population, one, total).probabilities
    np.testing.assert_allclose(found, posterior / posterior.sum(), rtol=1e-9)


def rates(member):
    return pg.beliefs.Mixture([member(rate) for rate in (1.0, 0.9)])


BELIEFS = {
    "grid": (pg.beliefs.Grid(POINTS, forget=0.9), level),
    "gaussian": (gaussian(forget=0.9), line),
    "rates": (rates(lambda rate: pg.beliefs.Grid(POINTS, forget=rate)), level),
    "rates of gaussians": (rates(lambda rate: gaussian(forget=rate)), line),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BELIEFS)
def test_alone_a_member_has_its_own_prior(name):
    belief, model = BELIEFS[name]
    population = pg.Pool().population(belief)
    knows = learned(belief, [3.0, 4.0, 2.0], model)
    borrowed = lent_by(population, knows, jnp.zeros(population.size))
    for now, was in zip(population.prior_of(borrowed), population.prior_of(knows), strict=True):
        assert np.array_equal(now, was)
    for now, was in zip(jax.tree.leaves(borrowed), jax.tree.leaves(knows), strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", BELIEFS)
def test_evidence_stays_whatever_is_lent(name):
    """Borrowed and given back, a belief is what it was, and learns what it would have."""
    belief, model = BELIEFS[name]
    population = pg.Pool().population(belief)
    total = 5 * statistics_of(population, learned(belief, [6.0, 7.0, 5.0], model, (1.0, 3.0)))
    knows = learned(belief, [3.0, 4.0, 2.0], model, (0.0, 1.0, 4.0))
    lent = learned(lent_by(population, knows, total), [2.5], model)
    assert not np.allclose(*map(_numbers, (lent.mean(), knows.mean())), rtol=1e-3)
    back = lent_by(population, lent, jnp.zeros(population.size))
    expected = learned(knows, [2.5], model)
    if "rates" in name:  # which rate foresaw better depends on what was lent
        back, expected = back.beliefs, expected.beliefs
    for now, was in zip(jax.tree.leaves(back), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-8, atol=1e-9)


def _numbers(tree):
    return np.asarray(ravel_pytree(tree)[0])


def test_a_gaussian_posterior_is_exact_under_what_is_lent():
    belief = gaussian()
    population = pg.Pool(0.5).population(belief)
    total = 7 * statistics_of(population, learned(belief, [6.0, 7.0, 5.0], line, (1.0, 3.0)))
    lent = lent_by(population, belief, total)
    prior = pg.beliefs.Gaussian(lent.loc, covariance_matrix=lent.covariance_matrix)
    rows, places = [3.0, 4.0, 2.0], (0.0, 1.0, 4.0)
    expected = learned(prior.bind(PRICES, PLACE), rows, line, places)
    found = lent_by(population, learned(belief, rows, line, places), total)
    np.testing.assert_allclose(found.covariance_matrix, expected.covariance_matrix, rtol=1e-9)
    np.testing.assert_allclose(_numbers(found.mean()), _numbers(expected.mean()), rtol=1e-9)


def test_a_gaussian_population_is_the_fixed_point_of_its_equations():
    """In units of the prior, with four others: computed again, plainly and to the end."""
    belief, strength = gaussian(), 0.7
    population = pg.Pool(strength).population(belief)
    members = [learned(belief, [4.0 + i, 3.0, 1.0 + i], line, (0.0, 2.0, 4.0)) for i in range(4)]
    total = np.asarray(sum(statistics_of(population, member) for member in members))
    lower = np.diag([1 / 4.0, 1 / 0.5])
    means = [lower.T @ (_numbers(one.mean()) - [5.0, 1.0]) for one in members]
    seconds = [
        lower.T @ np.asarray(one.covariance_matrix) @ lower + np.outer(z, z)
        for one, z in zip(members, means, strict=True)
    ]
    between, one = 0.1 * np.eye(2), np.eye(2)
    for _ in range(200):
        common = np.linalg.inv(one / 0.9 + 4 * np.linalg.inv(between))
        m = common @ np.linalg.inv(between) @ np.sum(means, axis=0)
        around = [
            second - np.outer(z, m) - np.outer(m, z) + np.outer(m, m) + common
            for second, z in zip(seconds, means, strict=True)
        ]
        between = (0.1 * strength * one + np.sum(around, axis=0)) / (strength + 4)
    out = np.linalg.inv(lower.T)
    lent = lent_by(population, belief, jnp.asarray(total))
    np.testing.assert_allclose(_numbers(lent.mean()), [5.0, 1.0] + out @ m, rtol=1e-7)
    expected = out @ (between + common) @ out.T
    np.testing.assert_allclose(lent.covariance_matrix, expected, rtol=1e-6)


@pytest.mark.parametrize(("between", "shares"), [(0.2, (0.6, 1.5)), (3.0, (0.6, 1.5))])
def test_how_far_members_lie_apart_is_learned(between, shares):
    """Forty members with much data: the law that is lent has their spread, and their mean."""
    belief = pg.beliefs.Gaussian(0.0, 5.0).bind(
        pg.Problem(lambda x, xi: (x - xi) ** 2, level, pg.feasible.Box(0.0, 9.0)), PLACE
    )
    population, rng = pg.Pool().population(belief), np.random.default_rng(0)
    thetas = rng.normal(7.0, between, 40)
    update = jax.jit(lambda rows: statistics_of(population, belief.update(level, PLACE, rows)))
    total = sum(update(jnp.asarray(rng.normal(theta, 2.0, 400))) for theta in thetas)
    lent = lent_by(population, belief, total)
    assert float(lent.mean()) == pytest.approx(thetas.mean(), abs=0.3)
    # The floor of the prior, .1 of its variance over 41 members, counts where they lie close.
    expected = np.sqrt(thetas.var() + 0.1 * 25.0 / 41)
    assert shares[0] * expected < float(lent.spread()) < shares[1] * expected


def regression():
    return pg.beliefs.Regression(pg.models.Poisson(pg.models.Predictor(level=pg.models.Level(1.0))))


WORDS = {
    "conjugate": "got Gamma",
    "grid without its prior": "forget=1.0",
    "regression": "got Regression",
    "priors that differ": "have one prior.* member 2 has another",
    "points that differ": "have one prior.* member 2 has another",
}
REFUSED = {
    "conjugate": lambda: pg.Pool().population(pg.beliefs.Gamma(2.0, 1.0)),
    "grid without its prior": lambda: pg.Pool().population(pg.beliefs.Grid(POINTS)),
    "regression": lambda: pg.Pool().population(regression()),
    "priors that differ": lambda: pg.Pool().population(
        pg.beliefs.Mixture([pg.beliefs.Gaussian(0.0, scale, forget=0.9) for scale in (1.0, 2.0)])
    ),
    "points that differ": lambda: pg.Pool().population(
        pg.beliefs.Mixture([pg.beliefs.Grid(POINTS**power, forget=0.9) for power in (1.0, 2.0)])
    ),
    "strength": lambda: pg.Pool(0.0),
    "name": lambda: pg.Pool(name=""),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_pooled_is_refused(name):
    with pytest.raises(errors.PriorError, match=WORDS.get(name, name)):
        REFUSED[name]()


def test_a_stage_is_one_members_and_the_others_stay():
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, level, pg.feasible.Box(0.0, 30.0))
    policy = pg.BayesianSGD(problem, **pg.presets.paper())
    first = policy.init(pg.beliefs.Grid(POINTS, forget=0.9), 5.0)
    population = pg.Pool(0.5).population(first.belief)
    begun, run = Members.begin(population, [first] * 3), eqx.filter_jit(step)
    place = jnp.asarray(9.0)
    members, told, _ = run(policy, population, begun, 1, jnp.asarray([17.0]), place)
    after, again, _ = run(policy, population, members, 2, jnp.asarray([15.0]), place)
    taught = first.belief.update(level, place, jnp.asarray([17.0]))
    assert np.array_equal(members[0].belief.weights.values, first.belief.weights.values)
    np.testing.assert_allclose(
        after[1].belief.weights.values, taught.weights.values, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(after.total, after.contributed.sum(axis=0), rtol=1e-12)
    # Member 2 has one batch, and the law of the other two for its prior.
    law = lent_by(population, first.belief, members.total).probabilities
    likelihood = first.belief.update(level, place, jnp.asarray([15.0])).probabilities
    shares = np.asarray(law * likelihood / jnp.sum(law * likelihood))
    np.testing.assert_allclose(again.belief.probabilities, shares, rtol=1e-9)
    assert after[1].decision == told.decision != first.decision == members[2].decision

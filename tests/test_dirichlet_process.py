"""A belief about a whole distribution: its moments, its calibration, its laws, its limits."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats
from test_atoms import moved, plain

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.sampled.dirichlet_process import DirichletProcess
from postgrad.distributions.atoms import Atoms

X = jnp.asarray(1.7)
BASE = dist.Normal(1.0, 2.0)
BATCH = jnp.asarray([0.5, 3.0, 3.0, -1.0])


def process(concentration=1.5, base=BASE, **options):
    return DirichletProcess(base, concentration, **({"capacity": 16, "atoms": 32} | options))


@eqx.filter_jit
def draws(belief, key, count):
    return belief.sample(key, (count,))


@eqx.filter_jit
def update(belief, model, x, batch, weight=None):
    return belief.advance(1.0).update(model, x, batch, weight)


def posterior(concentration=1.5):
    """After BATCH, and one of its values again through another model with weight 2.5."""
    belief = update(process(concentration), moved, X, jnp.sqrt(X) + (1.0 + X) * BATCH)
    return update(belief, plain, X, jnp.asarray([0.5, 9.0]), jnp.asarray([2.5, 0.0]))


SEEN = np.asarray([-1.0, 0.5, 3.0]), np.asarray([1.0, 3.5, 2.0])


# --- The posterior ---


def test_what_is_kept_are_the_values_and_their_counts():
    belief = posterior()
    values, weights = SEEN
    np.testing.assert_allclose(belief.values[:3], values, rtol=1e-12)
    np.testing.assert_allclose(belief.weights, [*weights, *np.zeros(13)])
    assert belief.effective_size == 6.5
    assert belief.displacement == 0.0


@pytest.mark.parametrize("case", ["prior", "posterior", "weak", "bootstrap"])
def test_moments_are_those_of_the_process(case):
    """F(c) is Beta((a + n) m, (a + n)(1 - m)); the mean has variance v / (a + n + 1)."""
    a = {"prior": 1.5, "posterior": 1.5, "weak": 1e-3, "bootstrap": 0.0}[case]
    belief = process(a) if case == "prior" else posterior(a)
    values, weights = (np.zeros(1), np.zeros(1)) if case == "prior" else SEEN
    theta = jax.tree.map(np.asarray, draws(belief, random.key(1), 20_000))
    np.testing.assert_allclose(theta["weights"].sum(axis=1), 1.0, rtol=1e-12)
    total, c = a + weights.sum(), 0.7
    m = (a * stats.norm(1.0, 2.0).cdf(c) + weights[values <= c].sum()) / total
    below = np.sum(np.where(theta["values"] <= c, theta["weights"], 0.0), axis=1)
    law = stats.beta(total * m, total * (1.0 - m))
    assert stats.kstest(below, law.cdf).pvalue > 1e-3

    mean = (a * 1.0 + weights @ values) / total
    variance = ((a * 5.0 + weights @ values**2) / total - mean**2) / (total + 1.0)
    means = np.sum(theta["values"] * theta["weights"], axis=1)
    assert means.mean() == pytest.approx(mean, abs=4 * np.sqrt(variance / len(means)))
    spread = (means - means.mean()) ** 2
    assert spread.mean() == pytest.approx(variance, abs=4 * spread.std() / np.sqrt(len(means)))


def test_truncation_keeps_means_and_states_its_variance():
    """a (a / (a + 2))^(atoms - 1) too much: 69 % with a = 3 and four atoms."""
    with pytest.raises(errors.PriorError, match="concentration 3 needs 13 atoms"):
        process(3.0, atoms=4)
    belief = eqx.tree_at(lambda b: b.concentration, process(1e-9, atoms=4), jnp.asarray(3.0))
    theta = jax.tree.map(np.asarray, draws(belief, random.key(1), 40_000))
    below = np.sum(np.where(theta["values"] <= 1.0, theta["weights"], 0.0), axis=1)
    assert below.mean() == pytest.approx(0.5, abs=4 * below.std() / 200)
    assert below.var() == pytest.approx((1 + 3.0 * 0.6**3) * 0.25 / 4.0, rel=0.03)


@jax.jit
def ranks(keys, prior_factor, data_factor, extra):
    """The ranks of F(c) and of the mean of F among posterior draws, with or without a bug."""
    a = 2.0

    def functionals(values, weights):
        below = jnp.sum(jnp.where(values <= 0.0, weights, 0.0))
        return jnp.stack([below, jnp.sum(values * weights)])

    def one(key):
        keys = random.split(key, 4)
        beta = 1.0 - random.uniform(keys[0], (100,)) ** (1.0 / a)
        left = jnp.concatenate([jnp.ones(1), jnp.cumprod(1.0 - beta)[:-1]])
        values, weights = 1.0 + 2.0 * random.normal(keys[1], (100,)), left * beta
        data = random.choice(keys[2], values, (9,), p=weights)
        belief = process(a, capacity=9, atoms=16).update(plain, X, data[:4])
        belief = belief.update(moved, X, jnp.sqrt(X) + (1.0 + X) * data[4:])
        tampered = (prior_factor * a, (data_factor * belief.weights).at[0].add(extra))
        belief = eqx.tree_at(lambda b: (b.concentration, b.weights), belief, tampered)
        theta = belief.sample(keys[3], (LEVELS,))
        others = jax.vmap(functionals)(theta["values"], theta["weights"])
        return jnp.sum(others < functionals(values, weights), axis=0)

    return jax.vmap(one)(keys)


LEVELS = 31


def calibration(prior_factor=1.0, data_factor=1.0, extra=0.0, replications=2500):
    """The smaller p-value of uniformity, over the two functionals."""
    found = ranks(random.split(random.key(5), replications), prior_factor, data_factor, extra)
    counts = [np.histogram(rank, 16, (0, LEVELS + 1))[0] for rank in np.asarray(found).T]
    return min(stats.chisquare(count).pvalue for count in counts)


def test_it_is_calibrated():
    assert calibration() > 1e-3


@pytest.mark.slow
def test_bugs_would_be_noticed():
    assert calibration(prior_factor=1e-6) < 1e-6  # the prior ignored
    assert calibration(extra=1.0) < 1e-6  # one too many
    assert calibration(prior_factor=1.3, data_factor=1.3) < 1e-3  # too sure by 14 %


def test_mixture_is_a_density_on_new_values_and_a_probability_on_old_ones():
    belief = posterior()
    density = jax.jit(jax.vmap(lambda y: jnp.exp(belief.log_mixture(moved, X, y))))
    shift, scale = np.sqrt(1.7), 2.7
    grid = np.linspace(-80.0, 80.0, 20_001)
    new = np.trapezoid(density(grid), grid)
    old = np.asarray(density(shift + scale * SEEN[0]))
    np.testing.assert_allclose(old, SEEN[1] / 8.0, rtol=1e-12)
    assert new + old.sum() == pytest.approx(1.0, abs=1e-9)

    counts = update(process(2.0, dist.Poisson(4.0)), plain, X, jnp.asarray([3.0, 3.0, 50.0]))
    whole = jax.jit(jax.vmap(lambda y: jnp.exp(counts.log_mixture(plain, X, y))))
    mass = np.asarray(whole(np.arange(60.0)))
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    assert mass[3] == pytest.approx((2.0 * stats.poisson.pmf(3, 4.0) + 2.0) / 5.0)
    assert not whole(np.arange(60.0) + 0.5).any()


# --- Laws ---


def learn(belief, data):
    for x, batch in data:
        belief = update(belief, moved, x, batch)
    return belief


DATA = [
    (X, jnp.asarray([4.0, 0.3])),
    (2 * X, jnp.asarray([1.0, 7.0])),
    (X, jnp.asarray([0.3, 2.0])),
]


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("base", [BASE, dist.Normal(jnp.zeros(2), 1.0).to_event(1)], ids=["1", "2"])
def test_laws(base):
    belief, shape = process(base=base), base.event_shape
    data = [(x, batch.reshape(-1, *(1,) * len(shape)) * jnp.ones(shape)) for x, batch in DATA]
    learned = learn(belief, data)
    assert_same(learned, learn(belief, data[::-1]))  # the order does not matter
    x, batch = data[0][0], jnp.concatenate([batch for _, batch in data])
    whole = learn(belief, [(x, batch)])
    assert_same(whole, learn(belief, [(x, batch[2 * i : 2 * i + 2]) for i in range(3)]))
    weights = jnp.asarray([1.0, 0.0, 1.0, 0.0, 2.0, 0.0])
    rows = batch[jnp.asarray([0, 2, 4, 4])]
    weighted = update(belief, moved, x, batch, weights)
    assert_same(weighted, learn(belief, [(x, rows[:2]), (x, rows[2:])]))
    several = batch.reshape(3, 2, *shape)
    stacked = jax.jit(jax.vmap(lambda batch: belief.update(moved, x, batch)))(several)
    for i in range(3):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], stacked)
        assert_same(one, learn(belief, [(x, several[i])]))
    before, after = (jax.tree.map(jax.typeof, b) for b in (belief, learned))
    assert before == after
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, learned)
    buffer.seek(0)
    assert eqx.tree_equal(learned, eqx.tree_deserialise_leaves(buffer, belief))


def test_whole_numbers_stay_whole():
    """Whatever shift they were seen through."""
    belief = process(1.0, dist.Poisson(4.0))
    for x in (0.3, 0.7, 1.9):
        g, s = np.sqrt(x), 1.0 + x
        belief = update(belief, moved, jnp.asarray(x), jnp.asarray([g + 3.0 * s, g + 7.0 * s]))
    assert belief.values[:3].tolist() == [3.0, 7.0, 0.0]
    assert belief.weights[:3].tolist() == [3.0, 3.0, 0.0]


def test_forgetting_fades_the_data_and_not_the_prior():
    belief = process(1.5, forget=0.5)
    one, silent = jnp.ones(2), jnp.zeros(2)
    belief = update(belief, plain, X, jnp.asarray([1.0, 2.0]), one)
    belief = update(belief, plain, X, jnp.asarray([2.0, 7.0]), jnp.asarray([1.0, 0.0]))
    np.testing.assert_allclose(belief.weights[:3], [0.5, 1.5, 0.0])
    assert belief.effective_size == 2.0
    for _ in range(1100):  # the last trace is gone when weights underflow, and its slot is free
        belief = update(belief, plain, X, jnp.asarray([5.0, 6.0]), silent)
    assert eqx.tree_equal(belief, process(1.5, forget=0.5))


def test_a_changed_world_is_followed():
    rng = np.random.default_rng(0)
    belief = process(1.0, forget=0.9)
    for t in range(300):
        batch = jnp.asarray(rng.normal(0.0 if t < 200 else 6.0, 1.0, 5))
        belief = update(belief, plain, X, batch)
    assert belief.effective_size == pytest.approx(50.0)
    assert float(belief.weights @ belief.values / 50.0) == pytest.approx(6.0, abs=0.6)
    assert belief.displacement < 0.3


# --- Memory ---


def test_full_slots_are_shared_and_the_loss_is_bounded():
    rng = np.random.default_rng(1)
    data = np.where(rng.random(5000) < 0.6, rng.normal(10, 1, 5000), rng.normal(25, 2, 5000))
    belief = process(1.0, capacity=64)
    for batch in data.reshape(-1, 50):
        belief = update(belief, plain, X, jnp.asarray(batch))
    values, weights = np.asarray(belief.values), np.asarray(belief.weights)
    assert weights.sum() == pytest.approx(5000.0)
    assert weights @ values / 5000.0 == pytest.approx(data.mean())
    distance = stats.wasserstein_distance(values, data, weights)
    assert 0.0 < distance <= float(belief.displacement) < 0.02 * data.std()
    for q in (0.25, 0.5, 0.9):
        at = np.quantile(data, q)
        assert weights[values <= at].sum() / 5000.0 == pytest.approx(q, abs=0.02)


def test_vectors_share_slots_too():
    corners = np.asarray([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    rng = np.random.default_rng(1)
    data = np.concatenate([corners + 0.1 * rng.normal(size=(4, 2)) for _ in range(6)])
    belief = process(base=dist.Normal(jnp.zeros(2), 1.0).to_event(1), capacity=4)
    for batch in data.reshape(8, 3, 2):
        belief = update(belief, plain, X, jnp.asarray(batch))
    order = np.lexsort(np.round(np.asarray(belief.values)).T[::-1])
    np.testing.assert_allclose(belief.values[order], corners, atol=0.2)
    np.testing.assert_allclose(belief.weights, 6.0)
    assert 0.0 < belief.displacement < 0.4


# --- At the door ---


def cost(x, xi):  # one for all problems: programs are then shared
    return (x - xi) ** 2


def problem(model):
    return pg.Problem(cost, model, pg.feasible.Box(0.1, 9.0))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda x, theta: dist.Normal(theta, 3.0), "DirichletProcess.*Atoms.*the model is Normal"),
        (lambda x, theta: dist.Poisson(theta["rate"]), "another theta"),
        (lambda x, theta: Atoms(theta["values"] ** 2, theta["weights"]), "other values"),
        (
            lambda x, theta: Atoms(theta["values"], theta["weights"][::-1]),
            "other values or weights",
        ),
        (lambda x, theta: Atoms(0.0 * theta["values"] + x, theta["weights"]), "other values"),
        (
            lambda x, theta: Atoms(jnp.stack(2 * [theta["values"]], axis=1), theta["weights"]),
            r"shape \(\), those of the model \(2,\)",
        ),
    ],
)
def test_other_models_are_refused(model, words):
    with pytest.raises(errors.ModelError, match=words):
        process().bind(problem(model), X)


def test_shifts_and_scales_are_accepted():
    for model in (plain, moved, lambda x, theta: Atoms(-x * theta["values"], theta["weights"])):
        assert process().bind(problem(model), X) is not None


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        ((3.0,), {}, "base must be a distribution"),
        ((dist.Normal(jnp.zeros(2), 1.0),), {}, "a stack"),
        ((dist.Normal(0.0, -1.0, validate_args=False),), {}, "in their range"),
        ((dist.Normal(0.0, jnp.nan, validate_args=False),), {}, "finite"),
        ((BASE, -1.0), {}, "zero or more"),
        ((BASE, [1.0, 2.0]), {}, "one number"),
        ((BASE, "much"), {}, "real numbers"),
        ((BASE, 50.0), {}, "needs 219 atoms"),
        ((BASE,), {"capacity": 0}, "capacity"),
        ((BASE,), {"atoms": 2.5}, "atoms"),
        ((BASE,), {"forget": 1.5}, "forget"),
    ],
)
def test_bad_priors_are_refused(arguments, options, words):
    with pytest.raises(errors.PriorError, match=words):
        DirichletProcess(*arguments, **options)


def test_posterior_that_is_none_is_not_taken_for_one():
    waits = process(1.0, dist.Exponential(1.0))
    for none in (
        process(0.0, dist.Exponential(1.0)),  # nothing believed, nothing seen
        lost := update(waits, plain, X, jnp.asarray([1.0, -1.0])),  # impossible,
        update(lost, plain, X, jnp.asarray([1.0, 1.0])),  # and it stays so
    ):
        theta = draws(none, random.key(0), 2)
        assert all(np.isnan(leaf).all() for leaf in theta.values())
    fine = update(waits, plain, X, jnp.asarray([1.0, -1.0]), jnp.asarray([1.0, 0.0]))
    assert np.isfinite(draws(fine, random.key(0), 2)["values"]).all()


def test_concentrations_may_differ_across_runs():
    @jax.jit
    @jax.vmap
    def mass(concentration):
        belief = process(concentration).update(plain, X, BATCH)
        return jnp.exp(belief.log_mixture(plain, X, BATCH[1]))

    mass = mass(jnp.asarray([0.0, 1.0, 4.0]))
    np.testing.assert_allclose(mass, [2 / 4, 2 / 5, 2 / 8])


# --- In the loop ---


@pytest.mark.slow
def test_newsvendor_of_two_kinds_of_days_finds_the_quantile():
    """No normal or lognormal law has this demand; the order is its quantile nonetheless."""
    rng = np.random.default_rng(0)
    demand = np.where(rng.random(400) < 0.6, rng.normal(10, 1, 400), rng.normal(25, 2, 400))
    truth = {"values": jnp.asarray(demand), "weights": jnp.full(400, 1 / 400)}
    shop = pg.Problem(
        cost=lambda x, xi: 2.8 * x - 4.0 * jnp.minimum(x, xi),
        model=plain,
        feasible=pg.feasible.Box(0.0, 50.0),
    )
    x_star = np.quantile(demand, 0.3)
    belief = process(1.0, dist.Normal(15.0, 10.0), capacity=64)
    algorithm = pg.BayesianSGD(shop, steps=pg.step_sizes.Harmonic(20.0, 10.0))
    orders = pg.simulate(algorithm, belief, 15.0, truth, runs=50, horizon=300).decisions
    assert orders[:, -1].mean() == pytest.approx(x_star, abs=0.2)
    of_normal_law = stats.norm(demand.mean(), demand.std()).ppf(0.3)
    assert abs(of_normal_law - x_star) > 1.5


@pytest.mark.slow
def test_agent_takes_values_never_seen_before():
    agent = pg.Agent(problem(moved), process(1.0, dist.LogNormal(2.0, 1.0)), 2.0, steps=0.05)
    for _ in range(3):
        agent.observe([30.0, 41.0, 30.0])
    assert agent.belief.effective_size == 9.0
    with pytest.raises(errors.ImpossibleDataError):
        agent.observe([-50.0, 30.0, 30.0])
    assert agent.stage == 3

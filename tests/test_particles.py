"""Beliefs made of draws: against exact posteriors, grids and NUTS."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.kept_likelihood import KeptRows, with_room
from postgrad.beliefs.sampled.langevin import Langevin
from postgrad.beliefs.sampled.markov_moves import systematic
from postgrad.beliefs.sampled.particles import Particles
from postgrad.beliefs.sufficient_totals import SufficientTotals

PRIOR, NOISE = dist.Normal(1.0, 5.0), 2.0


def normal(x, theta):
    return dist.Normal(theta + 0.5 * x, NOISE)


def poisson(x, theta):
    return dist.Poisson(theta * (1.0 + x))


def mean_and_scale(x, theta):
    return dist.Normal(theta["mean"] + x, theta["scale"])


def heavy_mean(x, theta):
    return dist.StudentT(4.0, theta + x, 1.0)


def heavy(x, theta):
    return dist.StudentT(4.0, theta["mean"] + x, theta["scale"])


def categorical(x, theta):
    return dist.Categorical(probs=theta)


def uniform(x, theta):  # a support that depends on theta
    return dist.Uniform(0.0, theta)


BOTH = {"mean": dist.Normal(0.0, 3.0), "scale": dist.HalfNormal(4.0)}


def cost(x, xi):  # one for all problems: programs are then shared
    return (x - jnp.sum(xi)) ** 2


def problem(model):
    return pg.Problem(cost, model, pg.feasible.Box(0.0, 3.0))


def bound(belief, model):
    return belief.bind(problem(model), jnp.asarray(1.0))


@eqx.filter_jit
def update(belief, model, x, batch, weight=None, key=None):
    return belief.advance(1.0).update(model, x, batch, weight, key)


@eqx.filter_jit
def one_draw(belief):
    return belief.sample(random.key(0))


def follow(belief, model, xs, ys, key):
    """Batch after batch."""
    for i in range(len(xs)):
        x, batch = np.asarray(xs[i]), np.asarray(ys[i])
        belief = update(belief, model, x, batch, None, random.fold_in(key, i))
    return belief


def draws(belief):
    """Draws of theta with their weights."""
    if isinstance(belief, Particles):
        return belief.thetas, np.asarray(belief.probabilities)
    count = belief.positions.shape[0]
    return belief.thetas, np.full(count, 1.0 / count)


def moments(theta, weight):
    theta = np.asarray(theta)
    mean = weight @ theta
    return mean, np.sqrt(weight @ (theta - mean) ** 2)


def assert_posterior(theta, weight, mean, sd, slack=1.0):
    """Within five Monte-Carlo standard errors, at an efficiency of one half."""
    error = 5.0 * slack / np.sqrt(0.5 * len(weight))
    got_mean, got_sd = moments(theta, weight)
    assert got_mean == pytest.approx(mean, abs=error * sd)
    assert got_sd == pytest.approx(sd, rel=error)


def normal_data():
    rng = np.random.default_rng(0)
    xs = rng.uniform(0.0, 3.0, 40)
    return xs, rng.normal(4.0 + 0.5 * xs[:, None], NOISE, (40, 3))


def exact_normal(xs, ys, forget=1.0):
    """Mean and standard deviation, with what remains of each batch."""
    remains = forget ** np.arange(len(xs))[::-1]
    precision = 1.0 / 25.0 + ys.shape[1] * remains.sum() / NOISE**2
    total = 1.0 / 25.0 + (remains * (ys - 0.5 * xs[:, None]).sum(axis=1)).sum() / NOISE**2
    return total / precision, precision**-0.5


SAMPLERS = {
    "random-walk": lambda: Particles(PRIOR, 3000),
    "mala": lambda: Particles(PRIOR, 3000, move="mala"),
    "hmc": lambda: Particles(PRIOR, 3000, move="hmc"),
    "langevin": lambda: Langevin(PRIOR, 3000),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", SAMPLERS)
def test_normal_mean_is_the_exact_posterior(name):
    belief, (xs, ys) = bound(SAMPLERS[name](), normal), normal_data()
    assert not belief.stores_history
    learned = follow(belief, normal, xs, ys, random.key(0))
    mean, sd = exact_normal(xs, ys)
    theta, weight = draws(learned)
    assert_posterior(theta, weight, mean, sd)
    below = weight @ (np.asarray(theta) < mean + 1.645 * sd)
    assert below == pytest.approx(0.95, abs=5 * np.sqrt(0.05 * 0.95 / 1500))
    assert learned.effective_size == ys.size
    if isinstance(learned, Particles):
        assert learned.effective_particles >= 1500


@pytest.mark.slow
def test_poisson_rate_is_the_exact_posterior():
    belief = bound(Particles(dist.Gamma(2.0, 0.5), 3000), poisson)
    rng = np.random.default_rng(1)
    xs = rng.uniform(0.0, 3.0, 30)
    ys = rng.poisson(3.0 * (1.0 + xs[:, None]), (30, 2)).astype(float)
    learned = follow(belief, poisson, xs, ys, random.key(0))
    exact = stats.gamma(2.0 + ys.sum(), scale=1.0 / (0.5 + 2.0 * (1.0 + xs).sum()))
    theta, weight = draws(learned)
    assert_posterior(theta, weight, exact.mean(), exact.std())
    assert np.all(np.asarray(theta) > 0)


@pytest.mark.sample(1)
@pytest.mark.parametrize(("model", "form"), [(mean_and_scale, SufficientTotals), (heavy, KeptRows)])
def test_two_parameters_agree_with_a_fine_grid(model, form):
    """From statistics and from the data themselves."""
    belief = bound(Particles(BOTH, 3000), model)
    assert isinstance(belief.kept, form)
    assert belief.stores_history == (form is KeptRows)
    xs = np.linspace(0.0, 3.0, 12)
    ys = 1.5 + xs[:, None] + 2.0 * np.random.default_rng(5).standard_t(4.0, (12, 3))
    learned = follow(belief, model, xs, ys, random.key(0))

    mean, scale = np.meshgrid(np.linspace(-2.0, 5.0, 141), np.linspace(0.5, 6.0, 221))
    law = stats.norm() if model is mean_and_scale else stats.t(4.0)
    log_p = stats.norm(0.0, 3.0).logpdf(mean) + stats.halfnorm(0, 4.0).logpdf(scale)
    for x, batch in zip(xs, ys, strict=True):
        for y in batch:
            log_p += law.logpdf((y - x - mean) / scale) - np.log(scale)
    grid = (np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()).ravel()
    theta, weight = draws(learned)
    for name, points in (("mean", mean), ("scale", scale)):
        assert_posterior(theta[name], weight, *moments(points.ravel(), grid))


@pytest.mark.parametrize("sampler", [Particles, Langevin])
def test_one_batch_after_a_wide_prior(sampler):
    """A prior two thousand times wider than the posterior: the draws have to get there."""
    y = np.asarray([[3001.0, 3002.5, 3004.0]])
    belief = bound(sampler(dist.Normal(0.0, 2000.0), 3000), normal)
    learned = follow(belief, normal, np.zeros(1), y, random.key(0))
    assert_posterior(*draws(learned), y.mean(), NOISE / np.sqrt(3))


def test_all_data_in_one_batch():
    xs, ys = normal_data()
    mean, sd = exact_normal(0.0 * xs, ys)
    belief = bound(Particles(PRIOR, 3000), normal)
    whole = update(belief, normal, jnp.asarray(0.0), jnp.asarray(ys.ravel()), None, random.key(0))
    assert_posterior(*draws(whole), mean, sd)


def test_forgetting_has_the_closed_form():
    xs, ys = normal_data()
    mean, sd = exact_normal(xs, ys, forget=0.9)
    size = 3 * (1 - 0.9**40) / (1 - 0.9)
    for sampler in (Particles(PRIOR, 3000, forget=0.9), Langevin(PRIOR, 3000, forget=0.9)):
        learned = follow(bound(sampler, normal), normal, xs, ys, random.key(0))
        assert_posterior(*draws(learned), mean, sd)
        assert learned.effective_size == pytest.approx(size)
        if isinstance(learned, Particles):
            said = jax.vmap(lambda t, e=learned.kept: e.log_likelihood(normal, t))
            np.testing.assert_allclose(learned.gained, said(learned.thetas), atol=1e-8)


@pytest.mark.slow
def test_a_simplex_stays_one():
    belief = bound(Particles(dist.Dirichlet(jnp.asarray([1.0, 2.0, 3.0])), 3000), categorical)
    ys = np.random.default_rng(3).choice(3, (10, 8), p=[0.2, 0.5, 0.3])
    learned = follow(with_room(belief, 80), categorical, np.zeros(10), ys, random.key(0))
    theta, weight = np.asarray(learned.thetas), np.asarray(learned.probabilities)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, atol=1e-12)
    assert theta.min() > 0
    exact = np.asarray([1.0, 2.0, 3.0]) + np.bincount(ys.ravel(), minlength=3)
    for k in range(3):
        one = stats.beta(exact[k], exact.sum() - exact[k])
        assert_posterior(theta[:, k], weight, one.mean(), one.std())


@pytest.mark.sample(1)
@pytest.mark.parametrize("sampler", [Particles, Langevin])
def test_supports_that_depend_on_theta(sampler):
    """Nearly all of the prior becomes impossible; and all of it, with data beyond."""
    belief = bound(sampler(dist.LogNormal(0.0, 1.0), 3000), uniform)
    ys = np.asarray([[2.5, 0.3], [3.0, 1.0]])
    learned = follow(belief, uniform, np.zeros(2), ys, random.key(0))
    theta, weight = draws(learned)
    assert np.asarray(theta)[weight > 0].min() >= 3.0
    grid = np.linspace(3.0, 60.0, 400_001)
    density = stats.lognorm(1.0).pdf(grid) / grid**4
    mean = (density * grid).sum() / density.sum()
    sd = np.sqrt((density * grid**2).sum() / density.sum() - mean**2)
    assert_posterior(theta, weight, mean, sd, slack=2.0)  # heavy tails
    lost = follow(belief, uniform, np.zeros(2), ys + 1e9, random.key(0))
    assert np.isnan(lost.sample(random.key(1), (3,))).all()


def test_resampling_is_by_weight():
    """Each draw as often as its share, up to one; moves would hide it if it were not."""
    log_weights = random.normal(random.key(0), (500,)).at[7].set(-jnp.inf)
    share = 500 * np.asarray(jax.nn.softmax(log_weights))
    times = [np.bincount(systematic(random.key(i), log_weights), minlength=500) for i in range(100)]
    assert np.abs(np.asarray(times) - share).max() < 1
    assert np.abs(np.mean(times, axis=0) - share).max() < 0.25  # five standard errors


def test_steps_that_are_never_refused_have_the_bias_they_are_said_to_have():
    xs, ys = normal_data()
    _, sd = exact_normal(xs, ys)
    belief = bound(Langevin(PRIOR, 3000, adjusted=False, step_size=0.3), normal)
    learned = follow(belief, normal, xs, ys, random.key(0))
    ratio = moments(learned.thetas, np.full(3000, 1 / 3000))[1] / sd
    assert ratio == pytest.approx(np.sqrt((1 - np.sqrt(1 - 0.6)) / 0.3), abs=0.05)
    assert ratio > 1.05  # and those that may be: `test_normal_mean_is_the_exact_posterior`
    assert learned.step_size == 0.3


# The laws, as far as they hold for draws. Others hold within Monte-Carlo error, which the tests
# above see: there, data come in batches of one size and another.


@pytest.fixture(scope="module", params=["particles", "langevin"])
def learner(request):
    """A belief that keeps the data, and one that keeps statistics; after some batches."""
    if request.param == "particles":
        belief, model = bound(Particles(PRIOR, 100), heavy_mean), heavy_mean
    else:
        belief, model = bound(Langevin(PRIOR, 3000), normal), normal
    batch = jnp.asarray([1.0, 9.0, 4.0, 2.5, 9.0])
    weight = jnp.asarray([1.0, 0.0, 1.0, 1.0, 0.0])
    learned = update(belief, model, jnp.asarray(0.5), batch, weight, random.key(0))
    return belief, learned, model, batch, weight


def assert_same(one, other, tolerance=1e-8):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def theta_of(belief):
    return draws(belief)[0]


def test_weight_zero_is_no_observation(learner):
    belief, learned, model, batch, weight = learner
    fewer = update(belief, model, jnp.asarray(0.5), batch[weight > 0], None, random.key(0))
    assert_same(theta_of(learned), theta_of(fewer))
    assert learned.effective_size == fewer.effective_size == 3


def test_types_do_not_change(learner):
    belief, learned, *_ = learner
    assert jax.tree.map(jax.typeof, belief) == jax.tree.map(jax.typeof, learned)


def test_saved_and_restored_is_bit_identical(learner):
    belief, learned, model, batch, weight = learner
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, learned)
    buffer.seek(0)
    restored = eqx.tree_deserialise_leaves(buffer, belief)
    assert eqx.tree_equal(learned, restored)
    one, other = (
        update(b, model, jnp.asarray(0.5), batch, weight, random.key(7))
        for b in (learned, restored)
    )
    assert eqx.tree_equal(one, other)


def test_runs_that_share_a_belief_do_not_share_its_draws(learner):
    belief, learned, model, batch, weight = learner
    other = update(belief, model, jnp.asarray(0.5), batch, weight, random.key(1))
    assert not np.isin(other.positions[:, 0], learned.positions[:, 0]).any()
    again = update(belief, model, jnp.asarray(0.5), batch, weight, random.key(0))
    assert eqx.tree_equal(learned, again)


def test_vmap_equals_a_loop():
    belief = bound(Particles(PRIOR, 100), heavy_mean)
    batches, keys = random.normal(random.key(0), (3, 3)), random.split(random.key(1), 3)
    stacked = eqx.filter_jit(
        jax.vmap(lambda batch, key: belief.update(heavy_mean, jnp.asarray(0.5), batch, None, key))
    )(batches, keys)
    for i in range(3):
        single = update(belief, heavy_mean, jnp.asarray(0.5), batches[i], None, keys[i])
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], stacked), single)


def test_draws_follow_the_mixture(learner):
    _, learned, model, *_ = learner
    x, n = jnp.asarray(0.7), 20_000
    theta = learned.sample(random.key(1), (n,))
    probabilities = draws(learned)[1]
    mean, spread = moments(theta_of(learned), probabilities)
    assert np.mean(theta) == pytest.approx(mean, abs=5 * spread / np.sqrt(n))
    values = jnp.linspace(-400.0, 400.0, 8_001)  # sums of smooth densities have no error to see
    density = jax.jit(jax.vmap(lambda xi: learned.log_mixture(model, x, xi)))(values)
    mass = np.exp(density) * (values[1] - values[0])
    assert mass.sum() == pytest.approx(1.0, abs=1e-3)
    shift = 0.35 if model is normal else 0.7
    assert (mass * values).sum() == pytest.approx(mean + shift, abs=1e-2)


def test_a_belief_that_has_lost_data_is_none(learner):
    """Particles keep 1024 rows here: 205 batches of five do not fit."""
    belief, _, model, batch, weight = learner
    for i in range(205):
        assert np.isfinite(one_draw(belief))
        belief = update(belief, model, jnp.asarray(0.5), batch, 0.1 + weight, random.key(i))
    assert np.isnan(one_draw(belief)) == belief.stores_history


# In loops.


@pytest.mark.slow
def test_an_agent_learns_from_what_it_keeps():
    belief = with_room(bound(Particles(PRIOR, 100), heavy_mean), 300)
    agent = pg.Agent(problem(heavy_mean), belief, 1.0, steps=pg.step_sizes.Harmonic(2.0, 5.0))
    rng = np.random.default_rng(0)
    for _ in range(14):
        agent.observe(rng.normal(1.0 + agent.decision, 1.0, 7))
    learned = agent.belief
    assert learned.kept.capacity == 1024
    assert int(learned.kept.count) == learned.effective_size == 98
    assert moments(*draws(learned))[0] == pytest.approx(1.0, abs=0.5)
    with pytest.raises(errors.BatchError):
        agent.observe([np.nan])


@pytest.mark.slow
def test_simulations_learn():
    """Histories make room for all that is to come."""
    seen = pg.simulate(
        pg.BayesianSGD(problem(heavy_mean), steps=pg.step_sizes.Harmonic(2.0, 5.0)),
        Particles(PRIOR, 100),
        1.0,
        4.0,
        runs=4,
        horizon=40,
        batch_size=2,
        record=lambda state: jnp.mean(state.belief.positions),
    )
    assert not seen.diverged().any()
    means = seen.record[:, -1]
    np.testing.assert_allclose(means, 4.0, atol=1.0)
    assert len(np.unique(means)) == 4

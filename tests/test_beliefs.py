"""The laws of beliefs, for every final class of the room."""

import functools
import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from rooms import examples
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.distributions.density import log_density
from postgrad.numerics.fixed import fixed_leaves


def normal(x, theta):
    return dist.Normal(theta + 0.5 * x, 2.0)


def exponential(x, theta):
    return dist.Exponential(1.0 / (theta * (1.0 + x**2)))


def poisson(x, theta):
    return dist.Poisson(theta * (1.0 + x))


def bernoulli(x, theta):
    return dist.Bernoulli(theta)


def mean_and_scale(x, theta):
    return dist.Normal(theta["mean"] + x, theta["scale"])


def binomial(x, theta):
    return dist.Binomial(7 + jnp.floor(x).astype(int), theta)


def geometric(x, theta):
    return dist.Geometric(theta)


def negative_binomial(x, theta):  # as scipy has it: failures before 2.5 + x successes
    return dist.NegativeBinomialProbs(2.5 + x, 1.0 - theta)


def three_coins(x, theta):
    return dist.Bernoulli(theta).to_event(1)


def categorical(x, theta):
    return dist.Categorical(theta)


def multinomial(x, theta):
    return dist.Multinomial(4, theta)


def waiting(x, theta):
    return dist.Exponential(theta * (1.0 + x**2))


def erlang(x, theta):
    return dist.Gamma(2.0 + x, theta / (1.0 + x))


def erlang_of_mean(x, theta):
    return dist.Gamma(2.0 + x, (1.0 + x) / theta)


def two_counts(x, theta):
    return dist.Poisson(theta * jnp.stack([1.0 + x, 2.0])).to_event(1)


def scaled(x, theta):
    return dist.Normal((1.0 + x) * theta - x**2, 1.0 + x)


def lognormal(x, theta):
    return dist.LogNormal(theta + x, 0.5)


def two_normals(x, theta):
    return dist.Normal(theta + x * jnp.asarray([1.0, -1.0]), jnp.asarray([1.0, 2.0])).to_event(1)


def scaled_mean_and_scale(x, theta):
    return dist.Normal((1.0 + x) * theta["mean"] + x**2, (1.0 + x) * theta["scale"])


def lognormal_mean_and_scale(x, theta):
    return dist.LogNormal(theta["mean"] + x, theta["scale"])


def correlated(x, theta):
    return dist.MultivariateNormal(theta["mean"] + x, (1.0 + x) ** 2 * theta["covariance"])


def student(x, theta):
    return dist.StudentT(5.0, theta + x, 2.0)


def counted(x, theta):
    return pg.distributions.Atoms(theta["values"] + x, theta["weights"])


def noisier(x, theta):  # a spread that depends on the decision
    return dist.Normal(theta + x, 0.5 + x)


def uniform(x, theta):  # a support that depends on theta
    return dist.Uniform(0.0, theta + x)


POINTS = jnp.arange(1.0, 13.0)
PRIOR = jnp.linspace(1.0, 2.0, 12)


def bound(make, model, wrap=lambda belief: belief):
    """As an algorithm binds it: a grid then has sufficient statistics instead of log-weights.

    It is made when a law asks for it, since that takes seconds, and every worker reads this table.
    """

    @functools.cache
    def made():
        problem = pg.Problem(lambda x, xi: x * xi, model, pg.feasible.Box(0.1, 3.0))
        return wrap(make().bind(problem, jnp.asarray(1.0)))

    return made


MANY = jnp.linspace(0.2, 9.0, 5000)
PAIRS = pg.beliefs.product_grid(
    {"mean": np.linspace(0.0, 20.0, 81), "scale": np.linspace(0.5, 5.0, 60)}
)

# (belief, model) pairs, several for each class; what takes long to make is a function
CASES = {
    pg.beliefs.Adaptive: [
        (pg.beliefs.Adaptive(pg.beliefs.Grid(POINTS, PRIOR, forget=1.0), (1.0, 1.0)), normal)
    ],
    pg.beliefs.Grid: [
        (pg.beliefs.Grid(POINTS), normal),
        (pg.beliefs.Grid(POINTS, PRIOR), exponential),
        (pg.beliefs.Grid(POINTS, PRIOR), uniform),
        (pg.beliefs.Grid(jnp.linspace(0.5, 9.0, 300)), poisson),
        (
            pg.beliefs.Grid(
                {"mean": jnp.asarray([1.0, 2.0, 3.0]), "sd": jnp.asarray([1.0, 2.0, 1.5])}
            ),
            lambda x, theta: dist.Normal(theta["mean"] + x, theta["sd"]),
        ),
        (bound(lambda: pg.beliefs.Grid(MANY), exponential), exponential),
        (bound(lambda: pg.beliefs.Grid(PAIRS), mean_and_scale), mean_and_scale),
    ],
    pg.beliefs.Known: [(pg.beliefs.Known(4.0), normal), (pg.beliefs.Known(3.0), poisson)],
    pg.beliefs.MaximumLikelihood: [
        *[(pg.beliefs.MaximumLikelihood(POINTS), m) for m in (normal, uniform)],
        (bound(lambda: pg.beliefs.MaximumLikelihood(MANY), poisson), poisson),
    ],
    pg.beliefs.Beta: [
        (pg.beliefs.Beta(2.0, 3.0), binomial),
        (pg.beliefs.Beta(2.0, 3.0), geometric),
        (pg.beliefs.Beta(2.0, 3.0), negative_binomial),
        (pg.beliefs.Beta([2.0, 1.0, 0.5], [3.0, 0.7, 2.0]), three_coins),
    ],
    pg.beliefs.Dirichlet: [
        (pg.beliefs.Dirichlet([1.0, 2.0, 0.5]), categorical),
        (pg.beliefs.Dirichlet([1.0, 2.0, 0.5]), multinomial),
    ],
    pg.beliefs.Gamma: [
        (pg.beliefs.Gamma(2.0, 0.5), poisson),
        (pg.beliefs.Gamma(2.0, 0.5), waiting),
        (pg.beliefs.Gamma(2.0, 0.5), erlang),
        (pg.beliefs.Gamma([2.0, 3.0], [0.5, 1.0]), two_counts),
    ],
    pg.beliefs.Gaussian: [
        (bound(lambda: pg.beliefs.Gaussian(4.0, 3.0), normal), normal),
        (bound(lambda: pg.beliefs.Gaussian(1.0, 0.7), lognormal), lognormal),
        (bound(lambda: pg.beliefs.Gaussian([4.0, 5.0], 1.7), two_normals), two_normals),
    ],
    pg.beliefs.InverseGamma: [
        (pg.beliefs.InverseGamma(3.0, 8.0), exponential),
        (pg.beliefs.InverseGamma(3.0, 8.0), erlang_of_mean),
    ],
    pg.beliefs.Normal: [
        (pg.beliefs.Normal(3.0, 2.0), normal),
        (pg.beliefs.Normal(3.0, 2.0), noisier),
        (pg.beliefs.Normal(3.0, 2.0), scaled),
        (pg.beliefs.Normal(0.5, 0.7), lognormal),
        (pg.beliefs.Normal([3.0, -1.0], 2.0), two_normals),
    ],
    pg.beliefs.NormalInverseGamma: [
        (pg.beliefs.NormalInverseGamma(3.0, 0.5, 2.0, 3.0), mean_and_scale),
        (pg.beliefs.NormalInverseGamma(3.0, 0.5, 2.0, 3.0), scaled_mean_and_scale),
        (pg.beliefs.NormalInverseGamma(0.0, 2.0, 5.0, 3.0), lognormal_mean_and_scale),
    ],
    pg.beliefs.NormalInverseWishart: [
        (
            pg.beliefs.NormalInverseWishart([1.0, -1.0], 0.5, 4.0, [[2.0, 0.5], [0.5, 1.0]]),
            correlated,
        )
    ],
    pg.beliefs.Particles: [
        (bound(lambda: pg.beliefs.Particles(dist.Normal(3.0, 2.0), 100), student), student),
    ],
    pg.beliefs.Langevin: [
        (bound(lambda: pg.beliefs.Langevin(dist.Normal(3.0, 2.0), 50), normal), normal)
    ],
    pg.beliefs.DirichletProcess: [
        (
            bound(
                lambda: pg.beliefs.DirichletProcess(dist.Poisson(4.0), 2.0, capacity=32), counted
            ),
            counted,
        )
    ],
    pg.beliefs.PosteriorMean: [
        (pg.beliefs.PosteriorMean(pg.beliefs.Grid(POINTS, PRIOR)), exponential),
        (pg.beliefs.PosteriorMean(pg.beliefs.Gamma(2.0, 0.5)), poisson),
        (
            bound(lambda: pg.beliefs.Grid(MANY), exponential, pg.beliefs.PosteriorMean),
            exponential,
        ),  # by draws
    ],
    pg.beliefs.Separate: [
        (pg.beliefs.Separate(pg.beliefs.Grid(POINTS, PRIOR), 2), pg.Items(normal))
    ],
    pg.beliefs.Thompson: [
        (pg.beliefs.Thompson(pg.beliefs.Grid(POINTS, PRIOR)), normal),
        (pg.beliefs.Thompson(pg.beliefs.Normal(3.0, 2.0)), normal),
    ],
    pg.beliefs.FreeMaximumLikelihood: [
        (pg.beliefs.FreeMaximumLikelihood(belief), model)
        for belief, model in (
            (pg.beliefs.Normal(0.0, 1.0), normal),
            (pg.beliefs.InverseGamma(3.0, 1.0), exponential),
            (pg.beliefs.Gamma(1.0, 1.0), poisson),
            (pg.beliefs.Beta(1.0, 1.0), bernoulli),
            (pg.beliefs.NormalInverseGamma(0.0, 1.0, 1.0, 1.0), mean_and_scale),
            (pg.beliefs.Normal(0.0, 1.0), noisier),
        )
    ],
}
ALL = examples(
    "postgrad.beliefs",
    pg.beliefs.Belief,
    {kind: [(kind, *pair) for pair in pairs] for kind, pairs in CASES.items()},
)


def law(cases):
    names = [f"{kind.__name__}-{getattr(model, '__name__', model)}" for kind, _, model in cases]
    pairs = [pair for _, *pair in cases]
    return pytest.mark.parametrize(("belief", "model"), pairs, ids=names, indirect=["belief"])


@pytest.fixture
def belief(request):
    made = request.param
    return made if isinstance(made, pg.beliefs.Belief) else made()


LAW = law(ALL)
# Those that draw random numbers obey these within the error of their draws; see their own tests.
EXACT_LAW = law(
    [case for case in ALL if not issubclass(case[0], pg.beliefs.Particles | pg.beliefs.Langevin)]
)


def truth(belief):
    return jax.tree.map(lambda leaf: leaf[1], belief.examples())


KEY = random.key(7)


def batches(belief, model, count=4, size=2):
    """Data at several decisions, as (x, batch) pairs."""
    decisions = np.linspace(0.2, 2.0, count)
    return [
        (jnp.asarray(x), draw(model, jnp.asarray(x), truth(belief), random.key(i), size))
        for i, x in enumerate(decisions)
    ]


@eqx.filter_jit
def draw(model, x, theta, key, size):
    return jnp.asarray(model(x, theta).sample(key, (size,)), float)


@eqx.filter_jit
def update(belief, model, x, batch, weight=None):
    """Compiled once for each belief, model and size, for all laws together."""
    return belief.update(model, x, batch, weight, KEY)


def learn(belief, model, data):
    for x, batch in data:
        belief = update(belief, model, x, batch)
    return belief


def posterior(belief):
    """Without the data that some keep: two rows of one may be one row of two."""
    histories = jax.tree.leaves(belief, is_leaf=lambda node: isinstance(node, KeptRows))
    return [leaf for leaf in histories if not isinstance(leaf, KeptRows)]


def assert_same(one, other, tolerance=1e-9):
    one, other = (posterior(belief) for belief in (one, other))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@EXACT_LAW
def test_order_does_not_matter(belief, model):
    data = batches(belief, model)
    assert_same(learn(belief, model, data), learn(belief, model, data[::-1]))


@EXACT_LAW
def test_split_batch_equals_whole(belief, model):
    x, batch = batches(belief, model, size=4)[0]
    parts = learn(belief, model, [(x, batch[:2]), (x, batch[2:])])
    assert_same(parts, learn(belief, model, [(x, batch)]))


@LAW
def test_weight_zero_is_no_observation(belief, model):
    x, batch = batches(belief, model, size=4)[0]
    weighted = update(belief, model, x, batch, jnp.asarray([1.0, 0.0, 1.0, 0.0]))
    assert_same(weighted, update(belief, model, x, batch[::2]))


@LAW
def test_weight_two_is_two_observations(belief, model):
    x, batch = batches(belief, model, size=4)[0]
    weighted = update(belief, model, x, batch, jnp.asarray([2.0, 0.0, 1.0, 1.0]))
    assert_same(weighted, update(belief, model, x, batch[jnp.asarray([0, 0, 2, 3])]))


@LAW
def test_vmap_equals_loop(belief, model):
    x, batch = batches(belief, model, size=4)[0]
    several = batch.reshape(2, 2, *batch.shape[1:])
    stacked = jax.jit(jax.vmap(lambda b: belief.update(model, x, b, None, KEY)))(several)
    for i in range(2):
        single = update(belief, model, x, several[i])
        assert_same(jax.tree.map(lambda leaf, i=i: leaf[i], stacked), single)


@LAW
def test_saved_and_restored_is_bit_identical(belief, model):
    learned = learn(belief, model, batches(belief, model))
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, learned)
    buffer.seek(0)
    restored = eqx.tree_deserialise_leaves(buffer, belief)
    assert eqx.tree_equal(learned, restored)


@LAW
def test_types_do_not_change(belief, model):
    """Else a loop over stages compiles twice."""
    learned = learn(belief, model, batches(belief, model)[:1])
    before, after = (jax.tree.map(jax.typeof, b) for b in (belief, learned))
    assert before == after


@LAW
def test_fixed_arrays_do_not_change(belief, model):
    marks = jax.tree.leaves(fixed_leaves(belief))
    learned = learn(belief, model, batches(belief, model))
    leaves = zip(marks, jax.tree.leaves(belief), jax.tree.leaves(learned), strict=True)
    for before, after in ((before, after) for mark, before, after in leaves if mark):
        np.testing.assert_array_equal(before, after)


def test_arrays_that_batches_leave_alone_are_fixed():
    belief = pg.beliefs.Adaptive(pg.beliefs.Grid({"a": POINTS}, PRIOR, forget=1.0), (1.0, 0.9))
    marks = fixed_leaves([{"b": belief}, 3.0, POINTS])
    assert marks[1:] == [False, False]
    grid, marks = belief.beliefs, marks[0]["b"]
    assert marks.beliefs.points == {"a": True}
    assert all([marks.beliefs.weights.prior, marks.beliefs.memory.forget])
    assert not any([marks.log_weights, marks.beliefs.weights.values, marks.beliefs.memory.size])
    assert grid.points["a"].shape == grid.weights.prior.shape == (12,)  # one for all members
    marks = fixed_leaves(CASES[pg.beliefs.Grid][5][0]()).weights
    assert all([marks.everything.natural, marks.live.log_prior])
    assert not marks.statistics


@LAW
def test_mean_and_spread_are_those_of_the_draws(belief, model):
    """Within five standard errors, those of a standard deviation from the fourth moment."""
    learned = learn(belief, model, batches(belief, model))
    n = 20_000
    found = jax.jit(lambda belief: (belief.mean(), belief.spread()))(learned)
    draws = jax.jit(lambda belief: belief.sample(random.key(3), (n,)))(learned)
    for mean, spread, leaf in zip(*map(jax.tree.leaves, (*found, draws)), strict=True):
        gap = np.asarray(leaf) - np.mean(leaf, axis=0)
        variance = np.mean(gap**2, axis=0)
        assert np.isfinite(spread).all()
        close = 5 * np.sqrt(variance / n) + 1e-9
        wide = 5 * np.sqrt((np.mean(gap**4, axis=0) - variance**2) / n) + 1e-9
        if isinstance(belief, pg.beliefs.DirichletProcess):  # 1,024 draws themselves
            close, wide = (np.sqrt(1 + n / 1024) * error for error in (close, wide))
        assert np.all(np.abs(mean - np.mean(leaf, axis=0)) <= close)
        assert np.all(np.abs(spread**2 - variance) <= wide)


def test_mean_and_spread_where_they_are_infinite():
    beliefs = pg.beliefs
    assert np.isnan(beliefs.InverseGamma(1.0, 8.0).mean())
    assert np.isinf(beliefs.InverseGamma(2.0, 8.0).spread())
    assert np.isnan(beliefs.NormalInverseGamma(0.0, 1.0, 0.5, 1.0).mean()["scale"])
    assert np.isinf(beliefs.NormalInverseGamma(0.0, 1.0, 1.0, 1.0).spread()["mean"])
    wishart = beliefs.NormalInverseWishart([1.0, -1.0], 0.5, 5.0, np.eye(2))
    assert np.isfinite(wishart.mean()["covariance"]).all()
    assert np.isinf(wishart.spread()["covariance"]).all()
    lost = beliefs.Grid(POINTS).update(uniform, jnp.asarray(0.0), jnp.asarray([99.0]))
    assert np.isnan(lost.mean())


@LAW
def test_samples_follow_the_mixture(belief, model):
    """E f(y; x, theta) over draws of theta is what `log_mixture` says it is."""
    learned = learn(belief, model, batches(belief, model))
    x, n = jnp.asarray(0.7), 20_000

    @jax.jit
    def both(ys):
        thetas = learned.sample(random.key(1), (n,))
        at = jax.vmap(lambda y, theta: log_density(model(x, theta), y), in_axes=(None, 0))
        densities = jnp.exp(jax.vmap(at, in_axes=(0, None))(ys, thetas))
        stated = jnp.exp(jax.vmap(lambda y: learned.log_mixture(model, x, y))(ys))
        return densities.mean(axis=1), densities.std(axis=1) / np.sqrt(n), stated

    ys = draw(model, x, truth(belief), random.key(2), 4)
    for mean, error, stated in np.transpose(both(ys)):
        assert mean == pytest.approx(stated, abs=5 * error, rel=1e-9)


def test_grid_is_bayes_rule_by_brute_force():
    """Products of densities, normalised, with no logarithm anywhere."""
    data = [(0.5, [3.0, 4.5]), (1.5, [2.0])]
    theta = np.arange(1.0, 13.0)
    weights = np.linspace(1.0, 2.0, 12)
    for x, batch in data:
        for y in batch:
            weights = weights * stats.norm.pdf(y, theta + 0.5 * x, 2.0)
    belief = pg.beliefs.Grid(theta, PRIOR)
    for x, batch in data:
        belief = belief.update(normal, jnp.asarray(x), jnp.asarray(batch))
    np.testing.assert_allclose(belief.probabilities, weights / weights.sum(), rtol=1e-12)
    assert belief.probability(4.0) == pytest.approx(weights[3] / weights.sum(), rel=1e-12)
    assert belief.probability(4.5) == 0.0


def test_grid_does_not_underflow_or_drift():
    """A million observations in 1,000 batches: as if in one."""
    data = np.random.default_rng(0).normal(5.0, 2.0, (1000, 1000))
    update = jax.jit(lambda belief, batch: belief.update(normal, jnp.zeros(()), batch))
    belief = pg.beliefs.Grid(jnp.linspace(4.98, 5.02, 9))
    for batch in data:
        belief = update(belief, batch)
    n, mean = data.size, data.mean()
    exact = -0.5 * n * (mean - np.asarray(belief.points)) ** 2 / 4.0
    np.testing.assert_allclose(belief.log_weights, exact - exact.max(), atol=1e-6)


TOO_WIDE = 1.0 / 1.02**2  # the power of a posterior whose spread is two per cent too large


@pytest.fixture(scope="module")
def ranks(replications=200_000, batch=5):
    """Rank of the true theta in its posterior, over draws from prior and model (randomised).

    By the power to which the posterior is raised.
    """
    points = jnp.linspace(-3.0, 3.0, 61)
    prior = jnp.exp(-0.5 * points**2)
    grid = pg.beliefs.Grid(points, prior)

    def one(key):
        k1, k2, k3 = random.split(key, 3)
        theta = grid.sample(k1)
        y = dist.Normal(theta, 2.0).sample(k2, (batch,))
        posterior = grid.update(lambda x, theta: dist.Normal(theta, 2.0), jnp.zeros(()), y)
        u = random.uniform(k3)

        def rank(power):
            p = jax.nn.softmax(power * posterior.log_weights)
            below = jnp.sum(jnp.where(points < theta, p, 0.0))
            here = jnp.sum(jnp.where(points == theta, p, 0.0))
            return below + u * here

        return rank(1.0), rank(TOO_WIDE)

    keys = random.split(random.key(0), replications)
    return dict(zip((1.0, TOO_WIDE), map(np.asarray, jax.jit(jax.vmap(one))(keys)), strict=True))


def chi2_p(ranks, bins=20):
    return stats.chisquare(np.histogram(ranks, bins, (0.0, 1.0))[0]).pvalue


def test_grid_is_calibrated(ranks):
    assert chi2_p(ranks[1.0]) > 1e-3


def test_calibration_notices_a_spread_two_per_cent_too_large(ranks):
    assert chi2_p(ranks[TOO_WIDE]) < 1e-3


def test_grid_samples_have_its_probabilities():
    for n in (12, 300):  # both ways of cumulating
        grid = pg.beliefs.Grid(
            jnp.arange(float(n)), jnp.concatenate([jnp.zeros(3), jnp.arange(1.0, n - 2)])
        )
        draws = np.asarray(grid.sample(random.key(0), (200_000,))).astype(int)
        assert draws.min() >= 3  # no weight, no draw
        expected = np.asarray(grid.probabilities)[3:] * len(draws)
        assert stats.chisquare(np.bincount(draws, minlength=n)[3:], expected).pvalue > 1e-3


def test_free_estimates_are_the_grid_estimates_in_the_limit():
    fine = jnp.linspace(0.2, 12.0, 100_001)
    for belief, model in (
        (pg.beliefs.Normal(0.0, 1.0), normal),
        (pg.beliefs.Normal(0.0, 1.0), noisier),
        (pg.beliefs.InverseGamma(3.0, 3.0), exponential),
        (pg.beliefs.Gamma(1.0, 1.0), poisson),
    ):
        free, grid = pg.beliefs.FreeMaximumLikelihood(belief), pg.beliefs.MaximumLikelihood(fine)
        data = (
            batches(grid, model, size=20)
            if model is not poisson
            else batches(pg.beliefs.Grid(jnp.asarray([1.0, 4.0])), model, size=20)
        )
        data = [(x, batch + 1.0) for x, batch in data]
        free, grid = learn(free, model, data), learn(grid, model, data)
        assert free.theta == pytest.approx(float(grid.theta), abs=2e-4)


def problem(model):
    return pg.Problem(lambda x, xi: x, model)


def test_posterior_that_is_none_is_not_taken_for_one():
    for belief in (pg.beliefs.Grid(POINTS), pg.beliefs.MaximumLikelihood(POINTS)):
        lost = belief.update(uniform, jnp.asarray(0.0), jnp.asarray([99.0]))
        assert np.isnan(lost.sample(random.key(0), (3,))).all()


@pytest.mark.parametrize(
    ("points", "prior"),
    [
        ([], None),
        ([1.0, np.nan], None),
        ([1.0, np.inf], None),
        ([True, False], None),
        (["a", "b"], None),
        (1.0, None),
        ({"a": np.ones(2), "b": np.ones(3)}, None),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [1.0, -1.0]),
        ([1.0, 2.0], [0.0, 0.0]),
        ([1.0, 2.0], [1.0, np.nan]),
    ],
)
def test_bad_grids_are_refused(points, prior):
    with pytest.raises(errors.PriorError):
        pg.beliefs.Grid(points, prior)


NORMALS = pg.beliefs.NormalInverseGamma(0.0, 1.0, 1.0, 1.0)


def test_free_mean_and_scale_are_those_of_the_sample():
    data = [(jnp.asarray(x), jnp.asarray(y)) for x, y in ((0.0, [1.0, 4.0]), (2.0, [5.0]))]
    belief = learn(pg.beliefs.FreeMaximumLikelihood(NORMALS), mean_and_scale, data)
    assert belief.theta["mean"] == pytest.approx(np.mean([1.0, 4.0, 3.0]))
    assert belief.theta["scale"] == pytest.approx(np.std([1.0, 4.0, 3.0]))


class Exact(pg.beliefs.Belief):
    """A belief as somebody writes it in a package of their own: N(m, 1 / p), y ~ N(theta, 1)."""

    mean_now: jax.Array
    precision: jax.Array

    def update(self, likelihood, x, batch, weight=None, key=None):
        weight = jnp.ones(batch.shape[0]) if weight is None else weight
        precision = self.precision + jnp.sum(weight)
        return Exact(
            (self.precision * self.mean_now + jnp.sum(weight * batch)) / precision, precision
        )

    @property
    def effective_size(self):
        return self.precision

    def sample(self, key, shape=()):
        return self.mean_now + random.normal(key, shape) / jnp.sqrt(self.precision)

    def mean(self):
        return self.mean_now

    def spread(self):
        return self.precision**-0.5

    def log_mixture(self, model, x, xi):
        return dist.Normal(self.mean_now, jnp.sqrt(1.0 + 1.0 / self.precision)).log_prob(xi)

    def examples(self):
        return self.mean_now + jnp.asarray([0.0, 1.0])

    def bind(self, problem, x):
        return self


def test_a_belief_of_somebodys_own_package_is_used():
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2,
        lambda x, theta: dist.Normal(theta, 1.0),
        pg.feasible.Box(-9.0, 9.0),
    )
    belief, batches = Exact(jnp.zeros(()), jnp.ones(())), ([1.0, 2.0], [4.0], [3.0, 2.5, 2.0])
    own = pg.Agent(problem, belief, 0.0, **pg.presets.paper())
    ours = pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 0.0, **pg.presets.paper())
    for batch in batches:
        decisions = [float(agent.observe(batch)) for agent in (own, ours)]
        assert decisions[0] == pytest.approx(decisions[1], abs=1e-9)
    assert float(own.belief.mean()) == pytest.approx(14.5 / 7.0)

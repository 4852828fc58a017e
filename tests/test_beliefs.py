"""The laws of beliefs, for every final class of the room."""

import functools
import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from belief_models import (
    REGRESSIONS,
    bernoulli,
    binomial,
    categorical,
    correlated,
    counted,
    erlang,
    erlang_of_mean,
    exponential,
    geometric,
    lognormal,
    lognormal_mean_and_scale,
    mean_and_scale,
    multinomial,
    negative_binomial,
    noisier,
    normal,
    poisson,
    scaled,
    scaled_mean_and_scale,
    student,
    three_coins,
    two_counts,
    two_normals,
    uniform,
    waiting,
)
from jax import random
from rooms import examples, first_of_each

import postgrad as pg
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.distributions.density import log_density
from postgrad.numerics.fixed import fixed_leaves

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
    pg.beliefs.Mixture: [
        (pg.beliefs.Mixture([pg.beliefs.Grid(POINTS, PRIOR, forget=r) for r in (1.0, 1.0)]), normal)
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
        (bound(lambda: pg.beliefs.Particles(dist.Normal(3.0, 2.0), 100), student), student)
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
        # by draws
        (bound(lambda: pg.beliefs.Grid(MANY), exponential, pg.beliefs.PosteriorMean), exponential),
    ],
    pg.beliefs.Regression: REGRESSIONS,
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
    """`make test` takes the first case of each class, and the first that is bound."""
    names = [f"{kind.__name__}-{getattr(model, '__name__', model)}" for kind, _, model in cases]
    few = first_of_each(cases, lambda kind, made, _: (kind, isinstance(made, pg.beliefs.Belief)))
    pairs = [pytest.param(*case.values[1:], marks=case.marks) for case in few]
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
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:2][-1], belief.examples())


KEY = random.key(7)


def batches(belief, model, count=4, size=2):
    """Data at several decisions, as (x, batch) pairs; small ones are cut from four rows."""
    theta, rows = truth(belief), max(size, 4)
    decisions = jnp.asarray(np.linspace(0.2, 2.0, count))
    return [
        (x, np.asarray(draw(model, x, theta, random.key(i), rows))[:size])
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
    assert_same(weighted, update(belief, model, x, batch[[0, 0, 2, 3]]))


@LAW
def test_vmap_equals_loop(belief, model):
    x, batch = batches(belief, model, size=4)[0]
    several = batch.reshape(2, 2, *batch.shape[1:])

    @jax.jit
    def stacked(several):
        beliefs = jax.vmap(lambda b: belief.update(model, x, b, None, KEY))(several)
        return [jax.tree.map(lambda leaf, i=i: leaf[i], beliefs) for i in range(2)]

    for part, one in zip(several, stacked(several), strict=True):
        assert_same(one, update(belief, model, x, part))


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
    members = [pg.beliefs.Grid({"a": POINTS}, PRIOR, forget=rate) for rate in (1.0, 0.9)]
    belief = pg.beliefs.Mixture(members)
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


COUNT = 20_000


@eqx.filter_jit
def account(belief, model, x, ys):
    """What a belief says of itself, and draws of it: one program for both laws that need draws."""
    thetas = belief.sample(random.key(1), (COUNT,))
    at = jax.vmap(lambda y, theta: log_density(model(x, theta), y), in_axes=(None, 0))
    densities = jnp.exp(jax.vmap(at, in_axes=(0, None))(ys, thetas))
    stated = jnp.exp(jax.vmap(lambda y: belief.log_mixture(model, x, y))(ys))
    return (belief.mean(), belief.spread(), thetas), (densities, stated)


ACCOUNTS = {}


def learned_account(belief, model):
    """Computed once for both laws; beliefs and models of the table are never let go of."""
    case = id(belief), id(model)
    if case not in ACCOUNTS:
        learned = learn(belief, model, batches(belief, model))
        x = jnp.asarray(0.7)
        ys = draw(model, x, truth(belief), random.key(2), 4)
        ACCOUNTS[case] = account(learned, model, x, ys)
    return ACCOUNTS[case]


@LAW
def test_mean_and_spread_are_those_of_the_draws(belief, model):
    """Within five standard errors, those of a standard deviation from the fourth moment."""
    n = COUNT
    found, _ = learned_account(belief, model)
    leaves = [map(np.asarray, jax.tree.leaves(part)) for part in found]
    for mean, spread, leaf in zip(*leaves, strict=True):
        gap = leaf - np.mean(leaf, axis=0)
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
    _, (densities, stated) = learned_account(belief, model)
    densities = np.asarray(densities)
    errors = densities.std(axis=1) / np.sqrt(COUNT)
    for mean, error, exact in zip(densities.mean(axis=1), errors, np.asarray(stated), strict=True):
        assert mean == pytest.approx(exact, abs=5 * error, rel=1e-9)

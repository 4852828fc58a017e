"""Grids of very many points: statistics instead of log-weights, and only what matters of them."""

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
from postgrad.beliefs.grid import live_points as focus
from postgrad.beliefs.grid import sufficient_weights as sufficient
from postgrad.beliefs.grid.natural_parameters import LEAF, Rows, blank, log_normaliser, sweep
from postgrad.beliefs.grid.sufficient_weights import TOLERANCE, SufficientWeights
from postgrad.beliefs.grid.weights import LogWeights

POINTS = pg.beliefs.product_grid(
    {"mean": np.linspace(-50.0, 50.0, 101), "scale": np.linspace(0.5, 25.0, 50)}
)
TRUTH = {"mean": jnp.asarray(6.0), "scale": jnp.asarray(1.5)}


def moved(x, theta):
    return dist.Normal(theta["mean"] + jnp.sqrt(x), theta["scale"])


def still(x, theta):
    return dist.Normal(theta["mean"], theta["scale"])


def stretched(x, theta):
    return dist.Exponential(1.0 / (theta * (1.0 + x**2)))


def counted(x, theta):
    return dist.Poisson(theta * (1.0 + x))


def several(x, theta):
    return dist.Normal(theta["mean"] + x, theta["scale"]).to_event(1)


RATES = np.geomspace(1e-3, 1e5, 5000)
PAIRS = pg.beliefs.product_grid(
    {"mean": [np.linspace(0, 1, 9)] * 2, "scale": [np.linspace(0.5, 2, 8)] * 2}
)
CASES = [
    (moved, POINTS, TRUTH),
    (still, POINTS, TRUTH),
    (stretched, RATES, 2.0),
    (counted, RATES, 2.0),
    (several, PAIRS, {"mean": jnp.asarray([0.2, 0.9]), "scale": jnp.asarray([1.0, 0.7])}),
]
SLOW = {still, counted}
ALL = pytest.mark.parametrize(
    ("model", "points", "truth"),
    [pytest.param(*c, marks=pytest.mark.slow if c[0] in SLOW else ()) for c in CASES],
    ids=[c[0].__name__ for c in CASES],
)
BOX = pg.feasible.Box(0.1, 5.0)


def cost(x, xi):  # one for all problems: programs are then shared
    return jnp.sum((x - xi) ** 2)


def problem(model):
    return pg.Problem(cost, model, BOX)


def bound(model, points, prior=None):
    return pg.beliefs.Grid(points, prior).bind(problem(model), jnp.asarray(1.0))


@eqx.filter_jit
def update(belief, model, x, batch):
    return belief.update(model, x, batch)


def data(model, truth, count, size=3):
    rng = np.random.default_rng(3)
    xs = [jnp.asarray(x) for x in rng.uniform(0.2, 4.0, count)]
    return [(x, draw(model, x, truth, random.key(i), size)) for i, x in enumerate(xs)]


@eqx.filter_jit
def draw(model, x, truth, key, size):
    return model(x, truth).sample(key, (size,))


@eqx.filter_jit
def mixture_and_gradient(belief, model, x, xi):
    return jax.value_and_grad(lambda x: belief.log_mixture(model, x, xi))(x)


def is_focused(grid):
    return bool(grid.weights.since[-1] > -np.inf)


def in_use(weights):
    """The probabilities from which draws are made, of all points."""
    rows = weights.live
    natural, log_prior = np.asarray(rows.table()), np.asarray(rows.log_prior)
    values = natural @ np.asarray(weights.statistics)[:-1] + log_prior.ravel()
    place = np.asarray(rows.index).ravel()
    total = np.zeros(weights.everything.log_prior.size)
    used = np.isfinite(values)
    np.add.at(total, place[used], np.exp(values[used] - values[used].max()))
    return total[: weights.size] / total.sum()


def distance(one, other):
    return 0.5 * np.abs(np.asarray(one) - np.asarray(other)).sum()


@ALL
def test_posterior_is_the_dense_one_at_every_stage(model, points, truth):
    """Within 1e-9 in total variation, with a bound that tells how much is left out."""
    grid, dense = bound(model, points), pg.beliefs.Grid(points)
    assert isinstance(grid.weights, SufficientWeights)
    for stage, (x, batch) in enumerate(data(model, truth, 60), start=1):
        dense = update(dense, model, x, batch)
        new = update(grid, model, x, batch)
        assert new.weights.is_sound
        out = np.ones(new.weights.size, bool)
        used = np.asarray(new.weights.live.log_prior).ravel() > -np.inf
        out[np.asarray(new.weights.live.index).ravel()[used]] = False
        left_out = np.asarray(dense.probabilities)[out].sum()
        assert left_out <= new.weights.missing <= TOLERANCE
        assert distance(in_use(new.weights), dense.probabilities) < 1e-9
        assert distance(new.probabilities, dense.probabilities) < 1e-9
        grid = focus.focused(new) if stage in (4, 8, 20, 40) else new
    assert out.sum() > 1000


@ALL
def test_mixture_and_its_gradient_are_the_dense_ones(model, points, truth):
    grid, dense = bound(model, points), pg.beliefs.Grid(points)
    for x, batch in data(model, truth, 12):
        grid, dense = update(grid, model, x, batch), update(dense, model, x, batch)
    for belief in (grid, focus.focused(grid)):
        for x, batch in data(model, truth, 3):
            ours, exact = (mixture_and_gradient(b, model, x, batch[0]) for b in (belief, dense))
            np.testing.assert_allclose(ours, exact, rtol=1e-8, atol=1e-9)


@ALL
def test_mode_is_the_dense_one(model, points, truth):
    ours = pg.beliefs.MaximumLikelihood(points).bind(problem(model), jnp.asarray(1.0))
    exact = pg.beliefs.MaximumLikelihood(points)
    for x, batch in data(model, truth, 12):
        ours, exact = update(ours, model, x, batch), update(exact, model, x, batch)
        assert eqx.tree_equal(ours.theta, exact.theta)
        assert eqx.tree_equal(focus.focused(ours).theta, exact.theta)


@pytest.mark.sample(1)
@pytest.mark.parametrize("focused", [False, True])
def test_draws_have_the_probabilities(focused):
    grid = bound(moved, POINTS)
    for x, batch in data(moved, TRUTH, 15):
        grid = update(grid, moved, x, batch)
    if focused:
        grid = focus.focused(grid)
        assert is_focused(grid)
    draws, valid = eqx.filter_jit(grid.weights.pick)(random.uniform(random.key(0), (100_000,)))
    assert valid
    p = np.asarray(grid.probabilities)
    common = p * len(draws) > 10
    seen = np.bincount(np.asarray(draws), minlength=len(p))
    expected = np.append(p[common], p[~common].sum()) * len(draws)
    counts = np.append(seen[common], seen[~common].sum())
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


@ALL
def test_what_is_bound_stays_bound_to_its_problem(model, points, truth):
    grid = update(bound(model, points), model, *data(model, truth, 1)[0])
    assert grid.bind(problem(model), jnp.asarray(2.5)) is grid
    other = {moved: still, still: moved, stretched: counted, counted: stretched, several: several}
    if model is not several:
        rebound = grid.bind(problem(other[model]), jnp.asarray(1.0))
        assert rebound is not grid
        assert distance(rebound.probabilities, grid.probabilities) < 1e-9


def test_prior_counts():
    prior = np.random.default_rng(0).uniform(size=POINTS["mean"].size)
    prior[100:2000] = 0.0
    grid, dense = bound(moved, POINTS, prior), pg.beliefs.Grid(POINTS, prior)
    assert distance(grid.probabilities, dense.probabilities) < 1e-12
    for x, batch in data(moved, TRUTH, 10):
        grid, dense = update(grid, moved, x, batch), update(dense, moved, x, batch)
    focused = focus.focused(grid)
    assert distance(in_use(focused.weights), dense.probabilities) < 1e-9


def test_bound_notices_a_world_that_changes():
    """Points that were left out come back when the data do: nothing is lost for good."""
    grid, dense = bound(still, POINTS), pg.beliefs.Grid(POINTS)
    before, after = TRUTH, {"mean": jnp.asarray(-40.0), "scale": jnp.asarray(20.0)}
    unsound = 0
    for stage, truth in enumerate([before] * 30 + [after] * 200):
        batch = draw(still, None, truth, random.key(stage), 2)
        dense = update(dense, still, jnp.asarray(1.0), batch)
        new = update(grid, still, jnp.asarray(1.0), batch)
        if not new.weights.is_sound:
            unsound += 1
            new = update(focus.unfocused(grid), still, jnp.asarray(1.0), batch)
        assert distance(in_use(new.weights), dense.probabilities) < 1e-9
        grid = focus.focused(new) if stage % 10 == 9 else new
    assert unsound > 0


def never(state):
    return 1 << 40


@pytest.mark.sample(1)
@pytest.mark.usefixtures("optimised_once")
@pytest.mark.parametrize("gap", [60.0, 33.0])
@pytest.mark.parametrize("belief", [pg.beliefs.Grid, pg.beliefs.MaximumLikelihood])
def test_simulation_does_not_depend_on_the_focus(belief, gap, monkeypatch):
    """Also with a gap so small that stages have to be computed again."""

    def run():
        algorithm = pg.BayesianSGD(problem(moved), **pg.presets.paper())
        return pg.simulate(
            algorithm, belief(POINTS), 1.0, TRUTH, runs=60, horizon=60, batch_size=2
        ).decisions

    again = []
    unfocused = focus.unfocused

    def counted(state):
        again.append(1)
        return unfocused(state)

    monkeypatch.setattr(focus, "unfocused", counted)
    monkeypatch.setattr(sufficient, "_GAP", gap)
    with_focus = run()
    assert (len(again) > 0) == (gap < 50.0)
    monkeypatch.setattr(focus, "patience", never)
    np.testing.assert_allclose(with_focus, run(), rtol=1e-7)


@pytest.mark.slow
def test_agent_does_not_depend_on_the_focus(monkeypatch):
    def run():
        agent = pg.Agent(problem(moved), pg.beliefs.Grid(POINTS), 1.0)
        decisions = [agent.observe(batch) for _, batch in data(moved, TRUTH, 40)]
        return np.array(decisions), agent

    decisions, agent = run()
    assert is_focused(agent.belief)
    monkeypatch.setattr(focus, "patience", never)
    np.testing.assert_allclose(decisions, run()[0], rtol=1e-9)


@pytest.mark.parametrize("focused", [False, True])
def test_agent_refuses_what_lies_outside_the_support(focused):
    agent = pg.Agent(problem(stretched), pg.beliefs.Grid(RATES), 1.0, **pg.presets.paper())
    for _ in range(20 if focused else 1):
        agent.observe([2.0, 3.0])
    assert is_focused(agent.belief) == focused
    before = agent.state
    with pytest.raises(errors.SupportError, match="row 1"):
        agent.observe([2.0, -3.0])
    assert eqx.tree_equal(before, agent.state)


@pytest.mark.parametrize(
    ("model", "points"),
    [
        (lambda x, theta: dist.StudentT(4.0, theta["mean"], theta["scale"]), POINTS),  # no family
        (lambda x, theta: dist.Normal(theta["mean"] * x, theta["scale"]), POINTS),  # not a shift
        (lambda x, theta: dist.Normal(theta["mean"], theta["scale"] + x), POINTS),
        (moved, {key: leaf[:100] for key, leaf in POINTS.items()}),  # few points
    ],
)
def test_other_models_and_small_grids_keep_their_log_weights(model, points):
    assert isinstance(bound(model, points).weights, LogWeights)


def test_partial_observation_keeps_its_log_weights():
    seen = pg.Problem(lambda x, xi: x * xi, still, BOX, observation=moved)
    assert isinstance(pg.beliefs.Grid(POINTS).bind(seen, jnp.asarray(1.0)).weights, LogWeights)


def test_one_improper_point_in_many_is_found():
    points = {"mean": np.zeros(5000), "scale": np.ones(5000)}
    points["scale"][4321] = -1.0
    with pytest.raises(errors.ModelError, match=r"scale.*-1\.0"):
        bound(still, points)
    with pytest.raises(errors.ModelError, match=r"scale.*-1\.0"):
        pg.beliefs.Grid(points).bind(
            problem(lambda x, theta: dist.StudentT(4.0, theta["mean"], theta["scale"])),
            jnp.asarray(1.0),
        )


def test_family_without_a_closed_form_is_never_focused():
    points = pg.beliefs.product_grid(
        {"shape": np.linspace(0.5, 5.0, 70), "rate": np.linspace(0.2, 3.0, 70)}
    )

    def model(x, theta):
        return dist.Gamma(theta["shape"], theta["rate"])

    grid, dense = bound(model, points), pg.beliefs.Grid(points)
    for i in range(30):
        batch = draw(model, None, {"shape": 2.0, "rate": 1.0}, random.key(i), 3)
        grid, dense = (update(b, model, jnp.asarray(1.0), batch) for b in (grid, dense))
        grid = focus.focused(grid)
    assert not is_focused(grid)
    assert distance(grid.probabilities, dense.probabilities) < 1e-9


def test_a_thousand_batches_do_not_drift():
    """Sums of statistics far from zero: as exact as log-weights, after 10,000 observations."""
    means, scales = np.linspace(1e3, 1e3 + 1, 80), np.linspace(0.8, 1.2, 80)
    batches = np.random.default_rng(0).normal(1e3 + 0.5, 1.0, (1000, 10))
    grid = bound(still, pg.beliefs.product_grid({"mean": means, "scale": scales}))

    @jax.jit
    def learn(grid, batches):
        return jax.lax.scan(
            lambda grid, batch: (grid.update(still, jnp.asarray(1.0), batch), None), grid, batches
        )[0]

    grid = learn(grid, jnp.asarray(batches))
    squares = ((batches.ravel()[:, None] - means) ** 2).sum(axis=0)
    exact = (-10_000 * np.log(scales) - squares[:, None] / (2 * scales**2)).ravel()
    p = np.exp(exact - exact.max())
    assert distance(grid.probabilities, p / p.sum()) < 1e-9


def test_product_grids():
    points = pg.beliefs.product_grid({"a": [1.0, 2.0], "b": [[5.0, 6.0, 7.0], [0.0, 1.0]]})
    assert points["a"].shape == (12,)
    assert points["b"].shape == (12, 2)
    rows = {(a, *b) for a, b in zip(points["a"], points["b"], strict=True)}
    assert len(rows) == 12
    assert (points["a"][:6] == 1.0).all()  # the last varies fastest
    assert points["b"][:2].tolist() == [[5.0, 0.0], [5.0, 1.0]]
    assert np.array_equal(pg.beliefs.product_grid([3.0, 4.0]), [3.0, 4.0])
    assert np.array_equal(
        pg.beliefs.product_grid(np.array([[0.0, 1.0], [2.0, 3.0]])),
        [[0, 2], [0, 3], [1, 2], [1, 3]],
    )


@pytest.mark.parametrize("levels", [[], {"a": []}, {}, {"a": [np.nan]}, {"a": ["x"]}, {"a": 1.0}])
def test_bad_levels_are_refused(levels):
    with pytest.raises(errors.PriorError):
        pg.beliefs.product_grid(levels)


def some_rows(key, blocks, used):
    natural = jax.random.normal(jax.random.key(key), (blocks, 3, 2 * LEAF))
    index = jnp.arange(blocks * 2 * LEAF, dtype=jnp.int32).reshape(blocks, 2 * LEAF)
    log_prior = jnp.sin(index).at[:, -5:].set(-jnp.inf)
    return Rows(natural, log_prior, index, jnp.asarray(used, jnp.int32))


@pytest.mark.parametrize("shared", [True, False])
def test_vmap_over_runs_equals_a_loop_over_runs(shared):
    """With rows that all runs share, with rows of each run's own, and with `vmap` in `vmap`."""
    rows = [some_rows(0 if shared else run, 4, 3 if shared else 2 + run) for run in range(2)]
    statistics = jax.random.normal(jax.random.key(9), (2, 5, 3))

    @jax.jit
    def one(rows, statistics):
        value, gradient = jax.value_and_grad(log_normaliser, argnums=1)(rows, statistics)
        return sweep(rows, statistics, blank(rows)), value, gradient

    loop = [one(rows[i], statistics[i, j]) for i in range(2) for j in range(5)]
    loop = jax.tree.map(lambda *leaves: np.stack(leaves), *loop)
    stack = rows[0] if shared else jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
    inner = jax.vmap(one, in_axes=(None, 0))
    nested = jax.jit(jax.vmap(inner, in_axes=(None if shared else 0, 0)))(stack, statistics)
    for expected, found in zip(jax.tree.leaves(loop), jax.tree.leaves(nested), strict=True):
        np.testing.assert_allclose(found.reshape(expected.shape), expected, rtol=1e-12, atol=1e-13)

    def dense(statistics):  # the blocks in use alone
        used = rows[0].natural[: int(rows[0].blocks)]
        values = jnp.einsum("bmr,m->br", used, statistics) + rows[0].log_prior[: len(used)]
        return jax.nn.logsumexp(values)

    value, gradient = jax.jit(jax.vmap(jax.value_and_grad(dense)))(statistics[0])
    np.testing.assert_allclose(nested[1][0], value, rtol=1e-12)
    np.testing.assert_allclose(nested[2][0], gradient, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(lambda t: t.log_total))(jax.tree.map(lambda leaf: leaf[0], nested[0])),
        value,
        rtol=1e-12,
    )

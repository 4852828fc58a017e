"""Simulations are the algorithm and nothing else, whatever the number of runs."""

import os

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from jax import random

import postgrad as pg
from postgrad import errors
from postgrad.engine import bulk
from postgrad.research.problems import quadratic

ONE = quadratic.univariate_dependent()


def paper(problem=ONE.problem, **changes):
    return pg.BayesianSGD(problem, **pg.presets.paper(**changes))


def simulate(runs, horizon=40, batch_size=2):
    algorithm = paper()
    return pg.simulate(
        algorithm,
        pg.beliefs.Grid(ONE.points),
        ONE.x,
        ONE.theta,
        runs=runs,
        horizon=horizon,
        batch_size=batch_size,
    )


@pytest.mark.usefixtures("optimised_once")
def test_run_is_the_same_whatever_the_number_of_runs():
    """To the last bit, also with the optimisations that reorder arithmetic.

    No other test has batches of three, so no program that was compiled without them is used again.
    The most are enough for large chunks.
    """
    many = simulate(500 * os.cpu_count() + 3, horizon=10, batch_size=3).decisions
    for runs in (1, 50, 51):
        few = simulate(runs, horizon=10, batch_size=3)
        assert np.array_equal(few.decisions, many[:runs])


def test_runs_differ():
    assert len(np.unique(simulate(133).decisions[:, -1])) == 133


def correlated(x, theta):
    scale = jnp.asarray([[1.0, 0.3], [0.3, 2.0]]) * theta["scale"]
    return dist.MultivariateNormal(theta["mean"] + 0.1 * x, scale_tril=jnp.linalg.cholesky(scale))


VECTOR = pg.Problem(lambda x, xi: jnp.sum((x - xi) ** 2), correlated, pg.feasible.Box(-50, 50))
PAIRS = {"mean": np.array([[0.0, 1.0], [2.0, 3.0]]), "scale": np.array([1.0, 2.0])}
COUNTS = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Poisson(theta * (1 + x)))
SHIFTED = pg.Problem(
    lambda x, xi: (x - xi) ** 2,
    lambda x, theta: dist.Normal(theta, 1.0),
    pg.feasible.Box(-9, 9),
    observation=lambda x, theta: dist.Normal(theta + x, 3.0),
)
TRUTH = {"mean": np.array([2.0, 3.0]), "scale": np.array(2.0)}
PLAIN = {"steps": pg.step_sizes.Harmonic(2.0, 5.0)}  # with the gradient that the model allows
LOOPS = {
    "paper": (ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, 4.0, pg.presets.paper()),
    "K": (ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, 4.0, {"iterations": 3, **PLAIN}),
    "samples": (
        ONE.problem,
        pg.beliefs.Grid(ONE.points),
        0.0,
        4.0,
        {"samples": 4, "iterations": 2, **PLAIN},
    ),
    "adam": (ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, 4.0, {"steps": optax.adam(0.1)}),
    "langevin": (
        ONE.problem,
        pg.beliefs.Grid(ONE.points),
        0.0,
        4.0,
        {"steps": pg.descents.SGLD(0.1, 1.0)},
    ),
    "average": (
        ONE.problem,
        pg.beliefs.Grid(ONE.points),
        0.0,
        4.0,
        {"output": pg.outputs.Average(), **PLAIN},
    ),
    "mle": (ONE.problem, pg.beliefs.MaximumLikelihood(ONE.points), 0.0, 4.0, PLAIN),
    "vector": (VECTOR, pg.beliefs.Grid(PAIRS), [0.0, 0.0], TRUTH, PLAIN),
    "counts": (COUNTS, pg.beliefs.Grid([1.0, 2.0, 3.0]), 1.0, 2.0, {"steps": 0.01}),
    "observation": (SHIFTED, pg.beliefs.Grid([1.0, 2.0, 3.0]), 1.0, 2.0, PLAIN),
    "default": (ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, 4.0, {}),
    "default, vector": (VECTOR, pg.beliefs.Grid(PAIRS), [0.0, 0.0], TRUTH, {}),
}

# The algorithm is an argument: runs that differ in their keys share one program.
forward = eqx.filter_jit(lambda algorithm, state, batch: algorithm.step(state, batch)[0])


@eqx.filter_jit
def observed(problem, x, theta, key):
    return problem.likelihood(x, theta).sample(key, (2,))


SLOW = {"default, vector", "K", "langevin", "average"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else ()) for n in LOOPS]
)
def test_simulation_is_the_plain_loop(name):
    """Bulk programs, threads and shared draws change nothing.

    Two programs round differently, and a search takes a place or not by values that may differ by
    rounding alone: its decisions agree to what that is worth.
    """
    problem, belief, x, theta, options = LOOPS[name]
    theta = jax.tree.map(jnp.asarray, theta)
    algorithm = pg.BayesianSGD(problem, **options)
    result = pg.simulate(algorithm, belief, x, theta, runs=3, horizon=15, batch_size=2, seed=9)
    for i in range(3):
        key_data, key_algorithm = random.split(random.fold_in(random.key(9), i))
        seeded = pg.BayesianSGD(problem, **options, seed=key_algorithm)
        state = seeded.init(belief, x)
        for t in range(1, 16):
            batch = observed(problem, state.decision, theta, random.fold_in(key_data, t))
            state = forward(seeded, state, batch)
            rounding = 1e-6 if name.startswith("default") else 1e-8
            np.testing.assert_allclose(result.decisions[i, t], state.decision, rtol=rounding)


def test_size_classes_agree_to_rounding():
    """More than 500 runs go through another program; the runs are the same."""
    np.testing.assert_allclose(
        simulate(501, horizon=60).decisions[:60], simulate(60, horizon=60).decisions, rtol=1e-9
    )


def test_seed_matters():
    world = quadratic.univariate_independent()
    runs = [
        pg.simulate(paper(world.problem), pg.beliefs.Known(9.0), 0.0, 9.0, runs=2, horizon=5,
                    seed=seed).decisions
        for seed in (0, 1, random.key(1))
    ]  # fmt: skip
    assert not np.allclose(runs[0][:, 1:], runs[1][:, 1:])
    assert np.array_equal(runs[1], runs[2])


@pytest.mark.parametrize(
    "options",
    [pytest.param({}, marks=pytest.mark.slow), pg.presets.paper()],
    ids=["default", "paper"],
)
@pytest.mark.parametrize(
    "belief", [pg.beliefs.Grid([2.0, 4.0]), pg.beliefs.MaximumLikelihood([2.0, 4.0])]
)
def test_data_that_no_theta_explains_are_seen(belief, options):
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Uniform(0.0, theta))
    algorithm = pg.BayesianSGD(problem, **options)
    result = pg.simulate(algorithm, belief, 1.0, 10.0, runs=5, horizon=40)
    assert result.diverged().all()


@pytest.mark.parametrize("theta", [np.nan, "a", None, -1.0])
def test_bad_truth_is_refused(theta):
    problem = pg.Problem(lambda x, xi: x * xi, lambda x, theta: dist.Exponential(theta))
    with pytest.raises(errors.PostgradError):
        pg.simulate(pg.BayesianSGD(problem), pg.beliefs.Grid([1.0, 2.0]), 0.0, theta)


@pytest.mark.parametrize("seed", [1.5, True, "a", None, -1, 2**70])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(errors.SettingError, match="seed"):
        pg.simulate(pg.BayesianSGD(ONE.problem), pg.beliefs.Known(4.0), 0.0, 4.0, seed=seed)
    with pytest.raises(errors.SettingError, match="seed"):
        pg.BayesianSGD(ONE.problem, seed=seed)


def test_algorithms_meet_the_same_data_noise():
    """Common random numbers: data are a function of (seed, run, stage), not of the algorithm."""
    world = quadratic.univariate_independent()
    seen = [
        pg.simulate(
            paper(world.problem, iterations=k),
            pg.beliefs.Grid(world.points),
            world.x,
            world.theta,
            runs=4,
            horizon=20,
            record=lambda state: state.belief.log_weights,
        ).record
        for k in (1, 2)
    ]
    np.testing.assert_allclose(*seen)


SEGMENTS = {
    "shorter calls": ("postgrad.engine.bulk._ON_CPU", (50, 25)),  # another program
    "looks at grids": ("postgrad.beliefs.grid.live_points.patience", lambda state: 25),
}


@pytest.mark.parametrize(
    ("options", "way"),
    [
        pytest.param({}, "shorter calls", marks=pytest.mark.slow),
        ({}, "looks at grids"),
        (pg.presets.paper(), "shorter calls"),
        (pg.presets.paper(), "looks at grids"),
    ],
    ids=["default-calls", "default-looks", "paper-calls", "paper-looks"],
)
def test_segments_do_not_show(monkeypatch, options, way):
    """Stages that are computed by one call or by several: the same digits."""
    arguments = pg.BayesianSGD(ONE.problem, **options), pg.beliefs.Grid(ONE.points), 0.0, 4.0
    options = {"runs": 2, "horizon": 60, "batch_size": 2}  # a program that others use too
    counts, count_of = [], bulk._Kept.add
    monkeypatch.setattr(
        bulk._Kept, "add", lambda self, *part: counts.append(part[2]) or count_of(self, *part)
    )
    whole = pg.simulate(*arguments, **options)
    monkeypatch.setattr(*SEGMENTS[way])
    parts = pg.simulate(*arguments, **options)
    assert counts == [60, 25, 25, 10]
    np.testing.assert_array_equal(parts.decisions, whole.decisions)


def test_one_program_serves_all_segments(monkeypatch):
    """Of 100, 100 and 30 stages."""
    compiled = []
    soon = bulk.compiled_soon
    monkeypatch.setattr(bulk, "compiled_soon", lambda f: compiled.append(f) or soon(f))
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Normal(theta, 1.0))
    pg.simulate(paper(problem), pg.beliefs.Known(4.0), 0.0, 4.0, runs=2, horizon=230)
    assert len(compiled) == 1


def test_progress_adds_up():
    done = []
    pg.simulate(
        paper(), pg.beliefs.Known(4.0), 0.0, 4.0, runs=70, horizon=300,
        progress=lambda *report: done.append(report),
    )  # fmt: skip
    assert done[-1] == ("simulating", 70 * 300, 70 * 300)
    assert sorted(done) == done
    assert len(done) == 2 * 3  # 50 and 20 runs, after every 100 stages


def test_record_and_axes():
    result = pg.simulate(
        paper(quadratic.multivariate_dependent().problem), pg.beliefs.Known(4.0), [5.0, 5.0], 4.0,
        runs=3, horizon=7, record=lambda state: {"t": state.stage, "x": state.x},
    )  # fmt: skip
    assert result.decisions.shape == (3, 8, 2)
    assert result.axes == ("run", "stage", "x_0")
    assert np.array_equal(result.record["t"], np.tile(np.arange(1, 9), (3, 1)))
    assert np.array_equal(result.record["x"], result.decisions)
    assert np.array_equal(result.decisions[:, 0], np.full((3, 2), 5.0))
    np.testing.assert_allclose(
        result.errors([5.0, 5.0]), np.linalg.norm(result.decisions - 5.0, axis=-1)
    )


def test_divergence_is_seen():
    problem = pg.Problem(lambda x, xi: jnp.exp(x**2), lambda x, theta: dist.Normal(theta, 1.0))
    result = pg.simulate(paper(problem), pg.beliefs.Known(0.0), 3.0, 0.0, runs=2, horizon=20)
    assert result.diverged().all()


@pytest.mark.parametrize("name", ["runs", "horizon", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_bad_counts_are_refused(name, value):
    with pytest.raises(errors.SettingError, match=name):
        pg.simulate(pg.BayesianSGD(ONE.problem), pg.beliefs.Known(4.0), 0.0, 4.0, **{name: value})


def test_a_run_does_not_depend_on_the_others():
    """A look that others need changes nothing in a run that has come to rest.

    Nor does the size of the chunks in which runs are computed: few runs have smaller ones.
    """
    problem = pg.Problem(
        lambda x, xi: jnp.maximum(x - xi, 0.0) + 9.0 * jnp.maximum(xi - x, 0.0) + 0.1 * x**2,
        lambda x, theta: dist.Normal(theta, 2.0),
        pg.feasible.Box(-50.0, 50.0),
    )
    arguments = (pg.BayesianSGD(problem), pg.beliefs.Normal(4.0, 3.0), 2.0, jnp.asarray(6.0))
    alone, among = (
        pg.simulate(*arguments, runs=runs, horizon=12, batch_size=2, seed=3) for runs in (1, 26)
    )
    np.testing.assert_array_equal(alone.decisions[0], among.decisions[0])

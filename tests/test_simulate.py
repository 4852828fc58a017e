"""Simulations are the algorithm and nothing else, whatever the number of runs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad import errors, threefry
from postgrad.hoist import hoist
from postgrad.problems import quadratic

ONE = quadratic.univariate_dependent()


def simulate(runs, horizon=40, **options):
    algorithm = pg.BayesianSGD(ONE.problem, pg.MixtureScore(), **options)
    return pg.simulate(
        algorithm, pg.Grid(ONE.points), ONE.x, ONE.theta, runs=runs, horizon=horizon, batch_size=2
    )


def test_run_is_the_same_whatever_the_number_of_runs():
    many = simulate(133).decisions
    for runs in (1, 50, 51):
        assert np.array_equal(simulate(runs).decisions, many[:runs])


def test_runs_differ():
    assert len(np.unique(simulate(133).decisions[:, -1])) == 133


@pytest.mark.parametrize("iterations", [1, 3])
def test_simulation_is_the_plain_loop(iterations):
    """Hoisting, stacking, threads and the fast generator change nothing."""
    result = simulate(3, horizon=30, iterations=iterations)
    for i in range(3):
        key_data, key_algorithm = random.split(random.fold_in(random.key(0), i))
        algorithm = pg.BayesianSGD(
            ONE.problem, pg.MixtureScore(), iterations=iterations, seed=key_algorithm
        )
        step = eqx.filter_jit(algorithm.step)
        state = algorithm.init(pg.Grid(ONE.points), ONE.x)
        for t in range(1, 31):
            noise = random.normal(random.fold_in(key_data, t), (2,))
            state, _ = step(state, state.decision + ONE.theta + 4.0 * noise)
            assert float(state.decision) == pytest.approx(result.decisions[i, t], rel=1e-9)


def test_algorithms_meet_the_same_data_noise():
    """Common random numbers: data are a function of (seed, run, stage), not of the algorithm."""
    world = quadratic.univariate_independent()
    seen = [
        pg.simulate(
            pg.BayesianSGD(world.problem, iterations=k),
            pg.Grid(world.points),
            world.x,
            world.theta,
            runs=4,
            horizon=20,
            record=lambda state: state.belief.log_weights,
        ).record
        for k in (1, 2)
    ]
    np.testing.assert_allclose(*seen)


def test_segments_do_not_show(monkeypatch):
    whole = simulate(2, horizon=60).decisions
    monkeypatch.setattr("postgrad.simulation._SEGMENT", 25)
    np.testing.assert_allclose(simulate(2, horizon=60).decisions, whole, rtol=1e-12)


def test_progress_adds_up():
    done = []
    pg.simulate(
        pg.BayesianSGD(ONE.problem), pg.Known(4.0), 0.0, 4.0, runs=70, horizon=300,
        progress=done.append,
    )  # fmt: skip
    assert sum(done) == 70 * 300
    assert len(done) > 2


def test_record_and_axes():
    result = pg.simulate(
        pg.BayesianSGD(quadratic.multivariate_dependent().problem), pg.Known(4.0), [5.0, 5.0], 4.0,
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
    result = pg.simulate(pg.BayesianSGD(problem), pg.Known(0.0), 3.0, 0.0, runs=2, horizon=20)
    assert result.diverged.all()


@pytest.mark.parametrize("name", ["runs", "horizon", "batch_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_bad_counts_are_refused(name, value):
    with pytest.raises(errors.SettingError, match=name):
        pg.simulate(pg.BayesianSGD(ONE.problem), pg.Known(4.0), 0.0, 4.0, **{name: value})


def test_fast_generator_draws_the_bits_of_jax():
    ours, theirs = threefry.key(7), random.key(7)
    for draw in (
        lambda key: random.key_data(random.fold_in(key, 123)),
        lambda key: random.key_data(random.split(key, (2, 3))),
        lambda key: random.uniform(key, (5, 2)),
        lambda key: random.normal(key),
        lambda key: random.bits(key, (7,), "uint32"),
        lambda key: random.bits(key, (7,), "uint8"),
        lambda key: random.exponential(key, (3,)),
    ):
        assert np.array_equal(draw(ours), draw(theirs))


def test_hoist_splits_without_changing_the_result():
    def function(early, late):
        key, t = early
        noise = random.normal(random.fold_in(key, t), (3,))
        return {"x": late["x"] + noise * late["x"], "t": t + 1, "same": late["y"], "n": noise}

    early, late = (random.key(1), jnp.asarray(4)), {"x": jnp.ones(3), "y": jnp.asarray(2.0)}
    prepare, finish = hoist(function, early, late)
    expected, got = function(early, late), finish(prepare(early), late)
    assert jax.tree.all(jax.tree.map(np.array_equal, expected, got))
    # all the drawing is in the first half
    assert "random" not in str(jax.make_jaxpr(finish)(prepare(early), late))
    assert "random_bits" in str(jax.make_jaxpr(prepare)(early))

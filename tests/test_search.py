"""The default, a search, finds what each posterior deserves, whatever the shape of the cost."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from looking import noise, read_at
from scipy import stats

import postgrad as pg
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas


class Cost(eqx.Module):
    """square (x - xi)^2 + under max(xi - x, 0) + over max(x - xi, 0) + wells((x^2 - 1)^2 + x/5)."""

    square: jax.Array
    under: jax.Array
    over: jax.Array
    wells: jax.Array

    def __call__(self, x, xi):
        gap = x - xi
        kinked = jnp.where(gap > 0, self.over * gap, -self.under * gap)
        return self.square * gap**2 + kinked + self.wells * ((x**2 - 1.0) ** 2 + 0.2 * x)


class Demand(eqx.Module):
    """N(theta, scale^2)."""

    scale: jax.Array

    def __call__(self, x, theta):
        return dist.Normal(theta, self.scale, validate_args=False)


def problem(square=0.0, under=0.0, over=0.0, wells=0.0, scale=1.0, low=-1e9, high=1e9):
    numbers = (jnp.asarray(number, float) for number in (square, under, over, wells))
    return pg.Problem(Cost(*numbers), Demand(jnp.asarray(scale)), pg.feasible.Box(low, high))


@eqx.filter_jit
def stage(algorithm, state, batch):
    """One program for all problems of a shape. What a test does not read is not computed."""
    state, info = algorithm.step(state, batch)
    return state, (info.course.gain, info.course.settled)


def stages(algorithm, belief, x, batches):
    state, told = algorithm.init(belief, x), None
    for batch in batches:
        state, told = stage(algorithm, state, batch)
    return state, told


def data(mean, scale, count, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(mean, scale, (count, 2)))


def off(state, scale, quantile=0.5):
    """The distance from the optimum of this posterior, in spreads of what it foresees."""
    spread = np.hypot(float(state.belief.scale), scale)
    exact = float(state.belief.loc) + spread * stats.norm.ppf(quantile)
    return (float(state.x) - exact) / spread


@pytest.mark.parametrize(("size", "start"), [(5.0, 0.0), (5.0, 1e6), (1e5, 0.0), (1e-4, 3e-4)])
def test_quadratic_after_one_stage(size, start):
    """From near and far, in large units and small ones."""
    scale = 0.2 * size
    algorithm = pg.BayesianSGD(problem(square=3.0 / size**2, scale=scale))
    state, (gain, _) = stages(
        algorithm, pg.beliefs.Normal(size, scale), start, data(size, scale, 1)
    )
    assert abs(off(state, scale)) < 0.01
    assert gain > 0.99


@pytest.mark.parametrize(
    ("size", "start", "within"),
    [
        (20.0, 15.0, 2),
        (20.0, 0.0, 4),
        (20.0, 1000.0, 6),  # the cost is a straight line over almost all of the way
        (1e5, 1.5e5, 3),
        (1e-4, 2e-4, 4),
    ],
)
def test_kinked_newsvendor(size, start, within):
    """The 0.9-quantile of the predictive law, to a fiftieth of its spread, after a few stages."""
    scale = 0.15 * size
    algorithm = pg.BayesianSGD(problem(under=9.0, over=1.0, scale=scale, low=0.0, high=1e6))
    belief = pg.beliefs.Normal(size, scale)
    state, (_, settled) = stages(algorithm, belief, start, data(size, scale, within))
    assert abs(off(state, scale, 0.9)) < 0.02
    assert settled == 1.0


def test_steps_refused_in_one_stage_do_not_shorten_those_of_the_next():
    """Among a stage's last steps some are refused, for the kinks of its own draws.

    The next optimum is farther away than those were long. From the fifth stage on there are only
    six steps to it, and a reach that had to grow again would leave x up to 0.3 spreads behind.
    """
    scale = 3.0
    algorithm = pg.BayesianSGD(problem(under=9.0, over=1.0, scale=scale, low=0.0, high=1e6))
    for seed in range(10):
        batches = data(20.0, scale, 5, seed)
        state, _ = stages(algorithm, pg.beliefs.Normal(20.0, scale), 15.0, batches)
        assert abs(off(state, scale, 0.9)) < 0.02, seed


def test_bound_that_binds():
    algorithm = pg.BayesianSGD(problem(square=1.0, low=-1.0, high=3.0))
    state, _ = stages(algorithm, pg.beliefs.Normal(5.0, 1.0), 0.0, data(5.0, 1.0, 1))
    assert state.x == 3.0


@pytest.mark.parametrize("start", [0.01, 0.3, -0.2, 0.974, 19.0])
def test_goes_to_the_lower_of_two_valleys(start):
    """(x^2 - 1)^2 + x/5 has a maximum at 0.0502, and valleys at -1.0241 and 0.9740."""
    algorithm = pg.BayesianSGD(problem(wells=1.0, low=-20.0, high=20.0))
    state, _ = stages(algorithm, pg.beliefs.Normal(0.0, 1.0), start, data(0.0, 1.0, 3))
    assert float(state.x) == pytest.approx(-1.0241, abs=1e-3)


def test_same_data_give_the_same_decision_for_all_seeds():
    found = {
        float(stages(algorithm, pg.beliefs.Normal(20.0, 3.0), 15.0, data(20.0, 3.0, 2))[0].x)
        for algorithm in (
            pg.BayesianSGD(problem(under=9.0, over=1.0, scale=3.0), seed=seed) for seed in (0, 1)
        )
    }
    assert len(found) == 1


@pytest.mark.slow
def test_simulation_is_the_loop_of_steps():
    algorithm = pg.BayesianSGD(problem(under=4.0, over=1.0, scale=3.0, low=0.0, high=100.0))
    belief, horizon = pg.beliefs.Normal(15.0, 3.0), 5
    record = pg.simulate(
        algorithm, belief, 12.0, 18.0, runs=2, horizon=horizon, batch_size=2, seed=3
    )
    for run in range(2):
        key, key_algorithm = random.split(random.fold_in(random.key(3), run))
        seeded = eqx.tree_at(lambda algorithm: algorithm.key, algorithm, key_algorithm)
        state = seeded.init(belief, 12.0)
        for t in range(1, horizon + 1):
            batch = dist.Normal(18.0, 3.0).sample(random.fold_in(key, t), (2,))
            state, _ = stage(seeded, state, batch)
            assert float(state.x) == pytest.approx(record.decisions[run, t], abs=1e-8)


# Several dimensions, with theta known: then H itself is known.


class Bowl(eqx.Module):
    """(x - xi)'A (x - xi) / 2."""

    curvature: jax.Array

    def __call__(self, x, xi):
        return 0.5 * (x - xi) @ self.curvature @ (x - xi)


def around(x, theta):
    return dist.Normal(theta, 1.0).to_event(1)


def bowl(curvature, feasible):
    return pg.BayesianSGD(pg.Problem(Bowl(jnp.asarray(curvature)), around, feasible))


def rotated(ratio, angle=0.5):
    c, s = np.cos(angle), np.sin(angle)
    turn = np.asarray([[c, -s], [s, c]])
    return turn @ np.diag([1.0, ratio]) @ turn.T


def budget(total):
    return pg.feasible.Budget(jnp.full(2, -100.0), jnp.full(2, 100.0), jnp.ones(2), total)


NOTHING = jnp.zeros((3, 1, 2))  # what is known already learns nothing
THETA = np.asarray([3.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [1.0, 30.0, 1000.0])
def test_ill_conditioned_bowl(ratio):
    """Both ways, the steep and the flat one, are gone to their end, though not along an axis."""
    state, _ = stages(
        bowl(rotated(ratio), budget(1e3)), pg.beliefs.Known(THETA), [-40.0, 60.0], NOTHING
    )
    np.testing.assert_allclose(state.x, THETA, atol=0.03)


@pytest.mark.parametrize("ratio", [1.0, 30.0])
def test_budget_that_binds(ratio):
    """min (x - theta)'A (x - theta) with x_1 + x_2 = 2: theta - A^-1 1 lambda."""
    curvature = rotated(ratio)
    price = np.linalg.solve(curvature, np.ones(2))
    exact = THETA - price * (THETA.sum() - 2.0) / price.sum()
    state, _ = stages(bowl(curvature, budget(2.0)), pg.beliefs.Known(THETA), [0.0, 0.0], NOTHING)
    np.testing.assert_allclose(state.x, exact, atol=0.03)
    assert float(jnp.sum(state.x)) == pytest.approx(2.0, abs=1e-9)


def test_simplex():
    """Inside a face, and at a corner: theta = (0.7, 0.9) has its nearest point at (0.4, 0.6)."""
    algorithm = bowl(np.eye(2), pg.feasible.Simplex())
    for theta, exact in (([0.7, 0.9], [0.4, 0.6]), ([-2.0, 3.0], [0.0, 1.0])):
        state, _ = stages(algorithm, pg.beliefs.Known(theta), [1.0, 0.0], NOTHING)
        np.testing.assert_allclose(state.x, exact, atol=0.01)


# Draws that are no lattice.


REVENUE = pg.Problem(
    lambda x, sold: -x * sold,
    lambda x, theta: dist.Poisson(theta * jnp.exp(-x), validate_args=False),
    pg.feasible.Box(0.1, 3.0),
)


def test_counts_that_depend_on_the_decision():
    """A price x, and sales of Poisson(theta exp(-x)): the revenue x theta exp(-x) is best at 1.

    Some values of the count are summed over, so its slope has next to no noise.
    """
    land = SampledObjective(REVENUE, pg.gradients.Automatic(), pg.risks.Mean(), None)
    x = jnp.asarray(1.5)
    assert isinstance(land.gradient.choice(REVENUE, x, x), pg.gradients.Systematic)

    @jax.jit
    def look(key):
        thetas = draw_thetas(pg.beliefs.Known(20.0), key, 256)
        reading = read_at(land, thetas, key, 16, x)
        return land.slope(reading, None)[0], noise(land, reading)[0]

    slope, error = look(random.key(0))
    exact = 20.0 * (1.5 - 1.0) * np.exp(-1.5)
    assert abs(float(slope) - exact) < 4.5 * float(error) + 1e-6  # beyond 5.5 deviations
    # The score, measured from the mean cost of 4096 draws, has a standard error of about 0.1.
    assert float(error) < 0.01


def test_score_with_a_model_that_depends_on_the_decision():
    """The same with N(theta exp(-x), 1), whose draws are evenly spread."""
    priced = pg.Problem(
        REVENUE.cost,
        lambda x, theta: dist.Normal(theta * jnp.exp(-x), 1.0, validate_args=False),
        REVENUE.feasible,
    )
    algorithm = pg.BayesianSGD(priced, pg.gradients.Score())
    state, _ = stages(algorithm, pg.beliefs.Normal(20.0, 1.0), 0.4, jnp.full((6, 2), 8.0))
    assert float(state.x) == pytest.approx(1.0, abs=0.02)


def test_number_of_draws_that_is_no_power_of_two():
    scale = 3.0
    algorithm = pg.BayesianSGD(problem(square=1.0, scale=scale), samples=1000)
    state, _ = stages(algorithm, pg.beliefs.Normal(20.0, scale), 0.0, data(20.0, scale, 20))
    assert abs(off(state, scale)) < 4.5 / np.sqrt(1000)


def test_a_search_tells_slopes_at_both_ends_of_its_way():
    """2 w (x - m), m the posterior mean, where it started and where it ended."""
    scale, start = 3.0, 14.0
    algorithm = pg.BayesianSGD(problem(square=1.5, scale=scale))
    state = algorithm.init(pg.beliefs.Normal(20.0, scale), start)
    state, info = eqx.filter_jit(algorithm.step)(state, jnp.asarray([21.0, 22.0]))
    exact = 3.0 * (np.asarray([start, float(state.x)]) - float(state.belief.loc))
    assert info.course.gradient.shape == info.course.noise.shape == (2,)
    np.testing.assert_allclose(info.course.gradient, exact, atol=0.01 * scale)
    assert float(info.course.curvature[0, 0]) == pytest.approx(3.0, rel=1e-3)
    assert (float(info.course.doubt), float(info.course.switched)) == (0.0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dimension", "couples", "local"), [(1, 0, 0), (2, 1, 0), (7, 0, 0), (7, 1, 1)]
)
def test_a_search_says_where_it_looks_at_one_valley_only(dimension, couples, local):
    """In many dimensions few places fill no set, unless coordinates can be searched one by one."""
    agent = pg.Agent(
        pg.Problem(
            lambda x, xi: jnp.sum((x - xi) ** 2) + couples * jnp.sum(x) ** 2,
            lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
            pg.feasible.Box(-5.0, 5.0),
        ),
        pg.beliefs.Normal(np.zeros(dimension), 1.0),
        np.ones(dimension),
    )
    agent.observe(np.ones((1, dimension)))
    assert float(agent.info.course.local_only) == local
    assert ("neighbourhood" in str(agent.explain())) == bool(local)

"""What a search must do whatever the problem: laws of its decisions and of what it says."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import nbinom

import postgrad as pg
from postgrad.algorithm.descents import Doubt
from postgrad.monitoring.progress_warnings import ConvergenceWarning


class Bent(eqx.Module):
    """(z - xi)'M(z - xi) + 1e-1 |z - 1|^4 for z = units * x: both coordinates interact."""

    units: jax.Array
    price: jax.Array

    def __call__(self, x, xi):
        z = x * self.units
        gap = z - xi
        mixed = gap[0] ** 2 + 2.0 * gap[1] ** 2 + gap[0] * gap[1]
        return self.price * (mixed + 0.1 * jnp.sum((z - 1.0) ** 4))


class Kinked(eqx.Module):
    """Over- and underage, coordinate by coordinate, for z = units * x: it adds over coordinates."""

    units: jax.Array
    price: jax.Array

    def __call__(self, x, xi):
        gap = x * self.units - xi
        return self.price * jnp.sum(jnp.where(gap > 0, gap, -4.0 * gap))


def noisy(x, theta):
    return dist.Normal(theta, 1.5, validate_args=False).to_event(1)


@eqx.filter_jit
def step(algorithm, state, batch):
    return algorithm.step(state, batch)


DATA = np.random.default_rng(5).normal([2.0, -1.0], 1.5, (2, 3, 2))


def begun(algorithm, belief, x):
    """A state without weak types, so that one program serves all stages."""
    state = algorithm.init(belief, x)
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), state)


def in_units(cost, units, price=1.0):
    """The decisions of two stages, in the units of z; costs are in units of 1 / price."""
    units = np.asarray(units)
    low, high, start = (np.asarray(each) / units for each in ([-4, -3], [9, 5], [-4, 2.5]))
    problem = pg.Problem(
        cost(jnp.asarray(units), jnp.asarray(price)), noisy, pg.feasible.Box(low, high)
    )
    algorithm = pg.BayesianSGD(problem)
    state = begun(algorithm, pg.beliefs.Normal([0.0, 0.0], [2.0, 2.0]), start)
    found = []
    for batch in DATA:
        state, _ = step(algorithm, state, jnp.asarray(batch))
        found.append(np.asarray(state.decision) * units)
    return np.array(found)


@pytest.mark.sample(1)
@pytest.mark.parametrize("cost", [Bent, Kinked])
def test_decisions_do_not_depend_on_units(cost):
    """Powers of ten, so that rounding differs; each coordinate has a factor of its own."""
    plain = in_units(cost, [1.0, 1.0])
    assert np.abs(plain[0] - [-4, 2.5]).min() > 0.1  # both have moved
    for units in ([1e-6, 1e6], [1e6, 1e-6], [1e6, 1e6], [1e-6, 1e-3], [1e3, 1.0]):
        np.testing.assert_allclose(in_units(cost, units), plain, rtol=1e-6, err_msg=str(units))
    for price in (1e-9, 1e9):
        other = in_units(cost, [1.0, 1.0], price)
        np.testing.assert_allclose(other, plain, rtol=1e-6, err_msg=f"price {price}")


PRIORS = [(0.0, 1.0), (5.0, 0.1), (-3.0, 100.0)]


def to_the_posterior_mean(d, count):
    """Posterior standard deviations between decision and posterior mean, at worst."""
    problem = pg.Problem(
        lambda x, xi: jnp.sum((x - xi) ** 2),
        lambda x, theta: dist.Normal(theta, 2.0, validate_args=False).to_event(1),
        pg.feasible.Reals(),
    )
    algorithm = pg.BayesianSGD(problem)
    batch = np.random.default_rng(count).normal(1.0, 2.0, (count, d))
    found = []
    for loc, scale in PRIORS:
        belief = pg.beliefs.Normal(np.full(d, loc), np.full(d, scale))
        state, _ = step(algorithm, begun(algorithm, belief, np.zeros(d)), jnp.asarray(batch))
        precision = scale**-2 + count / 4.0
        mean = (loc * scale**-2 + batch.sum(axis=0) / 4.0) / precision
        found.append(np.abs(state.decision - mean).max() * np.sqrt(precision))
    return max(found)


@pytest.mark.sample(1)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("count", [1, 1000])
def test_a_quadratic_cost_is_answered_by_the_posterior_mean(d, count):
    """To a thousandth of the posterior's standard deviation, at once: theta come in pairs.

    Draws of one number xi are stretched into their tails and weigh less there; all thetas must
    count alike all the same.
    """
    assert to_the_posterior_mean(d, count) < 1e-3


@pytest.mark.slow
def test_an_infinite_slope_leaves_no_nan():
    """The slope of sqrt(x) at zero is infinite; where theta < 0, zero is where shares stay."""
    rooted = pg.Problem(
        lambda x, y: -jnp.sum(y),
        lambda x, theta: dist.Normal(theta * jnp.sqrt(x), 1.0, validate_args=False).to_event(1),
        pg.feasible.Simplex(1.0),
    )
    corner = np.eye(10)[0]
    truth = np.linspace(-3.0, 3.0, 10)
    belief = pg.beliefs.Normal(truth / 2, np.full(10, 1.0))
    seen = pg.simulate(
        pg.BayesianSGD(rooted, samples=(64, 16)),
        belief,
        corner,
        truth,
        runs=20,
        horizon=5,
        record=lambda state: state.progress,
    )
    assert seen.decisions.shape == (20, 6, 10)
    assert np.all(np.isfinite(seen.decisions))
    for leaf in jax.tree.leaves(seen.record):
        assert np.all(np.isfinite(leaf))
    np.testing.assert_allclose(seen.decisions.sum(axis=-1), 1.0, atol=1e-9)
    assert seen.decisions.min() >= 0.0
    # Shares are best in proportion to the squares of posterior means, if these are positive.
    best = np.maximum(truth / 2, 0.0) ** 2
    first = seen.decisions[:, 1].mean(axis=0)
    np.testing.assert_allclose(first, best / best.sum(), atol=0.1)


@pytest.mark.slow
def test_prices_do_not_jump_once_they_have_settled():
    """Few draws: noise must not lead to another valley, nor past the averaging over stages."""
    pricing = pg.problems.testbed()["pricing-linear"]()
    low, high = pricing.problem.feasible.bounds()
    seen = pg.simulate(
        pg.BayesianSGD(pricing.problem, samples=64),
        pricing.belief,
        pricing.x,
        pricing.theta,
        runs=50,
        horizon=40,
    )
    moves = np.abs(np.diff(seen.decisions, axis=1)) / float(high - low)
    assert moves.shape == (50, 40)
    assert np.mean(moves[:, 0] > 0.1) > 0.5  # the first stage finds a price
    assert np.mean(moves[:, 20:] > 0.1) <= 0.02
    assert np.mean(np.any(moves[:, 20:] > 0.1, axis=1)) <= 0.02


class Rare(eqx.Module):
    """(x - xi_1)^2, and once in 1,700 times a loss that calls for another x.

    The product of two numbers, which does not depend on x, makes the joint law matter.
    """

    loss: jax.Array

    def __call__(self, x, xi):
        rare = self.loss * (xi[1] > 3.25) * jnp.abs(x - 30.0)
        return (x - xi[0]) ** 2 + rare + 0.1 * xi[0] * xi[2]


def many_numbers(x, theta):
    return dist.Normal(theta, 1.0, validate_args=False).to_event(1)


def test_a_warning_comes_at_the_very_stage_where_groups_of_draws_disagree():
    """Two to four of 4096 draws show the loss, so most of the eight groups never see it.

    Of 33 numbers: of fewer, draws reach into the tails.
    """
    batch = np.zeros((3, 33))
    batch[:, :2] = np.random.default_rng(0).normal([1.0, 0.0], 1.0, (3, 2))
    scales = np.append(1.0, np.full(32, 1e-3))

    def stages(loss):
        problem = pg.Problem(Rare(jnp.asarray(loss)), many_numbers, pg.feasible.Box(-50.0, 50.0))
        agent = pg.Agent(problem, pg.beliefs.Normal(np.zeros(33), scales), 0.0)
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                agent.observe(batch)
            said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
            yield said, float(agent.info.course.doubt)

    for said, doubt in stages(2e5):
        assert doubt == Doubt.UNRESOLVED
        assert len(said) == 1
        assert "groups of draws disagree" in said[0]
    for said, doubt in stages(0.0):
        assert doubt == Doubt.NONE
        assert not said


def test_orders_of_counts_come_to_rest_at_whole_numbers():
    demand, shape, rate = np.random.default_rng(1).poisson(40.0, 24), 4.0, 0.1
    problem = pg.Problem(
        cost=lambda x, d: 4.0 * jnp.maximum(d - x, 0) + jnp.maximum(x - d, 0),
        model=lambda x, theta: dist.Poisson(theta),
        feasible=pg.feasible.Box(0.0, 1000.0),
    )
    agent = pg.Agent(problem, pg.beliefs.Gamma(shape, rate), x=7.3)
    for n, d in enumerate(demand, 1):
        agent.observe(float(d))
        shape, rate = 4.0 + demand[:n].sum(), 0.1 + n
        best = nbinom.ppf(0.8, shape, rate / (rate + 1.0))
        assert agent.info.course.settled
        assert abs(agent.decision - round(float(agent.decision))) < 1e-6
        assert abs(agent.decision - best) < 1.5  # draws may leave a tie to either side

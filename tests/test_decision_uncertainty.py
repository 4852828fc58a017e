"""What is uncertain about the decision, against closed forms."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad.algorithm.decision_uncertainty import worth
from postgrad.algorithm.sampled_objective import draw_thetas
from postgrad.distributions.counts import Poisson
from postgrad.research.problems.newsvendor import Mismatch

WEIGHT, NOISE, SCALE, MEAN = 1.5, 2.0, 0.8, 3.0


def demand(x, theta):
    return dist.Normal(theta, NOISE, validate_args=False)


# H(x, theta) = w ((x - theta)^2 + v): curvature 2 w, and theta itself is the best decision.
SQUARE = pg.Problem(lambda x, xi: WEIGHT * (x - xi) ** 2, demand, pg.feasible.Reals())


@eqx.filter_jit
def step(algorithm, state, batch, weight=None):
    state, info = algorithm.step(state, batch, weight=weight)
    return state, info.outlook


def mean_outlook(problem, belief, x, batch=0.0):
    """The average over some stages, and the last state: each has the noise of 64 thetas.

    The batches do not count, so that the posterior stays what it was.
    """
    algorithm, seen = pg.BayesianSGD(problem), []
    state = algorithm.init(belief, x)
    for _ in range(STAGES):
        state, ahead = step(algorithm, state, jnp.asarray(batch)[None], jnp.zeros(1))
        seen.append(ahead)
    return state, jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *seen)


STAGES = 5


@pytest.fixture(scope="module")
def square():
    return mean_outlook(SQUARE, pg.beliefs.Normal(MEAN, SCALE), 0.0)[1]


def test_spread_of_the_optimal_decision(square):
    assert float(square.epistemic) == pytest.approx(SCALE, rel=0.02)


def test_interval_of_the_optimal_decision(square):
    """Its 2.5 % and 97.5 % quantiles, which lie between the outermost of 64 thetas."""
    half = stats.norm.ppf(0.975) * SCALE
    np.testing.assert_allclose([square.low, square.high], [MEAN - half, MEAN + half], atol=0.1)


def test_intervals_where_few_draws_of_a_theta_lie_beside_the_decision():
    """At a service level of .99 the cost of one theta, by its 64 draws, is straight around x."""
    stock = pg.Problem(
        lambda x, xi: jnp.where(xi > x, 99.0 * (xi - x), x - xi), demand, pg.feasible.Box(-50, 50)
    )
    data = np.random.default_rng(0).normal(MEAN, NOISE, 40)
    algorithm = pg.BayesianSGD(stock)
    state, widths = algorithm.init(pg.beliefs.Normal(MEAN, 3.0), 5.0), []
    for t, y in enumerate(data, start=1):
        state, ahead = step(algorithm, state, jnp.asarray(y)[None])
        exact = 2 * stats.norm.ppf(0.975) / np.sqrt(1 / 3.0**2 + t / NOISE**2)
        widths.append(float(ahead.high - ahead.low) / exact)
    # a little wide is safe; without a least curvature of single thetas it is .83
    assert np.mean(widths[:10]) == pytest.approx(1.0, abs=0.1)
    assert 0.9 < np.mean(widths[10:]) < 1.3


def test_spread_of_the_cost_with_theta_known(square):
    """Var w (x - xi)^2 = w^2 (2 v^2 + 4 v (x - theta)^2), averaged over theta."""
    exact = WEIGHT * np.sqrt(2 * NOISE**4 + 4 * NOISE**2 * SCALE**2)
    assert float(square.aleatoric) == pytest.approx(exact, rel=0.1)  # each theta has 64 draws of xi


def test_spread_of_a_cost_that_is_summed_over_all_values():
    """A sale or none: the gradient draws nothing, but the cost still varies."""
    sales = pg.Problem(
        lambda x, sold: -x * sold,
        lambda x, theta: dist.Bernoulli(theta),
        pg.feasible.Box(1.0, 3.0),
    )
    state, found = mean_outlook(sales, pg.beliefs.Known(0.2), 2.0)
    assert state.x == 3.0
    assert float(found.aleatoric) == pytest.approx(3.0 * np.sqrt(0.2 * 0.8), rel=0.05)


@pytest.mark.slow
def test_spread_of_a_cost_whose_mean_needs_marginals_alone():
    """The variance of a sum does depend on how its parts are correlated."""
    factor = jnp.asarray([[1.0, 0.0], [0.8, 0.6]])
    both = pg.Problem(
        lambda x, xi: jnp.sum(x * xi),
        lambda x, theta: dist.MultivariateNormal(theta, scale_tril=factor, validate_args=False),
        pg.feasible.Box(jnp.zeros(2), jnp.ones(2)),
    )
    belief = pg.beliefs.Known([-1.0, -1.0])
    state, found = mean_outlook(both, belief, jnp.zeros(2), batch=jnp.zeros(2))
    assert state.only_marginals
    np.testing.assert_array_equal(state.x, 1.0)
    assert float(found.aleatoric) == pytest.approx(np.sqrt(3.6), rel=0.05)  # apart it is sqrt(2)


def test_cost_of_not_knowing_is_the_curvature_times_the_variance(square):
    assert float(square.cost_of_not_knowing) == pytest.approx(WEIGHT * SCALE**2, rel=0.03)


KEYS = random.split(random.key(0), 100)


@eqx.filter_jit
def mean_worth(problem, belief, x, slope_of, curvature, rows, size, keys):
    """The average of what a batch is worth over many draws of 64 thetas."""

    def one(key):
        thetas = draw_thetas(belief, random.fold_in(key, 0), 64)
        slopes = jax.vmap(slope_of)(thetas)[:, None]
        return worth(
            problem, x, thetas, slopes, curvature, jnp.asarray(rows), jnp.asarray(size), key
        )

    return jnp.mean(jax.lax.map(one, keys))


def left(scale, size):
    """The posterior variance after so many observations."""
    return 1.0 / (scale**-2 + size * NOISE**-2)


def pull(theta):
    """The derivative of H in x at MEAN."""
    return 2 * WEIGHT * (MEAN - theta)


@pytest.mark.parametrize(("scale", "counting"), [(0.8, 3.0), (0.8, 1.0), (0.2, 3.0), (0.2, 20.0)])
def test_value_of_a_batch_is_the_cost_that_it_takes_away(scale, counting):
    """w (s^2 - E Var[theta | batch]), and for a normal theta the latter is known beforehand.

    N: as many observations as the prior is worth.
    """
    exact = WEIGHT * (scale**2 - left(scale, counting))
    size = jnp.asarray(NOISE**2 / scale**2)
    belief, curvature = pg.beliefs.Normal(MEAN, scale), jnp.full((1, 1), 2 * WEIGHT)
    found = mean_worth(
        SQUARE, belief, jnp.asarray(MEAN), pull, curvature, jnp.asarray(counting), size, KEYS
    )
    assert float(found) == pytest.approx(exact, rel=0.1)
    assert found < WEIGHT * scale**2  # the cost of not knowing


def test_a_bound_takes_away_what_knowing_is_worth():
    """Where no decision below 3 is allowed, only thetas above it are worth knowing: half of all."""
    bounded = pg.Problem(SQUARE.cost, demand, pg.feasible.Box(MEAN, 100.0))
    _, found = mean_outlook(bounded, pg.beliefs.Normal(MEAN, SCALE), MEAN)
    assert float(found.cost_of_not_knowing) == pytest.approx(0.5 * WEIGHT * SCALE**2, rel=0.1)
    # max(Z, 0) of a standard normal Z has the variance 1/2 - 1/(2 pi)
    assert float(found.epistemic) == pytest.approx(SCALE * np.sqrt(0.5 - 0.5 / np.pi), rel=0.05)
    assert found.low == MEAN


def test_outlook_of_an_algorithm_brightens_with_data():
    """Curvature and all: as the closed forms say, and less with every batch."""
    algorithm = pg.BayesianSGD(SQUARE)
    state, seen = algorithm.init(pg.beliefs.Normal(MEAN, SCALE), 0.0), []
    batches = np.random.default_rng(0).normal(MEAN, NOISE, (8, 3))
    for batch in batches:
        state, ahead = step(algorithm, state, jnp.asarray(batch))
        seen.append(ahead)
        variance = float(state.belief.scale) ** 2
        assert variance == pytest.approx(left(SCALE, 3 * len(seen)))
        assert float(ahead.epistemic) == pytest.approx(np.sqrt(variance), rel=0.3)
        assert float(ahead.cost_of_not_knowing) == pytest.approx(WEIGHT * variance, rel=0.6)
    first, last = seen[0], seen[-1]
    assert last.epistemic < 0.7 * first.epistemic
    assert last.cost_of_not_knowing < 0.5 * first.cost_of_not_knowing
    assert last.value_of_a_batch < 0.5 * first.value_of_a_batch
    assert last.aleatoric > 0.8 * first.aleatoric  # no data change that


def test_without_curvature_there_is_no_outlook():
    algorithm = pg.BayesianSGD(SQUARE, steps=0.1)
    state = algorithm.init(pg.beliefs.Normal(MEAN, SCALE), 0.0)
    ahead = step(algorithm, state, jnp.ones(3))[1]
    assert all(np.isnan(leaf) for leaf in (ahead.epistemic, ahead.cost_of_not_knowing))


PRICE, LEVEL, SLOPE, UNIT_COST = 7.0, 10.0, 2.0, 2.0


# Sales at the usual price, where demand is known, do not tell how steep demand is.
PRICED = pg.Problem(
    lambda x, sold: -(x - UNIT_COST) * sold,
    lambda x, theta: dist.Normal(LEVEL - theta * (x - PRICE), 1.0, validate_args=False),
    pg.feasible.Box(2.0, 11.0),
)


@pytest.mark.parametrize(("price", "teaches"), [(PRICE, False), (PRICE + 1.0, True)])
def test_a_price_that_does_not_move_teaches_nothing(price, teaches):
    """Lock-in: knowing theta would be worth as much as ever, but the next batch is not."""
    scale = 0.5
    # The derivative of the loss is known but for theta (x - c) + theta (x - PRICE).
    factor = price - UNIT_COST + price - PRICE
    found = mean_worth(
        PRICED,
        pg.beliefs.Normal(SLOPE, scale),
        jnp.asarray(price),
        lambda theta: theta * factor,
        jnp.full((1, 1), 2 * SLOPE),
        jnp.asarray(4.0),
        jnp.asarray(0.0),
        KEYS[:20],
    )
    if teaches:
        gone = 1.0 - left_of(scale, 4 * (price - PRICE) ** 2) / scale**2
        exact = (scale * factor) ** 2 / (4 * SLOPE)
        assert float(found) == pytest.approx(gone * exact, rel=0.15)
    else:
        assert abs(float(found)) < 1e-9


@pytest.mark.slow
def test_lock_in_through_a_stage():
    """The best price for this prior is the usual one, where no data change the belief.

    x*(theta) = (PRICE + c) / 2 + LEVEL / (2 theta), and not to know costs theta (x - x*)^2.
    """
    scale = 0.25
    algorithm = pg.BayesianSGD(PRICED)
    state = algorithm.init(pg.beliefs.Normal(SLOPE, scale), PRICE)
    state, ahead = step(algorithm, state, jnp.asarray([9.0, 12.0, 10.0, 8.0]))
    assert float(state.x) == pytest.approx(PRICE, abs=0.01)
    assert float(state.belief.scale) == scale
    theta = SLOPE + scale * stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    ideal = np.clip((PRICE + UNIT_COST) / 2 + LEVEL / (2 * theta), 2.0, 11.0)
    exact = np.mean(theta * (PRICE - ideal) ** 2)
    assert float(ahead.cost_of_not_knowing) == pytest.approx(exact, rel=0.1)
    assert float(ahead.epistemic) == pytest.approx(ideal.std(), rel=0.1)
    assert float(ahead.value_of_a_batch) < 1e-3 * exact


def left_of(scale, precision):
    return 1.0 / (scale**-2 + precision)


@pytest.mark.slow
def test_uncertainty_is_measured_where_the_stage_ends():
    """Far from the demand a cost is straight: the first decision must not inherit that."""
    costs = Mismatch(jnp.asarray(2.0), jnp.asarray(0.5))
    problem = pg.Problem(costs, lambda x, theta: Poisson(theta), pg.feasible.Box(0.0, 500.0))
    agent = pg.Agent(problem, pg.beliefs.Gamma(2.0, 0.1), 20.0)
    agent.observe([3.0])
    rates = stats.gamma(5.0, scale=1 / 1.1).rvs(20_000, random_state=0)
    true = stats.poisson(rates).ppf(0.8).std()
    assert 0.5 * true < agent.info.outlook.epistemic < 2.5 * true

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
from postgrad.algorithm.decision_uncertainty import outlook
from postgrad.algorithm.sampled_objective import SCOUTS, SampledObjective, draw_thetas
from postgrad.distributions.counts import Poisson
from postgrad.research.problems.newsvendor import Mismatch

WEIGHT, NOISE, SCALE, MEAN = 1.5, 2.0, 0.8, 3.0


def demand(x, theta):
    return dist.Normal(theta, NOISE, validate_args=False)


# H(x, theta) = w ((x - theta)^2 + v): curvature 2 w, and theta itself is the best decision.
SQUARE = pg.Problem(lambda x, xi: WEIGHT * (x - xi) ** 2, demand, pg.feasible.Reals())


@eqx.filter_jit
def mean_outlook(problem, belief, x, curvature, keys, rows=1.0, size=0.0, only_marginals=False):
    """The average of many outlooks: each has the noise of 64 thetas."""
    objective = SampledObjective(
        problem, pg.gradients.Automatic(), pg.risks.Mean(), None, only_marginals
    )

    def one(key):
        thetas = draw_thetas(belief, random.split(key, 4)[0], SCOUTS)
        return outlook(objective, x, curvature, thetas, jnp.asarray(rows), jnp.asarray(size), key)

    return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), jax.lax.map(one, keys))


KEYS = random.split(random.key(0), 100)


def look(scale=SCALE, counting=3.0):
    """N: as many observations as the prior is worth."""
    return mean_outlook(
        SQUARE,
        pg.beliefs.Normal(MEAN, scale),
        jnp.asarray(MEAN),
        jnp.full((1, 1), 2 * WEIGHT),
        KEYS,
        jnp.asarray(counting),
        jnp.asarray(NOISE**2 / scale**2),
    )


@pytest.fixture(scope="module")
def three():
    return look()


def test_spread_of_the_optimal_decision(three):
    assert float(three.epistemic) == pytest.approx(SCALE, rel=0.02)


def test_spread_of_the_cost_with_theta_known(three):
    """Var w (x - xi)^2 = w^2 (2 v^2 + 4 v (x - theta)^2), averaged over theta."""
    exact = WEIGHT * np.sqrt(2 * NOISE**4 + 4 * NOISE**2 * SCALE**2)
    assert float(three.aleatoric) == pytest.approx(exact, rel=0.1)  # from 32 draws of xi


def test_spread_of_a_cost_that_is_summed_over_all_values():
    """A sale or none: the gradient draws nothing, but the cost still varies."""
    sales = pg.Problem(lambda x, sold: -x * sold, lambda x, theta: dist.Bernoulli(theta))
    x, one = jnp.asarray(3.0), jnp.ones((1, 1))
    found = mean_outlook(sales, pg.beliefs.Known(0.2), x, one, KEYS)
    assert float(found.aleatoric) == pytest.approx(3.0 * np.sqrt(0.2 * 0.8), rel=0.05)


def test_spread_of_a_cost_whose_mean_needs_marginals_alone():
    """The variance of a sum does depend on how its parts are correlated."""
    factor = jnp.asarray([[1.0, 0.0], [0.8, 0.6]])
    both = pg.Problem(
        lambda x, xi: jnp.sum(x * xi),
        lambda x, theta: dist.MultivariateNormal(theta, scale_tril=factor, validate_args=False),
    )
    x, belief = jnp.ones(2), pg.beliefs.Known([0.0, 0.0])
    found = mean_outlook(both, belief, x, jnp.eye(2), KEYS, only_marginals=True)
    assert float(found.aleatoric) == pytest.approx(np.sqrt(3.6), rel=0.05)  # apart it is sqrt(2)


def test_cost_of_not_knowing_is_the_curvature_times_the_variance(three):
    assert float(three.cost_of_not_knowing) == pytest.approx(WEIGHT * SCALE**2, rel=0.03)


def left(scale, size):
    """The posterior variance after so many observations."""
    return 1.0 / (scale**-2 + size * NOISE**-2)


@pytest.mark.parametrize(("scale", "counting"), [(0.8, 3.0), (0.8, 1.0), (0.2, 3.0), (0.2, 20.0)])
def test_value_of_a_batch_is_the_cost_that_it_takes_away(scale, counting):
    """w (s^2 - E Var[theta | batch]), and for a normal theta the latter is known beforehand."""
    exact = WEIGHT * (scale**2 - left(scale, counting))
    found = look(scale, counting=counting)
    assert float(found.value_of_a_batch) == pytest.approx(exact, rel=0.1)
    assert found.value_of_a_batch < found.cost_of_not_knowing


def test_a_bound_takes_away_what_knowing_is_worth():
    """Where no decision below 3 is allowed, only thetas above it are worth knowing: half of all."""
    bounded = eqx.tree_at(
        lambda p: p.feasible, SQUARE, pg.feasible.Box(MEAN, 100.0), is_leaf=is_set
    )
    found = mean_outlook(
        bounded,
        pg.beliefs.Normal(MEAN, SCALE),
        jnp.asarray(MEAN),
        jnp.full((1, 1), 2 * WEIGHT),
        KEYS[:20],
        3.0,
    )
    assert float(found.cost_of_not_knowing) == pytest.approx(0.5 * WEIGHT * SCALE**2, rel=0.1)
    assert found.epistemic < 0.8 * SCALE


def is_set(node):
    return isinstance(node, pg.feasible.FeasibleSet)


@eqx.filter_jit
def step(algorithm, state, batch):
    state, info = algorithm.step(state, batch)
    return state, info.outlook


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
    found = mean_outlook(
        PRICED,
        pg.beliefs.Normal(SLOPE, scale),
        jnp.asarray(price),
        jnp.full((1, 1), 2 * SLOPE),
        KEYS[:20],
        4.0,
    )
    # The derivative of the loss is known but for theta (x - c) + theta (x - PRICE).
    spread = scale * (price - UNIT_COST + price - PRICE)
    exact = spread**2 / (4 * SLOPE)
    assert float(found.cost_of_not_knowing) == pytest.approx(exact, rel=0.1)
    if teaches:
        gone = 1.0 - left_of(scale, 4 * (price - PRICE) ** 2) / scale**2
        assert float(found.value_of_a_batch) == pytest.approx(gone * exact, rel=0.15)
    else:
        assert abs(float(found.value_of_a_batch)) < 1e-9


def left_of(scale, precision):
    return 1.0 / (scale**-2 + precision)


def test_uncertainty_is_measured_where_the_stage_ends():
    """Far from the demand a cost is straight: the first decision must not inherit that."""
    costs = Mismatch(jnp.asarray(2.0), jnp.asarray(0.5))
    problem = pg.Problem(costs, lambda x, theta: Poisson(theta), pg.feasible.Box(0.0, 500.0))
    agent = pg.Agent(problem, pg.beliefs.Gamma(2.0, 0.1), 20.0)
    agent.observe([3.0])
    rates = stats.gamma(5.0, scale=1 / 1.1).rvs(20_000, random_state=0)
    true = stats.poisson(rates).ppf(0.8).std()
    assert 0.5 * true < agent.info.outlook.epistemic < 2.5 * true

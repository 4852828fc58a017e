"""Costs that add over the coordinates of xi are told from others, and their marginals suffice."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from looking import read_at
from scipy import stats

import postgrad as pg
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas
from postgrad.algorithm.separable_cost import adds_over_coordinates, marginals
from postgrad.research.problems import newsvendor, portfolio

FACTOR = jnp.asarray([[2.0, 0.0], [-1.5, 1.0]])
THREE = newsvendor.independent()
X = jnp.asarray([11.0, 14.0, 21.0])
PATHWISE = pg.gradients.Pathwise()


def normal(x, theta):
    return dist.MultivariateNormal(theta, scale_tril=FACTOR, validate_args=False)


def adds(cost, model=normal):
    belief = pg.beliefs.Known(jnp.asarray([1.0, 2.0]))
    return adds_over_coordinates(pg.Problem(cost, model), PATHWISE, jnp.ones(2), belief)


@pytest.mark.parametrize("make", [newsvendor.independent, newsvendor.dependent])
def test_newsvendor_of_three_items_adds(make):
    instance = make()
    assert adds_over_coordinates(instance.problem, PATHWISE, X, pg.beliefs.Known(instance.theta))


def test_other_sums_over_coordinates_are_seen():
    assert adds(lambda x, xi: jnp.sum((x - xi) ** 2))
    assert adds(lambda x, xi: jnp.max(x) + xi[0] * x[1] - jnp.exp(0.1 * xi[1]) * x[0])
    assert adds(lambda x, xi: jnp.abs(x[0] - xi[0]))  # one of them does not matter


@pytest.mark.parametrize(
    "cost",
    [
        lambda x, xi: jnp.max(xi - x),
        lambda x, xi: jnp.prod(xi - x),
        lambda x, xi: jnp.maximum(x @ xi, 0.0),
        lambda x, xi: (x @ xi) ** 2,
        lambda x, xi: jnp.sum((x - xi) ** 2) + 1e-3 * xi[0] * xi[1],
        # apart by the decisions that are tried, though not at the first
        lambda x, xi: jnp.sum(xi) + jnp.where(x[0] > 1.2, xi[0] * xi[1], 0.0),
    ],
    ids=["max", "product", "excess of a sum", "square of a sum", "nearly", "elsewhere"],
)
def test_costs_that_mix_coordinates_are_not_taken_for_sums(cost):
    assert not adds(cost)
    assert not adds(lambda x, xi: 1e-12 * cost(x, xi))  # in any unit of cost


def test_tail_loss_of_a_portfolio_mixes_coordinates():
    instance = portfolio.cvar()
    x = jnp.asarray([0.4, 0.3, 0.3, 0.0])
    assert not adds_over_coordinates(
        instance.problem, PATHWISE, x, pg.beliefs.Known(instance.theta)
    )


def test_what_happens_to_all_coordinates_at_once_is_noticed_though_it_is_rare():
    """An emergency of both shops; the coordinates of xi are independent."""

    def apart(x, theta):
        return dist.Normal(theta, 1.0, validate_args=False).to_event(1)

    def plain(x, xi):
        return jnp.sum(jnp.maximum(xi - x, 0.0))

    assert adds(plain, apart)
    for together in (lambda xi: jnp.min(xi) > 4.5, lambda xi: (xi[0] < -2.0) & (xi[1] > 5.0)):
        assert not adds(lambda x, xi, both=together: plain(x, xi) + 1e6 * both(xi), apart)


@pytest.mark.parametrize(
    "model",
    [
        lambda x, theta: dist.VonMises(theta, 1.0).to_event(1),  # drawn by rejection
        lambda x, theta: dist.Dirichlet(jnp.exp(theta)),  # not apart
        lambda x, theta: dist.TransformedDistribution(
            normal(x, theta), dist.transforms.ExpTransform()
        ),
    ],
    ids=["by rejection", "shares of a whole", "correlated and log-normal"],
)
def test_where_marginals_are_not_drawn_from_one_number_each_the_model_stays(model):
    law = model(0.0, jnp.zeros(2))
    assert marginals(law) is law
    assert not adds(lambda x, xi: jnp.sum(x * xi), model)


def test_marginals_of_a_normal_law():
    law = dist.MultivariateNormal(jnp.asarray([1.0, -2.0]), scale_tril=FACTOR)
    alone = marginals(law)
    np.testing.assert_allclose(alone.mean, law.mean)
    np.testing.assert_allclose(alone.variance, law.variance)
    assert alone.event_shape == law.event_shape


@pytest.fixture(scope="module")
def points():
    """What the same draws say of the newsvendor, from marginals and from the joint law."""

    @jax.jit
    def look(key):
        found = []
        for only_marginals in (True, False):
            belief = pg.beliefs.Known(THREE.theta)
            land = SampledObjective(
                THREE.problem,
                pg.gradients.Pathwise(),
                pg.risks.Mean(),
                None,
                only_marginals=only_marginals,
            )
            point = read_at(land, draw_thetas(belief, key, 1), key, 1024, X)
            found.append((jnp.mean(point.costs), land.slope(point, None)))
        return found

    return jax.tree.map(np.asarray, jax.lax.map(look, random.split(random.key(0), 200)))


def test_expected_gradient_from_marginals_is_that_of_the_joint_law(points):
    cost = THREE.problem.cost
    scale = np.sqrt(THREE.theta["variance"])
    below = stats.norm.cdf(X, THREE.theta["mean"], scale)
    exact = cost.cost - cost.price + (cost.price - cost.salvage) * below
    for costs, slopes in points:
        error = slopes.std(0) / np.sqrt(len(slopes))
        assert np.all(np.abs(slopes.mean(0) - exact) < 4.5 * error + 1e-5)
        error = costs.std() / np.sqrt(len(costs))
        assert abs(costs.mean() - THREE.expected_cost(X)) < 4.5 * error + 1e-5


def test_marginals_have_less_noise(points):
    (_, alone), (_, joint) = points
    assert np.all(alone.std(0)[1:] < joint.std(0)[1:] / 3)
    assert np.all(alone.std(0) < 1e-2)  # a line of 1024 points; the first item has one either way


def test_algorithm_takes_marginals_where_it_may():
    belief = pg.beliefs.Known(THREE.theta)
    assert pg.BayesianSGD(THREE.problem).init(belief, X).only_marginals
    for options in ({"gradient": pg.gradients.Score()}, {"steps": 0.1}):
        assert not pg.BayesianSGD(THREE.problem, **options).init(belief, X).only_marginals

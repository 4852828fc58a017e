"""Draws that are spread over the tails, and keys that draw given numbers."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from rooms import ATTACK
from scipy import integrate, stats

import postgrad as pg
from postgrad.algorithm.gradients import Automatic, Enumerate
from postgrad.algorithm.sampled_objective import SampledObjective, has_tails
from postgrad.distributions.counts import Poisson
from postgrad.distributions.inversion import by_inversion
from postgrad.numerics import tails
from postgrad.numerics.lattice_keys import lattice_bits, lattice_keys, mirrored, table_keys

SHARE, COUNT = 0.2, 2**16


stretched = jax.jit(tails.stretched, static_argnums=1)
balanced = jax.jit(tails.balanced, static_argnums=(1, 2))


@functools.partial(jax.jit, static_argnums=(1, 2))
def lattice(key, count, d):
    """Points of a lattice in the unit cube."""
    return lattice_bits(key, count, d) * 2.0**-64


@pytest.fixture(scope="module")
def points():
    """v at the middles of equal intervals, u(v) and its density."""
    v = (np.arange(COUNT) + 0.5) / COUNT
    u, density = stretched(v, SHARE)
    return v, np.asarray(u), np.asarray(density)


def test_u_grows_with_v_and_stays_within(points):
    _, u, _ = points
    assert np.all(np.diff(u) > 0)
    assert 0 < u[0] < 2e-9
    assert 1 - 2e-9 < u[-1] < 1


def test_u_is_the_solution_of_its_equation(points):
    v, u, _ = points
    y = np.log(u) - np.log1p(-u)
    level = (1 - SHARE) * u + SHARE * (y + tails._END) / (2 * tails._END)
    np.testing.assert_allclose(level, v, rtol=0, atol=1e-9)


def test_density_is_that_of_the_points(points):
    """dv / du, by differences."""
    v, u, density = points
    between = np.diff(v) / np.diff(u)
    middle = np.sqrt(density[1:] * density[:-1])
    np.testing.assert_allclose(between, middle, rtol=1e-4)


@pytest.mark.parametrize(
    ("f", "exact"),
    [
        (lambda u: u, 1 / 2),
        (lambda u: u**2, 1 / 3),
        (lambda u: u < 1e-6, 1e-6),
        (lambda u: u > 1 - 1e-4, 1e-4),
    ],
)
def test_weighted_means_are_those_of_uniform_numbers(points, f, exact):
    _, u, density = points
    assert np.mean(f(u) / density) == pytest.approx(exact, rel=0.01)


def test_few_points_reach_far_out():
    """Of 128 points of a lattice, evenly spread ones would leave events of 1e-6 unseen."""
    u, density = map(np.asarray, stretched(lattice(random.key(3), 128, 1), SHARE))
    assert np.sum(u < 1e-6) >= 2
    assert np.mean((u < 1e-6) / density) == pytest.approx(1e-6, rel=0.6)
    np.testing.assert_allclose(np.mean(1 / density), 1.0, rtol=1e-3)


NUMBERS = np.array([[0.25, 0.5], [1 / 3, 1e-9], [0.0, 1 - 2.0**-52]])


def table():
    return table_keys(jnp.asarray((NUMBERS * 2.0**64).astype(np.uint64)))


def test_keys_of_a_table_draw_the_given_numbers():
    both = jax.vmap(lambda key: random.uniform(key, (2,)))(table())
    np.testing.assert_allclose(both, NUMBERS, rtol=0, atol=2.0**-51)
    one = jax.vmap(random.uniform)(table())
    np.testing.assert_allclose(one, NUMBERS[:, 0], rtol=0, atol=2.0**-51)
    z = jax.vmap(random.normal)(table()[:2])
    np.testing.assert_allclose(jax.scipy.stats.norm.cdf(z), NUMBERS[:2, 0], rtol=1e-9)


@pytest.mark.parametrize(
    "use",
    [
        lambda key: random.uniform(random.split(key)[0]),
        lambda key: random.uniform(random.fold_in(key, 1)),
        lambda key: random.uniform(key, (3,)),
        lambda key: random.gamma(key, 2.0),
    ],
    ids=["split", "fold in", "too many", "gamma"],
)
def test_keys_of_a_table_refuse_anything_else(use):
    key = table()[0]
    with pytest.raises(NotImplementedError):
        jax.jit(use)(key)
    with pytest.raises(NotImplementedError):
        use(key)


def test_mirrored_keys_draw_the_rest_of_one_also_after_a_split():
    keys = lattice_keys(random.key(5), (32,))

    @jax.jit
    @jax.vmap
    def draws(key):
        low, high = random.split(key)
        deep = random.fold_in(random.split(high, 3)[2], 4)
        ways = [random.uniform(one, (2,)) for one in (key, low, high, deep)]
        return jnp.concatenate(ways), random.normal(low)

    u, z = map(np.asarray, draws(keys))
    other, opposite = map(np.asarray, draws(mirrored(keys)))
    np.testing.assert_allclose(u + other, 1.0, atol=1e-12)
    np.testing.assert_allclose(z, -opposite, atol=1e-9)
    again, _ = draws(mirrored(mirrored(keys)))
    np.testing.assert_array_equal(again, u)
    assert np.ptp(u, axis=0).min() > 0.9  # and are not all alike


def sees_tails(model, theta, gradient=None, only_marginals=False):
    def cost(x, xi):
        return jnp.sum((x - xi) ** 2)

    problem = pg.Problem(cost, model)
    gradient = Automatic() if gradient is None else gradient
    objective = SampledObjective(problem, gradient, pg.risks.Mean(), None, only_marginals)
    return has_tails(objective, jnp.asarray(1.0), jnp.asarray(theta))


WITH = {
    "Normal": lambda x, theta: dist.Normal(theta, 1.0),
    "LogNormal": lambda x, theta: dist.LogNormal(theta, 1.0),
    "Poisson": lambda x, theta: Poisson(theta),
    "numpyro's Poisson": lambda x, theta: dist.Poisson(theta),
    "one entry": lambda x, theta: dist.Normal(theta * jnp.ones(1), 1.0).to_event(1),
    "Gamma": lambda x, theta: dist.Gamma(theta, 1.0),
    "Gamma of the decision": lambda x, theta: dist.Gamma(theta + x, 1.0),
    "Chi2": lambda x, theta: dist.Chi2(theta),
    "InverseGamma": lambda x, theta: dist.InverseGamma(theta, 1.0),
    "Beta": lambda x, theta: dist.Beta(theta, 3.0),
    "StudentT": lambda x, theta: dist.StudentT(4.0, theta, 1.0),
    "one entry of Gamma": lambda x, theta: dist.Gamma(theta, 1.0).expand([1]).to_event(1),
    "Exponential": lambda x, theta: dist.Exponential(theta),
    "Weibull": lambda x, theta: dist.Weibull(theta, 2.0),
    "Pareto": lambda x, theta: dist.Pareto(1.0, theta),
    "Gumbel": lambda x, theta: dist.Gumbel(theta, 1.0),
    "Laplace": lambda x, theta: dist.Laplace(theta, 1.0),
    "Logistic": lambda x, theta: dist.Logistic(theta, 1.0),
    "HalfNormal": lambda x, theta: dist.HalfNormal(theta),
    "Kumaraswamy": lambda x, theta: dist.Kumaraswamy(theta, 3.0),
    "truncated at zero": lambda x, theta: dist.TruncatedNormal(theta, 1.0, low=0.0),
    "truncated on both sides": lambda x, theta: dist.TruncatedNormal(theta, 1.0, low=0.0, high=5.0),
    "NegativeBinomial": lambda x, theta: pg.distributions.NegativeBinomial(theta, 3.0),
    "numpyro's NegativeBinomial2": lambda x, theta: dist.NegativeBinomial2(theta, 3.0),
    "Geometric": lambda x, theta: dist.Geometric(1.0 / (1.0 + theta)),
    "ZeroInflatedPoisson": lambda x, theta: dist.ZeroInflatedPoisson(0.2, theta),
    "zero-inflated counts": lambda x, theta: dist.ZeroInflatedNegativeBinomial2(
        theta, 3.0, gate=0.2
    ),
    "Binomial": lambda x, theta: dist.Binomial(2000, theta / 10),
    "a mixture": lambda x, theta: dist.MixtureSameFamily(
        dist.Categorical(jnp.ones(2) / 2), dist.Normal(theta * jnp.arange(2.0), 1.0)
    ),
    "a mixture of Gammas": lambda x, theta: dist.MixtureSameFamily(
        dist.Categorical(jnp.ones(2) / 2), dist.Gamma(theta * jnp.arange(1.0, 3.0), 1.0)
    ),
    "MultivariateNormal": lambda x, theta: dist.MultivariateNormal(theta * jnp.ones(2), jnp.eye(2)),
    "two entries": lambda x, theta: dist.Normal(theta * jnp.ones(2), 1.0).to_event(1),
    "four Gammas": lambda x, theta: dist.Gamma(theta, 1.0).expand((4,)).to_event(1),
}
WITHOUT = {
    "by rejection": lambda x, theta: dist.VonMises(theta, 1.0),
    "a mixture of what is drawn by rejection": lambda x, theta: dist.MixtureSameFamily(
        dist.Categorical(jnp.ones(2) / 2), dist.VonMises(theta * jnp.arange(2.0), 1.0)
    ),
    "very many entries": lambda x, theta: dist.Normal(theta * jnp.ones(33), 1.0).to_event(1),
}


@pytest.mark.parametrize("name", WITH)
def test_laws_of_one_number_or_several_have_tails(name):
    assert sees_tails(WITH[name], 2.0)


@pytest.mark.parametrize("name", WITHOUT)
def test_other_laws_have_none(name):
    assert not sees_tails(WITHOUT[name], 2.0)


def test_very_many_entries_have_tails_where_only_marginals_matter():
    assert sees_tails(WITHOUT["very many entries"], 2.0, only_marginals=True)


def test_what_is_summed_over_needs_none():
    assert not sees_tails(lambda x, theta: dist.Bernoulli(theta), 0.3, gradient=Enumerate())
    assert not sees_tails(lambda x, theta: dist.Bernoulli(theta), 0.3)


@pytest.mark.parametrize(("rows", "columns"), [(8, 256), (4, 512), (2, 1024)])
def test_weights_that_are_divided_by_their_mean_keep_the_distribution(rows, columns):
    """The draws of each theta count as much as those of any other, and together they are as u."""
    v = balanced(lattice(random.key(3), rows * columns, 1), SHARE, rows)
    u, density = (np.asarray(each).reshape(rows, columns) for each in stretched(v, SHARE))
    weights = 1.0 / density
    weights = weights / weights.mean(axis=0)
    for level in (1e-4, 0.01, 0.25, 0.5, 0.75, 0.9, 0.99):
        assert abs((weights * (u < level)).mean() - level) < 1.5 / (rows * columns)


@pytest.mark.parametrize("d", [2, 5, 12])
def test_points_of_several_numbers_are_distributed_as_their_weights_say(d):
    """The share of each number, and of their sum, below some levels, by 16 lattices."""
    rows, columns, levels = 8, 256, np.array([0.001, 0.01, 0.3, 0.5, 0.9, 0.999])
    turn = np.add(*np.divmod(np.arange(rows * columns), columns))
    points = jax.jit(lambda v: tails.stretched_along(v, turn, 0.3))
    found, beyond = [], []
    for seed in range(16):
        v = lattice(random.key(seed), rows * columns, d)
        u, density = (np.asarray(each) for each in points(v))
        together = stats.norm.cdf(stats.norm.ppf(u).sum(axis=1) / np.sqrt(d))
        each = np.stack([u[:, 0], u[:, -1], together])
        found.append(((each[..., None] < levels) / density[:, None]).mean(axis=1))
        beyond.append((each > 0.999).sum(axis=1))
    error = np.std(found, axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - levels) < 4 * error + 1e-4)
    assert np.min(np.mean(beyond, axis=0)) > 3 * 0.001 * rows * columns


@ATTACK
@pytest.mark.parametrize("shape", [0.3, pytest.param(5.0, marks=pytest.mark.slow)])
def test_a_far_fractile_of_a_sum_is_found(shape):
    """Four Gamma numbers add up to one. Without draws in the tails it is up to 44 % too dear."""
    q, total = 0.9999, stats.gamma(4 * shape)
    problem = pg.Problem(
        lambda x, xi: q * jnp.maximum(xi.sum() - x, 0) + (1 - q) * jnp.maximum(x - xi.sum(), 0),
        lambda x, theta: dist.Gamma(shape, theta).expand((4,)).to_event(1),
        pg.feasible.Box(0.0, float(total.ppf(1 - 1e-9))),
    )
    agent = pg.Agent(problem, pg.beliefs.Known(1.0), x=float(total.mean()))
    rng = np.random.default_rng(0)
    for _ in range(12):
        agent.observe(rng.gamma(shape, size=(2, 4)))
        assert _mismatch(total, q, agent.decision) < 1.05 * _mismatch(total, q, total.ppf(q))


@ATTACK
@pytest.mark.parametrize("q", [0.9999, pytest.param(0.985, marks=pytest.mark.slow)])
def test_a_far_fractile_of_a_mixture_is_found(q):
    """On 3 days of 100 a bulk order; the wider component has both tails."""
    shares, rates = np.array([0.97, 0.03]), np.array([8.0, 150.0])
    problem = pg.Problem(
        lambda x, xi: q * jnp.maximum(xi - x, 0) + (1 - q) * jnp.maximum(x - xi, 0),
        lambda x, theta: dist.MixtureSameFamily(
            dist.Categorical(jnp.asarray(shares)), dist.Poisson(theta * jnp.asarray(rates))
        ),
        pg.feasible.Box(0.0, 300.0),
    )
    agent = pg.Agent(problem, pg.beliefs.Known(1.0), x=20.0)
    k = np.arange(1000)
    likely = stats.poisson.pmf(k[:, None], rates) @ shares

    def cost(x):
        return likely @ np.where(k > x, q * (k - x), (1 - q) * (x - k))

    best = min(cost(x) for x in range(300))
    for _ in range(8):
        agent.observe(8.0)
        assert cost(agent.decision) < 1.01 * best


def _mismatch(law, q, x):
    """E [q (S - x)+ + (1 - q) (x - S)+]; E (x - S)+ is an integral of the distribution function."""
    below = integrate.quad(law.cdf, 0.0, x, limit=200)[0]
    return q * (law.mean() - x) + below


def test_a_mixture_of_vectors_is_drawn_as_it_is():
    """Its components take a number for each coordinate; those of a mixture of numbers take one."""
    likely = dist.Categorical(probs=jnp.asarray([0.6, 0.4]))
    vectors = dist.MixtureSameFamily(likely, dist.Normal(jnp.zeros((2, 3)), 1.0).to_event(1))
    assert by_inversion(vectors) is vectors
    numbers = dist.MixtureSameFamily(likely, dist.Normal(jnp.zeros(2), 1.0))
    assert by_inversion(numbers) is not numbers

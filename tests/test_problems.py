"""Every problem of the testbed: its optimum and its expected cost, found independently."""

import functools
import inspect
import re
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import optimize, special, stats
from scipy.linalg import block_diag

import postgrad as pg
from postgrad import errors
from postgrad.distributions.density import log_density
from postgrad.problem.feasible import Box, Budget, Product, Reals, Simplex
from postgrad.research import problems
from postgrad.research.paper.experiments import EXPERIMENTS
from postgrad.research.problems import newsvendor, queue, sales, strategic

PAGE = Path(__file__).parents[1] / "docs" / "testbed.md"
DRAWS = 50_000


@pytest.fixture(scope="module", params=list(problems.testbed()))
def instance(request):
    return problems.testbed()[request.param]()


# The optimum, by scipy, from constraints that are written down once more


@functools.singledispatch
def constraints(feasible, d):
    """Bounds (low, high), inequalities A x <= b and equalities A x = b on a vector of length d."""
    raise AssertionError(f"say here what {type(feasible).__name__} means in rows")


def no_rows(d):
    return np.zeros((0, d)), np.zeros(0)


@constraints.register
def _(feasible: Reals, d):
    return (np.full(d, -np.inf), np.full(d, np.inf)), no_rows(d), no_rows(d)


@constraints.register
def _(feasible: Box, d):
    sides = tuple(np.broadcast_to(side, d) for side in (feasible.low, feasible.high))
    return sides, no_rows(d), no_rows(d)


@constraints.register
def _(feasible: Budget, d):
    sides = tuple(np.ravel(side) for side in (feasible.low, feasible.high))
    budget = np.reshape(feasible.weights, (1, d)), np.reshape(feasible.total, 1)
    return sides, budget, no_rows(d)


@constraints.register
def _(feasible: Simplex, d):
    whole = np.ones((1, d)), np.reshape(feasible.total, 1)
    return (np.zeros(d), np.full(d, np.inf)), no_rows(d), whole


@constraints.register
def _(feasible: Product, d):
    assert sum(feasible.sizes) == d
    parts = [constraints(*pair) for pair in zip(feasible.sets, feasible.sizes, strict=True)]
    sides = tuple(np.concatenate(side) for side in zip(*(part[0] for part in parts), strict=True))
    rows = (
        (block_diag(*(part[k][0] for part in parts)), np.concatenate([p[k][1] for p in parts]))
        for k in (1, 2)
    )
    return sides, *rows


def minimum(instance, both, start):
    """The best decision that scipy finds from a start, and its cost: SLSQP, then KKT's equations.

    `both` gives the cost of a decision and its gradient.
    """
    shape, d = instance.x.shape, instance.x.size

    def cost(z):
        value, slope = both(z.reshape(shape))
        return float(value), np.ravel(slope)

    (low, high), (A, b), (E, e) = constraints(instance.problem.feasible, d)
    found = optimize.minimize(
        cost,
        np.ravel(start),
        jac=True,
        method="SLSQP",
        bounds=optimize.Bounds(low, high),
        constraints=[
            {"type": "ineq", "fun": lambda z: b - A @ z, "jac": lambda z: -A},
            {"type": "eq", "fun": lambda z: E @ z - e, "jac": lambda z: E},
        ],
        options={"ftol": 1e-13, "maxiter": 500},
    )
    # To all digits: what SLSQP found active is so, and the gradient is a mix of its rows.
    rows, sides = np.vstack([A, np.eye(d), np.eye(d)]), np.concatenate([b, low, high])
    with np.errstate(invalid="ignore"):
        active = np.abs(rows @ found.x - sides) < 1e-6
    rows, sides = np.vstack([rows[active], E]), np.concatenate([sides[active], e])

    def equations(z):
        return np.concatenate([cost(z[:d])[1] - rows.T @ z[d:], rows @ z[:d] - sides])

    price = np.linalg.lstsq(rows.T, cost(found.x)[1], rcond=None)[0]
    exact = optimize.root(equations, np.concatenate([found.x, price]), tol=1e-14)
    assert np.max(np.abs(exact.fun)) < 1e-9
    return exact.x[:d].reshape(shape), cost(exact.x[:d])[0]


class Facts(NamedTuple):
    """What one compiled program tells about an instance."""

    xs: np.ndarray  # feasible decisions: the first, the best, some near and far
    violation: np.ndarray
    exact: np.ndarray  # H there, and its gradient
    slope: np.ndarray
    mean: tuple[np.ndarray, np.ndarray]  # the same of draws: `Pathwise` or `Score`
    error: tuple[np.ndarray, np.ndarray]  # and standard errors
    regret: np.ndarray
    fits: np.ndarray  # the mean log-density of data at theta_c, and at points of the grid


def facts_of(instance, noise, thetas):
    problem, theta, first = instance.problem, instance.theta, instance.x
    # One compiled sampler serves costs and gradients, which see the same draws.
    keys = random.split(random.key(1), DRAWS)

    def one_draw(x, key):
        model = problem.model(x, theta)
        gradient = pg.gradients.Pathwise() if model.has_rsample else pg.gradients.Score()
        slope = gradient.estimate(problem, x, pg.gradients.Sample(theta, key))
        xi = model.sample(key)
        return (problem.cost(x, xi), slope), xi

    def fit(theta):
        return jnp.mean(log_density(problem.likelihood(first, theta), data))

    others = jax.vmap(problem.feasible.project)(first + noise)
    xs = jnp.concatenate([first[None], instance.x_star[None], others])
    draws, data = jax.vmap(lambda x: jax.vmap(lambda key: one_draw(x, key))(keys))(xs)
    data = data[0, :500]
    if problem.observation is not None:
        data = problem.observation(first, theta).sample(keys[0], (500,))
    exact, slope = jax.vmap(jax.value_and_grad(instance.expected_cost))(xs)
    return Facts(
        xs,
        jax.vmap(problem.feasible.violation)(xs),
        exact,
        slope,
        jax.tree.map(lambda each: jnp.mean(each, axis=1), draws),
        jax.tree.map(lambda each: jnp.std(each, axis=1) / jnp.sqrt(DRAWS), draws),
        instance.regret(first),
        jax.vmap(fit)(
            jax.tree.map(lambda true, leaf: jnp.concatenate([true[None], leaf]), theta, thetas)
        ),
    )


@pytest.fixture(scope="module")
def facts(instance):
    noise = np.random.default_rng(0).normal(size=(2, *instance.x.shape))
    noise *= np.reshape([1.0, 1.0 + np.max(np.abs(instance.x))], (2, *(1,) * instance.x.ndim))
    thetas = jax.tree.map(lambda leaf: np.asarray(leaf)[:: 1 + len(leaf) // 20], instance.points)
    # Called once: a program that is compiled soon beats one that runs fast.
    quick = {"xla_backend_optimization_level": 0}
    program = jax.jit(lambda: facts_of(instance, noise, thetas), compiler_options=quick)
    return jax.tree.map(np.asarray, program())


def test_optimum_is_what_scipy_finds(instance, facts):
    """From several starts, so that a mere local minimum would show."""
    both = jax.jit(jax.value_and_grad(instance.expected_cost))
    ends = [minimum(instance, both, start) for start in facts.xs]
    best, cost = min(ends, key=lambda end: end[1])
    close = 1e-6 * np.max(np.abs(instance.x_star))
    np.testing.assert_allclose(instance.x_star, best, rtol=0, atol=close)
    np.testing.assert_allclose(ends[1][0], best, rtol=0, atol=close)  # what starts at x* stays
    assert facts.exact[1] == pytest.approx(cost, rel=1e-10)


def test_expected_cost_is_the_mean_of_costs(facts):
    mean, error = facts.mean[0], facts.error[0]
    assert np.all(np.abs(mean - facts.exact) <= 4 * error + 1e-9)
    # Draws enough to see that the first decision is not the best.
    assert facts.regret > 40 * error[0]
    assert facts.regret == pytest.approx(facts.exact[0] - facts.exact[1], rel=1e-9)


def test_gradients_of_draws_are_those_of_the_expected_cost(facts):
    """What the algorithm descends along: the parts of the problem fit each other."""
    mean, error = facts.mean[1], facts.error[1]
    # What happens less than once in all draws is in the exact gradient and not in its estimate.
    rare = 1e-5 * (1.0 + np.abs(facts.slope))
    assert np.all(np.abs(mean - facts.slope) <= 4 * error + rare)


# The parts


def test_parts_fit(instance, facts):
    assert np.all(facts.violation <= 1e-12)
    assert instance.x.shape == instance.x_star.shape
    assert not np.allclose(instance.x, instance.x_star, rtol=0.05)
    # The truth is on the grid, and explains the data better than most of it.
    pairs = zip(*map(jax.tree.leaves, (instance.points, instance.theta)), strict=True)
    same = [np.isclose(points, theta).reshape(len(points), -1).all(1) for points, theta in pairs]
    assert np.all(same, axis=0).sum() == 1
    assert np.isfinite(facts.fits[0])
    assert facts.fits[0] >= np.quantile(facts.fits[1:], 0.8)


@pytest.mark.sample(8)
def test_algorithm_starts(instance):
    """With its own belief; tests/test_newsvendor.py does so on grids of two million points."""
    if instance.prior is None and len(jax.tree.leaves(instance.points)[0]) > 100_000:
        instance.problem.check(instance.x, jax.tree.map(lambda leaf: leaf[None], instance.theta))
        return
    state = pg.BayesianSGD(instance.problem).init(instance.belief, instance.x)
    drawn = jax.eval_shape(state.belief.sample, random.key(0))
    assert jax.tree.map(jnp.shape, drawn) == jax.tree.map(jnp.shape, instance.theta)


def test_belief_is_the_prior_or_the_grid():
    grid, normal = (problems.testbed()[f"{n}-1d-dependent"]() for n in ("quadratic", "newsvendor"))
    np.testing.assert_array_equal(grid.belief.points, grid.points)
    assert normal.belief is normal.prior


# The testbed as a whole


def test_the_experiments_of_the_paper_are_in_it():
    for name, experiment in EXPERIMENTS.items():
        make = problems.testbed()[name]
        assert make is experiment.instance
        feasible = inspect.signature(make).parameters["feasible"].default
        assert feasible is experiment.region.feasible


def test_beliefs_and_batches_are_the_papers(instance, request):
    name = request.node.callspec.params["instance"]
    if name in EXPERIMENTS:
        assert instance.prior is None
        assert instance.batch_size == EXPERIMENTS[name].batch_size


def test_all_modules_are_in_it(monkeypatch):
    assert {"pricing-logit", "queue-rate", "portfolio-cvar"} <= set(problems.testbed())
    monkeypatch.setattr(sales, "TESTBED", {"queue-rate": sales.censored})
    with pytest.raises(errors.SettingError, match="queue-rate"):
        problems.testbed()
    monkeypatch.undo()
    assert problems.testbed()["pricing-linear"] is problems.pricing.linear


ROWS = re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE)


def test_the_page_names_all_problems():
    assert sorted(name for name, _ in ROWS) == sorted(problems.testbed())


def test_the_page_tells_the_truth(instance, request):
    """The optimum, to the digits that it prints."""
    numbers = re.findall(r"-?\d+(?:\.\d+)?", dict(ROWS)[request.node.callspec.params["instance"]])
    digits = [len(number.partition(".")[2]) for number in numbers]
    x_star = np.atleast_1d(instance.x_star)
    assert [f"{x:.{k}f}" for x, k in zip(x_star, digits, strict=True)] == numbers


def test_example_of_the_page_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(compile(example, "testbed.md", "exec"), {})
    assert float(capsys.readouterr().out) == pytest.approx(32.0, rel=1e-12)


# Closed forms and parts of single problems


def test_who_ignores_the_limit_has_the_same_cost():
    x = jnp.asarray(13.0)
    right, wrong = (float(make().expected_cost(x)) for make in (sales.censored, sales.ignored))
    assert right == wrong


def test_newsvendors_sell_nothing_to_negative_demand():
    """Where max(0, xi) matters, which it hardly does in the testbed: a third of demand is < 0."""
    cost = newsvendor.Newsvendor(*jnp.asarray([2.0, 4.0, 1.0]))
    demand = stats.norm(1.0, 3.0)
    for x in (0.5, 2.0):
        parts = [
            demand.expect(
                lambda xi, x=x: 2 * x - 4 * min(x, max(0, xi)) - max(0, x - xi), lb=a, ub=b
            )
            for a, b in ((-30.0, 0.0), (0.0, x), (x, 30.0))
        ]
        exact = newsvendor._normal_cost(cost, jnp.asarray(x), jnp.asarray(1.0), 3.0)
        assert float(exact) == pytest.approx(sum(parts), rel=1e-9)


def test_optimum_of_the_logit_price_is_lamberts():
    a, b, c = 4.0, 1.25, 1.0
    exact = c + (1.0 + special.lambertw(np.exp(a - b * c - 1.0)).real) / b
    assert float(problems.testbed()["pricing-logit"]().x_star) == pytest.approx(exact, rel=1e-12)


def test_budget_binds():
    instance = problems.testbed()["newsvendor-budget"]()
    feasible, theta, cost = instance.problem.feasible, instance.theta, instance.problem.cost
    spent = float(jnp.sum(feasible.weights * instance.x_star))
    assert spent == pytest.approx(float(feasible.total), rel=1e-9)
    free = theta * jnp.log((cost.price - cost.salvage) / (cost.cost - cost.salvage))
    assert jnp.sum(feasible.weights * free) > 1.5 * feasible.total


def test_level_of_the_portfolio_is_its_value_at_risk():
    instance = problems.testbed()["portfolio-cvar"]()
    model = instance.problem.model(instance.x, instance.theta)
    w, v = np.asarray(instance.x_star[:-1]), float(instance.x_star[-1])
    loss = stats.norm(
        -w @ np.asarray(model.loc), np.sqrt(w @ np.asarray(model.covariance_matrix) @ w)
    )
    assert loss.sf(v) == pytest.approx(0.1, rel=1e-6)
    tail = loss.expect(lb=v, conditional=True)
    assert float(instance.expected_cost(instance.x_star)) == pytest.approx(tail, rel=1e-6)


@pytest.mark.parametrize("x", [0.7, 1.0, 3.0])
def test_waiting_of_the_second_and_of_all_customers(x):
    """Two customers by hand, the others by densities of the waiting time on a fine lattice."""
    theta, n = 1.0, queue._CUSTOMERS
    # P(w + s - a <= t) by recursion: an atom at 0 and a density on cells of width d.
    d, cells = 0.02, 4000
    grid = (np.arange(cells) + 0.5) * d
    # s - a has the density theta x / (theta + x) times exp(-x u) above 0 and exp(theta u) below.
    u = (np.arange(-cells + 1, cells)) * d
    step = theta * x / (theta + x) * np.where(u > 0, np.exp(-x * u), np.exp(theta * u))
    mean, atom, density = [0.0], 1.0, np.zeros(cells)
    from_zero = theta * x / (theta + x) * np.exp(-x * grid)
    for _ in range(n - 1):
        moved = np.convolve(density, step)[cells - 1 : 2 * cells - 1] * d
        density = atom * from_zero + moved
        atom = 1.0 - density.sum() * d
        mean.append(density @ grid * d)
    assert mean[1] == pytest.approx(theta / (x * (theta + x)), rel=1e-3)
    expected = x + 1.0 / x + np.mean(mean)
    assert float(queue._expected_cost(jnp.asarray(x), jnp.asarray(theta))) == pytest.approx(
        expected, rel=2e-3
    )


def test_population_is_labelled_and_normal():
    population = strategic.Population(jnp.asarray([1.0, 0.5]), jnp.asarray([0.3, 0.0]))
    draws, log_f = jax.jit(
        lambda key: (y := population.sample(key, (20_000,)), log_density(population, y))
    )(random.key(0))
    draws = np.asarray(draws)
    for label in (1.0, -1.0):
        here = draws[:, -1] == label
        features = draws[here, :-1]
        assert len(features) == pytest.approx(10_000, abs=300)
        center = label * np.asarray([1.0, 0.5]) - np.asarray([0.3, 0.0])
        np.testing.assert_allclose(features.mean(axis=0), center, atol=0.04)
        np.testing.assert_allclose(np.cov(features.T), np.eye(2), atol=0.06)
        exact = stats.multivariate_normal(center, np.eye(2)).logpdf(features[:5]) + np.log(0.5)
        np.testing.assert_allclose(log_f[here][:5], exact, rtol=1e-12)
    assert log_density(population, jnp.asarray([0.0, 0.0, 0.5])) == -jnp.inf

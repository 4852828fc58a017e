"""From two to two hundred coordinates, on every feasible set."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import optimize

import postgrad as pg
from hard_problems.base import Hard, joint, marginals, register
from hard_problems.laws import shortage, surplus
from hard_problems.search import closed, many_starts, priced, separable

Box = pg.feasible.Box
_FEW = np.linspace(-5.0, 5.0, 21)


def few(belief):
    """Fewer nodes, where the posterior is narrow against the noise."""
    return marginals(belief, _FEW)


def sigma_points(belief):
    """Two points for each coordinate, with the posterior's mean and variance: exact for squares."""
    loc, scale = np.asarray(belief.loc), np.asarray(belief.scale)
    arms = np.sqrt(loc.size) * np.diag(scale)
    return np.concatenate([loc + arms, loc - arms]), np.full(2 * loc.size, 0.5 / loc.size)


def _many_newsvendors(count: int, feasible, search, starts: list) -> Hard:
    rng = np.random.default_rng(count)
    means, spread = rng.uniform(10.0, 60.0, count), rng.uniform(2.0, 8.0, count)
    under, over = rng.uniform(1.0, 9.0, count), rng.uniform(0.5, 2.0, count)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(
                under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, spread).to_event(1),
            feasible=feasible,
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(count, 35.0), jnp.full(count, 15.0)),
        starts=starts,
        batch=lambda rng, t, x: rng.normal(means, spread, (4, count)),
        expected_cost=None,
        parts=lambda x, theta: (
            under * shortage(x, theta, spread) + over * surplus(x, theta, spread)
        ),
        support=few,
        search=search,
    )


@register("dimensions")
def eight_newsvendors() -> Hard:
    """Eight products side by side."""
    search = separable(np.zeros(8), np.full(8, 200.0))
    return _many_newsvendors(8, Box(0.0, 200.0), search, [np.ones(8), np.full(8, 150.0)])


@register("dimensions")
def two_hundred_newsvendors() -> Hard:
    """Two hundred products side by side."""
    search = separable(np.zeros(200), np.full(200, 200.0))
    return _many_newsvendors(200, Box(0.0, 200.0), search, [np.ones(200)])


@register("dimensions")
def twenty_on_a_budget() -> Hard:
    """Twenty products, and money for about two thirds of what they ask for."""
    prices = np.random.default_rng(7).uniform(0.5, 3.0, 20)
    total = 700.0
    search = priced(np.zeros(20), np.full(20, 150.0), prices, total)
    feasible = pg.feasible.Budget(0.0, 150.0, prices, total)
    return _many_newsvendors(20, feasible, search, [np.ones(20), np.full(20, 15.0)])


@register("dimensions")
def fifty_on_a_simplex() -> Hard:
    """Fifty products that share a shelf of 1500, which must be filled."""
    search = priced(np.zeros(50), np.full(50, 150.0), np.ones(50), 1500.0, equal=True)
    first = np.zeros(50)
    first[0] = 1500.0
    return _many_newsvendors(50, pg.feasible.Simplex(1500.0), search, [np.full(50, 30.0), first])


@register("dimensions")
def roots_on_a_simplex() -> Hard:
    """Sales grow with the root of a share: an infinite slope wherever a share is zero."""
    truth = np.linspace(0.5, 3.0, 10)

    def best(theta, weights):
        square = np.maximum(weights @ theta, 0.0) ** 2
        return square / square.sum()

    first = np.zeros(10)
    first[0] = 1.0
    return Hard(
        problem=pg.Problem(
            cost=lambda x, y: -jnp.sum(y),
            model=lambda x, theta: dist.Normal(theta * jnp.sqrt(x), 1.0).to_event(1),
            feasible=pg.feasible.Simplex(),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(10, 2.0), jnp.ones(10)),
        starts=[np.full(10, 0.1), first],
        batch=lambda rng, t, x: rng.normal(truth * np.sqrt(np.maximum(x, 0)), 1.0, (8, 10)),
        expected_cost=None,
        parts=lambda x, theta: -theta * np.sqrt(np.maximum(x, 0.0)),
        search=closed(best),
    )


@register("dimensions")
def three_branches() -> Hard:
    """Demand is correlated by 0.95, and what all branches together lack is bought dearly."""
    means, spread = np.array([40.0, 60.0, 100.0]), np.array([8.0, 12.0, 20.0])
    cov = np.outer(spread, spread) * (0.95 + 0.05 * np.eye(3))
    total = np.sqrt(cov.sum())

    def expected(x, theta):
        each = surplus(x, theta, spread) + 2 * shortage(x, theta, spread)
        return each.sum(axis=-1) + 15 * shortage(x.sum(axis=-1), theta.sum(axis=-1), total)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (
                jnp.sum(jnp.maximum(x - xi, 0) + 2 * jnp.maximum(xi - x, 0))
                + 15 * jnp.maximum(jnp.sum(xi) - jnp.sum(x), 0)
            ),
            model=lambda x, theta: dist.MultivariateNormal(theta, cov),
            feasible=Box(0.0, 500.0),
        ),
        belief=lambda: pg.beliefs.Gaussian(means + 10.0, 15.0),
        starts=[[10.0, 10.0, 10.0], [300.0, 20.0, 400.0]],
        batch=lambda rng, t, x: rng.multivariate_normal(means, cov, 4),
        expected_cost=expected,
        support=joint(7),
        search=many_starts(
            np.zeros(3), np.full(3, 250.0), tries=256, polished=3, guess=lambda s: [means + spread]
        ),
    )


def _coupling(count: int, condition: float) -> np.ndarray:
    """A positive definite matrix with a given condition and no zero entries."""
    rng = np.random.default_rng(3)
    q, _ = np.linalg.qr(rng.standard_normal((count, count)))
    return q * np.geomspace(1.0 / condition, 1.0, count) @ q.T


def _quadratic(feasible, search, starts: list, condition: float, noise: float = 0.3) -> Hard:
    count = len(starts[0])
    matrix = _coupling(count, condition)
    truth = np.random.default_rng(4).uniform(-3.0, 3.0, count)
    constant = noise**2 * np.trace(matrix)

    def expected(x, theta):
        gap = x - theta
        return np.einsum("...i,ij,...j->...", gap, matrix, gap) + constant

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: (x - xi) @ jnp.asarray(matrix) @ (x - xi),
            model=lambda x, theta: dist.Normal(theta, noise).to_event(1),
            feasible=feasible,
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(count), jnp.full(count, 3.0)),
        starts=starts,
        batch=lambda rng, t, x: rng.normal(truth, noise, (4, count)),
        expected_cost=expected,
        support=sigma_points,
        search=search(matrix),
    )


@register("dimensions")
def thirty_coupled() -> Hard:
    """A quadratic in thirty coupled numbers, flat in some directions by a factor of 1e4."""
    return _quadratic(
        Box(-10.0, 10.0),
        lambda matrix: closed(lambda theta, weights: weights @ theta),
        [np.full(30, 9.0), np.zeros(30)],
        1e4,
    )


@register("dimensions")
def thirty_in_a_ball() -> Hard:
    """The same in a ball that does not reach the minimum."""

    def search(matrix):
        def best(theta, weights):
            wish = weights @ theta
            if np.linalg.norm(wish) <= 5.0:
                return wish

            def at(price):
                return np.linalg.solve(matrix + price * np.eye(len(matrix)), matrix @ wish)

            price = optimize.brentq(lambda p: np.linalg.norm(at(p)) - 5.0, 1e-12, 1e3, xtol=1e-14)
            return at(price) * min(1.0, 5.0 / np.linalg.norm(at(price)))

        return closed(best)

    return _quadratic(pg.feasible.Ball(jnp.zeros(30), 5.0), search, [np.zeros(30)], 100.0)


@register("dimensions")
def corner() -> Hard:
    """A linear cost in twenty numbers: the best decision is a corner of the box."""
    truth = np.where(np.arange(20) % 3 == 0, 1.0, -1.0) * np.linspace(0.2, 2.0, 20)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(xi * x),
            model=lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
            feasible=Box(-1.0, 1.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(20), jnp.full(20, 2.0)),
        starts=[np.zeros(20), np.sign(truth)],
        batch=lambda rng, t, x: rng.normal(truth, 1.0, (6, 20)),
        expected_cost=None,
        parts=lambda x, theta: theta * x,
        search=closed(lambda theta, weights: -np.sign(weights @ theta)),
    )


@register("dimensions")
def one_winner() -> Hard:
    """A linear cost on a simplex of thirty: all of it on the one that is cheapest."""
    truth = np.linspace(5.0, 8.0, 30)

    def best(theta, weights):
        return np.eye(30)[np.argmin(weights @ theta)]

    wrong = np.eye(30)[29]
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(xi * x),
            model=lambda x, theta: dist.Normal(theta, 0.5).to_event(1),
            feasible=pg.feasible.Simplex(),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(30, 6.0), jnp.full(30, 2.0)),
        starts=[np.full(30, 1 / 30), wrong],
        batch=lambda rng, t, x: rng.normal(truth, 0.5, (4, 30)),
        expected_cost=None,
        parts=lambda x, theta: theta * x,
        search=closed(best),
    )

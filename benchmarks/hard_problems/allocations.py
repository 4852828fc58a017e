"""More of several dimensions: portfolios, blends, prices, shifts, channels."""

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import postgrad as pg
from hard_problems.base import Hard, joint, register
from hard_problems.dimensions import few
from hard_problems.laws import over_normal, shortage, surplus
from hard_problems.search import closed, many_starts, separable

Box = pg.feasible.Box


@register("dimensions")
def portfolio() -> Hard:
    """Twelve correlated shares with a quadratic utility; most of them are best left out."""
    rng = np.random.default_rng(5)
    loads = rng.standard_normal((12, 3)) * 0.15
    cov = loads @ loads.T + np.diag(rng.uniform(0.01, 0.06, 12))
    truth = rng.uniform(0.0, 0.25, 12)

    def expected(x, theta):
        gain = (x * theta).sum(axis=-1)
        square = np.einsum("...i,ij,...j->...", x, cov, x) + gain**2
        return -gain + 2.5 * square

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: -x @ xi + 2.5 * (x @ xi) ** 2,
            model=lambda x, theta: dist.MultivariateNormal(theta, cov),
            feasible=pg.feasible.Simplex(),
        ),
        belief=lambda: pg.beliefs.Gaussian(jnp.full(12, 0.1), 0.1),
        starts=[np.full(12, 1 / 12), np.eye(12)[0]],
        batch=lambda rng, t, x: rng.multivariate_normal(truth, cov, 8),
        expected_cost=expected,
        support=_sigma_of_gaussian,
        search=many_starts(np.zeros(12), np.ones(12), tries=256, polished=2, simplex=1.0),
        scale=0.02,
    )


def _sigma_of_gaussian(belief):
    """Points with the mean and the covariance of the posterior: exact for squares of theta."""
    loc, root = np.asarray(belief.loc), np.linalg.cholesky(np.asarray(belief.covariance_matrix))
    arms = np.sqrt(loc.size) * root.T
    return np.concatenate([loc + arms, loc - arms]), np.full(2 * loc.size, 0.5 / loc.size)


@register("dimensions")
def blend() -> Hard:
    """Six products from three scarce materials, at least ten of the first two together."""
    rng = np.random.default_rng(6)
    use = rng.uniform(0.2, 2.0, (3, 6))
    rows = np.concatenate([use, -np.eye(6), [[-1.0, -1.0, 0, 0, 0, 0]]])
    sides = np.concatenate([[90.0, 70.0, 110.0], np.zeros(6), [-10.0]])
    means, spread = rng.uniform(10.0, 40.0, 6), rng.uniform(3.0, 8.0, 6)
    under, over = np.array([1.0, 2.0, 8.0, 4.0, 6.0, 3.0]), np.full(6, 0.5)
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(
                under * jnp.maximum(xi - x, 0) + over * jnp.maximum(x - xi, 0)
            ),
            model=lambda x, theta: dist.Normal(theta, spread).to_event(1),
            feasible=pg.feasible.Polyhedron(rows, sides),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(6, 25.0), jnp.full(6, 10.0)),
        starts=[[5.0, 5.0, 1.0, 1.0, 1.0, 1.0], [20.0, 0.0, 0.0, 0.0, 0.0, 20.0]],
        batch=lambda rng, t, x: rng.normal(means, spread, (4, 6)),
        expected_cost=None,
        parts=lambda x, theta: (
            under * shortage(x, theta, spread) + over * surplus(x, theta, spread)
        ),
        support=few,
        search=many_starts(
            np.zeros(6),
            np.full(6, 100.0),
            [{"type": "ineq", "fun": lambda x: sides - rows @ x}],
            tries=256,
            polished=4,
            guess=lambda s: [np.array([5.0, 5.0, 1.0, 1.0, 1.0, 1.0])],
        ),
    )


def _logit_profit(x, lift, exp):
    """What three products earn that take customers from each other."""
    base, cost = np.array([6.0, 5.0, 7.0]), np.array([1.0, 0.5, 3.0])
    pull = exp(base + lift - x)
    return -((x - cost) * pull).sum(axis=-1) / (1 + pull.sum(axis=-1))


@register("dimensions")
def logit_prices() -> Hard:
    """Three prices with cross effects; above 20 nobody buys, and all slopes vanish."""
    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: _logit_profit(x, xi, jnp.exp),
            model=lambda x, theta: dist.Normal(theta, 0.5),
            feasible=Box(0.0, 40.0),
        ),
        belief=lambda: pg.beliefs.Normal(0.0, 1.0),
        starts=[[1.0, 1.0, 1.0], [30.0, 30.0, 30.0], [5.0, 35.0, 35.0]],
        batch=lambda rng, t, x: rng.normal(0.5, 0.5, 4),
        expected_cost=lambda x, theta: over_normal(
            lambda x, xi: _logit_profit(x, xi, np.exp), 0.5, np.linspace(-5, 5, 21)
        )(x, np.asarray(theta)[..., None]),
        search=many_starts(np.zeros(3), np.full(3, 40.0), tries=512, polished=4),
    )


@register("dimensions")
def linear_cross_prices() -> Hard:
    """Three prices whose demand is linear in all of them, some products supporting others."""
    slopes = np.array([[4.0, -1.5, 0.5], [-1.0, 3.0, -0.8], [0.7, -0.6, 5.0]])
    truth = np.array([60.0, 50.0, 90.0])

    def best(theta, weights):
        return np.linalg.solve(slopes + slopes.T, weights @ theta)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, sold: -jnp.sum(x * sold),
            model=lambda x, theta: dist.Normal(theta - jnp.asarray(slopes) @ x, 4.0).to_event(1),
            feasible=Box(0.0, 60.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(3, 65.0), jnp.full(3, 15.0)),
        starts=[[1.0, 1.0, 1.0], [50.0, 50.0, 50.0]],
        batch=lambda rng, t, x: rng.normal(truth - slopes @ x, 4.0, (4, 3)),
        expected_cost=lambda x, theta: -(x * (theta - x @ slopes.T)).sum(axis=-1),
        search=closed(best),
    )


def _wait(load, staff, maximum, where):
    """Staff, and waiting that grows without bound as the load comes near; then at a slope."""
    free = staff - load
    near = maximum(free, 0.5)
    return staff + 4 * load / near + 40 * where(free < 0.5, 0.5 - free, 0.0)


@register("dimensions")
def four_shifts() -> Hard:
    """Staff for four shifts, with congestion that is steep on one side."""
    spread, truth = np.array([0.5, 1.0, 2.0, 1.0]), np.array([5.0, 12.0, 30.0, 9.0])

    def parts(x, theta):
        nodes = np.linspace(-5, 5, 61)
        weights = np.exp(-0.5 * nodes**2)
        total = 0.0
        for z, w in zip(nodes, weights / weights.sum(), strict=True):
            total = total + w * _wait(theta + spread * z, x, np.maximum, np.where)
        return total

    return Hard(
        problem=pg.Problem(
            cost=lambda x, load: jnp.sum(_wait(load, x, jnp.maximum, jnp.where)),
            model=lambda x, theta: dist.Normal(theta, spread).to_event(1),
            feasible=Box(0.0, 200.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(4, 15.0), jnp.full(4, 8.0)),
        starts=[[1.0] * 4, [150.0] * 4],
        batch=lambda rng, t, x: rng.normal(truth, spread, (4, 4)),
        expected_cost=None,
        parts=parts,
        support=few,
        search=separable(np.zeros(4), np.full(4, 200.0)),
    )


@register("dimensions")
def five_channels() -> Hard:
    """A budget of 40 for channels that need about ten each: some get it, others nothing."""
    truth = np.array([1.0, 0.8, 1.2, 0.9, 0.7])
    need = np.array([6.0, 9.0, 14.0, 12.0, 8.0])

    def sold(x):
        return 100 * x**3 / (x**3 + need**3)

    def best(stage):
        # all ways to share the budget on a grid, channel by channel, then polished
        steps = np.linspace(0.0, 40.0, 401)
        table = stage.each(np.broadcast_to(steps[:, None], (401, 5)))
        value, choice = np.full((6, 401), np.inf), np.zeros((6, 401), int)
        value[0] = 0.0
        for i in range(5):
            for used in range(401):
                ways = value[i, used::-1][: used + 1] + table[: used + 1, i]
                choice[i + 1, used] = np.argmin(ways)
                value[i + 1, used] = ways.min()
        x, used = np.zeros(5), 400
        for i in range(5, 0, -1):
            x[i - 1] = steps[choice[i, used]]
            used -= choice[i, used]
        rule = {"type": "ineq", "fun": lambda x: 40.0 - x.sum()}
        polish = many_starts(
            np.zeros(5), np.full(5, 40.0), [rule], tries=8, polished=0, guess=lambda s: [x]
        )
        return polish(stage)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: jnp.sum(0.5 * x - xi * sold(x)),
            model=lambda x, theta: dist.Normal(theta, 0.2).to_event(1),
            feasible=pg.feasible.Budget(0.0, 40.0, jnp.ones(5), 40.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.ones(5), jnp.full(5, 0.3)),
        starts=[[1.0] * 5, [8.0] * 5, [0.0, 0.0, 0.0, 0.0, 40.0]],
        batch=lambda rng, t, x: rng.normal(truth, 0.2, (6, 5)),
        expected_cost=None,
        parts=lambda x, theta: 0.5 * x - theta * sold(x),
        search=best,
    )


@register("dimensions")
def mix_and_level() -> Hard:
    """Three shares and a level: what is sold grows with the root of share times level."""
    truth = np.array([2.0, 5.0, 9.0])

    def best(theta, weights):
        mean = weights @ theta
        level = min((mean**2).sum() / 4, 200.0)
        return np.append(mean**2 / (mean**2).sum(), level)

    def expected(x, theta):
        amount = np.maximum(x[..., :3], 0.0) * x[..., 3:]
        return x[..., 3] - (theta * np.sqrt(np.maximum(amount, 0.0))).sum(axis=-1)

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: x[3] - jnp.sum(xi * jnp.sqrt(x[:3] * x[3] + 1e-12)),
            model=lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
            feasible=pg.feasible.Product((pg.feasible.Simplex(), Box(0.0, 200.0)), (3, 1)),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.full(3, 5.0), jnp.full(3, 2.0)),
        starts=[[1 / 3, 1 / 3, 1 / 3, 1.0], [1.0, 0.0, 0.0, 150.0]],
        batch=lambda rng, t, x: rng.normal(truth, 1.0, (6, 3)),
        expected_cost=expected,
        search=closed(best),
    )


@register("dimensions")
def disc_of_shops() -> Hard:
    """A depot within a disc, with a distance that a town outside the disc pulls on."""
    shops = np.array([[3.0, 0.0], [-2.0, 2.0], [0.0, -4.0]])

    def ways(x, place, root):
        gaps = ((x[..., None, :] - shops) ** 2).sum(axis=-1)
        far = ((x - place) ** 2).sum(axis=-1)
        return root(gaps + 1e-6).sum(axis=-1) + 4 * root(far + 1e-6)

    z, w = np.polynomial.hermite_e.hermegauss(7)
    noise = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    shares = np.outer(w, w).ravel() / w.sum() ** 2

    def expected(x, theta):
        return sum(s * ways(x, theta + e, np.sqrt) for e, s in zip(noise, shares, strict=True))

    return Hard(
        problem=pg.Problem(
            cost=lambda x, xi: ways(x, xi, jnp.sqrt),
            model=lambda x, theta: dist.Normal(theta, 1.0).to_event(1),
            feasible=pg.feasible.Ball(jnp.zeros(2), 5.0),
        ),
        belief=lambda: pg.beliefs.Normal(jnp.zeros(2), jnp.full(2, 10.0)),
        starts=[[0.0, 0.0], [-3.0, -3.0]],
        batch=lambda rng, t, x: rng.normal([9.0, 8.0], 1.0, (4, 2)),
        expected_cost=expected,
        support=joint(7),
        search=many_starts(
            np.full(2, -5.0),
            np.full(2, 5.0),
            [{"type": "ineq", "fun": lambda x: 25.0 - (x**2).sum()}],
            tries=256,
            polished=3,
            guess=lambda s: [np.zeros(2)],
        ),
    )

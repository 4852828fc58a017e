"""Members that differ in numbers, weighed by what they foresaw."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.beliefs import Gamma, Gaussian, Grid, Mixture, Normal
from postgrad.beliefs.belief import Belief
from postgrad.numerics.fixed import fixed
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch

RATES = (1.0, 0.9, 0.5)
SIZES = [(4, 5), ()]
X = jnp.zeros(())
POINTS = np.arange(1.0, 200.0)


def poisson(x, theta):
    return dist.Poisson(theta)


def bank(kind, *numbers, rates=RATES):
    return [kind(*numbers, forget=rate) for rate in rates]


@eqx.filter_jit
def learn(belief, data, model=poisson):
    """One unit of time before each."""

    def one(belief, y):
        return belief.advance(1.0).update(model, X, y[None]), None

    return jax.lax.scan(one, belief, jnp.asarray(data, float))[0]


@eqx.filter_jit
def foresee(belief, ys, model=poisson):
    """log f_hat of each row."""
    return jax.vmap(lambda y: belief.log_mixture(model, X, y))(jnp.asarray(ys))


@eqx.filter_jit
def update(belief, batch):
    return belief.update(poisson, batch.x, batch.y, batch.weight)


@eqx.filter_jit
def foresee_and_update(belief, batch):
    return belief.predict_and_update(poisson, batch)


def gamma_predictions(data, rate, shape=2.0, inverse=0.5):
    """log f_hat of each row by a Gamma belief whose past fades before each, in closed form."""
    total = count = 0.0
    for y in data:
        total, count = rate * total, rate * count
        a, b = shape + total, inverse + count
        yield stats.nbinom.logpmf(y, a, b / (b + 1.0))
        total, count = total + y, count + 1.0


def test_members_are_weighed_by_what_they_foresaw():
    """By the belief that has faded already when a row comes."""
    data = [3, 4, 2, 9, 11, 10]
    learned = learn(Mixture(bank(Gamma, 2.0, 0.5)), data)
    logs = [sum(gamma_predictions(data, rate)) for rate in RATES]
    expected = np.exp(logs - np.max(logs))
    np.testing.assert_allclose(learned.probabilities, expected / expected.sum(), rtol=1e-9)


def test_weights_are_discounted_by_the_time_between_data():
    data = [3, 4, 2, 9, 11, 10]
    learned = learn(Mixture(bank(Gamma, 2.0, 0.5), discount=0.8), data)
    each = np.array([list(gamma_predictions(data, rate)) for rate in RATES])
    logs = each @ 0.8 ** np.arange(len(data))[::-1]
    np.testing.assert_allclose(learned.log_weights, logs - logs.max(), rtol=1e-9)


def test_weights_stay_as_they_were_learned_until_data_come():
    """However far ahead one looks; a row without weight is no data."""
    learned = learn(Mixture(bank(Gamma, 2.0, 0.5), discount=0.8), [3, 4, 2, 9, 11, 10])
    far = learned.advance(20.0)
    np.testing.assert_array_equal(far.log_weights, learned.log_weights)
    none = update(far, Batch(X, jnp.asarray([90.0]), jnp.zeros(1)))
    assert none.idle == far.idle == 20.0
    np.testing.assert_array_equal(none.log_weights, learned.log_weights)
    row = Batch(X, jnp.asarray([7.0]), jnp.ones(1))
    new = update(none, row)
    assert new.idle == 0.0
    logs = 0.8**20 * learned.log_weights + jnp.stack(
        [member.log_mixture(poisson, X, row.y[0]) for member in far.members]
    )
    np.testing.assert_allclose(new.log_weights, logs - logs.max(), rtol=1e-9)
    assert Mixture(bank(Gamma, 2.0, 0.5)).idle is None


def test_the_world_tells_how_fast_it_changes():
    rng = np.random.default_rng(0)
    still = rng.poisson(10.0, 300)
    moving = rng.poisson(np.where(np.arange(300) // 20 % 2, 4.0, 20.0))
    belief = Mixture(bank(Gamma, 2.0, 0.2))
    assert learn(belief, still).probabilities[0] > 0.9
    assert learn(belief, moving).probabilities[0] < 1e-6


def test_one_member_is_that_belief():
    data, y = [3.0, 4.0, 2.0], np.array([4.0])
    alone = learn(Gamma(2.0, 0.5, forget=0.8), data)
    among = learn(Mixture([Gamma(2.0, 0.5, forget=0.8)]), data)
    np.testing.assert_allclose(foresee(among, y), foresee(alone, y), rtol=1e-12)
    assert among.effective_size == pytest.approx(float(alone.effective_size))


class OfDispersion(Belief):
    """The level of a count, by its law on a few points; theta tells the dispersion as well.

    No memory, and none of the room's own classes: the contract alone.
    """

    dispersion: jax.Array = fixed()
    log_weights: jax.Array

    def __init__(self, dispersion):
        self.dispersion = jnp.asarray(dispersion)
        self.log_weights = jnp.zeros(30)

    @property
    def thetas(self):
        return {
            "level": jnp.arange(1.0, 31.0),
            "dispersion": jnp.broadcast_to(self.dispersion, (30,)),
        }

    def _log_f(self, model, x, y):
        return jax.vmap(lambda theta: model(x, theta).log_prob(y))(self.thetas)

    def update(self, likelihood, x, batch, weight=None, key=None):
        log_f = jax.vmap(lambda y: self._log_f(likelihood, x, y))(batch)
        return replaced(self, log_weights=self.log_weights + Batch(x, batch, weight).total(log_f))

    @property
    def effective_size(self):
        return jnp.zeros(())

    def sample(self, key, shape=()):
        index = random.categorical(key, self.log_weights, shape=shape)
        return jax.tree.map(lambda leaf: leaf[index], self.thetas)

    def mean(self):
        shares = jax.nn.softmax(self.log_weights)
        return jax.tree.map(lambda leaf: shares @ leaf, self.thetas)

    def spread(self):
        shares, mean = jax.nn.softmax(self.log_weights), self.mean()
        return jax.tree.map(lambda leaf, m: jnp.sqrt(shares @ (leaf - m) ** 2), self.thetas, mean)

    def log_mixture(self, model, x, xi):
        shares = jax.nn.log_softmax(self.log_weights)
        return jax.nn.logsumexp(shares + self._log_f(model, x, xi))

    def examples(self):
        return self.thetas

    def bind(self, problem, x):
        return self


def dispersed(x, theta):
    return dist.NegativeBinomial2(theta["level"], theta["dispersion"])


@pytest.mark.slow
def test_numbers_that_members_take_for_known_are_learned():
    """A dispersion that is part of theta: the posterior is that of a grid over both."""
    y = stats.nbinom(2.0, 2.0 / 12.0).rvs(60, random_state=0)  # mean 10, dispersion 2
    belief = Mixture([OfDispersion(size) for size in (0.5, 2.0, 50.0)])
    assert belief.beliefs.dispersion.shape == (3,)
    learned = learn(belief, y, dispersed)
    points = pg.beliefs.product_grid({"dispersion": [0.5, 2.0, 50.0], "level": np.arange(1.0, 31)})
    grid = learn(Grid(points), y, dispersed)
    shares = np.asarray(grid.probabilities).reshape(3, 30).sum(axis=1)
    np.testing.assert_allclose(learned.probabilities, shares, rtol=1e-9)
    assert learned.probabilities[1] > 0.9
    ys = np.arange(5.0)
    found, expected = (foresee(b, ys, dispersed) for b in (learned, grid))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    for name in ("mean", "spread"):
        found, expected = (getattr(b, name)() for b in (learned, grid))
        for key in found:
            np.testing.assert_allclose(found[key], expected[key], rtol=1e-9)
    drawn = learned.sample(random.key(0), (4000,))
    share = np.mean(np.asarray(drawn["dispersion"]) == 2.0)
    assert share == pytest.approx(float(learned.probabilities[1]), abs=0.03)
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, dispersed, pg.feasible.Box(0.0, 99.0))
    agent = pg.Agent(problem, belief, 5.0, **pg.presets.paper())
    agent.observe(y[:3])
    assert agent.belief.beliefs.dispersion.shape == (3,)


def test_what_members_share_is_one_array():
    belief = Mixture([Grid(POINTS, prior, forget=0.9) for prior in (POINTS, POINTS**2)])
    assert belief.beliefs.points.shape == (199,)  # one for all members
    assert belief.beliefs.weights.prior.shape == (2, 199)
    assert belief.beliefs.memory.forget.shape == (2,)
    first, second = belief.members
    np.testing.assert_array_equal(first.points, POINTS)
    np.testing.assert_allclose(second.probabilities, POINTS**2 / np.sum(POINTS**2))


DENSITIES = pg.beliefs.DirichletProcess(dist.Normal(0.0, 1.0))
PARTICLES = [pg.beliefs.Particles(dist.Normal(0.0, 1.0), 8, moves=moves) for moves in (None, 4)]


@pytest.mark.parametrize(
    ("members", "discount", "words"),
    [
        ([], 1, r"beliefs in a list.*got \[\]"),
        (Gamma(2.0, 0.5), 1, "beliefs in a list"),
        ([Gamma(2.0, 0.5), 3.0], 1, "member 2 is 3.0"),
        ([Gamma(2.0, 0.5), Normal(2.0, 0.5)], 1, "member 2 is a Normal, and the first a Gamma"),
        (
            [Gamma(2.0, 0.5), Gamma(2.0, 0.5), Gamma(2.0, 0.5, forget=0.9)],
            1,
            "member 3 has memory.forget = 0.9, and the first None",
        ),
        ([Grid([1, 2]), Grid([1, 2, 3])], 1, r"points of shape \(3,\), and the first .*\(2,\)"),
        ([Grid({"a": [1.0]}), Grid({"b": [1.0]})], 1, r"points with \['b'\]"),
        (PARTICLES, 1, "moves = 4"),
        ([DENSITIES, DENSITIES], 1, "density at new values and a probability"),
        ([pg.beliefs.PosteriorMean(DENSITIES)], 1, "density at new values and a probability"),
        ([Gamma(2.0, 0.5)], 0.0, "discount"),
        ([Gamma(2.0, 0.5)], 1.5, "discount"),
    ],
)
def test_what_is_no_mixture_is_refused(members, discount, words):
    with pytest.raises(errors.PriorError, match=words):
        Mixture(members, discount)


def problem(model):
    return pg.Problem(lambda x, xi: x * xi, model, pg.feasible.Box(0.1, 3.0))


def normal(x, theta):
    return dist.Normal(theta, 2.0)


def heavy(x, theta):
    return dist.StudentT(3.0, theta, 1.0)


def test_members_are_bound_one_by_one():
    belief = Mixture([Gaussian(1.0, scale) for scale in (0.5, 1.0, 2.0)])
    assert not belief.beliefs.exact
    assert belief.bind(problem(normal), jnp.asarray(1.0)).beliefs.exact
    with pytest.raises(errors.ModelError, match="Gamma is the belief"):
        Mixture(bank(Gamma, 2.0, 0.5)).bind(problem(normal), jnp.asarray(1.0))


@pytest.mark.parametrize(
    ("member", "model", "words"),
    [
        (pg.beliefs.Particles(dist.Normal(0.0, 1.0), 8), heavy, "keep all data"),
        (Grid(np.linspace(0.0, 1.0, 5000)), normal, "forget=1.0"),
    ],
)
def test_members_whose_arrays_grow_are_refused(member, model, words):
    with pytest.raises(errors.ModelError, match=words):
        Mixture([member, member]).bind(problem(model), jnp.asarray(1.0))


def test_members_that_move_their_draws():
    """Particles with sums of statistics, under priors of different scales: exact up to draws."""
    members = [pg.beliefs.Particles(dist.Normal(0.0, scale), 2000) for scale in (0.5, 4.0)]
    belief = Mixture(members).bind(problem(normal), jnp.asarray(1.0))
    y = jnp.asarray([4.0, 5.0, 3.0])
    learned = eqx.filter_jit(lambda b: b.update(normal, X, y, None, random.key(1)))(belief)
    # Each observation is weighed by the density before the batch.
    logs = [stats.norm(0.0, np.hypot(scale, 2.0)).logpdf(y).sum() for scale in (0.5, 4.0)]
    expected = np.exp(logs - np.max(logs))
    np.testing.assert_allclose(learned.probabilities, expected / expected.sum(), atol=0.02)
    assert float(learned.members[1].mean()) == pytest.approx(4.0 * 12 / 12.25 / 1.0625, abs=0.5)


def test_a_member_that_the_data_exclude_is_left_behind():
    """Grids of uniform laws, of which the first cannot have produced 7."""

    def uniform(x, theta):
        return dist.Uniform(0.0, theta, validate_args=False)

    belief = Mixture([Grid([2.0, 4.0], forget=0.9), Grid([5.0, 9.0], forget=0.9)])
    learned = learn(belief, [1.0, 7.0, 3.0], uniform)
    assert learned.probabilities.tolist() == [0.0, 1.0]
    assert learned.mean() == pytest.approx(9.0)
    assert np.isfinite(learned.beliefs.weights.values[0]).all()
    np.testing.assert_allclose(foresee(learned, [8.0], uniform), -np.log(9.0))
    lost = learn(learned, [10.0], uniform)
    assert np.isnan(lost.mean())


@pytest.mark.parametrize("rows", [3, 1500])
@pytest.mark.parametrize("kind", ["gamma", "grid", "grids"])
def test_what_is_foreseen_is_what_was_believed_before(kind, rows):
    """Learned and foreseen at once is the same as one after the other, member by member."""
    members = {
        "gamma": bank(Gamma, 2.0, 0.5),
        "grid": bank(Grid, POINTS),
        "grids": [Grid(POINTS + i, forget=rate) for i, rate in enumerate(RATES)],
    }[kind]
    y = np.random.default_rng(0).poisson(9.0, rows).astype(float)
    weight = np.asarray(np.arange(rows) % 3 != 1, float)
    batch = Batch(X, jnp.asarray(y), jnp.asarray(weight))
    before = learn(Mixture(members), [7, 12, 4])
    after, foreseen = foresee_and_update(before, batch)
    np.testing.assert_allclose(foreseen, foresee(before, y), rtol=1e-12)
    logs = np.array(before.log_weights)
    for m, member in enumerate(after.members):
        alone = learn(members[m], [7, 12, 4])
        logs[m] += np.asarray(foresee(alone, y)) @ weight
        pairs = zip(jax.tree.leaves(member), jax.tree.leaves(update(alone, batch)), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(after.log_weights, logs - logs.max(), rtol=1e-9, atol=1e-9)


def linear(x, theta):
    return dist.Normal(theta["base"] - theta["slope"] * x, 2.0)


@pytest.mark.parametrize(
    ("members", "data", "model"),
    [
        (bank(Grid, POINTS), [7, 12, 4, 30, 33], poisson),
        ([Grid(POINTS + i, forget=r) for i, r in enumerate(RATES)], [7, 12, 4], poisson),
        (
            [Gaussian({"base": i, "slope": [1.0, 2.0]}, 2.0, forget=0.9) for i in (1.0, 2.0, 3.0)],
            [7, 12],
            lambda x, theta: linear(x, {"base": theta["base"], "slope": jnp.sum(theta["slope"])}),
        ),
    ],
)
def test_draws_are_those_of_the_members(members, data, model):
    """As many from each as its weight says, and each the member's own with the same key."""
    belief = learn(Mixture(members), data, model)
    which = jnp.asarray(np.random.default_rng(0).integers(0, 3, 400))

    @eqx.filter_jit
    def draws(belief):
        stack, axes, key = belief.beliefs, belief.axes, random.key(1)
        return stack.sample_among(axes, which, key), Belief.sample_among(stack, axes, which, key)

    for one, other in zip(*map(jax.tree.leaves, draws(belief)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
        assert len(np.unique(one)) > 3
    shapes = eqx.filter_eval_shape(lambda: [belief.sample(random.key(2), n) for n in SIZES])
    leading = [jax.tree.leaves(drawn)[0].shape for drawn in shapes]
    assert leading == SIZES


def test_nothing_is_computed_that_does_not_change_with_time():
    belief = Mixture([Gamma(2.0, 0.5), Gamma(3.0, 0.5)])
    assert jax.make_jaxpr(lambda b: b.advance(2.0))(belief).eqns == []


def test_forty_two_members_are_one_map():
    """The program is as long as that of two members."""

    def length(count):
        scales = np.geomspace(0.1, 10.0, count)
        belief = Mixture([Gaussian({"a": 0.0, "b": 0.0}, scale, forget=0.99) for scale in scales])
        y = jnp.zeros(3)
        program = jax.make_jaxpr(lambda b: b.advance(1.0).update(poisson_of_both, X, y))(belief)
        return len(str(program))

    assert length(42) < 1.2 * length(2)


def poisson_of_both(x, theta):
    return dist.Poisson(jnp.exp(theta["a"] + theta["b"] * x))

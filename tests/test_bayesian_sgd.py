"""The algorithm: the paper's steps, its variants, and what goes wrong at the door."""

import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import optax
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.research.problems import quadratic

ONE = quadratic.univariate_dependent()

# The algorithm is an argument, so that all that differ in numbers alone share one program; what
# nobody asks for (all of Info, in the first) is not compiled.
forward = eqx.filter_jit(lambda algorithm, *args, **named: algorithm.step(*args, **named)[0])
inform = eqx.filter_jit(lambda algorithm, state, batch, ask: ask(algorithm.step(state, batch)[1]))


def paper(problem=ONE.problem, **changes):
    return pg.BayesianSGD(problem, **pg.presets.paper(**changes))


def run(algorithm, belief, x, batches, state=None):
    state = algorithm.init(belief, x) if state is None else state
    for batch in batches:
        state = forward(algorithm, state, jnp.asarray(batch))
    return state


def data(count, size=2, seed=0):
    return np.random.default_rng(seed).normal(6.0, 4.0, (count, size))


def test_one_stage_is_the_formula_of_the_paper():
    """Algorithm 2.2 by hand: same draws of theta and xi, everything else in plain NumPy."""
    algorithm = paper(iterations=2, seed=3)
    belief, x, y = pg.beliefs.Grid(ONE.points), 1.5, np.array([5.0, 2.0])
    state = forward(algorithm, algorithm.init(belief, x), jnp.asarray(y))

    theta = np.arange(1.0, 31.0)
    pi = np.prod(stats.norm.pdf(y[:, None], x + theta, 4.0), axis=0)
    pi /= pi.sum()
    np.testing.assert_allclose(state.belief.probabilities, pi, rtol=1e-10)
    key = random.fold_in(random.key(3), 1)
    draws = state.belief.sample(random.fold_in(key, 0), (2, 1))[:, 0]
    for j, theta_j in enumerate(draws):
        xi = x + theta_j + 4.0 * random.normal(random.fold_in(key, 2 + j))
        f = stats.norm.pdf(xi, x + theta, 4.0)
        score = (pi * f * (xi - x - theta) / 16.0).sum() / (pi * f).sum()
        gradient = 2 * x - 10 + 0.5 * xi + ((x - 5) ** 2 + 0.5 * xi * x) * score
        x = np.clip(x - 2 / (1 + 5) * gradient, -20, 20)
    assert float(state.x) == pytest.approx(float(x), rel=1e-10)
    assert int(state.stage) == 2


@pytest.mark.parametrize(
    "options", [pg.presets.paper(output=pg.outputs.Average(), iterations=3), {}]
)
def test_resumed_is_bit_identical(options):
    """Stopped, saved, restored and continued: the same bits as without a stop."""
    algorithm = pg.BayesianSGD(ONE.problem, **options)
    belief, batches = pg.beliefs.Grid(ONE.points), data(20)
    whole = run(algorithm, belief, 0.0, batches)
    half = run(algorithm, belief, 0.0, batches[:11])
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, half)
    buffer.seek(0)
    restored = eqx.tree_deserialise_leaves(buffer, algorithm.init(belief, 0.0))
    assert eqx.tree_equal(run(algorithm, belief, 0.0, batches[11:], restored), whole)


def test_state_keeps_its_types():
    """Else a loop over stages compiles twice."""
    for options in (
        {},
        {"output": pg.outputs.Average()},
        {"output": pg.outputs.RandomIterate()},
        pg.presets.paper(),
        {"steps": optax.adam(0.1)},
        {"steps": pg.descents.SGLD(0.1, 1.0)},
    ):
        algorithm = pg.BayesianSGD(ONE.problem, **options)
        start = algorithm.init(pg.beliefs.Grid(ONE.points), 0.0)
        traced = jax.make_jaxpr(lambda state: algorithm.step(state, jnp.ones(1))[0])  # noqa: B023
        assert [jax.typeof(leaf) for leaf in jax.tree.leaves(start)] == traced(start).out_avals


def test_decision_in_force_can_be_named():
    """Late data are credited to the decision under which they arose."""
    algorithm = paper()
    start = algorithm.init(pg.beliefs.Grid(ONE.points), 0.0)
    late = forward(algorithm, start, jnp.asarray([6.0]), x=jnp.asarray(3.0))
    expected = pg.beliefs.Grid(ONE.points).update(
        ONE.problem.model, jnp.asarray(3.0), jnp.asarray([6.0])
    )
    assert eqx.tree_equal(late.belief, expected)


def course_of(info):
    return info.course


def foreseen(info):
    return info.log_predictive


def test_samples_are_averaged_and_their_noise_reported():
    algorithm = paper(gradient=pg.gradients.Score(), samples=4000)
    state, batch = algorithm.init(pg.beliefs.Known(4.0), 1.0), jnp.asarray([5.0])
    course = inform(algorithm, state, batch, course_of)
    assert abs(float(course.gradient[0]) - (3 * 1.0 - 8)) < 4.5 * float(course.noise[0])
    assert np.isnan(inform(paper(), state, batch, course_of).noise).all()


def test_info_tells_the_predictive_density():
    algorithm = pg.BayesianSGD(ONE.problem)
    known = inform(
        algorithm, algorithm.init(pg.beliefs.Known(4.0), 1.0), jnp.asarray([5.0, 9.0]), foreseen
    )
    np.testing.assert_allclose(known, stats.norm.logpdf([5.0, 9.0], 5.0, 4.0))
    # under the belief before the batch, not after it
    start = algorithm.init(pg.beliefs.Grid(ONE.points), 1.0)
    believed = inform(algorithm, start, jnp.asarray([5.0]), foreseen)
    prior = np.mean(stats.norm.pdf(5.0, 1.0 + np.arange(1.0, 31.0), 4.0))
    np.testing.assert_allclose(believed, [np.log(prior)])


def test_noise_is_the_standard_error():
    """Over seeds, the estimates spread as much as the noise says."""
    algorithm = paper(gradient=pg.gradients.Score(), samples=25)
    start = algorithm.init(pg.beliefs.Known(4.0), 1.0)

    def course(seed):
        seeded = eqx.tree_at(lambda a: a.key, algorithm, random.key(seed))
        return seeded.step(start, jnp.asarray([5.0]))[1].course

    found = jax.jit(jax.vmap(course))(jnp.arange(300))
    assert np.sqrt(np.mean(found.noise**2)) == pytest.approx(float(np.std(found.gradient)), rel=0.2)


@pytest.mark.parametrize(
    "steps",
    [
        pg.step_sizes.Harmonic(0.5),
        pg.step_sizes.Harmonic(2.0, 5.0),
        pg.step_sizes.InverseSqrt(0.1),
        pg.step_sizes.Constant(0.1, 100),
        0.01,
        optax.exponential_decay(0.3, 50, 0.9),
        optax.adam(0.05),
        optax.sgd(0.05, momentum=0.5),
    ],
    ids=["a/t", "a/(t+b)", "a/sqrt(t)", "a/sqrt(T)", "number", "schedule", "adam", "momentum"],
)
def test_every_kind_of_step_descends(steps):
    algorithm = pg.BayesianSGD(ONE.problem, steps=steps, samples=16)
    state = run(algorithm, pg.beliefs.Known(4.0), -5.0, np.full((400, 1), 6.0))
    assert abs(float(state.x) - 8 / 3) < 0.5


def test_step_sizes_are_those_of_the_paper():
    t = jnp.arange(1, 5)
    np.testing.assert_allclose(pg.step_sizes.Harmonic(2.0, 5.0)(t), 2 / (np.arange(1, 5) + 5))
    np.testing.assert_allclose(pg.step_sizes.Harmonic(3.0)(t), 3 / np.arange(1, 5))
    np.testing.assert_allclose(pg.step_sizes.InverseSqrt(3.0)(t), 3 / np.sqrt(np.arange(1, 5)))
    np.testing.assert_allclose(pg.step_sizes.Constant(3.0, horizon=100)(t), 0.3)


def test_step_size_follows_the_stage_not_the_iteration():
    """a_{t,j} = a_t: with a deterministic gradient, K steps of one size."""
    problem = pg.Problem(lambda x, xi: x, lambda x, theta: dist.Normal(theta, 1.0))
    algorithm = pg.BayesianSGD(problem, steps=pg.step_sizes.Harmonic(1.0), iterations=3)
    state = run(algorithm, pg.beliefs.Known(0.0), 0.0, [[0.0], [0.0]])
    assert float(state.x) == pytest.approx(-3.0 - 3.0 / 2)


def test_random_iterate_has_the_probabilities_of_the_rate_theorem():
    """z_T = x_t with probability a_t / sum a, t = 1..T."""
    problem = pg.Problem(lambda x, xi: -x, lambda x, theta: dist.Normal(theta, 1.0))
    runs, horizon = 20_000, 4
    algorithm = pg.BayesianSGD(
        problem, steps=pg.step_sizes.Harmonic(1.0), output=pg.outputs.RandomIterate()
    )
    result = pg.simulate(algorithm, pg.beliefs.Known(0.0), 0.0, 0.0, runs=runs, horizon=horizon)
    iterates = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, horizon))])  # x_1, ..., x_T
    counts = [np.isclose(result.decisions[:, -1], x).sum() for x in iterates]
    expected = 1 / np.arange(1, horizon + 1)
    assert sum(counts) == runs
    assert stats.chisquare(counts, runs * expected / expected.sum()).pvalue > 1e-3


def test_random_iterate_weighs_optax_steps_alike():
    problem = pg.Problem(lambda x, xi: -x, lambda x, theta: dist.Normal(theta, 1.0))
    algorithm = pg.BayesianSGD(problem, steps=optax.sgd(1.0), output=pg.outputs.RandomIterate())
    result = pg.simulate(algorithm, pg.beliefs.Known(0.0), 0.0, 0.0, runs=6000, horizon=3)
    counts = [np.isclose(result.decisions[:, -1], x).sum() for x in (0.0, 1.0, 2.0)]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_average_is_the_mean_of_the_iterates():
    batches = data(30)
    states, state = [], None
    algorithm = paper(quadratic.univariate_independent().problem, output=pg.outputs.Average())
    for batch in batches:
        state = run(algorithm, pg.beliefs.Grid(ONE.points), 0.0, [batch], state)
        states.append(float(state.x))
    assert float(state.decision) == pytest.approx(np.mean(states), rel=1e-12)


@pytest.mark.parametrize("options", [{}, pg.presets.paper()], ids=["default", "paper"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
def test_decision_keeps_its_shape(shape, options):
    problem = pg.Problem(
        lambda x, xi: jnp.sum((x - xi) ** 2), lambda x, theta: dist.Normal(theta, 1.0)
    )
    algorithm = pg.BayesianSGD(problem, **options)
    start = algorithm.init(pg.beliefs.Known(2.0), np.zeros(shape))
    state = jax.eval_shape(lambda state: algorithm.step(state, jnp.ones(1))[0], start)
    assert state.x.shape == state.decision.shape == shape


def covariance(x, theta):
    return dist.MultivariateNormal(jnp.zeros(2), jnp.asarray([[1.0, theta], [theta, 1.0]]))


@pytest.mark.parametrize(
    ("problem", "belief", "x", "error"),
    [
        (ONE.problem, pg.beliefs.Known(4.0), np.nan, errors.DecisionError),
        (ONE.problem, pg.beliefs.Known(4.0), True, errors.DecisionError),
        (ONE.problem, pg.beliefs.Known(4.0), "far", errors.DecisionError),
        (ONE.problem, pg.beliefs.Known(4.0), 21.0, errors.DecisionError),
        (ONE.problem, pg.beliefs.Known(4.0), [], errors.DecisionError),
        (ONE.problem, [1.0, 2.0], 0.0, errors.PriorError),
        (
            pg.Problem(lambda x, xi: x > 0, ONE.problem.model),
            pg.beliefs.Known(4.0),
            0.0,
            errors.CostError,
        ),
        (
            pg.Problem(
                lambda x, xi: x,
                lambda x, theta: dist.Bernoulli(jnp.stack([0.5 + 0 * theta, theta])).to_event(1),
            ),
            pg.beliefs.Grid([0.5, 1.5]),
            0.0,
            errors.ModelError,
        ),
        (
            pg.Problem(lambda x, xi: x, lambda x, theta: dist.Normal(0.0, theta)),
            pg.beliefs.Grid([1.0, -1.0]),
            0.0,
            errors.ModelError,
        ),
        (
            pg.Problem(lambda x, xi: x, covariance),
            pg.beliefs.Grid([0.5, 1.5]),  # 1.5 is no correlation: not positive definite
            0.0,
            errors.ModelError,
        ),
        (
            pg.Problem(lambda x, xi: x, lambda x, theta: dist.Normal(jnp.zeros(3), theta)),
            pg.beliefs.Known(1.0),
            0.0,
            errors.ModelError,
        ),
        (
            pg.Problem(lambda x, xi: x, lambda x, theta: theta),
            pg.beliefs.Known(1.0),
            0.0,
            errors.ModelError,
        ),
        (
            pg.Problem(lambda x, xi: jnp.stack([x, x]), ONE.problem.model),
            pg.beliefs.Known(1.0),
            0.0,
            errors.CostError,
        ),
        (
            pg.Problem(lambda x, xi: jnp.log(x), ONE.problem.model),
            pg.beliefs.Known(1.0),
            -1.0,
            errors.CostError,
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(problem, belief, x, error):
    with pytest.raises(error):
        pg.BayesianSGD(problem).init(belief, x)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"steps": 0.0}, errors.StepSizeError),
        ({"steps": -1.0}, errors.StepSizeError),
        ({"steps": np.nan}, errors.StepSizeError),
        ({"steps": True}, errors.StepSizeError),
        ({"steps": lambda t: -1.0 / t}, errors.StepSizeError),
        ({"iterations": 0}, errors.SettingError),
        ({"iterations": 1.5}, errors.SettingError),
        ({"iterations": True}, errors.SettingError),
        ({"samples": -2}, errors.SettingError),
        ({"steps": [0.1, 0.2]}, errors.StepSizeError),
        ({"gradient": "pathwise"}, errors.SettingError),
        ({"gradient": pg.gradients.Pathwise}, errors.SettingError),
        ({"output": "average"}, errors.SettingError),
        ({"output": pg.outputs.Average}, errors.SettingError),
    ],
)
def test_bad_settings_are_refused(options, error):
    with pytest.raises(error):
        pg.BayesianSGD(ONE.problem, **options)


@pytest.mark.parametrize("batch", [np.zeros(0), np.float64(3.0)])
def test_a_batch_has_rows(batch):
    algorithm = paper()
    with pytest.raises(errors.BatchError, match="rows along the leading axis"):
        algorithm.step(algorithm.init(pg.beliefs.Grid(ONE.points), 1.0), batch)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pg.step_sizes.Harmonic(0.0),
        lambda: pg.step_sizes.Harmonic(1.0, -1.0),
        lambda: pg.step_sizes.InverseSqrt(-1.0),
        lambda: pg.step_sizes.Constant(1.0, 0),
        lambda: pg.step_sizes.Harmonic(np.inf),
    ],
)
def test_bad_step_sizes_are_refused(make):
    with pytest.raises(errors.StepSizeError):
        make()


def test_problems_need_a_cost_a_model_and_a_set():
    with pytest.raises(errors.CostError):
        pg.Problem(None, ONE.problem.model)
    with pytest.raises(errors.ModelError):
        pg.Problem(lambda x, xi: x, "normal")
    with pytest.raises(errors.FeasibleSetError):
        pg.Problem(lambda x, xi: x, ONE.problem.model, (0.0, 1.0))

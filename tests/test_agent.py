"""The agent: bad input is refused by name, and leaves no trace."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.kept_likelihood import room
from postgrad.research.problems import quadratic

ONE = quadratic.univariate_dependent()


# Module-level problems, so that agents share programs; what the descent does is not the point here,
# and the paper's compiles faster.
POSITIVE = pg.Problem(
    lambda x, xi: (x - xi) ** 2,
    lambda x, theta: dist.Exponential(1.0 / theta),
    pg.feasible.Box(0, 50),
)
BOUNDED = pg.Problem(lambda x, xi: (x - xi) ** 2, lambda x, theta: dist.Uniform(theta, theta + 2))
VECTOR = pg.Problem(
    lambda x, xi: jnp.sum((x - xi) ** 2),
    lambda x, theta: dist.Normal(theta * jnp.ones(3), 1.0).to_event(1),
)


def agent(**options):
    return pg.Agent(ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, **pg.presets.paper(**options))


def positive():
    return pg.Agent(POSITIVE, pg.beliefs.Grid(jnp.arange(1.0, 9.0)), 1.0, **pg.presets.paper())


def bounded():
    return pg.Agent(BOUNDED, pg.beliefs.Grid([0.0, 1.0, 5.0]), 1.0, **pg.presets.paper())


def vector():
    return pg.Agent(VECTOR, pg.beliefs.Grid([0.0, 1.0]), np.zeros(3), **pg.presets.paper())


BAD = {
    "nan": (agent, [1.0, np.nan], errors.BatchError, "index \\[1\\]"),
    "infinite": (agent, [np.inf], errors.BatchError, "finite"),
    "boolean": (agent, [True], errors.BatchError, "bool"),
    "strings": (agent, ["1.0"], errors.BatchError, "real numbers"),
    "objects": (agent, [None], errors.BatchError, "real numbers"),
    "complex": (agent, [1j], errors.BatchError, "real numbers"),
    "ragged": (agent, [[1.0], [1.0, 2.0]], errors.BatchError, "one shape"),
    "masked": (agent, np.ma.masked_array([1.0, 999.0], [False, True]), errors.BatchError, "masked"),
    "empty": (agent, [], errors.BatchError, "at least one"),
    "empty rows": (vector, np.empty((0, 3)), errors.BatchError, "at least one"),
    "wrong shape": (agent, [[1.0, 2.0]], errors.BatchError, "shape"),
    "wrong width": (vector, [[1.0, 2.0]], errors.BatchError, "shape"),
    "outside the support": (positive, [1.0, -2.0], errors.SupportError, "row 1"),
    "outside every support": (bounded, [1.5, 9.0], errors.SupportError, "row 1"),
    "no theta explains all": (bounded, [0.5, 6.0], errors.ImpossibleDataError, "no theta"),
    "beyond the numbers": (agent, [1e300], errors.ImpossibleDataError, "no theta"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_batch_is_refused_and_leaves_no_trace(name):
    make, batch, error, words = BAD[name]
    subject = make()
    good = np.ones((2, *subject._stream.event_shape))
    subject.observe(good, id="good")
    before = subject.state
    with pytest.raises(error, match=words):
        subject.observe(batch, id="bad")
    assert eqx.tree_equal(subject.state, before)
    assert subject.stage == 1
    subject.observe(good, id="bad")  # the refused batch did not use up its name
    assert subject.stage == 2


def test_same_batch_twice_counts_once():
    subject = agent()
    answer = subject.observe([1.0], id="monday")
    assert subject.observe([2.0], id="tuesday") != answer
    before = subject.state
    assert subject.observe([1.0], id="monday") == answer
    assert eqx.tree_equal(subject.state, before)
    for batch, x in (([1.5], None), ([1.0, 1.0], None), ([1.0], 0.0)):
        with pytest.raises(errors.DuplicateBatchError, match="observed before, at stage 1"):
            subject.observe(batch, id="monday", x=x)
    assert eqx.tree_equal(subject.state, before)


@pytest.mark.parametrize("x", [np.nan, "high", [1.0, 2.0], True])
def test_bad_decision_in_force_is_refused(x):
    subject = agent()
    before = subject.state
    with pytest.raises(errors.DecisionError):
        subject.observe([1.0], x=x)
    assert eqx.tree_equal(subject.state, before)


# exp(26.6^2) is a number, 2x exp(x^2) none
STEEP = pg.Problem(lambda x, xi: jnp.exp(x**2), lambda x, theta: dist.Normal(theta, 1.0))


def test_divergence_is_refused():
    subject = pg.Agent(STEEP, pg.beliefs.Known(0.0), 26.6, **pg.presets.paper())
    before = subject.state
    with pytest.raises(errors.DivergenceError, match="not finite"):
        subject.observe([0.0])
    assert eqx.tree_equal(subject.state, before)


def test_a_search_goes_by_values_where_there_is_no_slope():
    subject = pg.Agent(STEEP, pg.beliefs.Known(0.0), 26.6)
    for _ in range(3):
        subject.observe([0.0])
    assert float(subject.decision) == pytest.approx(0.0, abs=1e-3)


def test_a_search_without_values_is_refused():
    """A cost that is no number for some draws, though not for those that are tried at first."""
    problem = pg.Problem(lambda x, xi: x**2 + jnp.log(xi), lambda x, theta: dist.Normal(theta, 1.0))
    subject = pg.Agent(problem, pg.beliefs.Known(3.0), 1.0)
    refused(subject, errors.DivergenceError, "not finite")


def test_errors_are_value_errors_with_one_root():
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(found) > 10
    assert all(issubclass(error, errors.PostgradError) for error in found)
    assert issubclass(errors.PostgradError, ValueError)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (pg.presets.paper(), (1, 3, 5, 1)),
        pytest.param({}, (3, 4), marks=pytest.mark.slow),  # as tests/test_engine.py does
    ],
)
def test_agent_is_the_algorithm(options, sizes):
    """Padding to a power of two changes nothing."""
    subject = pg.Agent(ONE.problem, pg.beliefs.Grid(ONE.points), 0.0, **options, seed=5)
    algorithm = pg.BayesianSGD(ONE.problem, **options, seed=5)
    state = algorithm.init(pg.beliefs.Grid(ONE.points), 0.0)
    step = eqx.filter_jit(lambda state, batch: algorithm.step(state, batch)[0])
    for size in sizes:
        batch = np.random.default_rng(size).normal(6.0, 4.0, size)
        state = step(state, jnp.asarray(batch))
        assert subject.observe(batch) == pytest.approx(float(state.decision), rel=1e-9)
    np.testing.assert_allclose(subject.belief.probabilities, state.belief.probabilities, rtol=1e-9)


def test_one_observation_needs_no_brackets():
    one, other = agent(), agent()
    assert one.observe(3.0) == other.observe([3.0])
    assert vector().observe([1.0, 2.0, 3.0]).shape == (3,)


def test_batch_sizes_share_compiled_programs():
    traced = []

    def cost(x, xi):
        traced.append(xi)  # Python runs only when a program is made
        return (x - xi) ** 2

    problem = pg.Problem(cost, ONE.problem.model)
    subject = pg.Agent(problem, pg.beliefs.Known(4.0), 0.0, **pg.presets.paper())
    made, rng = [], np.random.default_rng(0)
    for size in range(1, 9):
        subject.observe(rng.normal(4.0 + subject.decision, 4.0, size))
        made.append(len(traced))
    assert subject.stage == 8
    assert len(set(made)) == 1  # what finds the decision does not depend on the size


def test_decision_in_force_counts():
    """The posterior credits the data to the decision that is named."""
    one, other = agent(), agent()
    one.observe([6.0], x=3.0)
    other.observe([6.0])
    expected = pg.beliefs.Grid(ONE.points).update(
        ONE.problem.model, jnp.asarray(3.0), jnp.asarray([6.0])
    )
    np.testing.assert_allclose(one.belief.probabilities, expected.probabilities, rtol=1e-10)
    assert not np.allclose(one.belief.probabilities, other.belief.probabilities)


def test_info_has_one_entry_per_observation():
    subject = agent()
    assert subject.info is None
    subject.observe([1.0, 2.0, 3.0])
    assert subject.info.log_predictive.shape == (3,)


def refused(subject, error, words):
    before = subject.state
    with pytest.raises(error, match=words):
        subject.observe([1.0])
    assert eqx.tree_equal(subject.state, before)


def test_step_size_that_turns_negative_is_refused():
    subject = agent(steps=lambda t: 0.6 - 0.25 * t)
    subject.observe([1.0])
    subject.observe([1.0])
    refused(subject, errors.StepSizeError, "stage 3")


# At zero the slope is infinite.
ROOT = pg.Problem(
    lambda x, xi: (x - 1) ** 2 - jnp.sqrt(x),
    lambda x, theta: dist.Normal(theta, 1.0),
    pg.feasible.Box(0, 10),
)


def test_infinite_gradient_is_refused_although_the_set_is_bounded():
    subject = pg.Agent(ROOT, pg.beliefs.Known(0.0), 0.0, **pg.presets.paper())
    refused(subject, errors.DivergenceError, "not finite")


def test_a_search_leaves_a_place_of_infinite_slope():
    """2 (x - 1) = 1 / (2 sqrt(x)) at 1.2257."""
    subject = pg.Agent(ROOT, pg.beliefs.Known(0.0), 0.0)
    subject.observe([1.0])
    x = float(subject.decision)
    assert 2 * (x - 1) == pytest.approx(0.5 / np.sqrt(x), abs=1e-3)


def test_model_that_turns_improper_is_named():
    problem = pg.Problem(lambda x, xi: (x + 3) ** 2, lambda x, theta: dist.Normal(theta, 1 + x))
    subject = pg.Agent(problem, pg.beliefs.Grid([0.0, 1.0]), 0.0, steps=0.5)
    subject.observe([1.0])
    refused(subject, errors.ModelError, "no proper Normal")


def test_ids_are_strings():
    with pytest.raises(errors.BatchError, match="id"):
        agent().observe([1.0], id=[1])


def stream(agent, mean, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        agent.observe(rng.normal(mean + agent.decision, 4.0, 3))


def test_data_as_foreseen_raise_no_alarm():
    subject = agent()
    stream(subject, 4.0, 300)
    assert subject.alarms == ()
    assert 0.0 < float(subject.info.surprise.pit_location) < 1.0


def test_a_prior_that_excludes_the_data_is_noticed():
    subject = agent()  # theta = 1, ..., 30
    with pytest.warns(
        pg.monitoring.MisspecificationWarning, match="do not look like the model"
    ) as caught:
        stream(subject, -20.0, 5)
    assert caught[0].message.alarm == subject.alarms[0]
    assert subject.alarms[0].stage <= 4
    assert abs(subject.alarms[0].z) > 3.0
    assert subject.stage == 5  # batches count nonetheless


def test_a_world_that_changes_is_noticed():
    subject = agent()
    stream(subject, 4.0, 150)
    with pytest.warns(pg.monitoring.MisspecificationWarning, match="change since batch 1"):
        stream(subject, 12.0, 10, seed=1)
    assert subject.alarms[0].kind == "change"
    assert 145 <= subject.alarms[0].since <= 153


def test_alarms_have_a_level():
    with pytest.raises(errors.SettingError, match="alpha"):
        agent(alpha=0.0)


@pytest.mark.slow
def test_histories_grow_with_the_data():
    """A model without sufficient statistics: the particles' data are kept, however many come."""
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2,
        lambda x, theta: dist.StudentT(5.0, theta, 1.0),
        pg.feasible.Box(-9, 9),
    )
    belief = pg.beliefs.Particles(dist.Normal(0.0, 3.0), 200)
    subject = pg.Agent(problem, belief, 0.0, **pg.presets.paper())
    assert subject.belief.stores_history
    rng, capacities = np.random.default_rng(0), []
    for _ in range(4):  # padded to 512: the third has no room
        subject.observe(1.0 + rng.standard_t(5.0, 400))
        capacities.append(room(subject.state) + int(subject.belief.kept.count))
    assert capacities == [1024, 1024, 4096, 4096]
    assert subject.belief.kept.count == 1600
    particles, weights = subject.belief.thetas, subject.belief.probabilities
    assert float(weights @ particles) == pytest.approx(1.0, abs=0.35)


def test_an_agent_shows_its_numbers():
    subject = agent()
    assert repr(subject) == "Agent(stage=0, decision=0, path=None)"
    subject.observe([6.0])
    assert repr(subject).startswith("Agent(stage=1, decision=")
    assert f"{float(subject.decision):.4g}" in repr(subject)


class Exact(pg.beliefs.Belief):
    """A belief as somebody writes it in a package of their own: N(m, 1 / p), y ~ N(theta, 1)."""

    mean_now: jax.Array
    precision: jax.Array

    def update(self, likelihood, x, batch, weight=None, key=None):
        weight = jnp.ones(batch.shape[0]) if weight is None else weight
        precision = self.precision + jnp.sum(weight)
        return Exact(
            (self.precision * self.mean_now + jnp.sum(weight * batch)) / precision, precision
        )

    @property
    def effective_size(self):
        return self.precision

    def sample(self, key, shape=()):
        return self.mean_now + random.normal(key, shape) / jnp.sqrt(self.precision)

    def mean(self):
        return self.mean_now

    def spread(self):
        return self.precision**-0.5

    def log_mixture(self, model, x, xi):
        return dist.Normal(self.mean_now, jnp.sqrt(1.0 + 1.0 / self.precision)).log_prob(xi)

    def examples(self):
        return self.mean_now + jnp.asarray([0.0, 1.0])

    def bind(self, problem, x):
        return self


def test_a_belief_of_somebodys_own_package_is_used():
    problem = pg.Problem(
        lambda x, xi: (x - xi) ** 2,
        lambda x, theta: dist.Normal(theta, 1.0),
        pg.feasible.Box(-9.0, 9.0),
    )
    belief, batches = Exact(jnp.zeros(()), jnp.ones(())), ([1.0, 2.0], [4.0], [3.0, 2.5, 2.0])
    own = pg.Agent(problem, belief, 0.0, **pg.presets.paper())
    ours = pg.Agent(problem, pg.beliefs.Normal(0.0, 1.0), 0.0, **pg.presets.paper())
    for batch in batches:
        decisions = [float(agent.observe(batch)) for agent in (own, ours)]
        assert decisions[0] == pytest.approx(decisions[1], abs=1e-9)
    assert float(own.belief.mean()) == pytest.approx(14.5 / 7.0)

"""The laws of policies, for every final class of the room, and each one's own formula."""

import io
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from rooms import examples
from scipy import optimize

import postgrad as pg
from postgrad import errors
from postgrad.algorithm.policy import Policy
from postgrad.research import rivals
from postgrad.research.problems import newsvendor, quadratic, sales
from postgrad.research.problems.newsvendor import Newsvendor
from postgrad.research.rivals.model_free import Pace, limits, reach
from postgrad.research.rivals.solver import AverageCost, bisect, descend

DEPENDENT = quadratic.univariate_dependent()
INDEPENDENT = quadratic.univariate_independent()
PLANE = quadratic.multivariate_independent()
VENDOR = pg.Problem(
    Newsvendor(*jnp.asarray([[2.0, 1.0], [4.0, 5.0], [1.0, 0.5]])),
    lambda x, theta: dist.Normal(theta * jnp.ones(2), jnp.asarray([3.0, 4.0])).to_event(1),
    pg.feasible.Box(0.0, 50.0),
)

# (policy, x_1, the truth) for each class: of one number, and of several where that differs
CASES = {
    pg.BayesianSGD: [],  # has laws of its own
    **{
        kind: [
            (kind(DEPENDENT.problem), DEPENDENT.x, DEPENDENT.theta),
            (kind(PLANE.problem), PLANE.x, PLANE.theta),
        ]
        for kind in (rivals.PerfGD, rivals.SampleAverage, rivals.TwoStage)
    },
    rivals.Greedy: [(rivals.Greedy(DEPENDENT.problem), DEPENDENT.x, DEPENDENT.theta)],
    rivals.SPSA: [(rivals.SPSA(DEPENDENT.problem), DEPENDENT.x, DEPENDENT.theta)],
    rivals.Wasserstein: [
        (rivals.Wasserstein(VENDOR, event_shape=(2,)), jnp.asarray([20.0, 1.0]), jnp.asarray(20.0))
    ],
}
CASES[rivals.TwoStage][0] = (
    rivals.TwoStage(DEPENDENT.problem, explorations=3), DEPENDENT.x, DEPENDENT.theta
)  # fmt: skip
ALL = examples("postgrad.research.rivals", Policy, CASES)
LAW = pytest.mark.parametrize(
    ("policy", "x", "theta"), ALL, ids=[f"{type(p).__name__}-{np.size(x)}" for p, x, _ in ALL]
)


@eqx.filter_jit
def step(policy, state, batch, weight=None, x=None):
    """Compiled once for each policy, for all laws together."""
    return policy.step(state, batch, weight=weight, x=x)


@eqx.filter_jit
def draw(policy, state, theta, size):
    key = random.fold_in(random.key(5), state.stage)
    return policy.problem.likelihood(state.decision, theta).sample(key, (size,))


def run(policy, x, theta, stages, state=None, size=3):
    """A plain loop, and the states after each stage."""
    state = policy.init(None, x) if state is None else state
    states = [state]
    for _ in range(stages):
        state, _ = step(policy, state, draw(policy, state, theta, size))
        states.append(state)
    return states


@LAW
def test_decisions_are_feasible(policy, x, theta):
    for state in run(policy, x, theta, 8):
        assert float(policy.problem.feasible.violation(state.decision)) <= 1e-9
        assert state.decision.shape == x.shape
    assert int(state.stage) == 9
    assert state.stage.dtype == jnp.int64


@LAW
def test_restored_state_goes_on_bit_for_bit(policy, x, theta):
    states = run(policy, x, theta, 6)
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, states[3])
    buffer.seek(0)
    restored = eqx.tree_deserialise_leaves(buffer, policy.init(None, x))
    assert eqx.tree_equal(run(policy, x, theta, 3, restored)[-1], states[-1])


@LAW
def test_weight_zero_is_no_observation(policy, x, theta):
    state = run(policy, x, theta, 3)[-1]
    batch = draw(policy, state, theta, 3)
    wild = jnp.stack([batch[0], 1e3 + batch[0], batch[1], batch[2], -7.0 * batch[1]])
    weighted, _ = step(policy, state, wild, jnp.asarray([1.0, 0.0, 1.0, 1.0, 0.0]))
    plain, _ = step(policy, state, batch)
    np.testing.assert_allclose(weighted.decision, plain.decision, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bad", [1e4, np.nan, np.zeros(0), "a"])
def test_bad_initial_decisions_are_refused(bad):
    for kind in WHERE:
        with pytest.raises(errors.DecisionError):
            kind(DEPENDENT.problem).init(None, bad)


class Shifted(eqx.Module):
    """Data around theta + strength * x; one program serves all strengths."""

    strength: jax.Array

    def __call__(self, x, theta):
        return dist.Normal(theta + self.strength * x, 4.0)


def world(strength):
    return pg.Problem(
        DEPENDENT.problem.cost, Shifted(jnp.asarray(strength)), DEPENDENT.problem.feasible
    )


# Where each ends if data depend on the decision: at the stable point, if blind to that, else at the
# optimum. Decisions in force still vary with those that try something out; their mean is near.
WHERE = {
    rivals.Greedy: (3.2, 0.05, 400),
    rivals.SampleAverage: (3.2, 0.05, 100),
    rivals.PerfGD: (8 / 3, 0.3, 400),
    rivals.TwoStage: (8 / 3, 0.05, 100),
    rivals.SPSA: (8 / 3, 0.3, 400),
}


SLOW = {rivals.SampleAverage, rivals.TwoStage}  # they solve a problem at every stage


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in WHERE],
)
def test_ends_where_its_paper_says(kind):
    """And at the optimum, all of them, where data do not depend on the decision."""
    point, tolerance, horizon = WHERE[kind]
    for strength, theta, expected in ((1.0, 4.0, point), (0.0, 9.0, 2.75)):
        result = pg.simulate(
            kind(world(strength)), None, 0.0, theta, runs=20, horizon=horizon, batch_size=20
        )
        assert result.decisions[:, -1].mean() == pytest.approx(expected, abs=tolerance)


def test_simulation_is_the_plain_loop():
    policy, problem = rivals.PerfGD(world(1.0)), world(1.0)
    result = pg.simulate(policy, None, 0.0, 4.0, runs=2, horizon=10, batch_size=20, seed=9)
    for i in range(2):
        key_data, key = random.split(random.fold_in(random.key(9), i))
        seeded = rivals.PerfGD(problem, seed=key)
        state = seeded.init(None, 0.0)
        for t in range(1, 11):
            truth = problem.model(state.decision, 4.0)
            state, _ = step(seeded, state, truth.sample(random.fold_in(key_data, t), (20,)))
            np.testing.assert_allclose(result.decisions[i, t], state.decision, rtol=1e-9)


def test_repeated_gradient_ends_at_the_stable_point():
    entrant = rivals.entrants(DEPENDENT)["repeated-gradient"]
    assert isinstance(entrant.policy.gradient, pg.gradients.Partial)
    plain = pg.BayesianSGD(DEPENDENT.problem, **pg.presets.paper(gradient=pg.gradients.Partial()))
    result = pg.simulate(
        plain, entrant.belief, DEPENDENT.x, DEPENDENT.theta, runs=20, horizon=300, batch_size=5
    )
    assert result.decisions[:, -1].mean() == pytest.approx(3.2, abs=0.1)


def test_greedy_step_by_hand():
    """grad h = 2 (x - 5) + y / 2 at x = 0: -10 + 1.5 on average, times a_1 = 2/6."""
    policy = rivals.Greedy(DEPENDENT.problem, steps=pg.step_sizes.Harmonic(2.0, 5.0))
    state, info = policy.step(policy.init(None, 0.0), jnp.asarray([2.0, 4.0]))
    assert float(info["gradient"]) == pytest.approx(-8.5)
    assert float(state.decision) == pytest.approx(8.5 / 3)


def test_pace_does_not_know_the_unit_of_the_cost():
    start = Pace.start(pg.feasible.Box(0.0, 10.0), jnp.asarray(1.0))
    for unit in (1e-6, 1.0, 1e6):
        pace, moves = start, []
        for t, gradient in enumerate((3.0, -1.0, 2.0), start=1):
            move, pace = pace.follow(jnp.asarray(unit * gradient), jnp.asarray(t), None)
            moves.append(float(move))
        # a twentieth of ten at first; then 6/7 of it, by the root mean square of 3 and 1
        assert moves[:2] == pytest.approx([-0.5, 0.5 * 6 / 7 / np.sqrt(5.0)])


def test_perfgd_learns_the_slope_and_uses_it():
    """Data on the line y = 3 + 2 x: the slope is 2 but for the ridge, and enters the gradient."""
    policy = rivals.PerfGD(DEPENDENT.problem, explore=1e-4, window=10**9)
    state = policy.init(None, 0.0)
    for x in (1.0, -2.0, 4.0):
        y = jnp.asarray([3.0 + 2.0 * x])
        state, info = policy.step(state, y, x=jnp.asarray(x))
    assert float(info["slope"][0, 0]) == pytest.approx(2.0, rel=1e-4)
    # h_x = 2 (x - 5) + y / 2 and h_y = x / 2 at x = 4, y = 11
    assert float(info["gradient"]) == pytest.approx(-2.0 + 5.5 + 2.0 * 2.0, rel=1e-4)


def test_perfgd_forgets_old_slopes():
    policy = rivals.PerfGD(DEPENDENT.problem, explore=1e-4, window=20)
    state, xs = policy.init(None, 0.0), np.random.default_rng(0).normal(size=400)
    for i, x in enumerate(xs):
        slope = 1.0 if i < 200 else -3.0
        state, info = step(policy, state, jnp.asarray([slope * x]), x=jnp.asarray(x))
    assert float(info["slope"][0, 0]) == pytest.approx(-3.0, abs=1e-3)


def test_two_stage_explores_then_solves_its_fit():
    """Data y = 4 + x without noise: H = (x - 5)^2 + x (x + 4) / 2 has its minimum at 8/3."""
    policy = rivals.TwoStage(DEPENDENT.problem, explorations=6)
    state = policy.init(None, 0.0)
    decisions = []
    for _ in range(8):
        state, info = step(policy, state, jnp.reshape(4.0 + state.decision, (1,)))
        decisions.append(float(state.decision))
    assert len(set(decisions[:5])) == 5
    assert max(map(abs, decisions[:5])) <= 10.0  # a quarter of the width of [-20, 20]
    assert float(info["slope"][0, 0]) == pytest.approx(1.0, rel=1e-6)
    assert decisions[5:] == pytest.approx([8 / 3] * 3, rel=1e-5)


def data(seed=0, n=37):
    return np.random.default_rng(seed).normal([20.0, 12.0], [3.0, 4.0], (n, 2))


def test_sample_average_is_the_empirical_quantile():
    """Of the newsvendor: (p - c) / (p - s), for each item."""
    y = data()
    policy = rivals.SampleAverage(VENDOR, event_shape=(2,))
    state, _ = step(policy, policy.init(None, [20.0, 1.0]), jnp.asarray(y))
    ratios = [(4.0 - 2.0) / (4.0 - 1.0), (5.0 - 1.0) / (5.0 - 0.5)]
    exact = [np.quantile(y[:, i], ratios[i], method="inverted_cdf") for i in range(2)]
    np.testing.assert_allclose(state.decision, exact, rtol=1e-9)


def test_sample_average_uses_all_data_and_respects_the_box():
    y = data()
    small = pg.Problem(VENDOR.cost, VENDOR.model, pg.feasible.Box(0.0, 15.0))
    policy = rivals.SampleAverage(small, event_shape=(2,))
    state = policy.init(None, [10.0, 1.0])
    for part in np.split(y[:36], 4):
        state, _ = step(policy, state, jnp.asarray(part))
    second = np.quantile(y[:36, 1], 4.0 / 4.5, method="inverted_cdf")
    np.testing.assert_allclose(state.decision, [15.0, min(15.0, second)], rtol=1e-9)


def test_solvers_agree_with_scipy():
    """Descent on a simplex, where entries are tied to each other, and bisection without bounds."""
    rows = jnp.asarray(np.random.default_rng(1).normal([0.1, 0.3, 0.2], size=(30, 3)))
    weight = jnp.ones(30)

    def cost(x, row):
        return jnp.sum((x - row) ** 2) + 0.5 * (x @ row) ** 2

    x, step = jnp.full(3, 1 / 3), jnp.ones(())
    of = AverageCost(cost, rows, weight)
    solve = jax.jit(lambda x, step: descend(of, x, pg.feasible.Simplex(), step, 20))
    for _ in range(5):
        x, step = solve(x, step)
    mean = jax.jit(lambda x: jnp.mean(jax.vmap(lambda row: cost(x, row))(rows)))
    best = optimize.minimize(
        mean, np.full(3, 1 / 3), jac=jax.jit(jax.grad(mean)), bounds=[(0, 1)] * 3,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1}, options={"ftol": 1e-14},
    )  # fmt: skip
    np.testing.assert_allclose(x, best.x, atol=1e-5)
    of = AverageCost(lambda x, y: (x - y) ** 2, rows[:, 0], weight)
    low = bisect(of, jnp.asarray(9.0), pg.feasible.Reals())
    assert float(low) == pytest.approx(float(rows[:, 0].mean()), abs=1e-9)


def test_wasserstein_is_the_least_worst_cost():
    """The closed form against the dual, minimised by brute force over the order and l."""
    y, (c, p, s) = data(3), (np.asarray(v) for v in ([2.0, 1.0], [4.0, 5.0], [1.0, 0.5]))
    b = p - s

    def dual(v, radius):
        x, multiplier = v[:2], np.exp(v[2])
        inner = np.maximum(0.0, b * (x - y) + b**2 / (4 * multiplier))
        return (c - p) @ x + inner.sum(axis=1).mean() + multiplier * radius**2

    policy = rivals.Wasserstein(VENDOR, event_shape=(2,), radius=10.0)
    state, info = step(policy, policy.init(None, [20.0, 1.0]), jnp.asarray(y))
    radius = float(info["radius"])
    assert radius == pytest.approx(10.0 * np.sqrt(y.var(axis=0).sum() / 37))
    loss = b / (2 * np.sqrt(((p - c) * b).sum()))
    quantiles = np.asarray(state.decision) + radius * loss
    log_multiplier = np.log(np.sqrt(((p - c) * b).sum()) / (2 * radius))
    at_ours = dual([*np.asarray(state.decision), log_multiplier], radius)
    others = np.random.default_rng(0).normal(scale=[1.0, 1.0, 0.5], size=(20_000, 3))
    start = np.asarray([*np.asarray(state.decision), log_multiplier])
    assert at_ours <= min(dual(start + d, radius) for d in others[:5000] * 0.3) + 1e-9
    ratios = (p - c) / b
    exact = [np.quantile(y[:, i], ratios[i], method="inverted_cdf") for i in range(2)]
    np.testing.assert_allclose(quantiles, exact, rtol=1e-8)


def test_wasserstein_bound_is_attained_by_a_worst_case():
    """Duality itself: moving the demands below x + shift down by a constant attains the bound."""
    y, b, x, radius = data(4)[:, 0], 3.0, 19.0, 0.8

    def dual(log_multiplier):
        m = np.exp(log_multiplier)
        return m * radius**2 + np.maximum(0.0, b * (x - y) + b**2 / (4 * m)).mean()

    bound = optimize.minimize_scalar(dual, bounds=(-6, 6), method="bounded").fun
    worst = 0.0
    for k in range(1, len(y) + 1):  # the k smallest demands go down, by as much as the ball allows
        moved = np.sort(y)
        moved[:k] -= radius * np.sqrt(len(y) / k)
        worst = max(worst, b * np.maximum(0.0, x - moved).mean())
    assert worst <= bound + 1e-9
    assert worst == pytest.approx(bound, rel=5e-3)  # up to mass that would have to be split


@pytest.mark.parametrize(
    "problem", [DEPENDENT.problem, pg.Problem(VENDOR.cost, VENDOR.model, pg.feasible.Simplex())]
)
def test_wasserstein_refuses_what_it_has_no_formula_for(problem):
    with pytest.raises((errors.CostError, errors.FeasibleSetError), match="Wasserstein"):
        rivals.Wasserstein(problem)


def test_spsa_gradient_by_hand():
    """Trials at x + c D and x - c D; costs of 7 and 3 there give a slope of 4 / (2 c D)."""
    problem = pg.Problem(lambda x, xi: xi, DEPENDENT.problem.model, pg.feasible.Box(-20.0, 20.0))
    policy = rivals.SPSA(problem, explore=0.1, first=0.01)
    state = policy.init(None, 1.0)
    state, _ = policy.step(state, jnp.asarray([0.0]))
    plus = float(state.decision)
    assert abs(plus - 1.0) == pytest.approx(4.0)
    state, _ = policy.step(state, jnp.asarray([7.0]))
    assert float(state.decision) == pytest.approx(2.0 - plus)  # the other side
    assert float(state.x) == 1.0
    state, _ = policy.step(state, jnp.asarray([3.0]))
    # the first gradient is its own size, so the step is a hundredth of the width, downhill
    assert float(state.x) == pytest.approx(1.0 - 0.4 * np.sign(plus - 1.0))
    assert abs(float(state.decision - state.x)) == pytest.approx(4.0 * 2.0**-0.101)


def test_limits_and_reach():
    low, high = limits(pg.feasible.Box([0.0, -1.0], [2.0, 5.0]), jnp.asarray([1.0, 0.0]))
    assert np.array_equal(low, [0.0, -1.0])
    assert np.array_equal(high, [2.0, 5.0])
    np.testing.assert_allclose(reach(pg.feasible.Simplex(), jnp.asarray([0.2, 0.8])), [1.0, 1.0])
    np.testing.assert_allclose(reach(pg.feasible.Reals(), jnp.asarray([3.0, -1.0])), [4.0, 4.0])


def test_entrants_leave_out_what_does_not_apply_and_say_why():
    for instance, missing in (
        (DEPENDENT, {"wasserstein"}),
        (INDEPENDENT, {"wasserstein", "repeated-gradient"}),
        (sales.censored(), {"repeated-gradient", "perfgd", "two-stage", "saa", "wasserstein"}),
    ):
        able, out = rivals.entrants(instance), rivals.left_out(instance)
        assert set(out) == missing
        assert set(able) | missing == set(rivals.names())
        assert all(reason and not re.search("0x", reason) for reason in out.values())


def test_entrants_notice_data_that_do_not_tell_the_cost():
    """Noisy readings of demand say neither what was paid nor its derivative."""
    censored = sales.censored()
    noisy = eqx.tree_at(
        lambda instance: instance.problem,
        censored,
        pg.Problem(
            censored.problem.cost,
            censored.problem.model,
            censored.problem.feasible,
            lambda x, theta: dist.LogNormal(jnp.log(theta), 0.7),
        ),
    )
    assert {"greedy", "spsa"} <= set(rivals.entrants(censored))
    assert not {"greedy", "spsa"} & set(rivals.entrants(noisy))


def test_wasserstein_enters_where_demand_is_seen():
    assert "wasserstein" in rivals.entrants(newsvendor.univariate_dependent())

"""The paper's experiments: the right numbers, the bound on what is left to learn, the summary."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain import plain

import postgrad as pg
from postgrad.errors import SettingError
from postgrad.research.paper import figures
from postgrad.research.paper.experiments import ALGORITHMS, EXPERIMENTS, LIMIT
from postgrad.research.paper.limit import LIMITS
from postgrad.research.paper.reproduce import NAMES, plan, reproduce, run_counts
from postgrad.research.problems import quadratic
from postgrad.research.problems.quadratic import BOX

pytestmark = pytest.mark.usefixtures("optimised")

# Mean errors over 4,000 runs of an independent implementation, where it published them.
PUBLISHED = [
    ("quadratic-1d-independent", "bayesian-sgd", 1, 1.158),
    ("quadratic-1d-independent", "mle", 1, 1.066),
    ("quadratic-1d-independent", "bayesian-sgd", 10, 0.439),
    ("quadratic-1d-independent", "mle", 10, 0.427),
    ("quadratic-1d-independent", "bayesian-sgd", 100, 0.147),
    ("quadratic-1d-independent", "bayesian-sgd", 1000, 0.039),
    ("quadratic-2d-independent", "bayesian-sgd", 2, 3.20),
    ("quadratic-2d-independent", "mle", 2, 2.44),
]
QUADRATICS = [name for name in EXPERIMENTS if name.startswith("quadratic")]
# What `make test` simulates of them.
FEW = {
    ("quadratic-2d-independent", "mle"),
    ("quadratic-1d-dependent", "bayesian-sgd"),
}


def few(*case):
    return pytest.param(*case, marks=() if case[:2] in FEW else pytest.mark.slow)


PAIRS = [few(name, key) for name in QUADRATICS for key in ("bayesian-sgd", "mle", "known")]


def paper(world, gradient):
    """The algorithm as the paper prints it."""
    return pg.BayesianSGD(world.problem, **pg.presets.paper(gradient=gradient))


@pytest.fixture(scope="module")
def errors_of():
    """Errors over the runs and stages, simulated once per experiment and algorithm."""
    kept = {}

    def get(name, key, runs=4000):
        if (name, key) not in kept:
            experiment, part = EXPERIMENTS[name], ALGORITHMS[key]
            world = experiment.instance(BOX)
            algorithm = pg.BayesianSGD(world.problem, **part.options(experiment.gradient))
            result = pg.simulate(algorithm, part.belief(world), world.x, world.theta, runs=runs)
            kept[name, key] = result.errors(world.x_star)
        return kept[name, key]

    return get


@pytest.mark.parametrize(("name", "key"), PAIRS)
def test_mean_errors_agree_with_the_plain_implementation(name, key, errors_of):
    """Two implementations that share no code, over the stages, within Monte-Carlo error."""
    reference = plain("plain_numpy")
    runs = 3000
    decisions = reference.run(name, key, runs, 100, np.random.default_rng(1))
    theirs = np.linalg.norm(decisions - reference.X_STAR[name], axis=-1)
    ours = errors_of(name, key)
    for t in (0, 1, 2, 5, 10, 30, 100):
        a, b = ours[:, t], theirs[:, t]
        noise = np.hypot(a.std() / np.sqrt(len(a)), b.std() / np.sqrt(len(b)))
        assert abs(a.mean() - b.mean()) <= 4 * noise + 1e-9, t


@pytest.mark.parametrize(("name", "key", "t", "published"), [few(*case) for case in PUBLISHED])
def test_mean_errors_agree_with_published_ones(name, key, t, published, errors_of):
    ours = errors_of(name, key)[:, t]
    noise = np.sqrt(2) * ours.std() / np.sqrt(len(ours))
    rounding = 0.5 * 10.0 ** -len(str(published).split(".")[1])
    assert abs(ours.mean() - published) <= 4 * noise + rounding


@pytest.mark.parametrize(("name", "key"), PAIRS)
def test_optimum_is_reached(name, key, errors_of):
    """The error falls like t^-1/2: tenfold stages, a third of it, down to a few hundredths."""
    mean = errors_of(name, key).mean(axis=0)
    assert mean[1000] < 0.12
    assert mean[1000] < 0.45 * mean[100]


def test_repeated_gradient_descent_ends_at_the_stable_point():
    """3.2, where the paper's gradient ends at 8/3."""
    world = quadratic.univariate_dependent()
    result = pg.simulate(
        paper(world, pg.gradients.Partial()), pg.beliefs.Grid(world.points), world.x, world.theta,
        runs=1000,
    )  # fmt: skip
    last = result.decisions[:, -1]
    assert abs(last.mean() - 3.2) < 5 * last.std() / np.sqrt(len(last)) + 0.01
    assert abs(last.mean() - 8 / 3) > 0.4


@pytest.mark.slow
def test_what_is_left_to_learn_is_bounded():
    """E sum_t d_t = -log pi_0(theta_c) + E log pi_T(theta_c) <= -log pi_0(theta_c).

    d_t is the Kullback-Leibler divergence from f(.; x_{t+1}, theta_c) to f_hat_t(.; x_{t+1}),
    along decision-dependent runs, here by Gauss-Hermite quadrature. The paper proves the equality
    stage by stage (proof of the lemma on consistency); it holds within Monte-Carlo error.
    """
    world = quadratic.univariate_dependent()
    result = pg.simulate(
        paper(world, pg.gradients.MixtureScore()), pg.beliefs.Grid(world.points), world.x,
        world.theta, runs=2000, horizon=60, record=lambda state: state.belief.log_weights,
    )  # fmt: skip
    log_pi = jax.nn.log_softmax(result.record, axis=-1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    offset = world.points - world.theta  # xi - x - theta_c = 4 z: x drops out

    def divergence(log_pi):
        z = nodes[:, None] - offset / 4.0
        log_ratio = -0.5 * nodes**2 - jax.nn.logsumexp(log_pi - 0.5 * z**2, axis=-1)
        return jnp.dot(weights, log_ratio)

    d = np.asarray(jax.jit(jax.vmap(jax.vmap(divergence)))(log_pi))  # d_0, ..., d_60 of each run
    assert (d > -1e-9).all()
    total = d[:, :-1].sum(axis=1)  # d_0, ..., d_59
    left = np.asarray(-log_pi[:, -1, 3])  # -log pi_60(theta_c), theta_c = 4 is the fourth point
    bound = np.log(30.0)
    noise = (total + left).std() / np.sqrt(len(total))
    assert total.mean() <= bound
    assert abs((total + left).mean() - bound) < 4.5 * noise


@pytest.mark.slow
def test_posterior_concentrates_faster_with_larger_batches():
    summary = reproduce(["posterior"], runs=200, horizon=100)["posterior"]
    assert list(summary) == ["D=1", "D=2", "D=5", "D=10", "D=20"]
    at_20 = [curve["mean"][20] for curve in summary.values()]
    assert at_20 == sorted(at_20)
    for curve in summary.values():
        mean, low, high = (np.array(curve[key]) for key in ("mean", "low", "high"))
        assert len(mean) == 101
        assert mean[0] == pytest.approx(1 / 30)
        assert ((low >= 0) & (low <= mean) & (mean <= high) & (high <= 1)).all()
        assert curve["diverged"] == 0
    world = quadratic.univariate_dependent()
    record = pg.simulate(
        paper(world, pg.gradients.MixtureScore()), pg.beliefs.Grid(world.points), world.x,
        world.theta, runs=200, horizon=100, batch_size=2,
        record=lambda state: state.belief.probabilities[3],
    ).record  # fmt: skip
    half = 1.96 * record.std(axis=0) / np.sqrt(200)
    np.testing.assert_allclose(summary["D=2"]["mean"], record.mean(axis=0))
    np.testing.assert_allclose(summary["D=2"]["low"], np.clip(record.mean(axis=0) - half, 0, 1))
    reference = plain("plain_numpy")
    theirs = reference.posterior(5, 1000, 20, np.random.default_rng(0))[:, 20]
    half = summary["D=5"]["high"][20] - summary["D=5"]["mean"][20]
    noise = np.hypot(half / 1.96, theirs.std() / np.sqrt(1000))
    assert abs(summary["D=5"]["mean"][20] - theirs.mean()) < 4 * noise


@pytest.mark.slow
def test_summary_has_the_promised_form(tmp_path):
    seen, finished = [], {}
    summary = reproduce(
        ["quadratic-2d-dependent", "quadratic-1d-independent"], runs=7, horizon=20, seed=3,
        progress=lambda label, done, total: seen.append((done, total)),
        finished=finished.__setitem__,
    )  # fmt: skip
    assert finished == summary["experiments"]
    assert list(summary) == ["experiments", "posterior"]
    assert list(summary["experiments"]) == ["quadratic-2d-dependent", "quadratic-1d-independent"]
    for name, experiment in summary["experiments"].items():
        assert (
            experiment["x_star"] == np.atleast_1d(EXPERIMENTS[name].instance(BOX).x_star).tolist()
        )
        assert (experiment["runs"], experiment["horizon"]) == (7, 20)
        assert tuple(experiment["algorithms"]) == EXPERIMENTS[name].algorithms
        for curve in experiment["algorithms"].values():
            assert len(curve["mean_error"]) == len(curve["std_error"]) == 21
            assert curve["std_error"][0] == pytest.approx(0.0, abs=1e-12)
            assert curve["diverged"] == 0
        world = EXPERIMENTS[name].instance(BOX)
        algorithm = paper(world, EXPERIMENTS[name].gradient)
        errors = pg.simulate(
            algorithm,
            pg.beliefs.Grid(world.points),
            world.x,
            world.theta,
            runs=7,
            horizon=20,
            seed=3,
            record=LIMITS[name].record,  # as there, so that the program is shared
        ).errors(world.x_star)
        curve = experiment["algorithms"]["bayesian-sgd"]
        np.testing.assert_allclose(curve["mean_error"], errors.mean(axis=0))
        np.testing.assert_allclose(curve["std_error"], errors.std(axis=0), atol=1e-12)
    start = summary["experiments"]["quadratic-1d-independent"]["algorithms"]["known"]
    assert start["mean_error"][0] == 2.75
    # all are simulated but the limit, which is read off the posteriors of the first
    simulated = sum(
        key != LIMIT for e in summary["experiments"].values() for key in e["algorithms"]
    )
    assert simulated == 8
    assert seen[-1] == (simulated * 7 * 20, simulated * 7 * 20)
    json.dumps(summary, allow_nan=False)
    for name, experiment in summary["experiments"].items():
        for path in figures.draw(name, experiment, tmp_path):
            assert path.stat().st_size > 5000


def test_literal_runs_report_what_diverged():
    """Without a box, a decision-dependent run in a few hundred leaves for good."""
    summary = reproduce(
        ["quadratic-1d-dependent"], algorithms=["known"], runs=2000, horizon=200, literal=True
    )
    curve = summary["experiments"]["quadratic-1d-dependent"]["algorithms"]["known"]
    assert 1 <= curve["diverged"] <= 20
    assert curve["mean_error"][200] < 1.0  # of the others


def test_nothing_but_divergence_can_still_be_drawn(tmp_path):
    curve = {"mean_error": [None] * 4, "std_error": [None] * 4, "runs": 9, "diverged": 9}
    summary = {"algorithms": {"known": curve}, "runs": 9, "horizon": 3, "feasible": "unbounded"}
    figures.draw("quadratic-1d-dependent", summary, tmp_path)
    lost = {key: [None] * 4 for key in ("mean", "low", "high")} | {"runs": 9, "diverged": 9}
    figures.draw("posterior", {"D=1": lost}, tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_what_takes_long_has_fewer_runs():
    for runs, asked, fewer in ((100, None, 20), (7, None, 7), (100, 60, 60), (50, 60, 50)):
        counts = run_counts("newsvendor-dependent", runs, asked)
        assert counts["postgrad"] == counts[LIMIT] == fewer
        assert counts["bayesian-sgd"] == counts["mle"] == counts["known"] == runs
        assert set(run_counts("quadratic-1d-dependent", runs, asked).values()) == {runs}


def test_plan_knows_its_names():
    curves, sizes = plan([], [])
    assert list(curves) == [name for name in NAMES if name != "posterior"]
    assert NAMES.index("posterior") == 3  # as in the paper
    assert sizes == [1, 2, 5, 10, 20]
    assert plan(["posterior"], []) == ({}, [1, 2, 5, 10, 20])
    assert plan(["quadratic-1d-dependent"], ["mle"])[0] == {"quadratic-1d-dependent": ["mle"]}
    with pytest.raises(SettingError, match="quadratic-1d-independent, quadratic-2d-independent"):
        plan(["quadratic-3d"], [])
    with pytest.raises(SettingError, match="bayesian-sgd, mle, known"):
        plan([], ["oracle"])

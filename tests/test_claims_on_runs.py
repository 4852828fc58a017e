"""Claims that are measured on runs: they see what is planted, and the whole has its form."""

import dataclasses
import json
from types import SimpleNamespace
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from typer.testing import CliRunner

import postgrad as pg
from postgrad.cli import app
from postgrad.engine import bulk
from postgrad.errors import SettingError
from postgrad.research.paper.claims import (
    assess,
    dependent_data,
    independent_data,
    learning,
    rates,
    unbiased,
)
from postgrad.research.paper.claims.error_curves import LATE, Paired
from postgrad.research.paper.claims.simulations import jobs
from postgrad.research.paper.claims.verdicts import Estimate
from postgrad.research.paper.experiments import EXPERIMENTS
from postgrad.research.paper.reproduce import reproduce
from postgrad.research.problems import newsvendor as newsvendors
from postgrad.research.problems import quadratic
from postgrad.research.progress import RunStages, silent
from postgrad.research.side_by_side import side_by_side

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"
SILENT = RunStages(silent, 1)


def verdict(claim):
    return claim.as_dict()["verdict"]


@pytest.mark.parametrize(
    ("bayes", "mle", "expected"), [(1.0, 2.0, HOLDS), (2.0, 1.0, FAILS), (1.0, 1.0, OPEN)]
)
def test_comparison_takes_the_right_runs(bayes, mle, expected):
    """Planted: how far each algorithm, and what it believes, is off in the first hundred stages."""
    rng = np.random.default_rng(0)
    sizes = {"bayesian-sgd": bayes, "mle": mle, "known": 0.1}
    results = {}
    for name, make in (
        ("quadratic-1d-independent", quadratic.univariate_independent),
        ("quadratic-2d-independent", quadratic.multivariate_independent),
        ("newsvendor-independent", newsvendors.independent),
    ):
        world = make()
        theta = 0.0 if isinstance(world.theta, dict) else np.asarray(world.theta)
        for key, size in sizes.items():
            off = np.where(np.arange(1001) < 100, size, 0.05) * rng.normal(1, 0.3, (300, 1001))
            x_off = off.reshape(300, 1001, *[1] * world.x.ndim)
            results[f"{name}: {key}"] = pg.Simulation(np.asarray(world.x_star) + x_off, theta - off)
    said = {claim.id: verdict(claim) for claim in independent_data.claims(results)}
    assert len(said) == 10
    assert said["bayes-before-mle-newsvendor-independent"] == expected
    for dimension in ("1d", "2d"):
        name = f"quadratic-{dimension}-independent"
        assert said[f"benchmark-ahead-{name}"] == HOLDS
        assert said[f"alike-late-{name}"] == HOLDS
        assert said[f"bayes-before-mle-{name}"] == expected
        assert said[f"average-before-estimate-{name}"] == expected


def test_posterior_claims_see_what_is_planted():
    rng = np.random.default_rng(0)
    t = np.arange(1001)

    def rising(speed, limit=1.0):
        return limit * (1 - np.exp(-speed * t)) * rng.uniform(0.98, 1.0, size=(200, 1001))

    good = {"D = 1": rising(0.01), "D = 2": rising(0.02), "D = 5": rising(0.05)}
    assert verdict(dependent_data.acceleration(good)) == HOLDS
    assert verdict(dependent_data.acceleration(dict(reversed(good.items())))) == FAILS
    assert (
        verdict(dependent_data.acceleration({"D = 1": rising(0.02), "D = 2": rising(0.02)})) == OPEN
    )
    sure = {name: np.clip(b + 0.02, 0, 1) for name, b in good.items()}
    assert verdict(dependent_data.concentration(sure)) == HOLDS
    assert verdict(dependent_data.concentration({**sure, "D = 2": 0.5 * sure["D = 2"]})) == FAILS


@pytest.mark.parametrize(
    ("factor", "expected"), [(1.0, HOLDS), (1.2, OPEN), (2.0, FAILS), (0.5, FAILS)]
)
def test_batch_size_claim_is_about_ratios(factor, expected):
    rng = np.random.default_rng(0)
    noise = rng.exponential(size=(1000, 1001))
    errors = {f"D = {size}": noise for size in (1, 2, 5, 10, 20)}
    errors["D = infinity"] = noise
    errors["D = 2"] = factor * rng.permutation(noise)
    said = dependent_data.batch_sizes("late", Paired(errors), LATE, 1000)
    assert verdict(said) == expected


@pytest.mark.parametrize(
    ("blind", "seeing", "spread", "expected"),
    [
        (3.2, 8 / 3, 0.1, HOLDS),
        (8 / 3, 8 / 3, 0.1, FAILS),
        (3.2, 3.2, 0.1, FAILS),
        (3.2, 8 / 3, 1.0, OPEN),
    ],
)
def test_stable_point_claim_sees_where_runs_end(blind, seeing, spread, expected):
    noise = spread * np.random.default_rng(0).standard_normal((2, 500))
    assert verdict(dependent_data.stable_point(blind + noise[0], seeing + noise[1])) == expected


@pytest.mark.parametrize(
    ("factor", "spread", "expected"), [(1.0, 0.5, HOLDS), (1.2, 0.5, FAILS), (1.0, 5.0, OPEN)]
)
def test_learning_claim_checks_the_balance(factor, spread, expected):
    """d_t is what w_t loses, up to noise of mean zero; a divergence off by a factor is seen."""
    rng = np.random.default_rng(0)
    w = np.log(30.0) * np.exp(-np.arange(102) / 50)
    d = -factor * np.diff(w) + spread * rng.standard_normal((900, 101)) / 10
    truth = np.broadcast_to(np.exp(-w), (900, 102))
    assert verdict(learning.bounded(truth, d)) == expected


def test_divergence_is_that_of_the_mixture():
    """d_t by Gauss-Hermite sums, against plain integration over y with the library's mixture."""
    world = quadratic.univariate_dependent()
    belief = pg.beliefs.Grid(world.points).update(
        world.problem.likelihood, 1.5, jnp.asarray([6.0, 9.0])
    )
    algorithm = pg.BayesianSGD(world.problem, **pg.presets.paper())
    state = algorithm.init(belief, 1.5)
    y = jnp.linspace(-30.0, 40.0, 401)

    @jax.jit
    @jax.vmap
    def densities(y):
        model = world.problem.model
        exact = model(state.x, world.theta).log_prob(y)
        return exact, belief.log_mixture(model, state.x, y)

    log_f, mixture = map(np.asarray, densities(y))
    expected = np.trapezoid(np.exp(log_f) * (log_f - mixture), y)
    probability, d = eqx.filter_jit(learning.Learning(world))(state)
    assert float(d) == pytest.approx(expected, rel=1e-6)
    assert float(probability) == pytest.approx(float(belief.probabilities[3]))


# Unbiasedness


class Exaggerated(pg.gradients.Gradient):
    """Five per cent too long."""

    unbiased: ClassVar[bool] = False
    inner: pg.gradients.Gradient

    @property
    def uses_mixture(self):
        return self.inner.uses_mixture

    def surrogate(self, *arguments):
        value, cost = self.inner.surrogate(*arguments)
        return 1.05 * value, cost

    def uses_baseline(self, *arguments):
        return self.inner.uses_baseline(*arguments)

    def check(self, problem, x, theta):
        pass


ONE = (quadratic.univariate_independent,)
OTHER = (quadratic.univariate_dependent,)


@pytest.mark.parametrize(
    ("gradient", "problems", "draws", "expected"),
    [
        (pg.gradients.Pathwise(), ONE, 40_000, HOLDS),
        (pg.gradients.Pathwise(), ONE, 400, OPEN),  # too few to see a bias
        (Exaggerated(pg.gradients.Pathwise()), ONE, 40_000, FAILS),
        (pg.gradients.Pathwise(), OTHER, 40_000, HOLDS),
        (pg.gradients.Partial(), OTHER, 40_000, FAILS),
        (
            pg.gradients.Partial(),
            (quadratic.multivariate_dependent,),
            400,
            FAILS,
        ),  # has no noise at all
    ],
)
def test_planted_biases_are_caught(gradient, problems, draws, expected):
    said = unbiased.unbiasedness("planted", gradient, problems, draws, 0, SILENT)
    assert verdict(said) == expected


def test_exact_gradients_are_those_of_the_closed_forms():
    world = quadratic.univariate_dependent()
    belief = unbiased.early_posterior(world, random.key(1))
    mean = jnp.dot(belief.probabilities, belief.points)
    assert float(belief.probabilities.max()) < 0.5  # early: several values are live
    x = jnp.asarray(1.3)
    exact = unbiased.exact_gradient(world.problem, belief, x)
    assert float(exact) == pytest.approx(float(3 * x - 10 + 0.5 * mean))
    world = quadratic.multivariate_independent()
    belief = unbiased.early_posterior(world, random.key(1))
    mean = jnp.dot(belief.probabilities, belief.points)
    x = jnp.asarray([1.3, -0.4])
    exact = unbiased.exact_gradient(world.problem, belief, x)
    np.testing.assert_allclose(exact, [2 * 1.3 - 2 + mean, -2 * 0.4 - 4 + mean])


# Rates


@pytest.mark.parametrize("power", [0.5, 1.0, 1.7])
def test_exponents_are_recovered_with_their_errors(power):
    rng = np.random.default_rng(0)
    rate = np.array([10, 30, 100, 300, 1000]) ** -0.5
    found = [
        rates.exponent(7 * rate**power * rng.exponential(size=(200, 5)), rate) for _ in range(300)
    ]
    values, errors = (np.array([getattr(b, key) for b in found]) for key in ("value", "error"))
    assert values.mean() == pytest.approx(power, abs=0.02)
    assert errors.mean() == pytest.approx(values.std(), rel=0.15)


def test_mean_over_the_output_weighs_by_step_sizes():
    values = np.array([[5.0, 1.0, 2.0], [0.0, 0.0, 3.0]])
    np.testing.assert_allclose(rates.over_output(values, np.array([4.0, 2.0, 2.0])), [3.25, 0.75])


def test_mean_over_the_output_is_that_of_drawn_outputs():
    """E |grad H(z_T)|^2 given the run, against z_T as the algorithm draws it, run by run."""
    world = quadratic.univariate_independent(pg.feasible.Reals())
    belief, steps, T = pg.beliefs.Grid(world.points), pg.step_sizes.InverseSqrt(0.4), 50

    def decisions(output):
        options = pg.presets.paper(gradient=pg.gradients.Pathwise(), steps=steps, output=output)
        algorithm = pg.BayesianSGD(world.problem, **options)
        return pg.simulate(algorithm, belief, world.x, world.theta, runs=500, horizon=T).decisions

    squares = [
        (2 * (decisions(output) - 2.75)) ** 2
        for output in (pg.outputs.Last(), pg.outputs.RandomIterate())
    ]
    expected = rates.over_output(squares[0][:, :T], 0.4 / np.sqrt(np.arange(1, T + 1)))
    drawn = squares[1][:, T]
    gap = Estimate.mean(drawn - expected)
    assert abs(gap.z) < 4
    assert gap.error < 0.15 * expected.mean()
    assert np.corrcoef(drawn, squares[0][:, T])[0, 1] < 0.9  # z_T is not the last iterate


@pytest.mark.parametrize(("power", "expected"), [(0.0, FAILS), (1.2, HOLDS)])
def test_only_a_slow_decay_refutes_the_rates(power, expected):
    """Planted: |grad H(x_t)|^2 like a power of t, which the mean over the output inherits."""
    noise = np.random.default_rng(0).standard_normal((100, 3001))
    x = 2.75 + (1.0 + 0.1 * noise) * np.arange(1, 3002) ** (-power / 2)
    results = dict.fromkeys(rates.simulations(1), pg.Simulation(x, ()))
    assert {verdict(claim) for claim in rates.claims(results)} == {expected}


def run_all(planned):
    return dict(side_by_side(jobs(planned, 0, SILENT), SILENT))


def test_a_few_runs_decide_the_rates():
    """A part of what is assessed below, with the verdicts of the whole."""
    found = rates.claims(run_all(rates.simulations(2)))
    said = {claim.id: verdict(claim) for claim in found}
    assert said["rate-constant"] == HOLDS
    assert FAILS not in said.values()


# Everything


def smaller(make, count):
    """A newsvendor with so many of the paper's two million points: those have their own tests."""

    def instance(*feasible):
        world = make(*feasible)
        few = jax.tree.map(lambda leaf: leaf[:: 5**9 // count], world.points)
        return eqx.tree_at(lambda world: world.points, world, few)

    return instance


@pytest.fixture(scope="module")
def assessed():
    small = SimpleNamespace(independent=smaller(newsvendors.independent, 500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(independent_data, "newsvendor", small)
        for name, experiment in EXPERIMENTS.items():
            if name.startswith("newsvendor"):  # still with sufficient statistics
                few = dataclasses.replace(experiment, instance=smaller(experiment.instance, 5000))
                patch.setitem(EXPERIMENTS, name, few)
        yield _assessed()


def _assessed():
    seen = []
    summary = {"experiments": {}, "posterior": {}}
    said = assess(summary, runs=2, progress=lambda label, done, total: seen.append((done, total)))
    return summary, said, seen


@pytest.mark.slow
def test_assessment_has_the_promised_form(assessed):
    _, said, _ = assessed
    assert json.loads(json.dumps(said, allow_nan=False)) == said
    ids = [claim["id"] for claim in said]
    assert len(ids) == len(set(ids))
    for claim in said:
        assert list(claim)[:4] == ["id", "claim", "measured", "verdict"]
        assert all(isinstance(claim[key], str) and claim[key] for key in list(claim)[:5])
        assert claim["verdict"] in (HOLDS, FAILS, OPEN)
    starts = {
        "convergence": 6, "unbiased": 2, "benchmark-ahead": 3, "alike-late": 3,
        "bayes-before-mle": 3, "average-before-estimate": 2, "posterior": 2, "batch-size": 2,
        "stable-point": 1, "learning-bounded": 1, "rate": 3,
    }  # fmt: skip
    for start, count in starts.items():
        assert sum(name.startswith(start) for name in ids) == count
    assert len(ids) == sum(starts.values())


@pytest.mark.slow
def test_a_few_runs_decide_what_is_plain(assessed):
    """And none of it against the paper's theory."""
    said = {claim["id"]: claim["verdict"] for claim in assessed[1]}
    assert said["rate-constant"] == HOLDS
    assert said["posterior-faster"] == HOLDS
    theory = ("unbiased", "learning", "rate", "posterior", "stable", "batch-size-late")
    assert FAILS not in [v for name, v in said.items() if name.startswith(theory)]


@pytest.mark.slow
def test_progress_reaches_its_end(assessed):
    seen = assessed[2]
    done = [d for d, _ in seen]
    assert done == sorted(done)
    assert done[0] == 0
    assert {total for _, total in seen} == {done[-1]}
    assert len(seen) > 20


@pytest.mark.slow
def test_the_seed_settles_everything(assessed):
    summary, said, _ = assessed
    assert assess(summary, runs=2) == said
    other = assess(summary, runs=2, seed=1)
    assert [claim["id"] for claim in other] == [claim["id"] for claim in said]
    changed = [a["measured"] != b["measured"] for a, b in zip(said, other, strict=True)]
    assert sum(changed) == sum(claim["runs"] > 0 for claim in said)


@pytest.mark.slow
def test_command_runs_the_whole_paper_and_ends_with_the_claims(assessed, tmp_path):
    """`postgrad claims`, in this process: most of its programs have been compiled above."""
    _, said, _ = assessed
    options = ["--runs", "2", "--horizon", "3", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(app, ["claims", *options])
    assert done.exit_code == 0, done.stderr
    claims = json.loads(done.stdout)
    assert claims == json.loads((tmp_path / "summary.json").read_text())["claims"]
    assert [list(claim)[:4] for claim in claims] == [list(claim)[:4] for claim in said]
    assert [claim["id"] for claim in claims] == [claim["id"] for claim in said]
    assert {claim["verdict"] for claim in claims} <= {HOLDS, FAILS, OPEN}
    assert len(list(tmp_path.glob("*.svg"))) == 7  # the paper's figures
    page = (tmp_path / "report.html").read_text()
    assert page.count("<img") == 7
    assert all(claim["id"] in page for claim in claims)


def test_counts_are_checked():
    with pytest.raises(SettingError, match="runs"):
        assess({"experiments": {}, "posterior": {}}, runs=0)


def test_claims_use_the_programs_of_the_figures(monkeypatch):
    """What is simulated for a figure and for a claim is compiled once."""
    algorithms = ("bayesian-sgd", "mle", "known")
    reproduce(["quadratic-1d-independent"], algorithms=algorithms, runs=2, horizon=3)
    monkeypatch.setattr(bulk, "quietly", None)  # what is called to compile
    planned = independent_data.simulations(1)
    names = [f"quadratic-1d-independent: {key}" for key in algorithms]
    shorter = {name: planned[name]._replace(runs=2, horizon=3) for name in names}
    run_all(shorter)

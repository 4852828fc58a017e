"""Comparisons are paired, count what diverges, and judge by intervals."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.research import plots, rivals
from postgrad.research.comparison import Comparison, half_width, paired
from postgrad.research.problems import quadratic
from postgrad.research.rivals import Entrant

INSTANCE = quadratic.univariate_independent()
PLAIN = pg.BayesianSGD(INSTANCE.problem, **pg.presets.paper())
ENTRANTS = {
    "postgrad": Entrant(PLAIN, pg.beliefs.Grid(INSTANCE.points)),
    "greedy": Entrant(rivals.Greedy(INSTANCE.problem)),
    "known": Entrant(PLAIN, pg.beliefs.Known(INSTANCE.theta)),
}


@pytest.fixture(scope="module")
def comparison():
    return pg.compare(INSTANCE, ENTRANTS, runs=20, horizon=60, seed=3)


def test_errors_and_regrets_are_those_of_simulations(comparison):
    alone = pg.simulate(
        ENTRANTS["greedy"].policy, None, INSTANCE.x, INSTANCE.theta, runs=20, horizon=60, seed=3
    )
    x = alone.decisions
    np.testing.assert_allclose(comparison.errors["greedy"], np.abs(x - 2.75))
    # H = x^2 - 5.5 x + 25, so the regret is the square of the error
    np.testing.assert_allclose(comparison.regrets["greedy"], (x - 2.75) ** 2, atol=1e-12)
    assert comparison.regrets["greedy"].shape == (20, 61)


def test_all_policies_meet_the_same_data():
    """Whatever they decide, if the data do not depend on it: sample averages see their mean."""
    policies = [rivals.SampleAverage(INSTANCE.problem), rivals.TwoStage(INSTANCE.problem)]
    seen = [
        pg.simulate(
            policy, None, INSTANCE.x, INSTANCE.theta, runs=3, horizon=12, batch_size=2, seed=8,
            record=lambda state: state.data.y[:24],
        ).record[:, -1]
        for policy in policies
    ]  # fmt: skip
    np.testing.assert_allclose(seen[0], seen[1], rtol=1e-12)
    assert len(np.unique(seen[0])) == seen[0].size


def test_intervals_are_students(comparison):
    rng = np.random.default_rng(0)
    for n in (2, 3, 10, 100, 1000):
        values = rng.normal(size=n)
        low, high = stats.t.interval(0.95, n - 1, values.mean(), stats.sem(values))
        assert half_width(values) == pytest.approx((high - low) / 2, rel=1e-9)
    assert half_width(np.ones(1)) == np.inf
    pairs = comparison.regrets["greedy"][:, -1] - comparison.regrets["postgrad"][:, -1]
    got, exact = comparison.at_the_end("greedy"), stats.ttest_1samp(pairs, 0.0)
    interval = exact.confidence_interval()
    assert got[:3] == pytest.approx([pairs.mean(), interval.low, interval.high])
    assert (got.verdict == "tied") == (exact.pvalue >= 0.05)
    means = [comparison.regrets[name][:, 1:].mean() for name in ("greedy", "postgrad")]
    assert comparison.over_all_stages("greedy").mean == pytest.approx(means[0] - means[1])


def test_verdicts():
    noise = np.random.default_rng(0).normal(size=50)
    assert paired(1.0 + noise).verdict == "better"  # the rival's regret is larger
    assert paired(-1.0 + noise).verdict == "worse"
    assert paired(noise - noise.mean()).verdict == "tied"
    assert paired(np.zeros(50)).verdict == "tied"
    assert paired(np.full(50, 1e-12), slack=1e-9).verdict == "tied"
    assert paired(np.full(50, 1e-12)).verdict == "better"
    assert paired(np.asarray([5.0])).verdict == "tied"  # one run proves nothing


def test_pairing_sees_what_means_do_not():
    """The same differences drown in the noise of the runs if they are not paired."""
    common = 10.0 * np.random.default_rng(0).normal(size=(30, 1)) ** 2
    small = 0.1 + 0.01 * np.random.default_rng(1).normal(size=(30, 1))
    regrets = {"a": np.repeat(common, 3, axis=1), "b": np.repeat(common + small, 3, axis=1)}
    comparison = Comparison(regrets, regrets, {"a": 0, "b": 0}, {}, "a", {"runs": 30, "horizon": 2})
    assert comparison.at_the_end("b").verdict == "better"
    assert comparison.over_all_stages("b").verdict == "better"
    assert half_width(common + small)[0] > 1.0


class Exploding(rivals.Greedy):
    """Leaves the numbers at stage 5."""

    def step(self, state, batch, *, weight=None, x=None):
        new, info = super().step(state, batch, weight=weight, x=x)
        value = jnp.where(state.stage >= 5, jnp.nan, new.decision)
        return type(new)(new.stage, value, new.pace), info


def test_diverged_runs_count_with_the_worst():
    entrants = {"postgrad": ENTRANTS["greedy"], "bad": Entrant(Exploding(INSTANCE.problem))}
    comparison = pg.compare(INSTANCE, entrants, runs=10, horizon=8)
    assert comparison.diverged == {"postgrad": 0, "bad": 10}
    for values in (comparison.regrets, comparison.errors):
        worst = max(float(values["postgrad"].max()), float(values["bad"][:, :5].max()))
        assert np.isfinite(values["bad"]).all()
        assert np.all(values["bad"][:, -1] == worst)
        np.testing.assert_allclose(values["bad"][:, :5], values["postgrad"][:, :5])
    assert comparison.at_the_end("bad").verdict == "better"
    assert "bad (10 diverged)" in comparison.table()


def test_summary_is_plain_and_agrees_with_the_table(comparison):
    summary = json.loads(json.dumps(comparison.summary(), allow_nan=False))
    assert summary["runs"] == 20
    assert summary["x_star"] == [2.75]
    curve = summary["algorithms"]["postgrad"]
    assert len(curve["mean_error"]) == len(curve["std_regret"]) == 61
    assert curve["mean_error"][0] == pytest.approx(2.75)
    assert set(summary["against"]) == {"greedy", "known"}
    assert comparison.competitors == ["greedy"]
    table = comparison.table()
    for name in ENTRANTS:
        assert name in table
    assert summary["against"]["greedy"]["last"]["verdict"] in table


def test_shown_with_its_numbers(comparison):
    assert str(comparison) == comparison.table()
    shown = repr(comparison)
    assert shown.startswith("Comparison(runs=20, horizon=60, batch_size=1, seed=3, x_star=[2.75]")
    for name in ENTRANTS:
        assert f"{name}: {comparison.regrets[name][:, -1].mean():.4g}" in shown


def test_wrong_names_are_refused():
    with pytest.raises(errors.SettingError, match="unknown algorithm 'oracle'"):
        pg.compare(INSTANCE, ["oracle"])
    with pytest.raises(errors.SettingError, match="reference"):
        pg.compare(INSTANCE, {"greedy": ENTRANTS["greedy"]})
    with pytest.raises(errors.SettingError, match="runs"):
        pg.compare(INSTANCE, ENTRANTS, runs=0)


def test_names_choose_from_all_entrants_and_say_what_is_left_out():
    result = pg.compare(INSTANCE, ["greedy", "wasserstein"], runs=2, horizon=3, reference="greedy")
    assert list(result.regrets) == ["greedy"]
    assert "Newsvendor" in result.left_out["wasserstein"]


def test_progress_adds_up():
    calls = []
    pg.compare(INSTANCE, {"postgrad": ENTRANTS["greedy"]}, runs=5, horizon=20,
               progress=lambda *call: calls.append(call))  # fmt: skip
    assert calls[0] == ("postgrad", 0, 100)
    assert calls[-1] == ("postgrad", 100, 100)


def small(regrets):
    return Comparison(
        regrets, regrets, dict.fromkeys(regrets, 0), {}, "a", {"runs": 2, "horizon": 3}
    )


def test_solvability_by_hand():
    """Gaps of alpha = 10 % of the initial regret, to stay there or to pass by."""
    one = small({"a": np.array([[10.0, 0.5, 3.0, 0.2], [10.0, 5.0, 1.0, 0.0]])})
    two = small({"a": np.full((2, 4), 7.0), "b": np.array([[1.0, 0, 0, 0], [1.0, 1, 1, 1]])})
    passing = plots.solvability({"one": one, "two": two}, 0.1, lasting=False)
    np.testing.assert_allclose(passing["a"], [0, 0.25, 0.5, 0.5])
    np.testing.assert_allclose(passing["b"], [0, 0.25, 0.25, 0.25])
    staying = plots.solvability({"one": one, "two": two}, 0.1)
    np.testing.assert_allclose(staying["a"], [0, 0, 0.25, 0.5])


def test_figures_are_drawn(comparison, tmp_path):
    files = plots.draw_progress(comparison, tmp_path / "q-1.5-progress", title="q")
    files += plots.draw_terminal(comparison, tmp_path / "terminal")
    files += plots.draw_solvability({"q": comparison}, tmp_path / "profiles")
    assert {path.name for path in files} == {
        f"{stem}.{suffix}"
        for stem in ("q-1.5-progress", "terminal", "profiles")
        for suffix in ("png", "svg")
    }
    assert all(path.stat().st_size > 10_000 for path in files)
    svg = (tmp_path / "terminal.svg").read_text()
    plots.draw_terminal(comparison, tmp_path / "terminal")
    assert svg == (tmp_path / "terminal.svg").read_text()  # the same numbers, the same file


def test_labels_keep_apart_and_in_order():
    places = plots._apart(np.array([0.0, 0.5, 0.51, 0.52, 0.9]), 0.05)
    assert np.all(np.diff(places) >= 0.05 - 1e-12)
    np.testing.assert_allclose(places[[0, 2, 4]], [0.0, 0.51, 0.9])


def test_curves_are_thinned_without_loss():
    regret = np.random.default_rng(0).random((3, 1001))
    stages, values = plots._thinned(regret)
    assert stages[0] == 1.0
    assert len(stages) <= 150
    np.testing.assert_allclose(values[:, 0], regret[:, 1])
    assert values.shape == (3, len(stages))

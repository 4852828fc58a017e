"""The claims of the paper: rules that give all verdicts, measurements that catch planted faults."""

import math

import numpy as np
import pytest
from scipy import stats

from postgrad.research.paper.claims import convergence, independent_data
from postgrad.research.paper.claims.claim import Claim, Statement
from postgrad.research.paper.claims.error_curves import EARLY, LATE, Paired, Summarised
from postgrad.research.paper.claims.verdicts import Estimate, Verdict, Within, Zero, together

HOLDS, FAILS, OPEN = "holds", "does not hold", "inconclusive"


def verdict(claim):
    return claim.as_dict()["verdict"]


# Rules


@pytest.mark.parametrize(
    ("rule", "value", "error", "expected"),
    [
        (Within(low=0.0), 3.1, 1.0, HOLDS),
        (Within(low=0.0), 2.9, 1.0, OPEN),
        (Within(low=0.0), -2.9, 1.0, OPEN),
        (Within(low=0.0), -3.1, 1.0, FAILS),
        (Within(high=0.2), 0.1, 0.03, HOLDS),
        (Within(high=0.2), 0.15, 0.03, OPEN),
        (Within(high=0.2), 0.3, 0.03, FAILS),
        (Within(0.8, 1.25), 1.0, 0.06, HOLDS),
        (Within(0.8, 1.25), 1.0, 0.07, OPEN),  # too wide to be sure
        (Within(0.8, 1.25), 1.2, 0.03, OPEN),  # across the upper limit
        (Within(0.8, 1.25), 0.9, 0.04, OPEN),  # across the lower one
        (Within(0.8, 1.25), 1.4, 0.04, FAILS),
        (Within(0.8, 1.25), 0.7, 0.03, FAILS),
        (Zero(0.1), 0.02, 0.02, HOLDS),
        (Zero(0.1), 0.05, 0.04, OPEN),  # cannot see the margin
        (Zero(0.1), 0.05, 0.01, FAILS),  # within the margin, and yet not zero
        (Zero(0.1), -0.05, 0.01, FAILS),
        (Zero(0.1), 0.035, 0.01, FAILS),
        (Zero(0.1, comparisons=20), 0.035, 0.01, HOLDS),  # one such among twenty is no surprise
        (Within(low=0.0), math.nan, 1.0, OPEN),
        (Zero(0.1), math.nan, 0.0, OPEN),
    ],
)
def test_rules_give_every_verdict(rule, value, error, expected):
    assert rule.judge(Estimate(value, error)) == expected


def test_intervals_of_several_comparisons_are_bonferronis():
    low, high = Estimate(5.0, 2.0).interval(9)
    half = stats.norm.isf(stats.norm.sf(3.0) / 9)
    assert (low, high) == pytest.approx((5 - 2 * half, 5 + 2 * half))
    assert Estimate(5.0, 2.0).interval() == pytest.approx((-1.0, 11.0))


def test_one_failure_refutes_and_all_must_hold():
    assert together([Verdict.HOLDS, Verdict.HOLDS]) == HOLDS
    assert together([Verdict.HOLDS, Verdict.OPEN]) == OPEN
    assert together([Verdict.HOLDS, Verdict.OPEN, Verdict.FAILS]) == FAILS
    assert together([]) == OPEN


def test_ratio_knows_its_own_error():
    """The standard error, against the spread over many repetitions of correlated pairs."""
    rng = np.random.default_rng(0)
    common = rng.exponential(size=(3000, 200))
    above, below = 2 * common + rng.exponential(size=common.shape), common + 0.1
    ratios = [Estimate.ratio(a, b) for a, b in zip(above, below, strict=True)]
    values, errors = (np.array([getattr(r, key) for r in ratios]) for key in ("value", "error"))
    assert values.mean() == pytest.approx(3 / 1.1, rel=0.01)
    assert errors.mean() == pytest.approx(values.std(), rel=0.06)
    assert Estimate.mean(np.array([1.0, 2.0, 4.0])).error == pytest.approx(stats.sem([1, 2, 4]))


def test_a_claim_says_what_was_asked_and_measured():
    statements = [
        Statement("height", Estimate(2.0, 0.25), Within(low=1.0)),
        Statement("width", Estimate(5.0, 0.01), Within(low=1.0)),
        Statement("lean", Estimate(0.001, 0.01), Zero(0.1)),
    ]
    said = Claim("tower", "The tower stands.", "looked at it", 7, statements).as_dict()
    assert said["verdict"] == HOLDS
    assert "above 1: height, width; zero, margin 0.1: lean" in said["rule"]
    assert "3 standard errors" in said["rule"]
    assert said["numbers"]["height"] == [2.0, 0.25]
    assert str(statements[0].estimate) == "2.00 ± 0.25"
    assert str(Estimate(123.456, 12.3)) == "123 ± 12"
    assert str(Estimate(2.75, 0.0)) == "2.75"


# Claims on the summary


def summary_of(name, curves, *, runs=100, horizon=1000, diverged=0):
    """A summary of one experiment, from t -> (mean, standard deviation) of each algorithm."""
    algorithms = {}
    for key, curve in curves.items():
        mean, std = zip(*(curve(t) for t in range(horizon + 1)), strict=True)
        algorithms[key] = {
            "mean_error": list(mean),
            "std_error": list(std),
            "diverged": diverged,
        }
    experiment = {"runs": runs, "horizon": horizon, "algorithms": algorithms}
    return {"experiments": {name: experiment}, "posterior": {}}


def observations(summary):
    """The paper's three, as if a summary were all there is."""
    (name, experiment), *_ = summary["experiments"].items()
    return independent_data.observations(name, Summarised(experiment), experiment["runs"])


def newsvendor(bayes, mle, known, std):
    """Errors that start apart, as given, and meet in the long run."""

    def curve(early):
        return lambda t: (early, std) if t <= 100 else (0.1, std / 100)

    curves = {"bayesian-sgd": curve(bayes), "mle": curve(mle), "known": curve(known)}
    return summary_of("newsvendor-independent", curves)


@pytest.mark.parametrize(
    ("bayes", "mle", "std", "expected"),
    [
        (3.0, 2.0, 1.0, FAILS),
        (2.0, 3.0, 1.0, HOLDS),
        (2.5, 2.6, 1.0, OPEN),
        (2.0, 3.0, 4.0, OPEN),
    ],
)
def test_whether_bayes_is_before_mle_follows_from_the_summary(bayes, mle, std, expected):
    said = observations(newsvendor(bayes, mle, 1.0, std))
    assert [claim.id for claim in said] == [
        f"{kind}-newsvendor-independent"
        for kind in ("benchmark-ahead", "alike-late", "bayes-before-mle")
    ]
    assert verdict(said[2]) == expected


def test_whether_the_benchmark_is_ahead_and_all_meet_follows_from_the_summary():
    ahead, alike, _ = observations(newsvendor(3.0, 2.0, 1.0, 1.0))
    assert (verdict(ahead), verdict(alike)) == (HOLDS, HOLDS)
    ahead, _, _ = observations(newsvendor(3.0, 2.0, 2.5, 0.5))  # MLE beats it
    assert verdict(ahead) == FAILS
    curves = {
        "bayesian-sgd": lambda t: (0.2, 0.1),
        "mle": lambda t: (0.1, 0.1),
        "known": lambda t: (0.1, 0.1),
    }
    (alike,) = independent_data.from_summary(summary_of("newsvendor-independent", curves))
    assert verdict(alike) == FAILS
    (alike,) = independent_data.from_summary(summary_of("newsvendor-independent", curves, runs=9))
    assert verdict(alike) == OPEN


def test_errors_from_runs_and_from_their_summary_agree():
    """On the values; on the errors the summary is on the safe side, and pairs are sharper."""
    rng = np.random.default_rng(0)
    common = rng.exponential(size=(400, 1))
    errors = {
        key: common + scale + rng.exponential(size=(400, 1001)) * 0.1
        for key, scale in (("a", 0.3), ("b", 0.2))
    }
    experiment = {
        "runs": 400,
        "algorithms": {
            key: {
                "mean_error": e.mean(axis=0).tolist(),
                "std_error": e.std(axis=0).tolist(),
                "diverged": 0,
            }
            for key, e in errors.items()
        },
    }
    paired, summarised = Paired(errors), Summarised(experiment)
    for stages in (EARLY, LATE):
        ours, theirs = paired.mean("a", stages), summarised.mean("a", stages)
        assert theirs.value == pytest.approx(ours.value)
        assert ours.error * 0.99 < theirs.error < ours.error * 1.1
        for compare in ("difference", "ratio"):
            ours, theirs = (getattr(e, compare)("a", "b", stages) for e in (paired, summarised))
            assert theirs.value == pytest.approx(ours.value)
            assert ours.error < theirs.error / 3


@pytest.mark.parametrize(
    ("curve", "expected"),
    [
        (lambda t: (3.0 / math.sqrt(1 + t), 0.5 / math.sqrt(1 + t)), HOLDS),
        (lambda t: (max(0.1, 3.0 / (1 + t)), 0.01), FAILS),  # small, and falls no more
        (lambda t: (3.0 * (1 + t) ** -0.15, 0.1), FAILS),  # falls, and is not small
        (lambda t: (3.0 / math.sqrt(1 + t), 30.0 / math.sqrt(1 + t)), OPEN),
    ],
)
def test_whether_the_error_converges_follows_from_the_summary(curve, expected):
    said = convergence.claims(summary_of("quadratic-1d-dependent", {"bayesian-sgd": curve}))
    found = {claim.id: verdict(claim) for claim in said}
    assert found.pop("convergence-quadratic-1d-dependent") == expected
    assert set(found.values()) == {OPEN}  # the five that were not run


def test_slope_over_a_decade():
    b = convergence.slope(Estimate(1.0, 0.1), Estimate(0.1, 0.02))
    assert b.value == pytest.approx(-1.0)
    assert b.error == pytest.approx(math.hypot(0.1, 0.2) / math.log(10))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"horizon": 999}, "ended at t = 999"),
        ({"runs": 8, "diverged": 7}, "fewer than two runs of bayesian-sgd"),
        ({"curves": ("mle",)}, "is without bayesian-sgd"),
        ({"name": "quadratic-1d-dependent"}, "is not in the summary"),
    ],
)
def test_what_was_not_run_stays_open(options, why):
    def curve(t):
        return (3.0 / (1 + t), 0.1)

    keys = options.pop("curves", ("bayesian-sgd", "mle", "known"))
    name = options.pop("name", "newsvendor-independent")
    summary = summary_of(name, dict.fromkeys(keys, curve), **options)
    converging = [c for c in convergence.claims(summary) if c.id.endswith("newsvendor-independent")]
    for claim in [*converging, *independent_data.from_summary(summary)]:
        said = claim.as_dict()
        assert said["verdict"] == OPEN
        assert said["measured"].startswith("not run: ")
        assert why in said["measured"]

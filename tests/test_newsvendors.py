"""The benchmark of newsvendors: the protocol by hand, decisions by brute force, no leaks."""

import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import postgrad as pg
from postgrad import cli, errors
from postgrad.problem.contexts import InContext
from postgrad.research.newsvendors import quantiles
from postgrad.research.newsvendors.benchmark import newsvendors
from postgrad.research.newsvendors.families import ANY, COUNTS, POSITIVE, family_of
from postgrad.research.newsvendors.learning import Learner, learning_program
from postgrad.research.newsvendors.neighbours import empirical_quantiles, nearest_neighbours
from postgrad.research.newsvendors.protocol import (
    LEVELS,
    PUBLISHED,
    Demand,
    Protocol,
    published,
    series,
)
from postgrad.spec.newsvendors import read_demand

pytestmark = pytest.mark.sample(9, of="newsvendors")

YAZ = Path(__file__).parents[1] / "examples" / "yaz.csv"
ITEMS = ["calamari", "fish", "shrimp", "chicken", "koefte", "lamb", "steak"]


def counts(rows=150, seed=0, first=16_000, gap=0):
    """Demand with a weekday; some days are left out after the fiftieth."""
    rng = np.random.default_rng(seed)
    days = first + np.arange(rows) + np.where(np.arange(rows) > 50, gap, 0)
    mean = 12.0 * np.exp(0.4 * np.sin(days % 7))
    return Demand(f"item{seed}", days, rng.poisson(mean).astype(float))


def test_the_protocol_by_hand():
    table = np.asarray([[9.0, 9], [4, 1], [2, 2], [8, 3], [6, 4], [5, 5], [1, 6]])
    table[3, 1] = np.nan
    one, other = series(np.arange(10, 17), table, ["a", "b"], drop=1)
    assert one.values.tolist() == [4, 2, 8, 6, 5, 1]
    assert (other.item, other.days.tolist()) == ("b", [11, 12, 14, 15, 16])
    protocol = Protocol(train=0.7, levels=(0.25, 0.9))
    assert (protocol.split(one), protocol.split(other)) == (4, 3)
    (q,) = empirical_quantiles([one], [4], [6], protocol.levels, live=False)
    # Sorted 2, 4, 6, 8: the places .75 and 2.7, rounded up, are those of 4 and 8.
    assert q.tolist() == [[4, 8], [4, 8]]
    # Demand 5 and 1: short by 1, left 3; left 3 and 7.
    expected = [(10 * 0.25 * 1 + 10 * 0.75 * 3) / 2, (10 * 0.1 * 3 + 10 * 0.1 * 7) / 2]
    np.testing.assert_allclose(protocol.costs(q, one.values[4:]), expected)
    (live,) = empirical_quantiles([one], [4], [6], protocol.levels, live=True)
    assert live.tolist() == [[4, 8], [4, 8]]  # 2, 4, 5, 6, 8 has the places 1 and 3.6


def test_published_figures_of_the_empirical_quantile_are_reproduced():
    demands = read_demand(YAZ, date="date", items=ITEMS, drop=27)
    protocol = Protocol()
    found = empirical_quantiles(demands, [553] * 7, [738] * 7, LEVELS, live=False)
    costs = [protocol.costs(q, d.values[553:]) for q, d in zip(found, demands, strict=True)]
    expected = PUBLISHED["empirical quantile"]
    np.testing.assert_allclose(np.mean(costs, axis=0), expected, atol=0.005)
    assert published(demands, protocol) == PUBLISHED
    assert published(demands, Protocol(train=0.7)) == {}
    assert published(demands[1:], protocol) == {}


@pytest.mark.parametrize("live", [True, False])
def test_neighbours_are_the_nearest_in_the_calendar(live):
    demand = counts(500, gap=30)
    (found,) = nearest_neighbours([demand], [400], [450], LEVELS, live=live)
    date = demand.days.astype("datetime64[D]")
    weekday, month = (date.astype(int) + 3) % 7, date.astype("datetime64[M]").astype(int) % 12
    year = date.astype("datetime64[Y]").astype(int)
    for t in range(400, 450):
        rows = np.arange(t if live else 400)
        squares = (
            2.0 * (weekday[rows] != weekday[t])
            + 2.0 * (month[rows] != month[t])
            + (year[rows] - year[t]) ** 2
        )
        near = np.lexsort((-rows, squares))[:64]
        expected = np.quantile(demand.values[near], LEVELS, method="higher")
        np.testing.assert_array_equal(found[t - 400], expected)


def test_quantiles_of_many_mixtures():
    """Against SciPy's distribution functions, at each node of each member."""
    rng = np.random.default_rng(0)
    shape, levels = (40, 5), np.asarray([0.02, 0.1, 0.5, 0.9, 0.99])
    mean, variance = (
        rng.uniform(-2.0, 9.0, (40, 1)) + 0.3 * rng.normal(size=shape),
        rng.uniform(0.0, 0.2, shape),
    )
    log_weights, r = 2.0 * rng.normal(size=shape), np.asarray([0.5, 2.0, 20.0, 300.0, 1e4])
    found = quantiles.quantiles(quantiles.counts(mean, variance, log_weights, r), levels)
    weight = np.exp(log_weights) / np.exp(log_weights).sum(axis=1, keepdims=True)
    nodes, shares = np.polynomial.hermite_e.hermegauss(7)
    rate = np.exp(mean[..., None] + np.sqrt(variance)[..., None] * nodes)
    law = stats.nbinom(r[:, None], r[:, None] / (r[:, None] + rate))
    share = weight[..., None] * shares / shares.sum()
    for k, level in enumerate(levels):
        at = found[:, k, None, None]
        reached, before = ((share * law.cdf(y)).sum(axis=(1, 2)) for y in (at, at - 1))
        assert (reached >= level - 1e-3).all()  # members of less than .001 are left out
        assert (before < level + 1e-3).all()
    real = quantiles.quantiles(quantiles.normals(mean, variance, log_weights, r), levels)
    cdf = stats.norm(mean[:, None], np.sqrt(variance + r**2)[:, None]).cdf(real[..., None])
    np.testing.assert_allclose((weight[:, None] * cdf).sum(axis=2), levels + 0 * real, atol=1e-3)


def test_many_rows_of_many_items_are_what_one_belief_decides(monkeypatch):
    """Items of different lengths, and with days left out."""
    monkeypatch.setattr(quantiles, "_LEAST", 0.0)
    demands, ends = [counts(140, seed=1, gap=9), counts(30, seed=2)], [137, 30]
    learner = Learner(demands, COUNTS, learning_program(COUNTS, 2), Protocol())
    learner.learn([135, 20])
    frozen = learner.copy().decide(ends, LEVELS, learning=False)
    live = learner.decide(ends, LEVELS, learning=True)
    model = pg.models.daily_demand()
    observed = pg.models.WithOutliers(model)

    @jax.jit
    def advanced(belief, elapsed, z):
        belief = belief.advance(elapsed)
        found = pg.beliefs.predictive_quantile(belief, InContext(model, z), jnp.asarray(LEVELS))
        return belief, found

    @jax.jit
    def learned(belief, z, y):
        return belief.update(InContext(observed, z), jnp.asarray(0.0), y)

    demand, belief, asleep = demands[1], pg.beliefs.daily_demand(), None
    date = demand.days.astype("datetime64[D]")
    for t in range(30):
        month = date[t].astype("datetime64[M]").astype(int) % 12
        z = {"day": float(t), "weekday": int(demand.days[t] + 3) % 7, "month": int(month)}
        asleep = belief if t == 20 else asleep
        belief, found = advanced(belief, float(t > 0), z)
        if t >= 20:
            np.testing.assert_array_equal(live[1][t - 20], found)
            asleep, found = advanced(asleep, 1.0, z)
            np.testing.assert_array_equal(frozen[1][t - 20], found)
        belief = learned(belief, z, demand.values[t : t + 1])
    assert [q.shape for q in live] == [(2, 5), (10, 5)]


def test_no_decision_sees_what_comes_after_it():
    demands = [counts(seed=1), counts(seed=2)]
    changed = demands[0].values.copy()
    changed[130:] = np.random.default_rng(0).permutation(changed[130:]) + 40.0
    others = [demands[0]._replace(values=changed), demands[1]]
    protocol, program = Protocol(), learning_program(COUNTS, 2)

    def decisions(items, live):
        learner = Learner(items, COUNTS, program, protocol)
        learner.learn([112, 112])
        return learner.decide([150, 150], LEVELS, learning=live)

    before, after = decisions(demands, True), decisions(others, True)
    np.testing.assert_array_equal(before[0][: 131 - 112], after[0][: 131 - 112])
    assert (before[0][131 - 112 :] != after[0][131 - 112 :]).any()
    np.testing.assert_array_equal(before[1], after[1])
    np.testing.assert_array_equal(decisions(demands, False), decisions(others, False))


def test_the_family_follows_from_the_data():
    def of(*values):
        return family_of([Demand("a", np.arange(len(values)), np.asarray(values))])

    assert of(0.0, 3.0) is COUNTS
    assert of(0.5, 3.0) is POSITIVE
    assert of(0.0, 0.5) is of(-1.0, 3.0) is ANY


@pytest.mark.parametrize("unit", [0.001, 1000.5])
@pytest.mark.slow
def test_the_unit_of_demand_does_not_matter(unit):
    """Demand with a decimal point, log-normal, and normal where there are zeros."""
    demand = counts(400)
    values = np.where(np.arange(400) == 7, 0.0, demand.values)
    for made, family in ((demand.values + 0.25, POSITIVE), (values + 0.0, ANY)):
        items = [demand._replace(values=made * unit + (0.5 * unit if family is ANY else 0.0))]
        found = newsvendors(items)
        ours, empirical = (found.line(name, "live").total for name in
                           ("postgrad", "empirical quantile"))  # fmt: skip
        assert ours < 0.95 * empirical


@pytest.mark.slow
def test_the_page_shows_what_the_command_prints():
    page = (Path(__file__).parents[1] / "docs" / "newsvendors.md").read_text()
    shown, found = page.split("```")[3], invoke("--origins", "300,369,430,490,553").stdout
    said, printed = (re.findall(r"\d+\.\d+", text) for text in (shown, found))
    assert re.findall("[a-z]+", shown) == re.findall("[a-z]+", found)
    np.testing.assert_allclose(list(map(float, said)), list(map(float, printed)), atol=0.06)


def invoke(*arguments):
    return CliRunner().invoke(cli.app, ["bench", "newsvendors", *map(str, arguments)])


def test_wide_and_long_tables_are_the_same(tmp_path):
    demands = [counts(60, seed=1), counts(60, seed=2)]
    dates = demands[0].days.astype("datetime64[D]")
    wide = [
        "day,a,b",
        *(f"{d},{x:g},{y:g}" for d, x, y in zip(dates, *(d.values for d in demands), strict=True)),
    ]
    long = ["day,which,sold"]
    for name, demand in zip("ab", demands, strict=True):
        long += [f"{d},{name},{y:g}" for d, y in zip(dates, demand.values, strict=True)]
    for name, lines in (("wide", wide), ("long", long)):
        (tmp_path / f"{name}.csv").write_text("\n".join([*lines, ""]))
    options = ["--date", "day", "--train", "0.8", "--levels", "0.5,0.9", "--origins", "40,50"]
    found = []
    for arguments in (
        [tmp_path / "wide.csv", "--items", "a,b"],
        [tmp_path / "long.csv", "--item", "which", "--value", "sold"],
    ):
        done = invoke(*arguments, *options, "--json")
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert (found[0]["train_rows"], found[0]["test_rows"]) == ([48, 48], [12, 12])
    assert found[0]["family"] == "negative binomial"
    assert len(found[0]["origins"]["sums"]["postgrad"]) == 2
    shown = invoke(tmp_path / "wide.csv", "--items", "a,b", *options)
    for words in ("64 nearest neighbours", "after 40", "negative binomial", "2 items, 48 rows"):
        assert words in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--items", "a"], 2, "go with a FILE"),
        ([YAZ], 2, "give either"),
        ([YAZ, "--items", "fish", "--item", "dow"], 2, "goes with --value"),
        ([YAZ, "--items", "fish", "--train", "1.5"], 2, "train must be a share between 0 and 1"),
        ([YAZ, "--items", "fish", "--levels", "0.5,1"], 2, "levels must be numbers between"),
        ([YAZ, "--items", "fish", "--levels", "half"], 2, "must be numbers, comma-separated"),
        ([YAZ, "--items", "fish", "--origins", "765"], 2, "below the number of rows"),
        ([YAZ, "--items", "fish", "--drop", "764"], 4, "'fish' has 1 rows"),
        ([YAZ, "--items", "meat"], 4, "there is no column 'meat'"),
        ([YAZ, "--items", "fish", "--date", "dow"], 4, "line 2: '4' is no date such as"),
    ],
)
def test_errors_say_what_to_do(arguments, code, words):
    done = invoke(*arguments)
    error = done.exception
    shown = " ".join((done.output + str(error)).replace("│", " ").split())
    assert words in shown
    if isinstance(error, errors.PostgradError):
        kinds = (errors.DataError, errors.BatchError)
        assert isinstance(error, kinds) == (code == 4)
    else:
        assert done.exit_code == code

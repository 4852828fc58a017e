"""Surprise is calibrated, and alarms are as rare as they say and as quick as they should be."""

import io
import re
import warnings
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax, random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.algorithm.surprise import Surprise, surprise
from postgrad.monitoring.misspecification import MisspecificationWarning, Monitor

X = jnp.asarray(0.0)


def normal(x, theta):
    return dist.Normal(theta, 2.0)


def poisson(x, theta):
    return dist.Poisson(theta)


def correlated(x, theta):
    factor = jnp.asarray([[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [-0.3, 0.2, 2.0]])
    return dist.MultivariateNormal(theta["mean"] * jnp.arange(3.0), scale_tril=factor)


LINE = pg.beliefs.Grid(
    jnp.linspace(-3.0, 3.0, 41), jnp.exp(-0.5 * jnp.linspace(-3.0, 3.0, 41) ** 2)
)
RATES = pg.beliefs.Grid(jnp.asarray([0.3, 0.8, 1.5, 4.0]))
SLOPES = pg.beliefs.Grid({"mean": jnp.linspace(-1.0, 1.0, 9)})
PADDED = jnp.asarray([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])


@eqx.filter_jit
def pits(prior, model, weight, replications, replicates, power, late):
    """The u of a second batch, theta drawn from the prior: (replication, statistic, ...).

    Planted bugs: a power of the posterior instead of itself, and the posterior after the batch.
    """

    def one(key):
        k1, k2, k3 = random.split(key, 3)
        first, second = model(X, prior.sample(k1)).sample(k2, (2, *weight.shape))
        grid = prior.update(model, X, first, weight)
        values = jnp.where(
            late, grid.update(model, X, second, weight).log_weights, grid.log_weights
        )
        grid = eqx.tree_at(lambda g: g.weights.values, grid, power * values)
        found = surprise(grid, model, X, second, weight, k3, replicates)
        return jnp.stack([found.pit_location, found.pit_spread])

    return jax.vmap(one)(random.split(random.key(0), replications))


def p_value(u):
    """The least of two tests of uniformity, for each column, after Bonferroni."""
    columns = u.reshape(len(u), -1).T
    ps = [
        p
        for column in columns
        for p in (
            stats.kstest(column, "uniform").pvalue,
            stats.chisquare(np.histogram(column, 20, (0.0, 1.0))[0]).pvalue,
        )
    ]
    return min(ps) * len(ps)


@pytest.mark.parametrize(
    ("prior", "model", "weight", "replicates"),
    [
        (LINE, normal, jnp.ones(1), 199),
        (LINE, normal, PADDED, 39),
        pytest.param(RATES, poisson, jnp.asarray([1.0, 1.0, 0.0]), 9, marks=pytest.mark.slow),
        (SLOPES, correlated, jnp.ones(2), 19),
    ],
    ids=["normal", "padded", "poisson", "vector"],
)
def test_pit_is_uniform(prior, model, weight, replicates):
    right = {"power": jnp.asarray(1.0), "late": jnp.asarray(False)}
    u = np.asarray(pits(prior, model, weight, 10_000, replicates, **right))
    assert u.shape == (10_000, 2, *model(X, prior.sample(random.key(0))).event_shape)
    assert p_value(u) > 1e-3


@pytest.mark.parametrize(
    "bug",
    [
        {"power": jnp.asarray(1 / 0.8**2), "late": jnp.asarray(False)},  # a spread 20 % too small
        {"power": jnp.asarray(1.0), "late": jnp.asarray(True)},  # has seen the batch already
    ],
    ids=["narrow", "late"],
)
def test_calibration_notices_a_wrong_belief(bug):
    assert p_value(pits(LINE, normal, PADDED, 10_000, 39, **bug)) < 1e-3


seen = eqx.filter_jit(surprise)


def test_rows_without_weight_do_not_count():
    batch = jnp.asarray([1.0, 2.0, 3.0])
    for weight in (jnp.asarray([1.0, 1.0, 0.0]), jnp.zeros(3)):
        one, other = (
            seen(LINE, normal, X, batch.at[2].set(y), weight, random.key(0)) for y in (3.0, 1e9)
        )
        if weight.any():
            assert eqx.tree_equal(one, other)
        else:  # nothing was seen, so nothing is surprising
            assert one.z_location == one.z_spread == 0.0
            assert 0 < one.pit_location < 1


def test_z_tells_how_far_out():
    known, first = pg.beliefs.Known(1.0), jnp.zeros(16).at[0].set(1.0)

    def found(y, weight):
        return seen(known, normal, X, jnp.full(16, y), weight, random.key(2), 4999)

    for y, z in ((1.0 + 2 * 50, 50), (1.0 - 2 * 50, -50), (1.0, 0)):
        assert found(y, first).z_location == pytest.approx(z, rel=0.05, abs=0.05)
    # the mean of 16 observations varies by a quarter as much
    assert found(3.0, jnp.ones(16)).z_location == pytest.approx(4.0, rel=0.05)
    # |y - c| of one observation has mean 2 sqrt(2 / pi) and variance 4 (1 - 2 / pi), if c were the
    # median of what is foreseen
    z = (100 - 2 * np.sqrt(2 / np.pi)) / (2 * np.sqrt(1 - 2 / np.pi))
    assert found(101.0, first).z_spread == pytest.approx(z, rel=0.15)


def test_large_batches_are_compared_in_part():
    """Evenly: a change in the middle of a batch is seen."""
    level = jnp.ones(1000)
    for batch, high in ((level, False), (level.at[500:].set(9.0), True)):
        z = seen(pg.beliefs.Known(1.0), normal, X, batch, None, random.key(0)).z_location
        assert (z > 10) == high


def test_no_posterior_is_no_surprise():
    lost = eqx.tree_at(lambda g: g.weights.values, LINE, jnp.full(41, jnp.nan))
    found = seen(lost, normal, X, jnp.ones(3), jnp.ones(3), random.key(0))
    assert np.isnan([found.pit_location, found.pit_spread]).all()
    monitor = Monitor().update(found)
    assert not monitor.raised
    assert np.all(monitor.since_start == 0.0)


# The monitor, on numbers that are what they claim to be.


def strongest(monitor):
    return jnp.argmax(monitor.since_best)


def watch(monitor, found):
    """The alarms of a stream of surprises: (kind, first stage of the strongest bet)."""

    def step(monitor, one):
        monitor = monitor.update(one)
        return monitor, (monitor.raised, monitor.best.ravel()[strongest(monitor)])

    return lax.scan(step, monitor, found)[1]


def uniform(key, shape, event=()):
    location, spread = random.uniform(key, (2, *shape, *event))
    return Surprise(location, spread, jnp.zeros_like(location), jnp.zeros_like(spread))


@pytest.mark.parametrize("event", [(), (3,)])
def test_false_alarms_are_as_rare_as_they_say(event):
    streams, horizon, alpha = 1000, 200, 0.05
    found = uniform(random.key(0), (streams, horizon), event)
    kinds, _ = jax.jit(jax.vmap(lambda s: watch(Monitor(event, alpha=alpha), s)))(found)
    kinds = np.asarray(kinds)
    assert (kinds == 3).sum() == 0
    # By Ville, of the first alarms; a right procedure fails this test once in 10,000 times.
    first = kinds[np.arange(streams), (kinds > 0).argmax(axis=1)]
    assert (first == 1).sum() <= stats.binom.ppf(0.9999, streams, alpha)
    assert (first == 1).sum() > 0  # else this is a test of nothing
    # The mean number of batches until the first alarm: those without one count with the horizon.
    waiting = np.where((kinds > 0).any(axis=1), (kinds > 0).argmax(axis=1) + 1, horizon)
    assert waiting.mean() > 1 / alpha


def test_default_level_over_many_streams():
    """400 streams of 500 batches: no misfit to speak of, and few changes."""
    found = uniform(random.key(1), (400, 500))
    kinds, _ = jax.jit(jax.vmap(lambda s: watch(Monitor(), s)))(found)
    assert (np.asarray(kinds) == 1).any(axis=1).sum() <= 3
    assert (np.asarray(kinds) == 2).sum() <= 0.5 * 400 * 500 / 1000


def test_a_million_batches():
    """Neither overflow nor a number that is none, and a change is seen at once afterwards."""

    def body(i, monitor):
        u = 0.05 + 0.9 * (0.6180339887 * i % 1.0)
        return monitor.update(Surprise(u, 1.0 - u, jnp.zeros(()), jnp.zeros(())))

    monitor = jax.jit(lambda m: lax.fori_loop(0, 1_000_000, body, m))(Monitor())
    assert monitor.stage == 1_000_000
    assert monitor.alarm() is None
    for leaf in jax.tree.leaves(monitor):
        assert np.isfinite(leaf).all()
    absurd = Surprise(*jnp.asarray([0.999, 0.999, 5.0, 5.0]))
    for _ in range(3):
        monitor = monitor.update(absurd)
    assert monitor.alarm().since == 1_000_001


# The whole: batches, beliefs, surprises, alarms.


@eqx.filter_jit
def live(prior, means, scales, keys):
    """Streams of single normal observations, learned from and watched."""

    def step(carry, inputs):
        belief, monitor = carry
        mean, scale, key = inputs
        k1, k2 = random.split(key)
        y = mean + scale * random.normal(k1, (1,))
        monitor = monitor.update(surprise(belief, normal, X, y, None, k2))
        belief = belief.update(normal, X, y)
        return (belief, monitor), (monitor.raised, monitor.best.ravel()[strongest(monitor)])

    def stream(key):
        keys = random.split(key, len(means))
        return lax.scan(step, (prior, Monitor()), (means, scales, keys))[1]

    return jax.vmap(stream)(keys)


def streams(means, scales, count=50):
    """The first alarm of each stream: its stage, kind and beginning."""
    kinds, since = map(np.asarray, live(LINE, means, scales, random.split(random.key(3), count)))
    noticed = np.where((kinds > 0).any(axis=1), (kinds > 0).argmax(axis=1) + 1, 10**6)
    last = np.arange(count), np.minimum(noticed, kinds.shape[1]) - 1
    return noticed, kinds[last], since[last]


T = np.arange(1, 201)


def test_change_of_location_is_noticed():
    noticed, kind, since = streams(np.where(T < 150, 1.0, 5.0), np.full(200, 2.0))  # by 2 sd
    right = noticed >= 150
    assert right.mean() > 0.9
    assert np.median(noticed[right]) <= 158
    assert np.all(noticed[right] <= 175)
    assert np.all(kind[right] == 2)
    assert abs(np.median(since[right]) - 150) <= 2
    assert np.mean(np.abs(since[right] - 150) <= 6) > 0.8


def test_change_of_scale_is_noticed():
    noticed, kind, since = streams(np.ones(200), np.where(T < 100, 2.0, 6.0))
    right = noticed >= 100
    assert right.mean() > 0.9
    assert np.median(noticed[right]) <= 112
    assert np.all(kind[right] == 2)
    assert abs(np.median(since[right]) - 100) <= 5


def test_prior_that_excludes_the_data_is_noticed():
    """The grid ends at 3, the data are at 12: 4.5 standard deviations away."""
    noticed, kind, _ = streams(np.full(200, 12.0), np.full(200, 2.0))
    assert np.all(noticed <= 5)
    assert np.all(kind == 1)


def test_one_absurd_observation():
    means = np.where(T == 150, 1.0 + 50 * 2.0, 1.0)
    noticed, kind, _ = streams(means, np.full(200, 2.0))
    assert np.mean((noticed == 150) & (kind == 3)) > 0.9


# What an alarm says.


def test_alarm_says_what_and_since_when():
    monitor = Monitor((2,))
    calm = Surprise(*jnp.asarray([[0.3, 0.6], [0.5, 0.4], [-0.5, 0.2], [0.0, -0.2]]))
    high = Surprise(*jnp.asarray([[0.4, 0.997], [0.5, 0.8], [-0.2, 4.1], [0.0, 0.8]]))
    update = eqx.filter_jit(Monitor.update)
    for _ in range(20):
        monitor = update(monitor, calm)
        assert monitor.alarm() is None
    while not monitor.raised:
        monitor = update(monitor, high)
    alarm = monitor.alarm()
    assert (alarm.kind, alarm.since, alarm.statistic) == ("change", 21, "location")
    assert alarm.stage == int(monitor.stage) <= 24
    assert alarm.coordinate == (1,)
    assert (alarm.pit, alarm.z) == (0.997, 4.1)
    assert alarm.evidence >= 1000
    message = str(alarm)
    for part in (
        "location of coordinate [1]",
        "0.997 quantile",
        "z = 4.1",
        "since batch 21",
        "1000",
    ):
        assert part in message
    assert f"{alarm.evidence:.1e} to 1" in message

    # One cause, one alarm; if it stays, the next after a rest, and then after a longer one.
    stages, kinds = [], []
    for _ in range(100):
        monitor = update(monitor, high)
        if found := monitor.alarm():
            stages.append(found.stage)
            kinds.append(found.kind)
    assert kinds == ["misfit"] * len(kinds)
    gaps = np.diff([alarm.stage, *stages])
    assert 10 < gaps[0] < 20
    assert np.all(np.diff(gaps) >= 10)


def test_outlier_is_announced_once():
    monitor, kinds = Monitor(), []
    for z in (0.0, 50.0, 50.0, 0.0, -40.0, 0.0):
        u = 0.997 if z > 0 else 0.4
        monitor = monitor.update(Surprise(*jnp.asarray([u, 0.5, z, 0.0])))
        kinds.append(monitor.alarm() and monitor.alarm().kind)
    assert kinds == [None, "outlier", None, None, "outlier", None]
    monitor = Monitor().update(Surprise(*jnp.asarray([0.9999, 0.9, 50.0, 3.0])))
    assert "z = 50.0" in str(monitor.alarm())
    assert monitor.alarm().evidence == pytest.approx(2500)


def test_warning_carries_the_alarm():
    alarm = Monitor().update(Surprise(*jnp.asarray([0.9999, 0.9, 50.0, 3.0]))).alarm()
    with pytest.warns(MisspecificationWarning, match=r"z = 50\.0") as caught:
        warnings.warn(MisspecificationWarning(alarm), stacklevel=1)
    assert caught[0].message.alarm is alarm
    assert issubclass(MisspecificationWarning, UserWarning)


def test_monitor_is_a_state():
    """Types do not change, and saved and restored is bit-identical."""
    monitor = Monitor((2,))
    step = jax.jit(lambda m, key: m.update(uniform(key, (2,))))
    later = step(step(monitor, random.key(0)), random.key(1))
    assert jax.tree.map(jax.typeof, monitor) == jax.tree.map(jax.typeof, later)
    buffer = io.BytesIO()
    eqx.tree_serialise_leaves(buffer, later)
    buffer.seek(0)
    assert eqx.tree_equal(later, eqx.tree_deserialise_leaves(buffer, monitor))


@pytest.mark.parametrize("alpha", [0.0, 1.0, -1.0, np.nan, "1e-3", [0.1, 0.2], True])
def test_bad_levels_are_refused(alpha):
    with pytest.raises(errors.SettingError, match="alpha"):
        Monitor(alpha=alpha)


@pytest.mark.slow
def test_example_of_the_documentation():
    text = (Path(__file__).parents[1] / "docs" / "alarms.md").read_text()
    example = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    scope = {}
    with pytest.warns(MisspecificationWarning):
        exec(compile(example, "alarms.md", "exec"), scope)
    (alarm,) = scope["agent"].alarms
    assert (alarm.kind, alarm.since) == ("change", 150)
    shown = " ".join(re.search(r"\n\n(    the data no longer.*?)\n\n", text, re.DOTALL)[1].split())
    assert str(alarm) == shown

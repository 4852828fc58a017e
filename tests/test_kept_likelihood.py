"""What the data said: the likelihood at any theta, from statistics or from the data themselves."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random

import postgrad as pg
from postgrad import errors
from postgrad.beliefs.forgetting import Memory
from postgrad.beliefs.kept_likelihood import KeptRows, room, with_room
from postgrad.beliefs.sufficient_totals import SufficientTotals, choose, renewed
from postgrad.distributions.density import log_density
from postgrad.problem.batch import Batch


def mean(x, theta):
    return dist.Normal(theta, 2.0)


def moved_mean(x, theta):
    return dist.Normal(theta + jnp.sqrt(x), 2.0)


def mean_and_scale(x, theta):
    return dist.Normal(theta["mean"] + x, theta["scale"])


def scaled_exponential(x, theta):
    return dist.Exponential(1.0 / (theta * (1.0 + x**2)))


def rate(x, theta):
    return dist.Poisson(theta * (1.0 + x))


def shape_and_rate(x, theta):
    return dist.Gamma(theta["shape"], theta["rate"])


def probability(x, theta):
    return dist.Bernoulli(theta)


def logs(x, theta):
    return dist.LogNormal(theta + x, 0.7)


def vector(x, theta):
    return dist.Normal(theta + x, 1.5).to_event(1)


def correlated(x, theta):
    return dist.MultivariateNormal(theta, jnp.asarray([[2.0, 0.5], [0.5, 1.0]]))


def response(x, theta):  # x does not only shift or scale it
    return dist.Normal(theta["a"] - theta["b"] * x, 2.0)


def heavy(x, theta):
    return dist.StudentT(4.0, theta + x, 1.0)


def bounded(x, theta):
    return dist.Uniform(0.0, theta + x)


RNG = np.random.default_rng(0)
# Draws from priors.
REALS, POSITIVE = RNG.normal(1.0, 2.0, 200), RNG.lognormal(0.5, 0.6, 200)
UNIT, PAIR = RNG.beta(2.0, 2.0, 200), RNG.normal(0.0, 2.0, (200, 2))
FAMILIES = [
    (mean, REALS),
    (moved_mean, REALS),
    (mean_and_scale, {"mean": REALS, "scale": POSITIVE}),
    (scaled_exponential, POSITIVE),
    (rate, POSITIVE),
    (shape_and_rate, {"shape": POSITIVE, "rate": POSITIVE}),
    (probability, UNIT),
    (logs, REALS),
    (vector, PAIR),
    (correlated, PAIR),
]
OTHERS = [(response, {"a": REALS, "b": POSITIVE}), (heavy, REALS), (bounded, POSITIVE)]


def first(thetas):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[0], thetas)


def cost(x, xi):  # one for all problems: programs are then shared
    return x * jnp.sum(xi)


def problem(model):
    return pg.Problem(cost, model, pg.feasible.Box(0.1, 3.0))


def empty(model, thetas):
    return choose(problem(model), jax.tree.map(jnp.asarray, thetas), jnp.asarray(1.0))


def data(model):
    """(x, batch, weight) at several decisions; what the models' supports have in common."""
    weights = [None, jnp.asarray([1.0, 0.0, 0.5, 2.0]), jnp.asarray([1.0, 1.0, 0.0, 1.0])]
    rng = np.random.default_rng(1)
    shape = (3, 4, 2) if model in (vector, correlated) else (3, 4)
    ys = rng.integers(0, 2, shape) if model in (rate, probability) else rng.uniform(0.1, 0.9, shape)
    return [
        (jnp.asarray(x), jnp.asarray(y, float), weight)
        for x, y, weight in zip((0.3, 1.0, 2.5), ys, weights, strict=True)
    ]


@eqx.filter_jit
def fill(evidence, model, rows, forget=None):
    for x, batch, weight in rows:
        if forget is not None:
            evidence = evidence.faded(forget)
        evidence = evidence.add(model, Batch(x, batch, weight))
    return evidence


@eqx.filter_jit
def brute_force(model, rows, theta, forget=1.0):
    """Densities, row by row."""
    total = jnp.zeros(())
    for age, (x, batch, weight) in enumerate(reversed(rows)):
        log_f = log_density(model(x, theta), batch)
        w = jnp.ones(len(batch)) if weight is None else weight
        total += forget**age * jnp.sum(jnp.where(w > 0, w * log_f, 0.0))
    return total


@eqx.filter_jit
def add(evidence, model, x, batch, weight=None):
    return evidence.add(model, Batch(x, batch, weight))


@eqx.filter_jit
def value(evidence, model, theta):
    return evidence.log_likelihood(model, theta)


@eqx.filter_jit
def values(evidence, model, thetas, forget=None):
    """What the evidence says at each theta, and what it should."""
    rows = data(model)
    full = fill(evidence, model, rows, forget)
    forget = 1.0 if forget is None else forget
    said = jax.vmap(lambda theta: full.log_likelihood(model, theta))(thetas)
    return said, jax.vmap(lambda theta: brute_force(model, rows, theta, forget))(thetas)


def assert_right(evidence, model, thetas, forget=None):
    some = jax.tree.map(lambda leaf: jnp.asarray(leaf)[5:12], thetas)
    said, exact = values(evidence, model, some, forget)
    np.testing.assert_allclose(said, exact, rtol=1e-9, atol=1e-7)


@pytest.mark.sample(6)
@pytest.mark.parametrize(("model", "thetas"), FAMILIES, ids=[m.__name__ for m, _ in FAMILIES])
def test_statistics_give_the_sum_of_log_densities(model, thetas):
    evidence = empty(model, thetas)
    assert isinstance(evidence, SufficientTotals)
    assert_right(evidence, model, thetas)


@pytest.mark.parametrize(
    ("model", "thetas"), OTHERS + FAMILIES[2:4], ids=[m.__name__ for m, _ in OTHERS + FAMILIES[2:4]]
)
def test_histories_give_the_sum_of_log_densities(model, thetas):
    if model in (mean_and_scale, scaled_exponential):
        evidence = KeptRows.empty(model, jnp.asarray(1.0), first(thetas))
    else:
        evidence = empty(model, thetas)
    assert isinstance(evidence, KeptRows)
    assert_right(evidence, model, thetas)


def test_observation_models_are_the_likelihood():
    seen = pg.Problem(lambda x, xi: x * xi, mean, pg.feasible.Box(0.1, 3.0), observation=rate)
    assert_right(choose(seen, jnp.asarray(POSITIVE), jnp.asarray(1.0)), rate, POSITIVE)


@pytest.mark.parametrize("model", [moved_mean, heavy])
def test_evidence_fades(model):
    assert_right(empty(model, REALS), model, REALS, jnp.asarray(0.8))


def test_both_forms_have_the_same_slope():
    rows = data(mean_and_scale)
    theta = {"mean": jnp.asarray(0.7), "scale": jnp.asarray(1.9)}
    totals = fill(empty(mean_and_scale, FAMILIES[2][1]), mean_and_scale, rows)
    history = fill(KeptRows.empty(mean_and_scale, jnp.asarray(1.0), theta), mean_and_scale, rows)
    slope = jax.grad(lambda theta, form: 3.0 * form.log_likelihood(mean_and_scale, theta))
    one, other = (jax.jit(slope)(theta, form) for form in (totals, history))
    np.testing.assert_allclose(jax.tree.leaves(one), jax.tree.leaves(other), rtol=1e-9)
    step = jax.tree.map(lambda leaf: leaf + 1e-6, theta)
    rise = value(history, mean_and_scale, step) - value(history, mean_and_scale, theta)
    assert rise == pytest.approx(1e-6 * float(sum(jax.tree.leaves(other))) / 3.0, rel=1e-4)


def test_data_outside_the_support_are_not_taken_for_evidence():
    evidence = empty(scaled_exponential, POSITIVE)
    batch, x, theta = jnp.asarray([1.0, -1.0]), jnp.asarray(0.5), jnp.asarray(1.0)
    lost = add(evidence, scaled_exponential, x, batch)
    assert np.isnan(value(lost, scaled_exponential, theta))
    kept = add(evidence, scaled_exponential, x, batch, jnp.asarray([1.0, 0.0]))
    exact = brute_force(scaled_exponential, [(x, jnp.ones(1), None)], theta)
    assert value(kept, scaled_exponential, theta) == pytest.approx(float(exact))


def test_statistics_are_not_used_where_rounding_would_eat_them():
    """A prior ten million times wider than the noise: squares of 1e7 leave no digits for nats."""
    assert isinstance(empty(mean, 100.0 * REALS), SufficientTotals)
    assert isinstance(empty(mean, 1e7 * REALS), KeptRows)
    assert isinstance(empty(moved_mean, 1e7 * REALS), KeptRows)


def test_heavy_tails_of_a_prior_do_not_hide_a_family():
    assert isinstance(empty(rate, np.abs(RNG.standard_cauchy(200))), SufficientTotals)
    assert isinstance(empty(scaled_exponential, RNG.lognormal(0.0, 3.0, 200)), SufficientTotals)


def test_statistics_do_not_drift():
    """A hundred thousand single observations: the sum of all at once."""
    evidence, x = empty(moved_mean, REALS), jnp.asarray(1.7)
    batch = np.random.default_rng(0).normal(40.0, 2.0, 100_000)

    @jax.jit
    def one_by_one(evidence, batch):
        return jax.lax.scan(
            lambda e, y: (e.add(moved_mean, Batch(x, y[None])), None), evidence, batch
        )[0]

    y = jnp.asarray(batch)
    parts, whole = one_by_one(evidence, y), add(evidence, moved_mean, x, y)
    for theta in (37.0, 40.0):
        one, other = (value(e, moved_mean, jnp.asarray(theta)) for e in (parts, whole))
        assert one == pytest.approx(float(other), abs=1e-5)


def fresh():
    return empty(heavy, REALS)


def test_a_history_that_is_full_says_so():
    """A row that was left out would be a posterior that looks right."""
    history, x = fresh(), jnp.asarray(1.0)
    rows = jnp.zeros(room(history))
    full = add(history, heavy, x, rows)
    assert room(full) == 0
    assert np.isfinite(value(full, heavy, jnp.asarray(0.0)))
    for over in (add(full, heavy, x, rows[:1]), add(history, heavy, x, jnp.zeros(2000))):
        assert np.isnan(value(over, heavy, jnp.asarray(0.0)))


def test_histories_grow_where_they_are():
    history, x = fresh(), jnp.asarray(1.0)
    y = random.normal(random.key(0), (history.capacity,))
    tree = {"state": (add(history, heavy, x, y), jnp.ones(3)), "other": None}
    grown = with_room(tree, 100)
    node = grown["state"][0]
    assert len(y) == 1024
    assert node.capacity == 4096
    assert room(grown) == 4096 - len(y)
    assert with_room(grown, 100)["state"][0] is node
    before, after = (value(t["state"][0], heavy, jnp.asarray(0.3)) for t in (tree, grown))
    assert after == pytest.approx(float(before), rel=1e-14)
    more = add(node, heavy, x, y[:50])
    exact = brute_force(heavy, [(x, y, None), (x, y[:50], None)], jnp.asarray(0.3))
    assert value(more, heavy, jnp.asarray(0.3)) == pytest.approx(float(exact), rel=1e-12)
    assert room({"nothing": jnp.ones(2)}) > 10**9


def test_rows_without_weight_take_no_room():
    """Agents pad batches with them."""
    history, x = fresh(), jnp.asarray(1.0)
    before = room(history)
    weight = jnp.asarray([0.0, 1.0, 0.0, 1.0])
    history = add(history, heavy, x, jnp.asarray([9.0, 1.0, 9.0, 2.0]), weight)
    assert before - room(history) == 2
    history = add(history, heavy, x, jnp.asarray([3.0, 4.0]))
    exact = brute_force(heavy, [(x, jnp.arange(1.0, 5.0), None)], jnp.asarray(0.3))
    assert value(history, heavy, jnp.asarray(0.3)) == pytest.approx(float(exact), rel=1e-12)


def test_rows_that_have_faded_make_room():
    history, x, forget = fresh(), jnp.asarray(1.0), jnp.asarray(0.5)
    for i in range(history.capacity // 4):
        history = fill(history, heavy, [(x, np.arange(4.0) + i, None)], forget)
    assert room(history) == 0
    before = value(history, heavy, jnp.asarray(60.0))
    history = with_room(history, 8)
    assert history.capacity == 1024
    assert room(history) >= 8
    after = value(history, heavy, jnp.asarray(60.0))
    assert after == pytest.approx(float(before), rel=1e-10)


def test_types_do_not_change():
    for model, thetas in (FAMILIES[1], OTHERS[1]):
        evidence = empty(model, thetas)
        added = fill(evidence, model, [(jnp.asarray(0.5), jnp.ones(2), None)], jnp.asarray(0.9))
        assert jax.tree.map(jax.typeof, evidence) == jax.tree.map(jax.typeof, added)


def test_vmap_equals_a_loop():
    for model, thetas in (FAMILIES[1], OTHERS[1]):
        evidence, batches = empty(model, thetas), random.normal(random.key(0), (3, 2))

        @jax.jit
        def one(batch, evidence=evidence, model=model):
            added = evidence.add(model, Batch(jnp.asarray(0.5), batch))
            return added.log_likelihood(model, jnp.asarray(0.2))

        np.testing.assert_allclose(
            jax.jit(jax.vmap(one))(batches), [one(b) for b in batches], rtol=1e-12
        )


def test_evidence_of_another_kind_is_refused():
    x, memory = jnp.asarray(1.0), Memory()
    seen = eqx.tree_at(lambda m: m.size, memory, jnp.asarray(4.0))
    kept = fill(empty(mean, REALS), mean, data(mean))
    assert renewed(kept, seen, problem(mean), jnp.asarray(REALS), x) is kept
    with pytest.raises(errors.ModelError, match="another kind"):
        renewed(kept, seen, problem(heavy), jnp.asarray(REALS), x)
    with pytest.raises(errors.ModelError, match="another kind"):
        renewed(kept, seen, problem(moved_mean), jnp.asarray(REALS), x)
    assert isinstance(renewed(kept, memory, problem(heavy), jnp.asarray(REALS), x), KeptRows)
    wide = with_room(fresh(), 500)
    assert renewed(wide, memory, problem(heavy), jnp.asarray(REALS), x).capacity == wide.capacity

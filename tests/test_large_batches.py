"""Large batches take no more memory than small ones, and mean the same."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import postgrad as pg
from postgrad.beliefs.belief import log_likelihood
from postgrad.problem.batch import Batch, by_rows

KEY = jax.random.key(3)


def gap(order, demand):
    return (order - demand) ** 2


def logistic(order, theta):
    return dist.Logistic(theta, 3.0)


def atoms(order, theta):
    return pg.distributions.Atoms(theta["values"], theta["weights"])


CASES = {
    "normal": (lambda order, theta: dist.Normal(theta, 3.0), pg.beliefs.Normal(10.0, 5.0)),
    "grid": (logistic, pg.beliefs.Grid(jnp.linspace(5.0, 26.0, 2001))),
    "mixture": (
        logistic,
        pg.beliefs.Mixture(
            [
                pg.beliefs.Grid(jnp.arange(9.0), forget=rate)
                for rate in (1.0, 0.99, 0.98, 0.96, 0.92)
            ]
        ),
    ),
    "gaussian": (logistic, pg.beliefs.Gaussian(10.0, 5.0)),
    "particles": (logistic, pg.beliefs.Particles(dist.Normal(10.0, 5.0))),
    "process": (atoms, pg.beliefs.DirichletProcess(dist.Normal(15.0, 5.0), 2.0)),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("model", "belief"), CASES.values(), ids=CASES.keys())
def test_memory_of_learning_does_not_grow_with_the_batch(model, belief):
    algorithm = pg.BayesianSGD(pg.Problem(gap, model, pg.feasible.Box(1.0, 100.0)))
    state = algorithm.init(belief, 15.0)
    numbers, rest = eqx.partition(state, eqx.is_array)

    def learn(numbers, y, weight):
        state = eqx.combine(numbers, rest)
        learned = algorithm.learn(state, Batch(state.decision, y, weight))
        return eqx.filter(learned, eqx.is_array)

    rows = jax.ShapeDtypeStruct((65_536,), float)
    program = jax.jit(learn).lower(numbers, rows, rows).compile()
    # 65,536 rows times 2,001 points are 1,049 MB.
    assert program.memory_analysis().temp_size_in_bytes < 64e6


@pytest.mark.parametrize("count", [1025, 2048, 2500])
@pytest.mark.parametrize("weighted", [False, True])
def test_parts_of_a_large_batch_add_up(count, weighted):
    y = jax.random.normal(KEY, (count,)).at[-1].set(1e3)
    weight = jnp.arange(count) % 3.0 if weighted else None
    batch = Batch(jnp.zeros(()), y, weight)

    def in_parts(theta):
        return log_likelihood(logistic, theta, batch)

    def at_once(theta):
        return batch.total(logistic(None, theta).log_prob(y))

    theta = jnp.asarray(0.7)
    for change in (lambda f: f, jax.grad, jax.hessian):
        found, expected = (jax.jit(change(f))(theta) for f in (in_parts, at_once))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_in_parts_are_the_same_rows():
    y = jax.random.normal(KEY, (2500, 3))
    np.testing.assert_array_equal(by_rows(lambda row: 2.0 * row[1], y), 2.0 * y[:, 1])


def test_small_batches_are_computed_at_once():
    for count, loops in ((1024, False), (2048, True)):
        batch = Batch(jnp.zeros(()), jnp.zeros(count), jnp.ones(count))
        total = jax.make_jaxpr(lambda theta, batch=batch: log_likelihood(logistic, theta, batch))
        each = jax.make_jaxpr(lambda y: by_rows(jnp.sin, y))
        assert ("scan" in str(total(0.5))) == loops
        assert ("scan" in str(each(batch.y))) == loops

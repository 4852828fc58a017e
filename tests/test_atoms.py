"""Distributions on finitely many values, and gradients through them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

import postgrad as pg
from postgrad import errors
from postgrad.distributions.atoms import Atoms

X = jnp.asarray(1.7)


def plain(x, theta):
    return Atoms(theta["values"], theta["weights"])


def moved(x, theta):
    return Atoms(jnp.sqrt(x) + (1.0 + x) * theta["values"], theta["weights"])


log_prob = jax.jit(lambda atoms, y: atoms.log_prob(y))
draw = jax.jit(lambda atoms, key, shape: atoms.sample(key, shape), static_argnums=2)


def test_atoms_have_their_weights():
    values, weights = jnp.asarray([1.0, 2.0, 5.0, 7.0]), jnp.asarray([0.2, 0.3, 0.5, 0.0])
    atoms = Atoms(values, weights)
    drawn = np.asarray(draw(atoms, random.key(3), (50_000,)))
    counts = [np.sum(drawn == value) for value in (1.0, 2.0, 5.0)]
    assert sum(counts) == 50_000
    assert stats.chisquare(counts, 50_000 * np.asarray([0.2, 0.3, 0.5])).pvalue > 1e-3
    assert atoms.mean == pytest.approx(3.3)
    assert atoms.variance == pytest.approx(3.01)
    np.testing.assert_allclose(
        log_prob(atoms, np.array([1.0, 3.0, 5.0, 7.0])),
        [np.log(0.2), -np.inf, np.log(0.5), -np.inf],
    )
    twice = Atoms(jnp.asarray([1.0, 1.0, 2.0]), jnp.asarray([0.2, 0.3, 0.5]))
    assert log_prob(twice, 1.0) == pytest.approx(np.log(0.5))


def test_atoms_are_a_distribution_like_others():
    weights = jnp.asarray([[0.2, 0.8], [1.0, 0.0]])
    several = Atoms(jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), weights)
    assert (several.batch_shape, several.event_shape) == ((2,), ())
    drawn = np.asarray(draw(several, random.key(0), (7, 5)))
    assert drawn.shape == (7, 5, 2)
    assert np.all(drawn[..., 1] == 3.0)
    vectors = Atoms(jnp.asarray([[1.0, 2.0], [3.0, 4.0]]), weights[0])
    assert (vectors.batch_shape, vectors.event_shape) == ((), (2,))
    rows = draw(vectors, random.key(0), (50,))
    assert set(map(tuple, rows.tolist())) == {(1.0, 2.0), (3.0, 4.0)}
    np.testing.assert_allclose(
        log_prob(vectors, np.array([[1.0, 2.0], [1.0, 4.0]])), [np.log(0.2), -np.inf]
    )
    assert vectors.support(rows).shape == (50,)
    same = jax.jit(lambda atoms: atoms.mean)(vectors)
    np.testing.assert_allclose(same, vectors.mean)
    for values, bad in (([1.0, 2.0], [1.0]), ([1.0], 1.0), ([], []), (["a"], [1.0])):
        with pytest.raises(errors.ModelError):
            Atoms(values, bad)


THETA = {"values": jnp.asarray([1.0, 2.0, 5.0]), "weights": jnp.asarray([0.2, 0.3, 0.5])}


def tilted(x, theta):
    return Atoms(theta["values"], jax.nn.softmax(jnp.log(theta["weights"]) + x * theta["values"]))


@pytest.mark.parametrize(
    ("model", "right", "refused"),
    [
        (
            moved,
            [pg.gradients.Pathwise(), pg.gradients.Automatic()],
            [pg.gradients.Score(), pg.gradients.MixtureScore()],
        ),
        (
            tilted,
            [pg.gradients.Score(), pg.gradients.MixtureScore()],
            [pg.gradients.Pathwise(), pg.gradients.Automatic()],
        ),
        (plain, [pg.gradients.Pathwise(), pg.gradients.Score(), pg.gradients.Automatic()], []),
    ],
    ids=["moved", "tilted", "plain"],
)
def test_gradients_through_atoms_are_right_or_refused(model, right, refused):
    problem = pg.Problem(lambda x, xi: (x - xi) ** 2, model, pg.feasible.Box(0.1, 9.0))
    known = pg.beliefs.Known(THETA)

    def exact(x):
        atoms = model(x, THETA)
        return jnp.sum(atoms.weights * (x - atoms.values) ** 2)

    def estimates(gradient):
        gradient.check(problem, X, THETA)

        def one(key):
            return gradient.estimate(problem, X, pg.gradients.Sample(THETA, key, known))

        return np.asarray(jax.jit(jax.vmap(one))(random.split(random.key(0), 20_000)))

    for gradient in right:
        found = estimates(gradient)
        error = 4 * found.std() / np.sqrt(len(found))
        assert found.mean() == pytest.approx(float(jax.jit(jax.grad(exact))(X)), abs=error)
    for gradient in refused:
        with pytest.raises(errors.GradientError):
            estimates(gradient)
    if model is moved:  # at the door already
        with pytest.raises(errors.GradientError, match="support that does not depend on x"):
            pg.gradients.MixtureScore().check(problem, X, THETA)

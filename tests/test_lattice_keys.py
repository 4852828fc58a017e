"""Keys of a lattice: each alone has exactly its law, and all together fill space evenly."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import random
from looking import noise, read_at
from scipy import stats

import postgrad as pg
from postgrad.algorithm.sampled_objective import SampledObjective, draw_thetas
from postgrad.numerics.lattice_keys import lattice_keys

SEEDS = 2000


def many_shifts(draw, points):
    """What the i-th key draws under shift s, (shift, key, ...)."""

    @jax.jit
    def at(seed):
        return jax.vmap(draw)(lattice_keys(random.key(seed), (points,)))

    return np.asarray(jax.vmap(at)(jnp.arange(SEEDS)))


def relatives(key):
    """Draws of a key, its children and grandchildren, which should have nothing in common."""
    ways = [key, *random.split(key, 3), *(random.fold_in(key, i) for i in range(3))]
    ways += [*random.split(random.fold_in(key, 0)), *random.split(random.split(key, 3)[0])]
    return jnp.stack([random.uniform(way) for way in ways])


@pytest.fixture(scope="module")
def family():
    return many_shifts(relatives, 16)


@pytest.mark.parametrize("i", [0, 1, 15])
def test_one_key_alone_is_uniform(family, i):
    """Over many shifts, for the key itself and whatever descends from it."""
    assert min(stats.kstest(column, "uniform").pvalue for column in family[:, i].T) > 1e-4


def test_relatives_are_independent_over_shifts(family):
    count = family.shape[-1]
    # Uniform in pairs, too: a chi-squared test on 8 by 8 cells for each pair at one key.
    cells = np.floor(8 * family[:, 5]).astype(int)
    assert len({tuple(row) for row in cells.T}) == count  # no two are the same
    worst = 1.0
    for a in range(count):
        for b in range(a):
            table = np.histogram2d(cells[:, a], cells[:, b], bins=8)[0]
            worst = min(worst, stats.chisquare(table.ravel()).pvalue)
    assert worst > 0.01 / (count * (count - 1) / 2)


def test_relatives_are_not_correlated_within_one_lattice():
    keys = lattice_keys(random.key(3), (2**14,))
    seen = np.asarray(jax.jit(jax.vmap(relatives))(keys))
    away = np.corrcoef(seen.T) - np.eye(seen.shape[1])
    assert np.abs(away).max() < 0.1


def test_every_projection_on_a_line_is_equidistant():
    """So are the draws of children, in all their dimensions, and with other first dimensions."""
    n = 256

    def several(key):
        child = random.split(random.fold_in(key, 7))[1]
        return jnp.concatenate([random.uniform(key, (5,)), random.uniform(child, (5,))])

    for first in (0, 3):
        keys = lattice_keys(random.key(0), (n,), first)
        drawn = np.sort(np.asarray(jax.jit(jax.vmap(several))(keys)), axis=0)
        np.testing.assert_allclose(np.diff(drawn, axis=0), 1 / n, atol=1e-12)


def test_dimensions_of_one_set_of_keys_differ_from_those_of_another():
    """Paired draws of two sets lie on a line if both begin with the same dimension."""
    n = 1024
    theta, same, other = (
        np.asarray(jax.jit(jax.vmap(random.uniform))(lattice_keys(random.key(i), (n,), first)))
        for i, first in ((0, 0), (1, 0), (2, 1))
    )
    assert len(np.unique(np.round((theta - same) % 1.0, 9))) == 1
    cells = np.histogram2d(theta, other, bins=16, range=[(0, 1)] * 2)[0]
    assert cells.min() >= 2  # four on average; none is empty
    assert cells.max() <= 6


def smooth(key):
    """exp(u_1 + u_2 + u_3) / (e - 1)^3, of mean one."""
    return jnp.exp(jnp.sum(random.uniform(key, (3,)))) / jnp.expm1(1.0) ** 3


def test_means_converge_much_faster_than_independent_draws():
    """Over many shifts the mean has no bias, and its error falls as 1/n rather than its root."""
    shifts, errors = 400, {}
    for n in (256, 4096):

        @jax.jit
        def mean(seed, n=n):
            return jnp.mean(jax.vmap(smooth)(lattice_keys(random.key(seed), (n,))))

        means = np.asarray(jax.lax.map(mean, jnp.arange(shifts)))
        assert abs(means.mean() - 1.0) < 4.5 * means.std() / np.sqrt(shifts)
        errors[n] = means.std()
    second = np.expm1(2.0) / 2 / np.expm1(1.0) ** 2
    alone = np.sqrt(second**3 - 1.0)  # the standard deviation of one draw
    assert errors[256] < alone / np.sqrt(256) / 4
    assert errors[4096] < alone / np.sqrt(4096) / 12
    assert errors[4096] < errors[256] / 8  # independent draws would gain a factor of four


def test_works_under_vmap_and_jit_and_in_any_shape():
    flat, square = (lattice_keys(random.key(1), shape) for shape in ((64,), (4, 16)))
    draw = jax.vmap(lambda key: dist.Laplace(2.0).sample(key))
    alone = jax.jit(dist.Laplace(2.0).sample)
    loop = np.asarray([float(alone(key)) for key in flat[:3]])
    np.testing.assert_allclose(draw(flat)[:3], loop, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(draw)(flat), draw(square.reshape(-1)), rtol=1e-12)
    bits = [
        np.asarray(jax.jit(jax.vmap(lambda key, w=w: random.bits(key, (2,), w)))(flat))
        for w in ("uint8", "uint32")
    ]
    np.testing.assert_array_equal(bits[0], bits[1] >> 24)  # the top bits of the same numbers


def test_number_of_points_must_be_a_power_of_two():
    assert lattice_keys(random.key(0), (1,)).shape == (1,)
    for shape in ((3,), (4, 6), (100,)):
        with pytest.raises(ValueError, match=f"power of two points, got {np.prod(shape)}"):
            lattice_keys(random.key(0), shape)


@pytest.mark.parametrize("sizes", [(256, 1), (256, 4)])
def test_theta_and_xi_of_a_stage_do_not_lie_on_a_line(sizes):
    """How often demand theta + noise is below its upper tenth, with few draws of xi for a theta.

    Were both drawn with the same dimension of the lattice, the error would be more than that of
    independent draws, and nobody would notice: each group of draws would have the same.
    """
    thetas, draws = sizes
    problem = pg.Problem(
        lambda x, xi: jnp.maximum(9 * (xi - x), x - xi), lambda x, theta: dist.Normal(theta, 1.0)
    )
    belief = pg.beliefs.Normal(0.0, 1.0)
    land = SampledObjective(problem, pg.gradients.Pathwise(), pg.risks.Mean(), None)
    x = jnp.asarray(np.sqrt(2.0) * stats.norm.ppf(0.9))

    @jax.jit
    def look(key):
        keys = random.split(key)
        reading = read_at(land, draw_thetas(belief, keys[0], thetas), keys[1], draws, x)
        return land.slope(reading, None), noise(land, reading)

    slopes, noises = map(np.asarray, jax.jit(jax.vmap(look))(random.split(random.key(0), 200)))
    error = np.sqrt(np.mean(np.square(slopes)))
    assert error < 10 * 0.3 / np.sqrt(thetas * draws) / 1.5  # of independent draws, and a margin
    assert np.sqrt(np.mean(np.square(noises))) > error / 2.5

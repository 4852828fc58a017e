"""Where a search looks first: inside the set, and everywhere in it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import postgrad as pg
from postgrad.algorithm.descents.search.places import (
    EACH,
    FEW_EXCHANGES,
    GROUPS,
    LINES,
    LOOKS,
    along,
    exchanges,
    fresh_places,
    places,
    window,
)

# Sets, and a decision in each.
SETS = {
    "box": (pg.feasible.Box(2.0, 11.0), 3.0),
    "corner": (pg.feasible.Box([0.0, -1.0], [1e4, 1e-3]), [0.0, -1.0]),
    "simplex": (pg.feasible.Simplex(3.0), [3.0, 0.0, 0.0, 0.0]),
    "budget": (pg.feasible.Budget([0.0, 1.0, 0.0], 9.0, [1.0, 2.0, 0.5], 10.0), [1.0, 1.0, 2.0]),
    "ball": (pg.feasible.Ball([5.0, -5.0], 2.0), [5.0, -3.0]),
    "reals": (pg.feasible.Reals(), [0.0, 40.0]),
    "many": (pg.feasible.Simplex(1.0), np.full(12, 1 / 12)),
    "cube": (pg.feasible.Box(np.zeros(12), 1.0), np.full(12, 0.5)),
    "matrix": (pg.feasible.Box(np.zeros((2, 2)), 1.0), np.full((2, 2), 0.3)),
}
STAGES = (1, 2, 64)

MANY = 4 * GROUPS  # as many as the search has

_places = jax.jit(jax.vmap(functools.partial(places, groups=MANY), in_axes=(None, None, 0)))
_window = jax.jit(window)
_violations = jax.jit(lambda feasible, at: jax.vmap(jax.vmap(feasible.violation))(at))


def looked_at(name):
    """The places of each stage, (stage, group, each, d), the set, x and the window."""
    feasible, x = SETS[name]
    x = jnp.asarray(x, float)
    found = _places(feasible, x, jnp.asarray(STAGES))
    return found, feasible, x, _window(feasible, x)


@pytest.mark.parametrize("name", SETS)
def test_places_are_feasible(name):
    found, feasible, x, (low, high) = looked_at(name)
    at = np.asarray(found.at)
    assert at.shape == (len(STAGES), MANY, EACH, x.size)
    assert np.all(np.isfinite(at))
    shaped = at.reshape(len(STAGES), MANY * EACH, *x.shape)
    assert _violations(feasible, shaped).max() <= 1e-9 * (1 + np.max(high - low))
    assert np.all(np.asarray(found.apart) > 0)


@pytest.mark.parametrize("name", ["box", "reals"])
def test_stages_look_elsewhere(name):
    at = np.asarray(looked_at(name)[0].at).reshape(len(STAGES), -1)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert np.mean(at[one] == at[other]) < 0.1


def test_even_groups_cover_a_stretch_each_in_one_dimension():
    """Places a 192nd of the window apart: none of it is left out, and no two groups share it."""
    found, _, _, (low, high) = looked_at("box")
    gap = float((high - low)[0]) / 192
    for stage in np.asarray(found.at)[..., 0]:
        evenly = [group for group in stage if np.ptp(np.diff(group)) < 1e-9]
        assert len(evenly) == MANY // 2
        for number, group in enumerate(evenly):
            ends = low[0] + np.array([number, number + 1]) * EACH * gap
            np.testing.assert_allclose(np.diff(group), gap, rtol=1e-9)
            assert ends[0] <= group[0] <= ends[0] + gap
            assert ends[1] - gap <= group[-1] <= ends[1]


@pytest.mark.parametrize(
    ("name", "widest"), [("corner", 0.15), ("reals", 0.15), ("matrix", 0.15), ("cube", 0.1)]
)
def test_even_groups_cover_each_coordinate_in_several(name, widest):
    """A lattice leaves gaps of a few 24ths in a coordinate, a Latin hypercube of two at most."""
    found, _, x, (low, high) = looked_at(name)
    for stage in np.asarray(found.at):
        share = (stage.reshape(-1, x.size) - low) / (high - low)
        for column in share.T:
            gaps = np.diff(np.concatenate([[0.0], np.sort(column), [1.0]]))
            assert gaps.max() < widest


def test_even_groups_fill_a_square():
    """Not only its edges and diagonals: each of 4 x 4 cells has a place in it."""
    found, _, _, (low, high) = looked_at("corner")
    for stage in np.asarray(found.at):
        cells = np.clip(np.floor(4 * (stage.reshape(-1, 2) - low) / (high - low)), 0, 3)
        assert len(set(map(tuple, cells))) == 16


@pytest.mark.parametrize("name", ["corner", "reals", "matrix"])
def test_even_groups_have_a_cell_each(name):
    """So that their best places are places apart: a group spans less than all groups together."""
    found, _, x, (low, high) = looked_at(name)
    for stage in np.asarray(found.at):
        share = (stage[-MANY // 2 :] - low) / (high - low)
        spans = np.prod(np.ptp(share, axis=1), axis=-1)
        assert np.median(spans) < 0.2 * np.prod(np.ptp(share.reshape(-1, x.size), axis=0))


def test_group_zero_stays_near():
    """Its places lie around x, at distances from a millionth of the window to half of it."""
    found, _, x, (low, high) = looked_at("box")
    for stage in np.asarray(found.at)[..., 0]:
        away = np.abs(stage[0] - float(x)) / float((high - low)[0])
        assert away.min() < 1e-5
        assert np.median(away) < 1e-2


def test_a_window_in_the_open():
    """Finite, and as wide as what is known of the scale tells: x, or a bound."""
    low, high = window(pg.feasible.Reals(), jnp.asarray([0.0, -40.0]))
    np.testing.assert_allclose(low, [-1e3, -40.0 - 4e4])
    np.testing.assert_allclose(high, [1e3, -40.0 + 4e4])
    low, high = window(pg.feasible.Box(5.0, np.inf), jnp.asarray(5.0))
    np.testing.assert_allclose((low[0], high[0]), (5.0, 5005.0))


@pytest.mark.parametrize("name", ["corner", "simplex", "budget", "ball"])
def test_lines_stay_feasible_and_reach_both_ends(name):
    feasible, x = SETS[name]
    x = jnp.asarray(x, float)
    ends = _window(feasible, x)
    looks = jnp.arange(LOOKS * min(x.size, LINES))
    every = jax.jit(jax.vmap(lambda look: along(feasible, x, ends, look, jnp.asarray(3))))
    at = np.asarray(every(looks))  # (look, group, d)
    inside = jax.vmap(jax.vmap(feasible.violation))(at)
    wide = np.asarray(ends[1] - ends[0])
    assert inside.max() <= 1e-6 * wide.max()
    for number in range(min(x.size, LINES)):
        line = at[LOOKS * number : LOOKS * (number + 1)].reshape(-1, x.size)
        axis = (number + 3 * LINES) % x.size
        reached = (line[:, axis] - ends[0][axis]) / wide[axis]
        assert reached.min() < 0.1
        assert reached.max() > 0.9
        assert np.diff(np.sort(reached)).max() < 2 / 16


def test_some_groups_lie_on_the_diagonal_some_on_faces_and_some_keep_coordinates():
    found, _, x, (low, high) = looked_at("cube")
    for stage in np.asarray(found.at):
        share = (stage.reshape(MANY, EACH, x.size) - low) / (high - low)
        alike = [group for group in share if np.ptp(group, axis=1).max() < 1e-9]
        assert len(alike) == MANY // GROUPS
        assert np.min(alike) < 0.01
        assert np.max(alike) > 0.8
        on_faces = [np.mean(group == 0.0) for group in share]
        assert 0.3 < max(on_faces) < 0.7
        kept = [np.mean(group == np.asarray(x)) for group in share]
        assert 0.3 < max(kept) < 0.7


def test_fresh_places_fill_the_window_over_the_stages():
    _, feasible, x, ends = looked_at("cube")
    places = [np.asarray(fresh_places(feasible, x, ends, t, 4)) for t in range(1, 65)]
    share = (np.concatenate(places) - ends[0]) / (ends[1] - ends[0])
    assert len(np.unique(share[:, 0])) == len(share)
    for column in share.T:
        gaps = np.diff(np.concatenate([[0.0], np.sort(column), [1.0]]))
        assert gaps.max() < 0.03


@pytest.mark.parametrize("name", ["budget", "simplex", "cube", "matrix", "reals"])
def test_exchanges_are_feasible_and_give_up_coordinates(name):
    """On a cube, whose windows are alike, nothing is lost; all coordinates have their turn.

    At every fourth place one coordinate gets all, as far as the set allows.
    """
    feasible, x = SETS[name]
    x = jnp.asarray(x, float)
    ends = _window(feasible, x)
    look = jax.jit(jax.vmap(exchanges, in_axes=(None, None, None, 0, None)))
    at = look(feasible, x, ends, jnp.arange(1, 21), jnp.arange(FEW_EXCHANGES)).reshape(-1, *x.shape)
    assert np.max(_violations(feasible, at[None])) <= 1e-9
    if name in ("cube", "matrix"):
        flat = np.asarray(at).reshape(len(at), -1)
        alone = flat[::4]
        assert np.all((alone > 0.0).sum(axis=1) == 1)
        assert np.all((alone > 0.0).sum(axis=0) > 0)
        assert np.all(alone.max(axis=1) >= min(float(jnp.sum(x)), np.max(ends[1])) - 1e-9)
        flat = np.delete(flat, np.s_[::4], axis=0)
        np.testing.assert_allclose(flat.sum(axis=1), float(jnp.sum(x)), rtol=1e-9)
        given_up = (flat == 0.0).sum(axis=0)
        assert np.all(given_up > 0)
        assert np.all((flat == 0.0).sum(axis=1) <= 1)

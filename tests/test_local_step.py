"""Steps downhill: those of the quadratic programme, with curvature that slopes have shown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import postgrad as pg
from postgrad.algorithm.descents.search.local_step import (
    FAR,
    Across,
    Between,
    Lane,
    after_look,
    bracketed,
    cut,
    measured_update,
    next_step,
    quadratic_step,
    secant_update,
    taken_by_coordinate,
)

RNG = np.random.default_rng(7)
D = 4
UNITS = np.array([1e-6, 1.0, 1e3, 1e6])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.5])
TOTAL = 6.0


def positive():
    root = RNG.normal(size=(D, D))
    return root @ root.T + 0.3 * np.eye(D)


def lane(x, slope, bend=1.0, reach=FAR):
    ones = jnp.ones(D)
    x, slope = jnp.asarray(x), jnp.asarray(slope)
    anywhere = Between(-FAR * ones, FAR * ones)
    return Lane(x, jnp.zeros(()), slope, bend * ones, reach * ones, anywhere)


def budget(units=1.0):
    """The same set with its coordinates in other units."""
    ones = np.ones(D)
    return pg.feasible.Budget(0.0 * ones, 5.0 * ones / units, WEIGHTS * units, TOTAL)


_quadratic = jax.jit(quadratic_step, static_argnums=1)
_secant, _measured = jax.jit(secant_update), jax.jit(measured_update)
START = np.array([1.0, 0.5, 2.0, 0.0])
CASES = [(RNG.normal(size=D) * 4.0, positive()) for _ in range(6)]


def by_scipy(slope, matrix):
    """argmin_s g's + s'A s / 2 on the budget, from START."""
    found = minimize(
        lambda s: slope @ s + 0.5 * s @ matrix @ s,
        np.zeros(D),
        jac=lambda s: slope + matrix @ s,
        bounds=list(zip(-START, 5.0 - START, strict=True)),
        constraints={"type": "ineq", "fun": lambda s: TOTAL - WEIGHTS @ (START + s)},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert found.success or found.status == 8  # as exact as it gets
    return found.x


@pytest.mark.parametrize("case", range(len(CASES)))
def test_a_step_solves_the_quadratic_programme(case):
    slope, matrix = CASES[case]
    step = np.asarray(_quadratic(budget(), (D,), lane(START, slope), jnp.asarray(matrix)))
    best = by_scipy(slope, matrix)

    def value(s):
        return slope @ s + 0.5 * s @ matrix @ s

    assert budget().violation(START + step) < 1e-9
    assert value(step) - value(best) < 1e-5 * abs(value(best))
    np.testing.assert_allclose(step, best, atol=0.01)


def test_a_step_that_meets_no_constraint_is_newtons():
    matrix = positive()
    slope = 0.01 * RNG.normal(size=D)
    inside = np.full(D, 0.7)
    step = _quadratic(budget(), (D,), lane(inside, slope), jnp.asarray(matrix))
    np.testing.assert_allclose(step, -np.linalg.solve(matrix, slope), rtol=1e-9)


def test_a_step_is_shortened_to_the_reach():
    slope, matrix = CASES[0]
    reals = pg.feasible.Reals()
    full = np.asarray(_quadratic(reals, (D,), lane(START, slope), jnp.asarray(matrix)))
    short = np.asarray(_quadratic(reals, (D,), lane(START, slope, reach=0.1), jnp.asarray(matrix)))
    assert np.abs(short).max() == pytest.approx(0.1)
    np.testing.assert_allclose(short / np.abs(short).max(), full / np.abs(full).max())


@pytest.mark.parametrize("case", range(3))
def test_a_step_does_not_depend_on_units(case):
    """x in units of u: slopes are u times as large, curvatures u_i u_j times."""
    slope, matrix = CASES[case]
    step = _quadratic(budget(), (D,), lane(START, slope), jnp.asarray(matrix))
    scaled = jnp.asarray(matrix * np.outer(UNITS, UNITS))
    other = _quadratic(budget(UNITS), (D,), lane(START / UNITS, slope * UNITS), scaled)
    np.testing.assert_allclose(other * UNITS, step, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("units", [np.ones(D), UNITS], ids=["one", "unlike"])
def test_a_secant_update_keeps_the_secant_equation(units):
    """A s = y on a quadratic; A stays symmetric and positive."""
    true, guess = positive(), np.diag(RNG.uniform(0.5, 2.0, D))
    true, guess = (np.outer(units, units) * each for each in (true, guess))
    for _ in range(5):
        move = RNG.normal(size=D) / units
        change = true @ move
        if move @ change < 0.2 * move @ guess @ move:
            continue  # damped, which another test is about
        guess = np.asarray(_secant(guess, move, change, 0.0, True))
        np.testing.assert_allclose(guess @ move, change, rtol=1e-8, atol=1e-8 * abs(change).max())
        unit = guess / np.outer(units, units)
        np.testing.assert_allclose(unit, unit.T, atol=1e-9)
        assert np.linalg.eigvalsh(unit).min() > 0


def test_secants_of_line_searches_find_the_matrix():
    """BFGS with exact steps along a quadratic is done after d of them."""
    true, guess, x = positive(), np.eye(D), RNG.normal(size=D)
    for _ in range(D):
        slope = true @ x
        way = -np.linalg.solve(guess, slope)
        move = way * (-(slope @ way) / (way @ true @ way))
        guess = np.asarray(_secant(guess, move, true @ move, 0.0, True))
        x = x + move
    np.testing.assert_allclose(x, 0.0, atol=1e-6)
    np.testing.assert_allclose(guess, true, rtol=1e-4, atol=1e-4)


def test_secants_of_concave_costs_are_damped_and_noise_is_not_believed():
    guess, move = positive(), RNG.normal(size=D)
    damped = np.asarray(_secant(guess, move, -guess @ move, 0.0, True))
    assert np.linalg.eigvalsh(damped).min() > 0
    assert move @ damped @ move == pytest.approx(0.2 * (move @ guess @ move))
    change = 2.0 * guess @ move
    noisy = _secant(guess, move, change, 0.3 * (move @ change), True)
    np.testing.assert_array_equal(noisy, guess)
    np.testing.assert_array_equal(_secant(guess, move, change, 0.0, False), guess)
    np.testing.assert_array_equal(_secant(guess, move, np.full(D, np.nan), 0.0, True), guess)


@pytest.mark.parametrize("units", [np.ones(D), UNITS], ids=["one", "unlike"])
def test_as_many_moves_as_coordinates_measure_the_matrix(units):
    true = positive() * np.outer(units, units)
    guess = np.diag(RNG.uniform(0.5, 2.0, D)) * np.outer(units, units)
    moves = RNG.normal(size=(D, D)) / units
    found = np.asarray(_measured(guess, moves, moves @ true)) / np.outer(units, units)
    np.testing.assert_allclose(found, true / np.outer(units, units), rtol=1e-4, atol=1e-4)


def test_measured_along_coordinates_of_unlike_lengths():
    """One coordinate a millionth as far as the others: its row is as exact."""
    true, guess = positive(), np.eye(D)
    moves = np.diag([1.0, 1e-6, 1.0, 1e-3])
    found = np.asarray(_measured(guess, moves, moves @ true))
    np.testing.assert_allclose(found, true, rtol=1e-6, atol=1e-6)


def test_what_was_not_measured_stays_and_curvatures_stay_positive():
    guess = np.diag([1.0, 2.0, 3.0, 4.0])
    one = np.eye(D)[:1]
    found = np.asarray(_measured(guess, one, 5.0 * one))
    np.testing.assert_allclose(found, np.diag([5.0, 2.0, 3.0, 4.0]), atol=1e-7)
    found = np.asarray(_measured(guess, one, -5.0 * one))  # concave there: bent as much
    np.testing.assert_allclose(found, np.diag([5.0, 2.0, 3.0, 4.0]), atol=1e-7)
    np.testing.assert_array_equal(_measured(guess, one, np.nan * one), guess)


def test_steps_of_single_coordinates_end_at_the_minimum_of_a_quadratic():
    """Secants of an additive quadratic are exact after one step, if not 100 times off."""
    feasible = pg.feasible.Box(-np.ones(D), np.array([9.0, 9.0, 9.0, 1.0]))
    bends, goal = jnp.asarray([1.0, 20.0, 0.2, 5.0]), jnp.asarray([3.0, -0.5, 7.0, 2.0])
    here = lane(np.zeros(D), -bends * goal)
    here = here._replace(value=0.5 * jnp.sum(bends * goal**2))
    for _ in range(6):
        at = here.x + next_step(feasible, (D,), here)
        slope = bends * (at - goal)
        taken, change = taken_by_coordinate(here, at, slope)
        made = jnp.where(taken, at, here.x)
        exact = 0.5 * jnp.sum(bends * (made - goal) ** 2)
        assert float(here.value + change) == pytest.approx(float(exact), abs=1e-9)
        none = jnp.zeros(D)
        here = after_look(
            here, at, here.value + change, slope, none, none, taken, jnp.asarray(True), alone=True
        )
    np.testing.assert_allclose(here.x, [3.0, -0.5, 7.0, 1.0], atol=1e-9)
    np.testing.assert_allclose(here.bend[:3], bends[:3], rtol=1e-9)


@pytest.mark.parametrize("start", [-30.0, 0.0, 4.0, 300.0])
@pytest.mark.parametrize("steepness", [0.1, 1.0, 50.0])
def test_steps_between_places_on_either_side_end_at_the_minimum_of_a_bent_line(start, steepness):
    """Slopes that are all but constant on both sides, as those of newsvendors are."""
    best = jnp.asarray([3.0, -7.0, 0.5, 20.0])

    @jax.jit
    def slope(x):
        return 1.0 + 8.0 * jnp.tanh(steepness * (x - best) - jnp.arctanh(1.0 / 8.0))

    known = lane(jnp.full(D, start), slope(jnp.full(D, start)), 8.0 * steepness, 1.0)
    for _ in range(24):  # without the places on either side it takes more
        at = known.x + next_step(pg.feasible.Reals(), (D,), known)
        taken, _ = taken_by_coordinate(known, at, slope(at))
        exact = jnp.zeros(D)
        after = after_look(
            known, at, jnp.zeros(()), slope(at), exact, exact, taken, jnp.asarray(True), alone=True
        )
        known = bracketed(known, after, at, slope(at))
        assert np.all(known.between.low <= best + 1e-9)
        assert np.all(known.between.high >= best - 1e-9)
    np.testing.assert_allclose(known.x, best, atol=1e-3 / steepness)


def looked_at(x, lines):
    """The largest of some straight lines at x: value and slope."""
    values = lines[:, 0] + lines[:, 1] * x
    return jnp.asarray(values.max()), jnp.asarray(lines[values.argmax(), 1])[None]


@pytest.mark.parametrize("seed", range(5))
def test_steps_to_where_tangents_meet_end_at_the_kink(seed):
    rng = np.random.default_rng(seed)
    slopes = np.concatenate([-rng.exponential(size=6), rng.exponential(size=6)])
    lines = np.stack([rng.normal(size=12), slopes], axis=1)
    crossings = [(a[0] - b[0]) / (b[1] - a[1]) for i, a in enumerate(lines) for b in lines[:i]]
    best = min(float(looked_at(x, lines)[0]) for x in crossings)
    one, nowhere = jnp.ones(1), Across(jnp.full(1, jnp.nan), jnp.asarray(jnp.nan), jnp.ones(1))
    here = Lane(50 * one, *looked_at(50.0, lines), one, 1e3 * one, None, nowhere)
    for _ in range(14):
        step, most = cut(here)
        if most <= 1e-12:
            break
        step = -100.0 if jnp.isnan(step[0]) else float(step[0])  # to the other side at first
        value, slope = looked_at(float(here.x[0]) + step, lines)
        # What a step saves is never more than was foreseen.
        assert not float(here.value - value) > float(most) + 1e-9
        taken = value <= here.value
        here = after_look(
            here,
            here.x + step,
            value,
            slope,
            0 * one,
            0 * one,
            taken,
            jnp.asarray(True),
            alone=True,
        )
    assert float(here.value) == pytest.approx(best, abs=1e-9)
    assert most <= 1e-12


def test_what_was_across_is_forgotten_in_another_valley():
    one = jnp.ones(1)
    known = Across(2.0 * one, jnp.asarray(1.0), one)
    here = Lane(0 * one, jnp.asarray(1.0), -one, one, one, None, known)
    look = (9.0 * one, jnp.asarray(-5.0), 0.5 * one, 0 * one, 0 * one, jnp.asarray(True))
    assert np.isfinite(cut(here)[0])
    assert np.isnan(cut(after_look(here, *look, jnp.asarray(False), alone=True))[0])

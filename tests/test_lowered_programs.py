"""Programs that are kept before they are compiled: told apart by structure, found again."""

import functools
import inspect
import json

import equinox as eqx
import jax
import numpy as np
import pytest
from test_program_cache import DAMAGES, LIMIT, files_in, python

import postgrad as pg
from postgrad.algorithm.descents.descent import Doubt
from postgrad.beliefs.sampled.markov_moves import spread_of
from postgrad.distributions.counts import Poisson, poisson_quantile
from postgrad.engine.packing import Kind, Layout, Packed
from postgrad.numerics.program_cache import entry, keeping, lowered
from postgrad.numerics.program_cache.entry import source_digest
from postgrad.numerics.program_cache.files import ProgramFiles
from postgrad.numerics.program_cache.outside_code import calls_lapack
from postgrad.numerics.program_cache.structure import NoDescriptionError, described, rebuilt
from postgrad.problem import problem
from postgrad.spec.parts import built

LAPACK = """
import sys
import jax
import numpy as np
import postgrad as pg
from postgrad.numerics.program_cache import lowered
from postgrad.numerics.small_matrices import cholesky

pg.cache(sys.argv[1])
trace = lowered._lowered
lowered._lowered = lambda *about: print("traced") or trace(*about)
matrix = np.eye(20) + 0.5
print(np.abs(jax.jit(lowered.kept(cholesky))(matrix) - np.linalg.cholesky(matrix)).max() < 1e-12)
"""


def test_a_program_that_was_not_lowered_finds_lapack(tmp_path):
    """JAX looks for LAPACK when it lowers a factorisation: a new process had an address of zero."""
    assert python(LAPACK, tmp_path).stdout.split() == ["traced", "True"]
    assert python(LAPACK, tmp_path).stdout.split() == ["True"]


def test_programs_that_call_other_code_are_not_kept():
    def calls_back(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), float), x)

    with pytest.raises(NoDescriptionError, match=r"calls .*callback"):
        calls_lapack(jax.jit(calls_back).lower(1.0).compiler_ir())


class Doubled(eqx.Module):
    """A part of somebody's own."""

    factor: float = eqx.field(static=True, default=2.0)


def described_again(tree):
    return rebuilt(json.loads(json.dumps(described(tree))))


def test_structures_are_told_and_rebuilt():
    box = pg.feasible.Box(np.zeros(2), np.ones(2))
    packed = Packed.of({"b": np.ones(3), "a": (np.int64(1), None)}, np.concatenate)
    for tree in (box, packed, [Doubt.NONE, 1.5, "text", poisson_quantile], {"b": 1, "a": (2, [])}):
        again = described_again(tree)
        assert jax.tree.structure(again) == jax.tree.structure(tree)
        assert described(again) == described(tree)
    assert described_again(box).low == jax.ShapeDtypeStruct((2,), np.float64)
    assert described(box) == described(pg.feasible.Box(np.ones(2), np.full(2, 9.0)))
    assert described(box) != described(pg.feasible.Box(np.zeros(3), np.ones(3)))


@pytest.mark.parametrize(
    "own",
    [
        lambda x: x,
        Doubled(),
        functools.partial(poisson_quantile, 1),
        Packed(np.ones(1), Layout(None, (Kind((1,), "f", "f", 0, np.ones(3)),))),
        {1, 2},
        pg.feasible.Box(0.0, 1.0).project,
    ],
    ids=["lambda", "class", "partial", "array that is no leaf", "set", "method"],
)
def test_code_and_numbers_that_text_cannot_tell_have_no_description(own):
    with pytest.raises(NoDescriptionError):
        described({"own": own})


def test_sources_that_differ_have_another_digest(tmp_path):
    with pytest.raises(NoDescriptionError):
        source_digest(tmp_path)
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "a.py").write_text("x = 1")
    one = source_digest(tmp_path)
    assert source_digest(tmp_path) == one
    (tmp_path / "room" / "a.py").write_text("x = 2")
    assert source_digest(tmp_path) != one
    (tmp_path / "room" / "a.py").write_text("x = 1")
    assert source_digest(tmp_path) == one
    (tmp_path / "room" / "a.py").rename(tmp_path / "room" / "b.py")
    assert source_digest(tmp_path) != one


@pytest.fixture
def nearest(tmp_path, monkeypatch):
    """Computes with a program that is kept, as a new process would; and whether it was traced."""
    function = inspect.unwrap(problem._nearest)
    traced, trace = [], lowered._lowered
    monkeypatch.setattr(lowered, "_lowered", lambda *about: traced.append(1) or trace(*about))

    def compute(high=1.0, size=3):
        monkeypatch.setattr(keeping, "_in_use", [ProgramFiles(tmp_path, LIMIT)])
        traced.clear()
        found = eqx.filter_jit(lowered.kept(function))(
            pg.feasible.Box(0.0, high), np.linspace(-1.0, 3.0, size)
        )
        np.testing.assert_array_equal(found, np.clip(np.linspace(-1.0, 3.0, size), 0.0, high))
        assert not found.committed  # or JAX would compile all that take it once more
        return bool(traced)

    return compute


def test_a_program_is_traced_once(nearest):
    assert nearest()
    assert not nearest()
    assert not nearest(high=2.0)
    assert nearest(size=4)


def test_other_sources_and_settings_of_jax_are_traced_anew(nearest, monkeypatch):
    assert nearest()
    with jax.numpy_rank_promotion("warn"):
        assert nearest()
    assert not nearest()
    monkeypatch.setattr(entry, "_packages", lambda: ["edited"])
    assert nearest()
    assert not nearest()


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_lowered_program_that_is_damaged_is_traced_anew(nearest, tmp_path, damage):
    nearest()
    (path,) = files_in(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert nearest()
    assert not nearest()


def test_a_lowered_program_of_something_else_is_replaced(nearest, tmp_path, monkeypatch):
    other = b"\x02\0\0\0{}"
    monkeypatch.setattr(ProgramFiles, "get", lambda self, key: self._given.add(key) or other)
    assert nearest()
    monkeypatch.undo()
    assert len(files_in(tmp_path)) == 1


def test_facts_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "_in_use", [ProgramFiles(tmp_path, LIMIT)])
    model, x = built.PLAIN["poisson"], np.float64(1.0)
    kind_of = inspect.unwrap(problem.kind_of, stop=lambda f: f.__wrapped__ is _innermost(f))
    first = kind_of(model, x, np.float64(2.0))
    monkeypatch.setattr(problem, "_uses_first", None)  # it cannot be found out again
    assert kind_of(model, x, np.float64(3.0)) == first
    assert first.family is Poisson


def _innermost(function):
    return inspect.unwrap(function)


def test_checks_can_be_vectorised(tmp_path, monkeypatch):
    """Then they are traced: a lowered program is of one shape."""
    monkeypatch.setattr(keeping, "_in_use", [ProgramFiles(tmp_path, LIMIT)])
    box, points = pg.feasible.Box(0.0, 1.0), np.linspace(-1.0, 3.0, 5)
    found = jax.vmap(lambda x: problem._nearest(box, x[None])[0])(points)
    np.testing.assert_array_equal(found, np.clip(points, 0.0, 1.0))


@pytest.mark.parametrize(("dimension", "calls"), [(2, False), (8, False), (9, True)])
def test_few_dimensions_are_not_left_to_lapack(dimension, calls):
    """Its threads stay awake for a while after each call, which takes more than the call."""
    z = np.zeros((20, dimension))
    module = jax.jit(lambda z: spread_of(z, z[:, 0]).whiten(z)).lower(z).compiler_ir()
    assert calls_lapack(module) == calls

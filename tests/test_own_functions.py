"""Programs with functions of the user's own are kept under what these functions answer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from jax import lax

import postgrad as pg
from postgrad.numerics.program_cache import keeping, lowered, own_functions
from postgrad.numerics.program_cache.files import ProgramFiles
from postgrad.numerics.program_cache.own_functions import (
    Listener,
    answers,
    put_back,
    taken_out,
)
from postgrad.numerics.program_cache.structure import NoDescriptionError, described

LIMIT = 1 << 26
PRICE = 4.0
QUESTION = described((jax.ShapeDtypeStruct((), np.float64), jax.ShapeDtypeStruct((), np.float64)))


def told(function):
    return answers([Listener(function)], [[0, QUESTION]])


class Own(dist.Normal):
    """A law of the user's own."""


class Priced:
    def __init__(self, function):
        self.function = function

    def cost(self, x, y):
        return self.function(x, y)


@jax.custom_jvp
def own_slope(x):
    return x


own_slope.defjvp(lambda x, dx: (x[0], 2.0 * dx[0]))

THIRD = 1.0 / 3.0

# Pairs of functions that differ in one thing, and in nothing that is easily seen.
DIFFERENT = {
    "a number": (lambda x, y: x + THIRD * y, lambda x, y: x + np.nextafter(THIRD, 1.0) * y),
    "a type": (lambda x, y: x.astype(np.float32), lambda x, y: x.astype(np.float16)),
    "an array": (lambda x, y: jnp.ones(3) * x, lambda x, y: np.array([1.0, 1.0, 1.5]) * x),
    "an operation": (lambda x, y: jnp.minimum(x, y), lambda x, y: jnp.maximum(x, y)),
    "the order": (lambda x, y: x - y, lambda x, y: y - x),
    "the slope": (lambda x, y: x + y, lambda x, y: x + lax.stop_gradient(y)),
    "a loop": (
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z + y, x),
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z - y, x),
    ),
    "how often": (
        lambda x, y: lax.fori_loop(0, 3, lambda i, z: z + y, x),
        lambda x, y: lax.fori_loop(0, 4, lambda i, z: z + y, x),
    ),
    "the law": (lambda x, y: dist.Normal(x, y), lambda x, y: dist.Laplace(x, y)),
    "its numbers": (lambda x, y: dist.Normal(x, 1.0), lambda x, y: dist.Normal(x, 1.5)),
    "which is which": (lambda x, y: dist.Normal(x, y), lambda x, y: dist.Normal(y, x)),
    "what is not an array": (lambda x, y: dist.Binomial(3, x), lambda x, y: dist.Binomial(4, x)),
    "its support": (
        lambda x, y: dist.TruncatedNormal(x, y, low=0.0),
        lambda x, y: dist.TruncatedNormal(x, y, high=0.0),
    ),
    "where the law begins": (
        lambda x, y: dist.TruncatedNormal(x, y, low=0.0),
        lambda x, y: dist.TruncatedNormal(x, y, low=-1.0),
    ),
    "the parts of the law": (
        lambda x, y: dist.TransformedDistribution(
            dist.Normal(x, 1.0), dist.transforms.ExpTransform()
        ),
        lambda x, y: dist.TransformedDistribution(
            dist.Normal(x, 1.0), dist.transforms.SoftplusTransform()
        ),
    ),
    "what it is made of": (lambda x, y: (x, y), lambda x, y: [x, y]),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_functions_that_differ_have_other_answers(one, other):
    assert told(one) != told(other)
    for function in (one, other):
        assert told(function) == told(function)


def test_the_order_of_an_objects_attributes_does_not_count():
    """numpyro sets those of a truncated distribution in the order of a set."""

    def with_order(names):
        def model(x, y):
            law = dist.Normal(x, 2.0)
            held = dict(vars(law))
            for name in held:
                del law.__dict__[name]
            law.__dict__.update({name: held[name] for name in names(held)})
            return law

        return model

    assert told(with_order(list)) == told(with_order(lambda held: list(held)[::-1]))


def test_names_and_comments_do_not_count():
    assert told(lambda x, y: x + y) == told(lambda stock, demand: stock + demand)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: own_slope(x),
        lambda x, y: Own(x, y),
        lambda x, y: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float64), x),
        lambda x, y: {"a": object()},
        lambda x, y: x.no_such_thing,
        lambda x, y: x if x > 0 else y,
    ],
    ids=["derivative", "class", "callback", "object", "error", "branch"],
)
def test_code_that_text_cannot_tell_has_no_answer(function):
    with pytest.raises(NoDescriptionError):
        told(function)


@pytest.mark.parametrize(
    "wrapped",
    [
        jax.jit,
        lambda f: functools.partial(lambda scale, x, y: scale * f(x, y), 1.0),
        lambda f: Priced(f).cost,
    ],
    ids=["jit", "partial", "method"],
)
def test_functions_of_other_kinds(wrapped):
    one, other = (wrapped(f) for f in DIFFERENT["a number"])
    assert told(one) != told(other)
    assert own_functions.code_of(one) == own_functions.code_of(one)
    assert taken_out({"cost": one})[1] == [one]


def test_functions_are_taken_out_and_put_back():
    mine, other = lambda x: x, lambda x: 2 * x
    parts = (mine, {"a": (other, jax.numpy.where), "b": mine}, 3)
    rest, own = taken_out(parts)
    assert own == [mine, other]
    assert put_back(rest, own) == parts
    described(rest)


@pytest.fixture
def decide(tmp_path, monkeypatch):
    """An agent's decisions, as a new process would make them; and how many programs were traced."""
    traced, trace = [], lowered._lowered
    monkeypatch.setattr(lowered, "_lowered", lambda *about: traced.append(1) or trace(*about))

    def decisions(cost, model, kept=True):
        monkeypatch.setattr(keeping, "_in_use", [ProgramFiles(tmp_path, LIMIT)] if kept else [])
        traced.clear()
        problem = pg.Problem(cost, model, pg.feasible.Box(1.0, 100.0))
        belief = pg.beliefs.Grid(jnp.arange(5.0, 26.0))
        agent = pg.Agent(problem, belief, x=15.0, **pg.presets.paper())
        found = [float(agent.observe(batch)) for batch in ([14.2, 17.9], [12.8])]
        return found, len(traced)

    return decisions


def newsvendor(price=PRICE):
    return lambda order, demand: 2 * order - price * jnp.minimum(order, demand)


def law(spread=3.0, family=dist.Normal):
    return lambda order, theta: family(theta + jnp.sqrt(order), spread)


def test_own_functions_are_traced_once(decide):
    plain, _ = decide(newsvendor(), law(), kept=False)
    first, traced = decide(newsvendor(), law())
    assert traced > 0
    assert first == plain  # to the last bit
    again, traced = decide(newsvendor(), law())
    assert traced == 0
    assert again == plain


def test_what_differs_is_traced_anew_and_both_are_kept(decide):
    def others():  # new functions each time, as in a new process
        yield newsvendor(5.0), law()
        yield newsvendor(), law(2.0)
        yield newsvendor(), law(family=dist.Laplace)

    decide(newsvendor(), law())
    plain = [decide(*other, kept=False)[0] for other in others()]
    first = [decide(*other) for other in others()]
    assert [found for found, _ in first] == plain
    assert all(traced > 0 for _, traced in first)
    assert decide(newsvendor(), law())[1] == 0
    assert [decide(*other) for other in others()] == [(found, 0) for found in plain]


def test_a_number_outside_the_function_is_part_of_it(decide, monkeypatch):
    def priced():
        return lambda order, demand: 2 * order - PRICE * jnp.minimum(order, demand)

    decide(priced(), law())
    monkeypatch.setitem(globals(), "PRICE", 6.0)
    found, traced = decide(priced(), law())
    assert traced > 0
    assert found == decide(newsvendor(6.0), law(), kept=False)[0]


def test_a_number_that_changes_between_programs_of_one_process(decide, monkeypatch):
    """What is traced with the new number is not kept under the answers of the old one."""

    def priced(order, demand):
        return 2 * order - PRICE * jnp.minimum(order, demand)

    old, _ = decide(priced, law())
    with monkeypatch.context() as change:
        change.setitem(globals(), "PRICE", 6.0)
        new, _ = decide(priced, law())
    assert new == decide(newsvendor(6.0), law(), kept=False)[0]
    assert decide(newsvendor(), law())[0] == old  # as in another process, with the old number


class Unhashable:
    """A cost that can be neither hashed, nor weakly referred to, nor compared."""

    __slots__ = ()
    __hash__ = None

    def __eq__(self, other):
        return np.zeros(2) == 0

    def __call__(self, order, demand):
        return 2 * order - PRICE * jnp.minimum(order, demand)


def test_callables_of_any_kind_are_asked():
    one, other = Unhashable(), Unhashable()
    assert told(one) == told(newsvendor())
    assert len(taken_out([one, other, one])[1]) == 2


def test_what_has_no_answer_is_traced_in_each_process(decide):
    """And as it is without files from the second process on, which has a note of it."""

    plain, _ = decide(newsvendor(), law(family=Own), kept=False)
    found, traced = decide(newsvendor(), law(family=Own))
    assert traced > 0
    assert found == plain
    assert decide(newsvendor(), law(family=Own)) == (plain, 0)

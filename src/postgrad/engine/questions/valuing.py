"""The compiled programs that value given decisions under what a stream believes."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from postgrad.algorithm.questions.valuation import Draws, Valued, drawn, expected, sampled, valued
from postgrad.beliefs.belief import Belief, first
from postgrad.engine.compiling import compiled_soon, quietly
from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.packing import Packed
from postgrad.engine.programs import Plan, split, whole
from postgrad.engine.snapshot import Snapshot
from postgrad.numerics.lattice_keys import purpose
from postgrad.numerics.program_cache.lowered import kept
from postgrad.problem.problem import Problem

if TYPE_CHECKING:
    from postgrad.engine.stream import Stream

# What the key of a stage is for, apart from what stages draw.
_VALUED = 2**32 - 5


@functools.lru_cache(maxsize=64)
def valuing(plan: Plan) -> Callable[..., Valued]:
    """(numbers, belief, search, elapsed, xs) -> what each decision brings: see `valued`.

    With an `elapsed`, under what is believed after that much time without data.
    """
    return compiled_soon(kept(_value, plan))


@functools.lru_cache(maxsize=64)
def drawing(plan: Plan) -> Callable[..., Any]:
    """(numbers, belief, search, elapsed, x) -> what `expecting` takes: see `_draw`."""
    return compiled_soon(kept(_draw, plan))


@functools.lru_cache(maxsize=64)
def expecting(plan: Plan) -> Callable[..., Array]:
    """(numbers, belief, search, elapsed, drawn, xs, previous) -> what is compared under rules.

    A row for each decision: its nearest feasible one, the expected cost with that of changing from
    the previous decision, and the expected outcomes.
    """
    return compiled_soon(kept(_expect, plan))


def _draws(
    plan: Plan, numbers: list[Array], belief: Belief, search: Packed, elapsed: Any, x: Any
) -> tuple[Problem, Draws]:
    policy, state = whole(plan, numbers), search.tree_of_arrays()
    later = belief if elapsed is None else belief.advance(elapsed)
    parts = policy.problem, policy.gradient, policy.risk, later
    return policy.problem, drawn(*parts, x, purpose(policy.key, _VALUED), state.tails)


def _value(
    plan: Plan,
    numbers: list[Array],
    belief: Belief,
    search: Packed,
    elapsed: Array | None,
    xs: Float[Array, "j ..."],
) -> Valued:
    problem, draws = _draws(plan, numbers, belief, search, elapsed, xs[0])
    return valued(problem, draws, xs)


def _draw(
    plan: Plan, numbers: list[Array], belief: Belief, search: Packed, elapsed: Any, x: Any
) -> tuple[Array, Array, Array] | None:
    """xi, how much each counts, and the probability of each theta; None if xi depends on x."""
    problem, draws = _draws(plan, numbers, belief, search, elapsed, x)
    if problem.kind(x, first(draws.thetas)).depends_on_decision:
        return None
    return sampled(problem, draws, x, draws.keys), draws.weights, draws.shares


def _expect(
    plan: Plan,
    numbers: list[Array],
    belief: Belief,
    search: Packed,
    elapsed: Array | None,
    already: tuple[Array, Array, Array] | None,
    xs: Float[Array, "j ..."],
    previous: Float[Array, "..."],
) -> Float[Array, "j k"]:
    problem = whole(plan, numbers).problem
    places = jax.vmap(problem.feasible.project)(xs)
    if already is None:
        found = _value(plan, numbers, belief, search, elapsed, places)
        means = jnp.sum(found.means * found.shares[:, None], axis=-1)
    else:
        means = lax.map(lambda x: expected(problem, x, *already), places)
    if problem.change is not None:
        price = jax.vmap(problem.change.price, in_axes=(0, None))(places, previous)
        means = means.at[:, 0].add(price)
    return jnp.concatenate([places.reshape(len(places), -1), means], axis=1)


def value(stream: "Stream", now: Snapshot, on: Occasion, xs: Any) -> Valued:
    """What each of some decisions brings on an occasion, under what is believed; by NumPy.

    The random numbers follow from (seed, stage), and are the same for all decisions.

    Args:
        stream: Whose decisions they are.
        now: What is known.
        on: The occasion; the belief looks ahead to it: see `Stream.solve`.
        xs: The decisions, along the leading axis.
    """
    numbers, plan = split(stream.contexts.policy_on(on, seed=now.stage))
    with quietly():
        found = valuing(plan)(numbers, now.belief, now.search, ahead(on), np.asarray(xs, float))
    return jax.tree.map(np.asarray, found)


def are_events(stream: "Stream") -> tuple[bool, ...]:
    """Whether each outcome is true or false, and not a number."""
    problem, start = stream.policy.problem, stream.start
    theta = first(start.belief.examples())

    def answers(key: Array) -> list[Array]:
        x = jnp.asarray(start.decision)
        xi = problem.model(x, theta).sample(key)
        return [jnp.asarray(function(x, xi)) for function in problem.outcomes.functions]

    return tuple(one.dtype == bool for one in jax.eval_shape(answers, jax.random.key(0)))


def ahead(on: Occasion) -> Any:
    """How far the belief looks ahead; None where there are neither contexts nor dates."""
    return None if on == USUAL else np.float64(1.0 if on.elapsed is None else on.elapsed)

"""The compiled programs of a policy, shared by all policies that differ in numbers only."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, State
from postgrad.beliefs.belief import Belief
from postgrad.engine import stage
from postgrad.engine.compiling import CompiledBySize, compiled_soon
from postgrad.engine.packing import Packed
from postgrad.numerics.module import replaced
from postgrad.numerics.program_cache.lowered import kept
from postgrad.problem.outcomes import Outcomes
from postgrad.problem.problem import Decision


class Plan(NamedTuple):
    """All of a policy but its numbers.

    Attributes:
        rest: Functions, names and counts.
        numbers: Where the numbers belong.
    """

    rest: BayesianSGD
    numbers: Any


def split(policy: BayesianSGD) -> tuple[list[Array], Plan]:
    """The numbers of a policy as a list, which is quicker to pass than a tree, and the plan."""
    numbers, rest = eqx.partition(policy, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    leaves, structure = jax.tree.flatten(numbers)
    return leaves, Plan(rest, structure)


def bare(policy: BayesianSGD) -> BayesianSGD:
    """The policy without what is only told of decisions, of which stages need no program."""
    problem = policy.problem
    if not problem.outcomes.names and problem.change is None:
        return policy
    plain = replaced(problem, outcomes=Outcomes(), constraints=(), change=None)
    return replaced(policy, problem=plain)


class Learning(NamedTuple):
    """What *learn* returns.

    Attributes:
        belief: pi_t.
        draws: What was drawn from it for the descent, without the mixture.
        monitor: The test of whether batches come as foreseen, packed.
        report: A `stage.LearnReport`, packed.
    """

    belief: Belief
    draws: Draws
    monitor: Packed
    report: Packed


class Descending(NamedTuple):
    """What *descend* returns.

    Attributes:
        search: All of the state but the belief, packed.
        report: A `stage.DescendReport`, packed.
    """

    search: Packed
    report: Packed


class Programs(NamedTuple):
    """A stage in two calls; the first argument of each program is the numbers of the policy.

    Attributes:
        learn: (numbers, belief, search, monitor, batch, weight, x, elapsed) -> `Learning`. See
            `stage.learn` and `BayesianSGD.draw`. Without an x, the batch arose under the last
            decision; without `elapsed`, one unit of time after the batch before it.
        draw: (numbers, belief, search, elapsed) -> what is drawn for the descent without a batch,
            and the mixture: see `descend`. With an `elapsed`, after that much time without data.
        descend: (numbers, draws, mixture, search, rows) -> `Descending`. See `stage.descend`. The
            mixture is the belief where the gradient reads its density, and None elsewhere.
    """

    learn: Callable[..., Learning]
    draw: Callable[..., tuple[Draws, Belief | None]]
    descend: Callable[..., Descending]


@functools.lru_cache(maxsize=64)
def programs(plan: Plan) -> Programs:
    """The programs of all policies with this plan; see `split`.

    The state comes in two parts, the belief and the search (all but the belief), so that *descend*
    does not depend on the shapes of the belief.
    """
    # A search takes longer than learning from few numbers; steps take less, and there are many.
    compiled = CompiledBySize if plan.rest.descent.fixes_draws else compiled_soon
    return Programs(
        learn=compiled(kept(_learn, plan)),
        draw=compiled_soon(kept(_draw, plan)),
        descend=compiled_soon(kept(_descend, plan)),
    )


def _learn(
    plan: Plan,
    numbers: list[Array],
    belief: Belief,
    search: Packed,
    monitor: Packed,
    batch: Array,
    weight: Array,
    x: Decision | None,
    elapsed: Array | None,
) -> Learning:
    policy, state = whole(plan, numbers), _state(belief, search)
    in_force = state.decision if x is None else x
    test, time = monitor.tree_of_arrays(), 1.0 if elapsed is None else elapsed
    state, test, report = stage.learn(policy, state, test, batch, weight, in_force, time)
    draws = policy.draw(state)._replace(mixture=None)
    return Learning(state.belief, draws, Packed.of(test), Packed.of(report))


def _draw(
    plan: Plan, numbers: list[Array], belief: Belief, search: Packed, elapsed: Array | None
) -> tuple[Draws, Belief | None]:
    policy = whole(plan, numbers)
    later = belief if elapsed is None else belief.advance(elapsed)
    draws = policy.draw(_state(later, search))
    return draws._replace(mixture=None), draws.mixture


def _descend(
    plan: Plan,
    numbers: list[Array],
    draws: Draws,
    mixture: Belief | None,
    search: Packed,
    rows: Array,
) -> Descending:
    policy, draws = whole(plan, numbers), draws._replace(mixture=mixture)
    state, report = stage.descend(policy, draws, search.tree_of_arrays(), rows)
    return Descending(Packed.of(state), Packed.of(report))


def whole(plan: Plan, numbers: list[Array]) -> BayesianSGD:
    """The policy: see `split`."""
    return eqx.combine(jax.tree.unflatten(plan.numbers, numbers), plan.rest)


def _state(belief: Belief, search: Packed) -> State:
    return dataclasses.replace(search.tree_of_arrays(), belief=belief)

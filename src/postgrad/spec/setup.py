"""From a specification to problems, beliefs and decisions."""

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from postgrad.algorithm import presets
from postgrad.algorithm.policy import initial_decision
from postgrad.beliefs import Belief, Separate
from postgrad.errors import DecisionError, SpecificationError
from postgrad.problem.items import Items
from postgrad.problem.problem import Problem
from postgrad.research import problems
from postgrad.research.problems import Instance
from postgrad.spec.data import names_of
from postgrad.spec.partial_pooling import Pool
from postgrad.spec.specification import ReadyMade, Specification, UserCode


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a specification describes, ready to run.

    Attributes:
        items: Their names.
        problems: One for each item; a single one where they are decided together.
        belief: pi_0, of each problem.
        starts: x_1 of each problem.
        contexts: Names of what is known before a decision; None if there are none.
        pool: What the contexts have in common; None for nothing.
        options: As for `BayesianSGD`.
        alpha: The level of alarms.
    """

    items: tuple[str, ...]
    problems: tuple[Problem, ...]
    belief: Belief
    starts: tuple[np.ndarray, ...]
    contexts: tuple[str, ...] | None
    pool: Pool | None
    options: dict[str, Any]
    alpha: float

    @property
    def joint(self) -> bool:
        """Whether the items are decided together."""
        return len(self.problems) == 1 and self.starts[0].ndim == 1


def build(specification: Specification, items: Sequence[str]) -> Setup:
    """The setup for items of the given names.

    Raises:
        SpecificationError: If there are not as many numbers as items, or the start is not feasible.
        PostgradError: If the parts do not fit each other.
    """
    spec, names = specification, tuple(items)
    made = _parts(spec, len(names)) if spec.problem is None else _whole(spec.problem, names)
    for problem, start in zip(made[0], made[2], strict=True):
        try:
            initial_decision(problem, start)
        except DecisionError as error:
            raise SpecificationError(f"start: {error}") from error
    context = spec.context
    pool = None
    if context is not None and context.pooling == "partial":
        pool = Pool(context.strength)
        pool.check(made[1])
    settings = spec.settings
    options: dict[str, Any] = {"seed": settings.seed}
    if settings.iterations is not None:
        options["iterations"] = settings.iterations
    if settings.samples is not None:
        options["samples"] = (
            tuple(settings.samples) if settings.samples[1:] else settings.samples[0]
        )
    if settings.preset == "paper":
        options = presets.paper(**options)
    return Setup(
        items=names,
        problems=made[0],
        belief=made[1],
        starts=made[2],
        contexts=None if context is None else names_of(context),
        pool=pool,
        options=options,
        alpha=settings.alpha,
    )


_Made = tuple[tuple[Problem, ...], Belief, tuple[np.ndarray, ...]]


def _parts(spec: Specification, count: int) -> _Made:
    """Problems from the vocabulary."""
    # All five are there: that was checked with the file.
    assert spec.cost is not None
    assert spec.model is not None
    assert spec.belief is not None
    assert spec.feasible is not None
    assert spec.start is not None
    for place, part in (("cost", spec.cost), ("feasible", spec.feasible)):
        for key, value in part:
            _check_count(f"{place}.{key}", value, count)
    _check_count("start", spec.start, count)
    each, belief = spec.model.build(), spec.belief.build(spec.model.parameters)
    if spec.feasible.joint:
        pick = _all_of(count)
        problem = Problem(spec.cost.build(pick), Items(each), spec.feasible.build(pick, count))
        return (problem,), Separate(belief, count), (np.asarray(pick(spec.start)),)
    picks = [_one_of(i) for i in range(count)]
    each_problem = tuple(
        Problem(spec.cost.build(pick), each, spec.feasible.build(pick, 1)) for pick in picks
    )
    return each_problem, belief, tuple(np.asarray(pick(spec.start)) for pick in picks)


def _whole(problem: ReadyMade | UserCode, names: tuple[str, ...]) -> _Made:
    """A problem of the testbed, or the user's own."""
    if isinstance(problem, UserCode):
        made, belief, x = _call(problem.python)
    else:
        testbed = problems.testbed()
        if problem.name not in testbed:
            raise SpecificationError(
                f"problem.name: must be among {', '.join(testbed)}, got {problem.name!r}"
            )
        instance: Instance = testbed[problem.name]()
        made, belief, x = instance.problem, instance.belief, instance.x
    start = np.asarray(x, float)
    if start.ndim == 0:
        return (made,) * len(names), belief, (start,) * len(names)
    if start.shape != (len(names),):
        raise SpecificationError(
            f"data.items: the problem decides on {start.size} numbers, got {len(names)} items"
        )
    return (made,), belief, (start,)


def _call(reference: str) -> tuple[Problem, Belief, Any]:
    """What the user's function returns. Only where the user allowed it: see `load`."""
    module, _, attribute = reference.partition(":")
    try:
        returned = getattr(importlib.import_module(module), attribute)()
        problem, belief, x = returned
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SpecificationError(
            f"problem.python: {reference} must be a function that returns a problem, a belief and "
            f"a decision: {error}"
        ) from error
    return problem, belief, x


def _check_count(place: str, value: Any, count: int) -> None:
    if isinstance(value, list) and len(value) != count:
        raise SpecificationError(
            f"{place}: must be one number, or one for each of {count} items, got {len(value)}"
        )


def _one_of(i: int) -> Callable[[Any], Any]:
    return lambda value: jnp.asarray(value[i] if isinstance(value, list) else value)


def _all_of(count: int) -> Callable[[Any], Any]:
    return lambda value: jnp.broadcast_to(jnp.asarray(value), (count,))

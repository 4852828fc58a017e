"""From a specification to problems, a belief and initial decisions."""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from postgrad.algorithm import presets
from postgrad.algorithm.policy import initial_decision
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.pooling.pool import Pool
from postgrad.beliefs.separate import Separate
from postgrad.errors import DecisionError, PriorError, SpecificationError
from postgrad.numerics.validate import on_device
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.items import Items
from postgrad.problem.problem import Problem
from postgrad.research import problems
from postgrad.spec.contexts.column_memory import Context, example
from postgrad.spec.parts.beliefs import MOST_POINTS, GridBelief
from postgrad.spec.parts.regression import RegressionDemand
from postgrad.spec.parts.toml_table import Pick
from postgrad.spec.reworded import reworded
from postgrad.spec.specification import (
    MOST_NUMBERS,
    PARTS,
    NamedProblem,
    Specification,
    UserCode,
)


@dataclasses.dataclass(frozen=True)
class BuiltSpecification:
    """What a specification describes, ready to run.

    Attributes:
        items: The names of the items.
        problems: One for each item; a single one if the items are decided together.
        belief: pi_0, of each problem.
        starts: x_1 of each problem.
        pool: How the groups of an item, or the items, learn from each other; None if they do not.
        options: Arguments of `BayesianSGD`.
        alpha: The level of alarms.
        context: An example of a context; None without `[context]`.
    """

    items: tuple[str, ...]
    problems: tuple[Problem, ...]
    belief: Belief
    starts: tuple[np.ndarray, ...]
    pool: Pool | None
    options: dict[str, Any]
    alpha: float
    context: Context | None

    @property
    def joint(self) -> bool:
        """Whether the items are decided together."""
        return len(self.problems) == 1 and self.starts[0].ndim == 1


def build(specification: Specification, items: Sequence[str]) -> BuiltSpecification:
    """Build the problem of each item, or of all items together.

    Args:
        specification: What to build.
        items: The names of the items.

    Raises:
        SpecificationError: If there are not as many numbers as items, or the start is not feasible.
        PostgradError: If the parts do not fit each other.
    """
    spec, names = specification, tuple(items)
    if spec.problem is None:
        built, belief, starts = _from_parts(spec, len(names))
    else:
        built, belief, starts = _whole(spec.problem, names)
    _check_context(spec, built[0])
    for problem, start in zip(built, starts, strict=True):
        with reworded("start", SpecificationError, DecisionError):
            if isinstance(problem.feasible, FeasibleSet):  # else it depends on the context
                initial_decision(problem, start)
    settings, pool = spec.settings, None
    if spec.pooled is not None:
        pool = Pool(spec.pooled.strength)
        with reworded("pooling", SpecificationError, PriorError):
            pool.population(belief)
    options = settings.model_dump(include={"seed", "iterations"}, exclude_none=True)
    if settings.samples is not None:
        total, *draws = settings.samples
        options["samples"] = (total, *draws) if draws else total
    if settings.preset == "paper":
        options = presets.paper(**options)
    joint = len(built) == 1 and starts[0].ndim == 1
    context = None if spec.context is None else example(spec.context, len(names) if joint else None)
    return BuiltSpecification(names, built, belief, starts, pool, options, settings.alpha, context)


def _check_context(spec: Specification, problem: Problem) -> None:
    if problem.takes_context == (spec.context is not None):
        return
    if spec.context is None:
        raise SpecificationError("the problem takes a context: say in [context] what is known")
    which = "" if spec.model is None else f": the model {spec.model.kind!r} takes none"
    raise SpecificationError(f"context: neither cost, model nor set depends on it{which}")


_Built = tuple[tuple[Problem, ...], Belief, tuple[np.ndarray, ...]]


def _from_parts(spec: Specification, count: int) -> _Built:
    """Problems, belief and starts from the tables of the file, all of which are given."""
    cost, model, belief, feasible, start = (getattr(spec, part) for part in PARTS)
    with reworded("the specification", SpecificationError, ValueError):
        spec.check_counts(count)
    if feasible.joint:
        _check_size(spec, count)
    observation: Any = None
    if isinstance(model, RegressionDemand):
        each, prior = belief.model(model, spec.context), belief.build(model, spec.context)
        observation = model.observed(each)
    else:
        each, prior = model.build(), belief.build(model.parameters)
    picks = [_pick(i) for i in range(count)]
    if feasible.joint:
        picks = [lambda value: on_device(np.broadcast_to(np.asarray(value, float), (count,)))]
        each, prior = Items(each), Separate(prior, count)
        observation = None if observation is None else Items(observation)
    built = tuple(
        Problem(cost.build(pick), each, feasible.build(pick), observation) for pick in picks
    )
    return built, prior, tuple(np.asarray(pick(start)) for pick in picks)


def _check_size(spec: Specification, count: int) -> None:
    """Refuse what would take very much memory where so many items are decided together."""
    draws = count * spec.settings.draws
    if draws > MOST_NUMBERS:
        instead = f"at most {MOST_NUMBERS} are allowed; set fewer `samples` in [settings]"
        raise SpecificationError(f"{count} items that share a budget take {draws} draws; {instead}")
    if isinstance(spec.belief, GridBelief) and (points := count * spec.belief.size) > MOST_POINTS:
        instead = f"at most {MOST_POINTS} are allowed"
        raise SpecificationError(
            f"belief: {count} items that share a budget have grids of {points} points; {instead}"
        )


def _pick(i: int) -> Pick:
    """Takes the number of item i."""
    return lambda value: on_device(np.float64(value[i] if isinstance(value, list) else value))


def _whole(problem: NamedProblem | UserCode, names: tuple[str, ...]) -> _Built:
    """A problem of the testbed, or the user's own."""
    if isinstance(problem, UserCode):
        whole, belief, x = _call(problem.python)
    else:
        testbed = problems.testbed()
        if problem.name not in testbed:
            known = ", ".join(testbed)
            raise SpecificationError(f"problem.name: must be among {known}, got {problem.name!r}")
        instance = testbed[problem.name]()
        whole, belief, x = instance.problem, instance.belief, instance.x
    start = np.asarray(x, float)
    if start.ndim == 0:
        return (whole,) * len(names), belief, (start,) * len(names)
    if start.shape != (len(names),):
        raise SpecificationError(
            f"data.items: the problem decides on {start.size} numbers, got {len(names)} items"
        )
    return (whole,), belief, (start,)


def _call(reference: str) -> tuple[Problem, Belief, Any]:
    """What the user's function returns. `load` has made sure that the user allowed the call."""
    module, _, function = reference.partition(":")
    expected = "a function that returns a problem, a belief and a decision"
    what = f"problem.python: {reference} must be {expected}"
    with reworded(what, SpecificationError, ImportError, AttributeError, TypeError, ValueError):
        problem, belief, x = getattr(importlib.import_module(module), function)()
    return problem, belief, x

"""Decisions under rules: constraints on outcomes, and what it costs and takes to change."""

import dataclasses

import jax.numpy as jnp
import numpy as np

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.outputs import Issued
from postgrad.algorithm.questions.restricted import Judged, best_under_rules
from postgrad.engine.compiling import quietly
from postgrad.engine.occasion import Occasion
from postgrad.engine.packing import Packed
from postgrad.engine.programs import split
from postgrad.engine.questions.valuing import ahead, drawing, expecting
from postgrad.engine.snapshot import Snapshot
from postgrad.errors import ConstraintError
from postgrad.problem.problem import Problem
from postgrad.records.explanation import shown

# Places that are valued in one call, unless there is one place only.
_AT_ONCE = 32
# Expectations are equal if they differ by so much.
_ROUNDING = 1e-12
# What is added where a limit of changes is broken.
_ABOVE_ALL = 10.0


def has_rules(problem: Problem) -> bool:
    """Whether decisions of a problem must keep to more than the feasible set."""
    return bool(problem.constraints) or problem.change is not None


def under_rules(
    policy: BayesianSGD,
    now: Snapshot,
    on: Occasion,
    best: np.ndarray,
    told: Packed,
    previous: np.ndarray,
) -> tuple[np.ndarray, str | None]:
    """The best decision under the rules of a problem, and which cannot be kept, in words.

    Args:
        policy: Whose decision it is, on that occasion.
        now: What is known.
        on: The occasion.
        best: The best decision without rules.
        told: What was reported of that decision, a `DescendReport`, packed.
        previous: The decision before.
    """
    problem, shape = policy.problem, best.shape
    ends = told.tree_of_arrays().descended.outlook
    numbers, plan = split(policy)
    about = numbers, now.belief, now.search, ahead(on)
    with quietly():
        already = drawing(plan)(*about, np.asarray(best, float))
    program = expecting(plan)
    size, before = best.size, np.asarray(previous, float)
    each = problem.outcomes.names

    def expectations(xs: np.ndarray) -> np.ndarray:
        width = 1 if len(xs) == 1 and size > 1 else _AT_ONCE
        parts = []
        for first in range(0, len(xs), width):
            part = xs[first : first + width]
            padded = np.concatenate([part, np.repeat(part[-1:], width - len(part), axis=0)])
            with quietly():
                found = program(*about, already, padded.reshape(-1, *shape), before)
            parts.append(np.asarray(found)[: len(part)])
        return np.concatenate(parts)

    flat = np.ravel(best).astype(float)
    low, high = (np.broadcast_to(np.asarray(e), shape).ravel() for e in problem.feasible.bounds())
    scale = _scale(flat, low, high, (ends.low, ends.high))

    def broken(row: np.ndarray) -> float:
        """By how much rules are broken: limits of changes, which can always be kept, above all."""
        means = dict(zip(each, row[size + 1 :], strict=True))
        rules = [float(rule.excess(means[rule.outcome])) for rule in problem.constraints]
        worst = max(rules, default=0.0)
        worst = worst if worst > _ROUNDING else min(worst, 0.0)
        change = problem.change
        off = 0.0 if change is None else change.excess(row[:size].reshape(shape), before)
        return worst if off <= 0.0 else max(worst, 0.0) + _ABOVE_ALL + off / float(np.mean(scale))

    def judge(xs: np.ndarray) -> Judged:
        rows = expectations(np.asarray(xs, float))
        return Judged(rows[:, :size], rows[:, size], np.array([broken(row) for row in rows]))

    found = best_under_rules(
        judge,
        flat,
        (low, high),
        scale,
        _special(problem, shape, before),
        smooth=problem.change is None,
    )
    x = found.x[0].reshape(shape)
    if found.excess[0] <= 0.0:
        return x, None
    words = _in_words(problem, expectations(found.x)[0], size, shape, before)
    # Several numbers are sought around the best decision, and at places all over the set.
    return x, words if size == 1 else f"{words} (none that was looked at; others may exist)"


def refuse_broken(words: str | None) -> None:
    """Raises: ConstraintError, if rules cannot be kept."""
    if words is not None:
        raise ConstraintError(f"no decision keeps to {words}")


def _scale(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, interval: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """How far it is to another decision worth looking at, in each coordinate."""
    width = np.ravel(np.abs(np.asarray(interval[1]) - np.asarray(interval[0])))
    usual = 0.1 * np.maximum(np.abs(x), 1e-3)
    reach = np.where(np.isfinite(high - low), 0.1 * (high - low), np.inf)
    scale = np.minimum(np.fmax(0.5 * width, usual), np.where(reach > 0.0, reach, np.inf))
    return np.asarray(scale)


def _special(problem: Problem, shape: tuple[int, ...], before: np.ndarray) -> list[np.ndarray]:
    """The previous decision, and those at which changes are the least and the most."""
    if problem.change is None:
        return []
    found = [np.ravel(before)]
    for size in (problem.change.least, problem.change.most):
        step = np.ravel(np.broadcast_to(np.asarray(size), shape))
        if np.all(np.isfinite(step)) and np.any(step > 0.0):
            found += [np.ravel(before) - step, np.ravel(before) + step]
    return found


def _in_words(
    problem: Problem, row: np.ndarray, size: int, shape: tuple[int, ...], before: np.ndarray
) -> str:
    """Which rules are broken where they are broken least, and by how much."""
    x = row[:size].reshape(shape)
    means = dict(zip(problem.outcomes.names, row[size + 1 :], strict=True))
    lines = []
    for rule in problem.constraints:
        if (off := float(rule.excess(means[rule.outcome]))) > _ROUNDING:
            reached = f"{means[rule.outcome]:.4g}, which is {off:.3g} off"
            lines.append(f"{rule.in_words()}: the nearest to it is {reached}, at x = {shown(x)}")
    if problem.change is not None and (off := problem.change.excess(x, before)) > 0.0:
        lines.append(f"the limits of change from {shown(before)}: by {off:.3g}, at x = {shown(x)}")
    return "; ".join(lines)


def with_decision(state: State, x: np.ndarray) -> State:
    """A search state that goes on from a decision."""
    place = jnp.asarray(x)
    rule = state.output.output
    fresh = Issued(rule, rule.init(place))
    whole = None if state.whole is None else place
    return dataclasses.replace(state, x=place, output=fresh, whole=whole)

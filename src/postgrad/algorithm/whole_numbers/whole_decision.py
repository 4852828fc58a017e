"""The decision that a stage issues where its entries are whole numbers, lots or minimum orders."""

import dataclasses

import equinox as eqx
import jax.numpy as jnp

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.descents.descent import Course, Descent, Stage
from postgrad.algorithm.whole_numbers.choice import Choice
from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.problem import Decision


def whole_decision(
    stage: Stage,
    descent: Descent,
    feasible: FeasibleSet,
    around: Decision,
    varies: bool,
    course: Course,
    outlook: Outlook,
) -> tuple[Decision, Course, Outlook]:
    """A decision of the feasible set, near that of its relaxation; the course and the outlook.

    By the value of F on the stage's draws: see `Choice`. Steps that go by no values, and outputs
    that vary the decision on purpose, are rounded instead. Intervals end at values that entries may
    take: the next ones outside.

    Args:
        stage: The stage, whose problem is the relaxed one.
        descent: What has descended.
        feasible: X itself.
        around: The decision in the relaxation.
        varies: Whether the output varies the decision on purpose.
        course: How the descent went.
        outlook: What is uncertain about the decision.
    """
    values = feasible.values()
    assert values is not None
    readings = None if varies else descent.readings(stage, around)
    if readings is None:
        decision, exact = feasible.project(around), jnp.asarray(False)
    else:
        bend = course.curvature
        choice = Choice(stage, readings, feasible, values.spread(around.size), around, bend)
        decision, exact = choice.decide()
    # A relaxed decision that is not finite must not look like a whole number.
    decision = jnp.where(jnp.all(jnp.isfinite(around)), decision, jnp.nan)
    doubtful = jnp.maximum(course.local_only, jnp.where(exact, 0.0, 1.0))
    course = eqx.tree_at(lambda told: told.local_only, course, doubtful)
    vector = values.spread(around.size)
    whole = vector.line(jnp.ravel(outlook.low)).whole.reshape(around.shape)
    ends = vector.around(jnp.ravel(outlook.low), jnp.ravel(outlook.high))
    low, high = (end.reshape(around.shape) for end in ends)
    outlook = dataclasses.replace(
        outlook,
        low=jnp.where(whole, low, outlook.low),
        high=jnp.where(whole, high, outlook.high),
    )
    return decision, course, outlook

"""A stage of one stream, as two pure functions: *learn*, then *descend*.

*Learn* depends on the size of the batch and on how the belief is kept. *Descend* depends on
neither: of the belief it gets drawn thetas (`BayesianSGD.draw`), and of the batch the number of its
rows. So another size of batch compiles *learn* anew, which is small, and not *descend*.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, Bool, Float, Int

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Draws, State
from postgrad.algorithm.stage_results import Descended, Learned
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.grid import live_points
from postgrad.distributions.density import log_density
from postgrad.monitoring.misspecification import Monitor
from postgrad.monitoring.progress_warnings import teaching
from postgrad.numerics.fixed import fixed_leaves
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Decision


class LearnReport(NamedTuple):
    """What *learn* reports.

    Attributes:
        verdict: A `LearnVerdict` as one vector.
        learned: How well the batch was foreseen.
    """

    verdict: Float[Array, " n"]
    learned: Learned


class LearnVerdict(NamedTuple):
    """What is read at once of what *learn* reports.

    Attributes:
        possible: Whether some theta explains each observation.
        proper: Whether the posterior has no NaN in it.
        negligible: Whether the points of large grids that are not computed weigh next to nothing.
        failed: Which assumptions did not hold at the decision in force, as bits.
        alarmed: Whether the batch raised an alarm.
        answer: What is kept with the batch: log f_hat of all of it, and where it lay among those
            that were foreseen.
    """

    possible: Any
    proper: Any
    negligible: Any
    failed: Any
    alarmed: Any
    answer: Any


class DescendReport(NamedTuple):
    """What *descend* reports.

    Attributes:
        verdict: A `DescendVerdict` as one vector.
        descended: How the descent went, and what is uncertain.
    """

    verdict: Float[Array, " n"]
    descended: Descended


class DescendVerdict(NamedTuple):
    """What is read at once of what *descend* reports.

    Attributes:
        positive_step: Whether the step size is positive.
        finite: Whether the gradients, the new decision and what is remembered are finite.
        failed: Which assumptions did not hold at the new decision, as bits.
        doubt: Why the decision may be wrong: a `Doubt`.
        stands: Whether x stands still while not knowing theta costs something.
        value: What one more batch saves.
        usual: What it would save if it taught as batches ordinarily do.
        answer: What is kept with the batch: the decision, and between which ends the best one lies.
    """

    positive_step: Any
    finite: Any
    failed: Any
    doubt: Any
    stands: Any
    value: Any
    usual: Any
    answer: Any


def read(verdict: type[Any], numbers: np.ndarray) -> Any:
    """A verdict from its vector: single numbers, and the vector `answer`."""
    flags = len(verdict._fields) - 1
    return verdict(*numbers[:flags].tolist(), numbers[flags:])


def _vector(verdict: LearnVerdict | DescendVerdict) -> Float[Array, " n"]:
    return jnp.concatenate([jnp.ravel(jnp.asarray(v, float)) for v in jax.tree.leaves(verdict)])


def learn(
    policy: BayesianSGD,
    state: State,
    monitor: Monitor,
    batch: Float[Array, "D ..."],
    weight: Float[Array, " D"],
    x: Decision,
    elapsed: Float[Array, ""] | float = 1.0,
) -> tuple[State, Monitor, LearnReport]:
    """Bayes' rule, how well the batch was foreseen, and whether that raises an alarm.

    Args:
        policy: Whose stage it is.
        state: The state after stage t - 1.
        monitor: The test of whether batches come as foreseen.
        batch: y_{t,1}, ..., y_{t,D}, padded.
        weight: 1 for each observation, 0 for padding.
        x: The decision in force when the batch arose.
        elapsed: The time since the batch before it.
    """
    new, learned = policy.learn(state, Batch(x, batch, weight), elapsed)
    monitor = monitor.update(learned.surprise)
    foreseen = jnp.sum(jnp.where(weight > 0, learned.log_predictive, 0.0))
    verdict = LearnVerdict(
        possible=is_possible(policy, state, batch, x, learned.log_predictive),
        proper=~_any_nan(eqx.filter(new.belief, fixed_leaves(new.belief), inverse=True)),
        negligible=live_points.is_negligible(new),
        failed=new.failed,
        alarmed=monitor.raised > 0,
        answer=(foreseen, learned.surprise),
    )
    return new, monitor, LearnReport(_vector(verdict), learned)


def descend(
    policy: BayesianSGD, draws: Draws, state: State, rows: Float[Array, ""]
) -> tuple[State, DescendReport]:
    """K steps on the averaged cost, and the decision.

    Args:
        policy: Whose stage it is.
        draws: What `policy.draw` drew from pi_t.
        state: The state, whose belief is not read and may be None.
        rows: D, how many observations the stage brought.
    """
    new, descended = policy.descend_on(draws, state, rows)
    # An infinite gradient is caught before a bounded set hides it and momentum keeps it.
    moves = [new.x, new.decision, descended.course.gradient]
    moves += jax.tree.leaves(eqx.filter(new.progress, eqx.is_inexact_array))
    stands, value, usual = teaching(descended.outlook, new.x - state.x, draws.size, rows)
    verdict = DescendVerdict(
        positive_step=policy.descent.step_size(state.stage) > 0,
        finite=jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in moves])),
        failed=new.failed,
        doubt=descended.course.doubt,
        stands=stands,
        value=value,
        usual=usual,
        answer=(new.decision, descended.outlook.low, descended.outlook.high),
    )
    return new, DescendReport(_vector(verdict), descended)


def solve(
    policy: BayesianSGD, start: State, belief: Belief, number: Int[Array, ""]
) -> tuple[State, Descended]:
    """The decision for the context of a policy, sought over the whole set: `Stream.solve`.

    Args:
        policy: The policy in the context.
        start: The state before the first stage, where the search begins.
        belief: What is believed at the time of the decision.
        number: How many batches have been learned; random numbers follow from it.
    """
    seeded = replaced(policy, key=random.fold_in(policy.key, number))
    fresh = replaced(start, belief=belief, stage=jnp.ones_like(start.stage))
    return seeded.descend(fresh, jnp.ones(()))


def is_possible(
    policy: BayesianSGD,
    state: State,
    batch: Float[Array, "D ..."],
    x: Decision,
    log_predictive: Float[Array, " D"],
) -> Bool[Array, ""]:
    """Whether some theta of the belief before the batch explains each observation."""

    def explained(y: Array) -> Array:
        log_f = jax.vmap(lambda theta: log_density(policy.problem.likelihood(x, theta), y))
        return jnp.any(log_f(state.belief.examples()) > -jnp.inf)

    return jnp.all(jax.vmap(explained)(batch) | (log_predictive > -jnp.inf))


def _any_nan(tree: Any) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.any(jnp.asarray([jnp.any(jnp.isnan(leaf)) for leaf in leaves], bool))

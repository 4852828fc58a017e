"""Closed loops in which each stage has a context: decide for it, then learn in it."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jaxtyping import Array, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, State
from postgrad.algorithm.policy import Policy
from postgrad.engine.stage import solve
from postgrad.errors import ContextError
from postgrad.numerics.draw_barrier import computed_once
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch
from postgrad.problem.contexts import as_context

# What the key of a stage's context is for, apart from its data.
_CONTEXT = np.uint32(2**32 - 4)


class ContextsOfStages(eqx.Module):
    """The contexts of a simulation.

    Attributes:
        draw: A function of (stage, key); None if they are given.
        given: The contexts of all stages along the leading axis of each array; None if drawn.
    """

    draw: Callable[[Array, Array], PyTree] | None
    given: PyTree

    def __init__(self, contexts: Any, horizon: int):
        """See `simulate`.

        Raises:
            ContextError: If they are not numbers, or not one for each stage.
        """
        self.draw, self.given = (contexts, None) if callable(contexts) else (None, None)
        if self.draw is None:
            self.given = as_context(contexts, what="contexts")
            lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.given)}
            if lengths != {(horizon,)}:
                raise ContextError(
                    f"contexts must have one entry for each of {horizon} stages along the leading "
                    f"axis of each array, got {sorted(lengths)}"
                )

    def at(self, stage: Array, key: Array) -> PyTree:
        """The context of a stage, its numbers as arrays."""
        if self.draw is None:
            return jax.tree.map(lambda leaf: leaf[stage - 1], self.given)
        return jax.tree.map(_as_array, self.draw(stage, key))

    def example_of(self, algorithm: Policy) -> BayesianSGD:
        """The algorithm in the context of the first stage.

        Raises:
            ContextError: If the policy, or its problem, takes no contexts.
        """
        if not isinstance(algorithm, BayesianSGD):
            name = type(algorithm).__name__
            raise ContextError(f"only BayesianSGD decides in contexts, {name} does not")
        if not algorithm.problem.takes_context:
            raise ContextError("contexts were given, but cost, model and feasible set take none")
        return algorithm.at(as_context(self.at(jnp.ones((), int), random.key(0))))


def stage_in_context(
    algorithm: BayesianSGD,
    start: State,
    contexts: ContextsOfStages,
    theta: PyTree,
    batch_size: int,
    record: Callable[[Any], PyTree],
    key: Array,
    state: State,
    t: Array,
) -> tuple[State, PyTree]:
    """One stage of one run: the context, the decision for it, data from the truth, Bayes' rule."""
    key_data, key_algorithm = random.split(key)
    key_data = random.fold_in(key_data, t)
    z = contexts.at(t, random.fold_in(key_data, _CONTEXT))
    here = replaced(algorithm.at(z), key=key_algorithm)
    # Decide, looking ahead by the unit of time after which the batch comes.
    origin = replaced(start, failed=state.failed)
    decided, told = solve(here, origin, state.belief.advance(1.0), t - 1)
    # The data: y_t ~ f(.; x_t, theta_c, z_t).
    truth = here.problem.likelihood(decided.decision, theta)
    batch = computed_once(truth.sample(key_data, (batch_size,)), key_data)
    before = replaced(decided, belief=state.belief, stage=t)
    learned, _ = here.update(before, Batch(decided.decision, batch), 1.0)
    new = replaced(learned, stage=t + 1)
    return new, (new.decision, record(new), told.course.doubt.astype(jnp.int8), z)


def _as_array(leaf: Any) -> Array:
    """Whole numbers and truth values stay what they are, others are float64."""
    array = jnp.asarray(leaf)
    return array.astype(float) if jnp.issubdtype(array.dtype, jnp.floating) else array

"""Contexts that are known before the decision, such as the weekday: one decision for each.

The states of all contexts are stacked along the leading axis. A stage takes one of them and puts it
back. Where the contexts are alike they can lend each other strength: see `Pool`.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.beliefs import Adaptive, Belief, Grid
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.errors import PriorError
from postgrad.numerics.validate import as_numbers
from postgrad.problem.problem import Decision

_ROUNDS = 5


class Loan(NamedTuple):
    """What a context is lent for one stage.

    Attributes:
        gained: log G - log prior, for each point of the grid.
    """

    gained: Float[Array, "..."]

    def to(self, belief: Belief) -> Belief:
        """The belief with G for its prior."""
        kept = _weights(belief)
        values, prior = kept.values + self.gained, _prior(kept) + self.gained
        return eqx.tree_at(_weights, belief, LogWeights(values - _top(values), prior))

    def back(self, belief: Belief, own: Belief) -> Belief:
        """The belief with its own prior again."""
        values = _weights(belief).values - self.gained
        return eqx.tree_at(_weights, belief, LogWeights(values - _top(values), _weights(own).prior))


class Pool(eqx.Module):
    """Partial pooling: the contexts' parameters come from one population, which is learned.

        theta_c ~ G,    G ~ DirichletProcess(strength, prior),    y ~ f(.; theta_c) in context c

    On a grid, G is found by steps of the EM algorithm,

        G(theta)  <-  (strength prior(theta) + sum_c pi_c(theta)) / (strength + C),
        pi_c  ~  L_c G,

    with L_c the likelihood of the data of context c: empirical Bayes. A context with few data leans
    on the others; one with many does as it likes.

    Attributes:
        strength: How many contexts the prior is worth.
    """

    strength: Float[Array, ""]

    def __init__(self, strength: Any = 1.0):
        """See the attributes.

        Raises:
            PriorError: If the strength is not a positive number.
        """
        number = as_numbers(strength, PriorError, "strength")
        if number.shape != () or not number > 0:
            raise PriorError(f"strength must be a positive number, got {strength!r}")
        self.strength = jnp.asarray(number)

    def check(self, belief: Belief) -> None:
        """Try whether such beliefs can be pooled.

        Raises:
            PriorError: If they cannot.
        """
        grid = belief.beliefs if isinstance(belief, Adaptive) else belief
        if not isinstance(grid, Grid) or grid.memory.forget is None:
            raise PriorError(
                f"only grids made with `forget` can be pooled, got {type(belief).__name__}"
            )

    def lend(self, beliefs: Belief) -> Loan:
        """What the contexts, stacked, know of each other."""
        weights = _weights(beliefs)
        prior, evidence = _prior(weights)[0], weights.values - _prior(weights)
        own = prior - logsumexp(prior, axis=-1, keepdims=True)

        def improve(_: Array, g: Array) -> Array:
            posteriors = jax.nn.softmax(evidence + g, axis=-1)
            total = self.strength * jnp.exp(own) + jnp.sum(posteriors, axis=0)
            return jnp.log(total) - jnp.log(self.strength + evidence.shape[0])

        return Loan(jax.lax.fori_loop(0, _ROUNDS, improve, own) - own)


def stack(state: State, count: int) -> State:
    """The same state for each of several contexts."""
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), state)


def at(states: PyTree, context: Int[Array, ""] | int) -> PyTree:
    """What belongs to one context."""
    return jax.tree.map(lambda leaf: leaf[context], states)


def step(
    algorithm: BayesianSGD,
    states: State,
    context: Int[Array, ""],
    batch: Float[Array, "D ..."],
    *,
    weight: Float[Array, " D"] | None = None,
    x: Decision | None = None,
    pool: Pool | None = None,
) -> tuple[State, Info]:
    """A stage of one context; with a pool, all others decide again on what it tells them.

    Args:
        algorithm: Whose stages these are.
        states: Those of all contexts, stacked.
        context: In which the batch arose.
        batch: As for `BayesianSGD.step`.
        weight: As there.
        x: As there.
        pool: What the contexts have in common; nothing, if not given.
    """
    if pool is None:
        new, info = algorithm.step(at(states, context), batch, weight=weight, x=x)
        return jax.tree.map(lambda all_, one: all_.at[context].set(one), states, new), info
    count = states.stage.shape[0]
    counts = jnp.ones(batch.shape[0]) if weight is None else weight
    in_force = at(states, context).decision if x is None else x

    # The batch is foreseen with what was known before it; the others hear of it at once.
    likelihood, own = algorithm.problem.likelihood, at(states, context).belief
    taught = own.update(likelihood, in_force, batch, counts)
    heard = jax.tree.map(lambda all_, one: all_.at[context].set(one), states.belief, taught)
    before, after = pool.lend(states.belief), pool.lend(heard)

    def one(number: Array, state: State) -> tuple[State, Info]:
        here = number == context
        loan = Loan(jnp.where(here, before.gained, after.gained))
        lent = eqx.tree_at(lambda s: s.belief, state, loan.to(state.belief))
        new, info = algorithm.step(lent, batch, weight=jnp.where(here, counts, 0.0), x=in_force)
        learned = loan.back(new.belief, state.belief)
        belief = jax.tree.map(
            lambda after, before: jnp.where(here, after, before), learned, state.belief
        )
        return eqx.tree_at(lambda s: s.belief, new, belief), info

    new, infos = jax.vmap(one)(jnp.arange(count), states)
    return new, at(infos, context)


def _top(values: Array) -> Array:
    return jnp.max(values, axis=-1, keepdims=True)


def _prior(weights: LogWeights) -> Array:
    assert weights.prior is not None  # see `check`
    return weights.prior


def _weights(belief: Belief) -> LogWeights:
    grid = belief.beliefs if isinstance(belief, Adaptive) else belief
    return grid.weights  # type: ignore[attr-defined]

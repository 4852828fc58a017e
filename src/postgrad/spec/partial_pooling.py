"""Groups of days, such as weekdays, that lend each other strength: see `Pool`.

The states of all groups are stacked along the leading axis. A stage learns for one of them, and all
decide again.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.grid.grid import Grid
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.errors import PriorError
from postgrad.numerics.validate import as_positive
from postgrad.problem.problem import Decision

_ROUNDS = 5


class Pool(eqx.Module):
    """Partial pooling: the groups' parameters come from one population, which is learned.

        theta_c ~ G,    G ~ DirichletProcess(strength, prior),    y ~ f(.; theta_c) in group c

    On a grid, G is found by steps of the EM algorithm,

        G(theta)  <-  (strength prior(theta) + sum_c pi_c(theta)) / (strength + C),
        pi_c  ~  L_c G,

    with L_c the likelihood of the data of group c: empirical Bayes. A group with few data leans
    on the others; one with many does as it likes.

    Attributes:
        strength: How many groups the prior is worth.
    """

    strength: Float[Array, ""]

    def __init__(self, strength: Any = 1.0):
        """See the attributes.

        Raises:
            PriorError: If the strength is not a positive number.
        """
        self.strength = as_positive(strength, PriorError, "strength")

    def check(self, belief: Belief) -> None:
        """Try whether such beliefs can be pooled.

        Raises:
            PriorError: If they cannot.
        """
        grid = belief.beliefs if isinstance(belief, Mixture) else belief
        if not isinstance(grid, Grid) or grid.memory.forget is None:
            given = type(belief).__name__
            raise PriorError(f"only grids made with `forget` can be pooled, got {given}")

    def lend(self, beliefs: Belief) -> Float[Array, "..."]:
        """What the groups, stacked, know of each other: log G - log prior, for each point."""
        weights = _weights(beliefs)
        prior, evidence = _prior(weights)[0], weights.values - _prior(weights)
        own = prior - logsumexp(prior, axis=-1, keepdims=True)

        def improve(_: Array, g: Array) -> Array:
            posteriors = jax.nn.softmax(evidence + g, axis=-1)
            total = self.strength * jnp.exp(own) + jnp.sum(posteriors, axis=0)
            return jnp.log(total) - jnp.log(self.strength + evidence.shape[0])

        return jax.lax.fori_loop(0, _ROUNDS, improve, own) - own


def stack(state: State, count: int) -> State:
    """The same state for each of several groups."""
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), state)


def at(states: PyTree, group: Int[Array, ""] | int) -> PyTree:
    """The state of one group."""
    return jax.tree.map(lambda leaf: leaf[group], states)


def step(
    policy: BayesianSGD,
    pool: Pool,
    states: State,
    group: Int[Array, ""],
    batch: Float[Array, "D ..."],
    x: Decision,
    weight: Float[Array, " D"] | None = None,
    elapsed: Any = 1.0,
) -> tuple[State, Info]:
    """A stage of one group, after which all other groups decide again on what it tells them.

    Args:
        policy: Whose stages these are.
        pool: What the groups have in common.
        states: Those of all groups, stacked.
        group: The group of the batch.
        batch: y_{t,1}, ..., y_{t,D} along the leading axis.
        x: The decision in force when the batch arose.
        weight: The weight of each observation; 1, if not given.
        elapsed: How many units of time have passed for the group since its last batch.
    """
    weight = jnp.ones(batch.shape[0]) if weight is None else weight

    def with_its(belief: Belief) -> Belief:
        stacked: Belief = jax.tree.map(
            lambda all_, one: all_.at[group].set(one), states.belief, belief
        )
        return stacked

    # The batch is foreseen with what was known before it; the other groups hear of it at once.
    waited = at(states, group).belief.advance(elapsed)
    taught = waited.update(policy.problem.likelihood, x, batch, weight)
    before, after = pool.lend(with_its(waited)), pool.lend(with_its(taught))

    def one(number: Array, state: State) -> tuple[State, Info]:
        here = number == group
        own, gained = _prior(_weights(state.belief)), jnp.where(here, before, after)
        # The stage has G for its prior; what it has learned is kept with the group's own again.
        borrowed = reweighted(state.belief, gained, own + gained)
        lent = eqx.tree_at(lambda s: s.belief, state, borrowed)
        new, info = policy.step(
            lent,
            batch,
            weight=jnp.where(here, weight, 0.0),
            x=x,
            elapsed=jnp.where(here, elapsed, 0.0),
        )
        learned = reweighted(new.belief, -gained, own)
        belief = jax.tree.map(functools.partial(jnp.where, here), learned, state.belief)
        return eqx.tree_at(lambda s: s.belief, new, belief), info

    new, infos = jax.vmap(one)(jnp.arange(len(states.stage)), states)
    return new, at(infos, group)


def reweighted(belief: Belief, change: Array, prior: Array) -> Belief:
    """The belief with this change of its log-weights, and another prior."""
    values = _weights(belief).values + change
    top = jnp.max(values, axis=-1, keepdims=True)
    return eqx.tree_at(_weights, belief, LogWeights(values - top, prior))


def _prior(weights: LogWeights) -> Array:
    assert weights.prior is not None  # see `check`
    return weights.prior


def _weights(belief: Belief) -> LogWeights:
    grid = belief.beliefs if isinstance(belief, Mixture) else belief
    return grid.weights  # type: ignore[attr-defined]

"""Members of one population in a backtest, such as the weekdays of an item: see `Population`.

The states of all members are stacked along the leading axis. A stage is one member's: it borrows
what the others have contributed, and contributes itself, as a live agent does.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.bayesian_sgd import BayesianSGD, Info, State
from postgrad.beliefs.pooling.population import Population
from postgrad.problem.problem import Decision


class Members(eqx.Module):
    """All members, and what they have in common.

    Attributes:
        states: Their states, stacked; the beliefs have their own prior.
        contributed: T_i of each member; zero before its first batch.
        total: The sum of all T_i.
    """

    states: State
    contributed: Float[Array, "C m"]
    total: Float[Array, " m"]

    @classmethod
    def begin(cls, population: Population, states: Sequence[State]) -> "Members":
        """Members that have learned nothing."""
        nothing = jnp.zeros((len(states), population.size))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        return cls(stacked, nothing, nothing[0])

    def __getitem__(self, member: Int[Array, ""] | int) -> State:
        """The state of one member."""
        return at(self.states, member)


def at(stack: PyTree, index: Int[Array, ""] | int) -> PyTree:
    """One entry along the leading axis of each leaf."""
    return jax.tree.map(lambda leaf: leaf[index], stack)


def step(
    policy: BayesianSGD,
    population: Population,
    members: Members,
    member: Int[Array, ""],
    batch: Float[Array, "D ..."],
    x: Decision,
    weight: Float[Array, " D"] | None = None,
) -> tuple[Members, State, Info]:
    """A stage of one member.

    Args:
        policy: Whose stages these are.
        population: What the members have in common.
        members: All of them.
        member: The member of the batch.
        batch: y_{t,1}, ..., y_{t,D} along the leading axis.
        x: The decision in force when the batch arose.
        weight: The weight of each observation; 1, if not given.

    Returns:
        All members, and what is told of this one's stage.
    """
    state, before = members[member], members.contributed[member]
    borrowed = population.lent(state.belief, members.total - before)
    lent = eqx.tree_at(lambda s: s.belief, state, borrowed)
    new, info = policy.step(lent, batch, weight=weight, x=x)
    learned = population.statistics(new.belief)
    own = population.lent(new.belief, jnp.zeros_like(learned))
    kept = eqx.tree_at(lambda s: s.belief, new, own)
    states = jax.tree.map(lambda all_, one: all_.at[member].set(one), members.states, kept)
    contributed = members.contributed.at[member].set(learned)
    return Members(states, contributed, members.total + (learned - before)), new, info

"""Looking at the points that matter: what a loop over stages does for the weights in a belief.

`SufficientWeights` compute few of their points, and say how much the others may weigh. To look at
all of them is a matter of every now and then, so it is done between calls of compiled programs: if
some stages had a sound result, the loop goes on, now and then with the `focused` state; if not, it
takes the state before them, `unfocused`, and computes them again.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, PyTree

from postgrad.beliefs.grid.sufficient_weights import TOLERANCE, SufficientWeights

_NEVER = 1 << 62


def patience(state: PyTree) -> int:
    """How many stages to go on before the next look pays.

    Twice as many as compute as many points as a look does, so that looks are a minor part of all
    work. Four at least: before that nearly all points matter.
    """
    ratios = [node.everything.log_prior.size / node.live_count for node in _nodes(state)]
    return max(4, 2 * int(min(ratios))) if ratios else _NEVER


def focused(state: PyTree) -> PyTree:
    """The state with the weights in it looking at all their points anew.

    Args:
        state: A state, or the states of many streams along the leading axis, with one list of
            points for all.
    """
    return _each(state, SufficientWeights.focused)


def unfocused(state: PyTree) -> PyTree:
    """The state with all points of the weights in it live. See `focused`."""
    return _each(state, SufficientWeights.unfocused)


def is_sound(state: PyTree) -> bool:
    """`is_negligible` outside of compiled programs, where it compiles nothing."""
    return all(node.is_sound for node in _nodes(state))


def is_negligible(state: PyTree) -> Bool[Array, ""]:
    """Whether the points that are not computed weigh next to nothing, in all runs of a stack."""
    shares = [jnp.all(node.missing <= TOLERANCE) for node in _nodes(state)]
    return jnp.all(jnp.asarray(shares, bool))


def _is_node(node: Any) -> bool:
    return isinstance(node, SufficientWeights)


def _nodes(tree: PyTree) -> list[SufficientWeights]:
    return [node for node in jax.tree.leaves(tree, is_leaf=_is_node) if _is_node(node)]


def _each(tree: PyTree, change: Callable[[SufficientWeights], SufficientWeights]) -> PyTree:
    return jax.tree.map(
        lambda node: change(node) if _is_node(node) else node, tree, is_leaf=_is_node
    )

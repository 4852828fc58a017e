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
from postgrad.numerics.fixed import fixed_leaves

_NEVER = 1 << 62


def can_focus(state: PyTree) -> bool:
    """Whether there are weights in the state that can."""
    return len(_nodes(state)) > 0


def patience(state: PyTree) -> int:
    """How many stages to go on before the next look pays.

    Twice as many as compute as many points as a look does, so that looks are a minor part of all
    work. Four at least: before that nearly all points matter.
    """
    ratios = [node.everything.log_prior.size / node.live_count for node in _nodes(state)]
    return max(4, 2 * int(min(ratios))) if ratios else _NEVER


def focused(state: PyTree, stacked: bool = False) -> PyTree:
    """The state with the weights in it looking at all their points anew.

    Args:
        state: A state, or the states of many streams with one list of points for all.
        stacked: Whether it is the latter, with the streams along the leading axis.
    """
    return _each(state, SufficientWeights.focused, stacked)


def unfocused(state: PyTree, stacked: bool = False) -> PyTree:
    """The state with all points of the weights in it live. See `focused`."""
    return _each(state, SufficientWeights.unfocused, stacked)


def is_negligible(state: PyTree) -> Bool[Array, ""]:
    """Whether the points that are not computed weigh next to nothing, in all runs of a stack."""
    shares = [jnp.all(node.missing <= TOLERANCE) for node in _nodes(state)]
    return jnp.all(jnp.asarray(shares, bool))


def _is_node(node: Any) -> bool:
    return isinstance(node, SufficientWeights)


def _nodes(tree: PyTree) -> list[SufficientWeights]:
    return [node for node in jax.tree.leaves(tree, is_leaf=_is_node) if _is_node(node)]


def _each(
    tree: PyTree, change: Callable[[SufficientWeights], SufficientWeights], stacked: bool
) -> PyTree:
    def changed(node: Any) -> Any:
        if not _is_node(node):
            return node
        # Weights take a stack of streams along the last axis.
        return _moved(change(_moved(node, 0, -1)), -1, 0) if stacked else change(node)

    return jax.tree.map(changed, tree, is_leaf=_is_node)


def _moved(weights: SufficientWeights, source: int, to: int) -> SufficientWeights:
    """The weights with the axis of streams elsewhere in all arrays that stages change."""
    fixed = fixed_leaves(weights)
    return jax.tree.map(
        lambda is_fixed, leaf: leaf if is_fixed else jnp.moveaxis(leaf, source, to), fixed, weights
    )

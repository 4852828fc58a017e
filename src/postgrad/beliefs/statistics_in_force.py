"""Whether statistics of the data still stand for all of them, and a belief that does without.

That decisions shift the data only (`decision_shift`) is tried when a belief is bound, at decisions
all over the feasible set, and then again at each decision in force.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.grid.sufficient_weights import SufficientWeights
from postgrad.beliefs.grid.weights import LogWeights
from postgrad.beliefs.kept_likelihood import KeptRows
from postgrad.beliefs.sufficient_totals import SufficientTotals
from postgrad.errors import ModelError
from postgrad.problem.problem import Decision, Model


def statistics_hold(belief: Belief, likelihood: Model, x: Decision) -> Bool[Array, ""]:
    """Whether x shifts the data only, where the belief assumes so; inside compiled programs."""
    nodes = [node for node in jax.tree.leaves(belief, is_leaf=_is_node) if _is_node(node)]
    return jnp.all(
        jnp.asarray([node.shift.holds(node.family, likelihood, x) for node in nodes], bool)
    )


def without_statistics(belief: Belief, likelihood: Model) -> Belief:
    """A belief that keeps log-weights and rows where it assumed that decisions shift the data.

    Raises:
        ModelError: If it has learned before, and of these data only statistics are left.
    """

    def plain(node: Any) -> Any:
        if not _is_node(node):
            return node
        if isinstance(node, SufficientWeights):
            return LogWeights(node.log_weights)
        if np.any(node.sums.value):
            raise ModelError(
                "decisions do not just shift or scale the data, and of the data that the belief "
                "has learned from before, only statistics are left; start from the prior"
            )
        return KeptRows.empty(likelihood, node.x, node.theta)

    return jax.tree.map(plain, belief, is_leaf=_is_node)


def _is_node(node: Any) -> bool:
    return isinstance(node, SufficientWeights | SufficientTotals) and node.shift is not None

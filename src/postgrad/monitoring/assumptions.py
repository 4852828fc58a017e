"""Assumptions that make stages fast, and what is done when one turns out not to hold.

They are tried when a policy starts, at decisions all over the feasible set, and then at every stage
where it is. If one fails, its results are not used: everything is computed again without it.
"""

import dataclasses
from typing import Any

import numpy as np

from postgrad.algorithm.bayesian_sgd import ADDS, FITS, SUFFICE, State
from postgrad.beliefs.statistics_in_force import without_statistics
from postgrad.errors import ModelError
from postgrad.problem.problem import Model

_WORDS = {
    ADDS: "the cost adds over the coordinates of xi, so that only their marginals matter",
    SUFFICE: "a few statistics stand for all data, as decisions only shift or scale them",
}


class AssumptionWarning(UserWarning):
    """What was assumed of cost or model does not hold everywhere: it is no longer assumed."""

    def __init__(self, which: int):
        """Args: which assumptions, as bits."""
        said = " and that ".join(words for bit, words in _WORDS.items() if which & bit)
        super().__init__(
            f"it held at first that {said}, but not at decisions that were met later; all stages "
            f"are computed again without that assumption, and those to come take longer"
        )


def check_fits(which: int, belief: Any) -> None:
    """Refuse a batch in whose context the model is not what the belief takes it for.

    Raises:
        ModelError: If that is among the assumptions that failed; nothing could do without it.
    """
    if which & FITS:
        name = type(belief).__name__
        raise ModelError(
            f"in the context of this batch the model is not of the form that {name} was made for "
            f"when it was bound to the model in the first context; take a belief without such a "
            f"form, Grid or Particles, or a first context in which the form shows"
        )


class AssumptionFailedError(Exception):
    """An assumption turned out not to hold: the results of the stage must not be used.

    Attributes:
        which: All assumptions to do without from now on, as bits.
    """

    def __init__(self, which: int):
        super().__init__(which)
        self.which = which


def failed(state: Any) -> int:
    """Which assumptions have failed in a state, or in any of a stack of states, as bits."""
    found = np.asarray(getattr(state, "failed", 0)).ravel()
    return int(np.bitwise_or.reduce(found, initial=0))


def without(state: State, likelihood: Model, which: int) -> State:
    """The state before the first stage, some assumptions not made.

    Args:
        state: The state as `BayesianSGD.init` returns it.
        likelihood: The distribution of the data.
        which: The assumptions, as bits.

    Raises:
        ModelError: If the belief has learned before, and of these data only statistics are left.
    """
    belief = without_statistics(state.belief, likelihood) if which & SUFFICE else state.belief
    only_marginals = state.only_marginals and not which & ADDS
    return dataclasses.replace(state, belief=belief, only_marginals=only_marginals)

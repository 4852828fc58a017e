"""Whole numbers."""

import jax.numpy as jnp

from postgrad.problem.feasible.feasible_set import FeasibleSet
from postgrad.problem.feasible.whole.lots import multiples
from postgrad.problem.feasible.whole.values import Values
from postgrad.problem.feasible.whole.whole_set import WholeSet


class Integers(WholeSet):
    """X = {x in set : each entry of x is a whole number}.

    Args:
        set: A `Box`, a `Budget`, `Reals` or a `Product` of these.

    Raises:
        FeasibleSetError: On other sets, and if some entry has no whole number between its bounds.
    """

    def __init__(self, set: FeasibleSet):  # noqa: A002
        self.set = set
        self._check("whole numbers")

    def values(self) -> Values:
        """Multiples of 1."""
        return multiples(self.set, jnp.ones(()))

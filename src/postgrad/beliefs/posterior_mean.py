"""The mean of a posterior, taken for the truth."""

from typing import Self

import equinox as eqx
from jaxtyping import Array, PyTree

from postgrad.beliefs.belief import Belief
from postgrad.beliefs.point_mass import PointMass
from postgrad.errors import PriorError
from postgrad.problem.problem import Decision, Model, Problem


class PosteriorMean(PointMass):
    """A point mass at theta_hat_t = E_{pi_t} theta, entry by entry: certainty equivalence.

    The mean of values from a grid need not be one of them.

    Attributes:
        belief: pi_t.
        value: theta_hat_t.
    """

    belief: Belief
    value: PyTree

    def __init__(self, belief: Belief):
        """The plug-in for a belief.

        Raises:
            PriorError: If it is no belief.
        """
        if not isinstance(belief, Belief):
            raise PriorError(f"belief must be a belief such as Grid(...), got {belief!r}")
        self.belief = belief
        self.value = belief.mean()

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.value

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Array,
        weight: Array | None = None,
        key: Array | None = None,
    ) -> Self:
        """Bayes' rule, then the mean."""
        belief = self.belief.update(likelihood, x, batch, weight, key)
        return eqx.tree_at(lambda self: (self.belief, self.value), self, (belief, belief.mean()))

    @property
    def effective_size(self) -> Array:
        """That of the belief."""
        return self.belief.effective_size

    def examples(self) -> PyTree:
        """Those of the belief."""
        return self.belief.examples()

    def bind(self, problem: Problem, x: Decision) -> Self:
        """As the belief does."""
        return eqx.tree_at(lambda self: self.belief, self, self.belief.bind(problem, x))

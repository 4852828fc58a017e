"""The plug-in estimate in closed form, on a continuous parameter space."""

from typing import Self

import equinox as eqx
from jaxtyping import Array, PyTree

from postgrad.beliefs.conjugate.conjugate import Conjugate
from postgrad.beliefs.point_mass import PointMass
from postgrad.errors import PriorError
from postgrad.problem.problem import Decision, Model, Problem


class FreeMaximumLikelihood(PointMass):
    """A point mass at the maximum-likelihood estimate over all of a family's parameters.

    It is what a conjugate belief makes of the data, without its prior. There is no estimate before
    the first observation: theta is then NaN.

    Attributes:
        belief: The family, and the sums of its statistics.
    """

    belief: Conjugate

    def __init__(self, belief: Conjugate):
        """The estimate for the models of a conjugate belief, whose prior is not used.

        Raises:
            PriorError: If it is none.
        """
        if not isinstance(belief, Conjugate):
            raise PriorError(f"belief must be conjugate, such as Normal(0.0, 1.0), got {belief!r}")
        self.belief = belief

    @property
    def theta(self) -> PyTree:
        """theta_hat_t."""
        return self.belief.estimate()

    def update(
        self,
        likelihood: Model,
        x: Decision,
        batch: Array,
        weight: Array | None = None,
        key: Array | None = None,
    ) -> Self:
        """Adds the batch's statistics."""
        del key
        belief = self.belief.update(likelihood, x, batch, weight)
        return eqx.tree_at(lambda self: self.belief, self, belief)

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

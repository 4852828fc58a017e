"""One draw from a posterior, taken for the truth until the next batch."""

from typing import Self

from jax import random
from jaxtyping import Array, PyTree

from postgrad.beliefs.belief import Belief, check_belief
from postgrad.beliefs.point_mass import PlugIn
from postgrad.errors import SettingError
from postgrad.numerics.module import replaced
from postgrad.problem.batch import Batch
from postgrad.problem.problem import Model


class Thompson(PlugIn):
    """A point mass at theta_t ~ pi_t, drawn once for each stage (Thompson, 1933).

    As time passes theta_t stays; pi_t changes, from which the next batch draws.

    A stage descends on H(., theta_t) for that one theta_t. If a stage descends to the minimum, this
    is posterior sampling (Russo & Van Roy, 2014); with few gradient steps it is those few steps.

    Attributes:
        belief: pi_t.
        value: theta_t. Before the first batch, a draw that all runs share.
    """

    belief: Belief
    value: PyTree

    def __init__(self, belief: Belief):
        """Draws from a belief.

        Raises:
            PriorError: If `belief` is not a belief.
        """
        self.belief = check_belief(belief)
        self.value = belief.sample(random.key(0))

    @property
    def theta(self) -> PyTree:
        """theta_t."""
        return self.value

    def _learn(self, likelihood: Model, batch: Batch, key: Array | None) -> Self:
        """Bayes' rule, then a draw.

        Raises:
            SettingError: Without a key.
        """
        if key is None:
            raise SettingError("Thompson needs a key to draw from what it learned, got none")
        key_belief, key_draw = random.split(key)
        belief = self.belief.update(likelihood, *batch, key_belief)
        return replaced(self, belief=belief, value=belief.sample(key_draw))

"""Stochastic gradient Langevin dynamics on the decision, for costs with several valleys."""

from typing import Any

import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.descents.descent import Plan
from postgrad.algorithm.descents.sgd import SGD, TakesSteps
from postgrad.errors import StepSizeError
from postgrad.numerics.validate import as_number
from postgrad.problem.problem import Decision


class SGLD(TakesSteps):
    """x <- Proj(x - a_t g + sqrt(2 a_t T_t) z), z standard normal.

    The paper's remark on costs that are not convex (Welling and Teh, 2011; Raginsky, Rakhlin and
    Telgarsky, 2017). At a constant temperature T and small steps x comes to follow the density
    exp(-F(x)/T): it leaves a valley for a deeper one after a time of about exp(barrier/T). T_t =
    T / t^cooling lets it settle.

    Attributes:
        steps: a_t.
        temperature: T, in the unit of the cost. Barriers that it should cross are a few times T.
        cooling: How fast the temperature falls with t; zero keeps it.
    """

    steps: SGD
    temperature: Float[Array, ""]
    cooling: Float[Array, ""]

    def __init__(self, steps: Any, temperature: Any, cooling: Any = 0.0):
        """Step sizes, temperature and how it falls.

        Raises:
            StepSizeError: If the step size is not positive, or the others are negative.
        """
        self.steps = SGD(steps)
        self.temperature, self.cooling = (
            as_number(value, StepSizeError, name, "a number, zero or more", lambda v: v >= 0)
            for name, value in (("temperature", temperature), ("cooling", cooling))
        )

    def init(self, x: Decision, theta: PyTree, additive: bool) -> tuple[()]:
        """No state."""
        return self.steps.init(x, theta, additive)

    def _move(
        self, plan: Plan, gradient: Array, state: PyTree, x: Decision, i: Array
    ) -> tuple[Array, PyTree]:
        """-a_t g, and a push of the step's own."""
        a = self.step_size(plan.number)
        heat = self.temperature / plan.number**self.cooling
        root = random.fold_in(plan.key, 2**31)  # apart from the keys of the draws
        push = random.normal(random.fold_in(root, i), x.shape)
        return -a * gradient + jnp.sqrt(2.0 * a * heat) * push, state

    def step_size(self, number: Int[Array, ""]) -> Array:
        """a_t."""
        return self.steps.step_size(number)

"""Stochastic gradient Langevin dynamics on the decision, for costs with several valleys."""

from typing import Any

import jax.numpy as jnp
from jax import random
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.descents.descent import Course, Descent, Stage
from postgrad.algorithm.descents.sgd import SGD, fresh_thetas, take_steps
from postgrad.beliefs import Belief
from postgrad.errors import StepSizeError
from postgrad.numerics.validate import as_array, is_concrete
from postgrad.problem.problem import Decision


class SGLD(Descent):
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
        self.temperature = as_array(temperature, StepSizeError, "temperature")
        self.cooling = as_array(cooling, StepSizeError, "cooling")
        for name in ("temperature", "cooling"):
            value = getattr(self, name)
            if value.shape != () or (is_concrete(value) and not value >= 0):
                raise StepSizeError(f"{name} must be a number, zero or more, got {value}")

    def init(self, x: Decision) -> tuple[()]:
        """No state."""
        return self.steps.init(x)

    def sample_thetas(
        self,
        belief: Belief,
        key: Array,
        number: Int[Array, ""],
        iterations: int,
        samples: tuple[int, int],
    ) -> PyTree:
        """New draws for each of the K steps."""
        return fresh_thetas(belief, key, iterations, samples)

    def descend(self, stage: Stage, x: Decision, state: PyTree) -> tuple[Decision, PyTree, Course]:
        """K steps, each with a push of its own."""
        a = self.step_size(stage.number)
        heat = self.temperature / stage.number**self.cooling
        root = random.fold_in(stage.key, 2**31)  # apart from the keys of the draws

        def step(gradient: Array, state: PyTree, x: Decision, i: Array) -> tuple[Array, PyTree]:
            push = random.normal(random.fold_in(root, i), x.shape)
            return -a * gradient + jnp.sqrt(2.0 * a * heat) * push, state

        return take_steps(step, stage, x, state)

    def step_size(self, number: Int[Array, ""]) -> Array:
        """a_t."""
        return self.steps.step_size(number)

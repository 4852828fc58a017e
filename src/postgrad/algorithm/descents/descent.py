"""The contract of a descent."""

import abc
import enum
import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.algorithm.sampled_objective import Draws, SampledObjective
from postgrad.beliefs.belief import Belief
from postgrad.numerics.module import Module
from postgrad.problem.problem import Decision


class Plan(eqx.Module):
    """How many steps a stage takes, and its draws.

    Attributes:
        number: t.
        key: The stage's randomness.
        iterations: K.
        samples: Draws for each gradient: of theta, and of xi for each of these.
    """

    number: Int[Array, ""]
    key: Array
    iterations: int = eqx.field(static=True)
    samples: tuple[int, int] = eqx.field(static=True)

    @property
    def total(self) -> int:
        """Draws of xi for each gradient, over all thetas."""
        return math.prod(self.samples)


class Stage(eqx.Module):
    """Where and when a descent takes place.

    Attributes:
        plan: How many steps, and the draws.
        objective: F, the posterior-averaged cost.
        thetas: What `Descent.sample_thetas` drew from pi_t.
        rows: D, how many observations the stage brought.
        size: N, how many observations the belief counts.
        wide: What `Descent.sample_wide` drew.
    """

    plan: Plan
    objective: SampledObjective
    thetas: PyTree
    rows: Float[Array, ""]
    size: Float[Array, ""]
    wide: tuple[PyTree, Float[Array, " m"]] | None = None


class Course(eqx.Module):
    """What a descent tells about itself.

    Attributes:
        gradient: The gradient estimate of each iteration; of a search, at x_t and at its end.
        noise: The standard error of each of these; NaN where it cannot be told.
        curvature: The second derivative of F, as a matrix of positive curvatures; NaN if unknown.
        gain: How much of the way to this stage's solution was gone; NaN for other methods.
        settled: Whether a further step would save little against what is uncertain anyway.
        doubt: Why the decision may be wrong: see `Doubt`.
        switched: Whether the decision went to another valley.
        local_only: Whether other valleys may exist that nobody looked for: the set was not searched
            at all, or has more dimensions than a few places fill.
    """

    gradient: Float[Array, "K ..."]
    noise: Float[Array, "K ..."]
    curvature: Float[Array, "d d"]
    gain: Float[Array, ""]
    settled: Float[Array, ""]
    doubt: Float[Array, ""]
    switched: Float[Array, ""]
    local_only: Float[Array, ""]


class Doubt(enum.IntEnum):
    """Why the decision of a stage may be wrong."""

    NONE = 0
    UNRESOLVED = 1  # groups of draws disagree about the minimum by 2 %, or about the cost by 10 %
    RESTLESS = 2  # the next step would save more than 2 % of the cost, or a leap just did


def plain_course(gradient: Array, noise: Array, x: Decision) -> Course:
    """The course of steps that measure nothing."""
    nan, zero = jnp.asarray(jnp.nan), jnp.zeros(())
    unknown = jnp.full((x.size, x.size), jnp.nan)
    return Course(gradient, noise, unknown, nan, nan, zero, zero, jnp.ones(()))


class Descent(Module):
    """K steps downhill on the posterior-averaged cost, staying feasible.

    Attributes:
        usual_iterations: K, if the user names none.
        usual_samples: Draws of theta and of xi for each, if the user names none.
        fixes_draws: Whether all K steps see the same draws, several xi for each theta. Then risks
            other than the mean can be had.
    """

    usual_iterations: ClassVar[int] = 1
    usual_samples: ClassVar[tuple[int, int]] = (1, 1)
    fixes_draws: ClassVar[bool] = False

    @abc.abstractmethod
    def init(self, x: Decision, theta: PyTree, additive: bool) -> PyTree:
        """What is remembered from stage to stage, before the first.

        Args:
            x: x_1.
            theta: Any value of theta.
            additive: Whether the cost adds over the coordinates of x.
        """

    def beginning_at(self, x: Decision, state: PyTree) -> PyTree:
        """What is remembered before the first stage, if that begins at x instead of x_1."""
        del x
        return state

    @abc.abstractmethod
    def sample_thetas(self, belief: Belief, plan: Plan) -> PyTree:
        """The draws theta ~ pi_t that `descend` takes: all that a descent needs of the belief.

        Args:
            belief: pi_t.
            plan: How many steps the stage takes, and its draws.
        """

    def sample_wide(self, belief: Belief, plan: Plan) -> tuple[PyTree, Float[Array, " m"]] | None:
        """As many thetas among which unlikely ones are more frequent, and how much each counts.

        For averages over theta; None where `sample_thetas` does.
        """
        del belief, plan
        return None

    @abc.abstractmethod
    def descend(
        self, stage: Stage, x: Decision, state: PyTree
    ) -> tuple[Decision, PyTree, Course, Outlook]:
        """From x_t to x_{t+1}; the outlook is `unknown(x)` where nothing is told about it."""

    def readings(self, stage: Stage, x: Decision) -> Draws | None:
        """A place for each row of the stage's draws -> what they read there.

        None where a stage has no draws, or too few, by which to tell decisions apart.

        Args:
            stage: The stage.
            x: Any decision.
        """
        del stage, x
        return None

    @abc.abstractmethod
    def step_size(self, number: Int[Array, ""]) -> Float[Array, ""]:
        """a_t where there is one, else 1: the weight of x_t in z_T."""

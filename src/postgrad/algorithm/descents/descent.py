"""The contract of a descent."""

import abc

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from postgrad.algorithm.sampled_objective import Landscape
from postgrad.numerics.module import Module
from postgrad.problem.problem import Decision


class Stage(eqx.Module):
    """Where and when a descent takes place.

    Attributes:
        landscape: F, the posterior-averaged cost.
        number: t.
        key: The stage's randomness.
        batch_size: How many observations the stage brought.
        iterations: K.
        thetas: Draws of theta for each gradient.
        draws: Draws of xi for each of these.
    """

    landscape: Landscape
    number: Int[Array, ""]
    key: Array
    batch_size: Float[Array, ""]
    iterations: int = eqx.field(static=True)
    thetas: int = eqx.field(static=True)
    draws: int = eqx.field(static=True)


class Course(eqx.Module):
    """What a descent tells about itself.

    Attributes:
        gradient: The gradient estimate of each iteration.
        noise: The standard error of each of these; NaN where it cannot be told.
        curvature: The second derivative of F, as a matrix of positive curvatures; NaN if unknown.
        gain: How much of the way to this stage's solution was gone; NaN for other methods.
        settled: Whether the last step was small against what is uncertain anyway.
    """

    gradient: Float[Array, "K ..."]
    noise: Float[Array, "K ..."]
    curvature: Float[Array, "d d"]
    gain: Float[Array, ""]
    settled: Float[Array, ""]


class Descent(Module):
    """K steps downhill on the posterior-averaged cost, staying feasible."""

    @abc.abstractmethod
    def init(self, x: Decision) -> PyTree:
        """What is remembered from stage to stage, before the first."""

    @abc.abstractmethod
    def descend(self, stage: Stage, x: Decision, state: PyTree) -> tuple[Decision, PyTree, Course]:
        """From x_t to x_{t+1}."""

    @abc.abstractmethod
    def step_size(self, number: Int[Array, ""]) -> Float[Array, ""]:
        """a_t where there is one, else 1: the weight of x_t in z_T."""

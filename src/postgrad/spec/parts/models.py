"""Models of demand that a specification can name.

Each knows the names of its unknown parameters, in the order in which the documentation has them. A
single one is theta itself; several are a dictionary.
"""

from typing import Annotated, Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree
from pydantic import Field

from postgrad.distributions.counts import NegativeBinomial, Poisson, log_normal
from postgrad.problem.problem import Decision, Model
from postgrad.spec.parts.part import Number, Part, Positive


class NormalDemand(Part):
    """Normal, of unknown mean, and of unknown scale unless one is given."""

    kind: Literal["normal"]
    scale: Positive | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """What is unknown."""
        return ("mean", "scale") if self.scale is None else ("mean",)

    def build(self) -> Model:
        """The model."""
        return _normal if self.scale is None else NormalOfScale(jnp.asarray(self.scale))


class LogNormalDemand(Part):
    """log(demand + shift) is normal; a shift of 1 leaves room for days without demand."""

    kind: Literal["log-normal"]
    shift: Annotated[Number, Field(ge=0)] = 0.0
    parameters: ClassVar[tuple[str, ...]] = ("median", "spread")

    def build(self) -> Model:
        """The model."""
        return ShiftedLogNormal(self.shift)


class PoissonDemand(Part):
    """Counts, as uneven as chance makes them."""

    kind: Literal["poisson"]
    parameters: ClassVar[tuple[str, ...]] = ("mean",)

    def build(self) -> Model:
        """The model."""
        return _poisson


class NegativeBinomialDemand(Part):
    """Counts that are more uneven: variance mean + mean^2 / concentration."""

    kind: Literal["negative-binomial"]
    parameters: ClassVar[tuple[str, ...]] = ("mean", "concentration")

    def build(self) -> Model:
        """The model."""
        return _negative_binomial


class ExponentialDemand(Part):
    """Exponential, of unknown mean."""

    kind: Literal["exponential"]
    parameters: ClassVar[tuple[str, ...]] = ("mean",)

    def build(self) -> Model:
        """The model."""
        return _exponential


class BernoulliDemand(Part):
    """Yes or no."""

    kind: Literal["bernoulli"]
    parameters: ClassVar[tuple[str, ...]] = ("probability",)

    def build(self) -> Model:
        """The model."""
        return _bernoulli


class LinearDemand(Part):
    """Demand that a price changes: intercept - slope x, with normal noise of a known scale."""

    kind: Literal["linear"]
    scale: Positive
    parameters: ClassVar[tuple[str, ...]] = ("intercept", "slope")

    def build(self) -> Model:
        """The model."""
        return Linear(jnp.asarray(self.scale))


AnyModel = Annotated[
    NormalDemand
    | LogNormalDemand
    | PoissonDemand
    | NegativeBinomialDemand
    | ExponentialDemand
    | BernoulliDemand
    | LinearDemand,
    Field(discriminator="kind"),
]


class NormalOfScale(eqx.Module):
    """N(theta, scale^2)."""

    scale: Float[Array, ""]

    def __call__(self, x: Decision, theta: Array) -> Any:
        """f(.; x, theta)."""
        del x
        return dist.Normal(theta, self.scale, validate_args=False)


class ShiftedLogNormal(eqx.Module):
    """See `log_normal`."""

    shift: float = eqx.field(static=True)

    def __call__(self, x: Decision, theta: PyTree) -> Any:
        """f(.; x, theta)."""
        del x
        return log_normal(theta["median"], theta["spread"], self.shift)


class Linear(eqx.Module):
    """N(intercept - slope x, scale^2)."""

    scale: Float[Array, ""]

    def __call__(self, x: Decision, theta: PyTree) -> Any:
        """f(.; x, theta)."""
        mean = theta["intercept"] - theta["slope"] * x
        return dist.Normal(mean, self.scale, validate_args=False)


def _normal(x: Decision, theta: PyTree) -> Any:
    del x
    return dist.Normal(theta["mean"], theta["scale"], validate_args=False)


def _poisson(x: Decision, theta: Array) -> Any:
    del x
    return Poisson(theta, validate_args=False)


def _negative_binomial(x: Decision, theta: PyTree) -> Any:
    del x
    return NegativeBinomial(theta["mean"], theta["concentration"], validate_args=False)


def _exponential(x: Decision, theta: Array) -> Any:
    del x
    return dist.Exponential(1.0 / theta, validate_args=False)


def _bernoulli(x: Decision, theta: Array) -> Any:
    del x
    return dist.Bernoulli(theta, validate_args=False)

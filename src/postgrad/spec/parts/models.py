"""Models of demand that `[model]` can name.

`parameters` names the unknown parameters of a model, in order. With one parameter theta is a
number; with several theta is a dictionary.
"""

from typing import Annotated, Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PyTree
from pydantic import Field

from postgrad.distributions.counts import NegativeBinomial, Poisson, log_normal
from postgrad.problem.problem import Decision, Model
from postgrad.spec.parts.toml_table import Number, Positive, TomlTable


class NormalDemand(TomlTable):
    """Normal, of unknown mean; the scale is unknown too unless it is given."""

    kind: Literal["normal"]
    scale: Positive | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return ("mean", "scale") if self.scale is None else ("mean",)

    def build(self) -> Model:
        """The model."""
        return _normal if self.scale is None else NormalOfScale(jnp.asarray(self.scale))


class LogNormalDemand(TomlTable):
    """log(demand + shift) is normal; with a shift of 1 the demand may be zero."""

    kind: Literal["log-normal"]
    shift: Annotated[Number, Field(ge=0)] = 0.0
    parameters: ClassVar[tuple[str, ...]] = ("median", "spread")

    def build(self) -> Model:
        """The model."""
        return ShiftedLogNormal(self.shift)


class LinearDemand(TomlTable):
    """Demand at a price x: intercept - slope x, with normal noise of a known scale."""

    kind: Literal["linear"]
    scale: Positive
    parameters: ClassVar[tuple[str, ...]] = ("intercept", "slope")

    def build(self) -> Model:
        """The model."""
        return Linear(jnp.asarray(self.scale))


class PlainDemand(TomlTable):
    """Models without settings. A negative-binomial variance is mean + mean^2 / concentration."""

    kind: Literal["poisson", "negative-binomial", "exponential", "bernoulli"]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return _PLAIN[self.kind][0]

    def build(self) -> Model:
        """The model."""
        return _PLAIN[self.kind][1]


AnyModel = Annotated[
    NormalDemand | LogNormalDemand | LinearDemand | PlainDemand, Field(discriminator="kind")
]


class NormalOfScale(eqx.Module):
    """N(theta, scale^2)."""

    scale: Float[Array, ""]

    def __call__(self, x: Decision, theta: Array) -> Any:
        """f(.; x, theta)."""
        del x
        return dist.Normal(theta, self.scale, validate_args=False)


class ShiftedLogNormal(eqx.Module):
    """log(demand + shift) is normal: see `log_normal`."""

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


_PLAIN: dict[str, tuple[tuple[str, ...], Model]] = {
    "poisson": (("mean",), _poisson),
    "negative-binomial": (("mean", "concentration"), _negative_binomial),
    "exponential": (("mean",), _exponential),
    "bernoulli": (("probability",), _bernoulli),
}

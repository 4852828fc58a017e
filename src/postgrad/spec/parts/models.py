"""Models of demand that `[model]` can name.

`parameters` names the unknown parameters of a model, in order. With one parameter theta is a
number; with several theta is a dictionary. `built.py` has the models themselves, which need JAX.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from postgrad.spec.parts.regression import RegressionDemand
from postgrad.spec.parts.toml_table import Number, Positive, TomlTable

if TYPE_CHECKING:
    from postgrad.problem.problem import Model

# The models without settings, and their parameters.
_PLAIN = {
    "poisson": ("mean",),
    "negative-binomial": ("mean", "concentration"),
    "exponential": ("mean",),
    "bernoulli": ("probability",),
}


class NormalDemand(TomlTable):
    """Normal, of unknown mean; the scale is unknown too unless it is given."""

    kind: Literal["normal"]
    scale: Positive | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return ("mean", "scale") if self.scale is None else ("mean",)

    def build(self) -> "Model":
        """The model."""
        from postgrad.spec.parts import built

        return built.normal_of(self.scale)


class LogNormalDemand(TomlTable):
    """log(demand + shift) is normal; with a shift of 1 the demand may be zero."""

    kind: Literal["log-normal"]
    shift: Annotated[Number, Field(ge=0)] = 0.0
    parameters: ClassVar[tuple[str, ...]] = ("median", "spread")

    def build(self) -> "Model":
        """The model."""
        from postgrad.spec.parts import built

        return built.ShiftedLogNormal(self.shift)


class LinearDemand(TomlTable):
    """Demand at a price x: intercept - slope x, with normal noise of a known scale."""

    kind: Literal["linear"]
    scale: Positive
    parameters: ClassVar[tuple[str, ...]] = ("intercept", "slope")

    def build(self) -> "Model":
        """The model."""
        from postgrad.spec.parts import built

        return built.linear(self.scale)


class PlainDemand(TomlTable):
    """Models without settings. A negative-binomial variance is mean + mean^2 / concentration."""

    kind: Literal["poisson", "negative-binomial", "exponential", "bernoulli"]

    @property
    def parameters(self) -> tuple[str, ...]:
        """The unknown parameters."""
        return _PLAIN[self.kind]

    def build(self) -> "Model":
        """The model."""
        from postgrad.spec.parts import built

        return built.PLAIN[self.kind]


AnyModel = Annotated[
    NormalDemand | LogNormalDemand | LinearDemand | PlainDemand | RegressionDemand,
    Field(discriminator="kind"),
]

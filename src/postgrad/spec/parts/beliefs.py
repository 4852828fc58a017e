"""Priors that `[belief]` can name."""

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from postgrad.spec.parts.regression import RegressionBelief
from postgrad.spec.parts.toml_table import Number, Positive, Share, TomlTable

if TYPE_CHECKING:
    from postgrad.beliefs.belief import Belief

# Points of a grid, or of the grids of all items that are decided together.
MOST_POINTS = 1_000_000

# One rate of forgetting, several of which the right one is learned, or none.
Forget = Share | Annotated[list[Share], Field(min_length=1, max_length=32)] | None


class Levels(TomlTable):
    """Evenly spaced values of a parameter, or of its logarithm."""

    low: Number = Field(alias="from")
    high: Number = Field(alias="to")
    points: Annotated[int, Field(ge=1, le=100_000)]
    spacing: Literal["log", "linear"] = "linear"

    def check(self) -> None:
        """See `TomlTable`."""
        if self.low > self.high or (self.spacing == "log" and self.low <= 0):
            raise ValueError("`from` must not exceed `to`, and be positive where spacing is log")

    def values(self) -> np.ndarray:
        """The values, in increasing order."""
        space = np.geomspace if self.spacing == "log" else np.linspace
        return space(self.low, self.high, self.points)


Values = Levels | Annotated[list[Number], Field(min_length=1, max_length=100_000)]


class GridBelief(TomlTable):
    """The exact posterior on a grid: the product of the levels, all of equal weight at first."""

    kind: Literal["grid"]
    levels: dict[str, Values]
    forget: Forget = None

    def check(self) -> None:
        """See `TomlTable`."""
        if self.size > MOST_POINTS:
            raise ValueError(
                f"the grid has {self.size} points, one for each rate in `forget`; at most "
                f"{MOST_POINTS} are allowed"
            )

    @property
    def size(self) -> int:
        """How many points have a weight of their own."""
        levels = (v.points if isinstance(v, Levels) else len(v) for v in self.levels.values())
        return math.prod(levels) * (len(self.forget) if isinstance(self.forget, list) else 1)

    @property
    def parameters(self) -> set[str]:
        """The names of the parameters."""
        return set(self.levels)

    def build(self, parameters: tuple[str, ...]) -> "Belief":
        """The belief about parameters of the given names, in that order."""
        from postgrad import beliefs

        levels = {
            name: values.values() if isinstance(values := self.levels[name], Levels) else values
            for name in parameters
        }
        points = beliefs.product_grid(levels) if len(levels) > 1 else levels[parameters[0]]
        return _forgetting("Grid", self.forget, points)


class _ConjugateBelief(TomlTable):
    """A conjugate prior. The keys of a subclass are the arguments of its family, in order."""

    forget: Forget = None
    family: ClassVar[str]

    def build(self, parameters: tuple[str, ...]) -> "Belief":
        """The belief."""
        del parameters
        numbers = self.model_dump(exclude={"kind", "forget"}).values()
        return _forgetting(self.family, self.forget, *numbers)


class NormalBelief(_ConjugateBelief):
    """The mean of normal data of known scale."""

    kind: Literal["normal"]
    mean: Number
    deviation: Positive
    family = "Normal"
    parameters: ClassVar[set[str]] = {"mean"}


class NormalInverseGammaBelief(_ConjugateBelief):
    """The mean and the scale of normal data."""

    kind: Literal["normal-inverse-gamma"]
    mean: Number
    count: Positive
    shape: Positive
    scale: Positive
    family = "NormalInverseGamma"
    parameters: ClassVar[set[str]] = {"mean", "scale"}


class GammaBelief(_ConjugateBelief):
    """The mean of Poisson counts."""

    kind: Literal["gamma"]
    shape: Positive
    rate: Positive
    family = "Gamma"
    parameters: ClassVar[set[str]] = {"mean"}


class InverseGammaBelief(_ConjugateBelief):
    """The mean of exponential data."""

    kind: Literal["inverse-gamma"]
    shape: Positive
    scale: Positive
    family = "InverseGamma"
    parameters: ClassVar[set[str]] = {"mean"}


class BetaBelief(_ConjugateBelief):
    """A probability."""

    kind: Literal["beta"]
    yes: Positive
    no: Positive
    family = "Beta"
    parameters: ClassVar[set[str]] = {"probability"}


class GaussianBelief(TomlTable):
    """Independent normal priors of all parameters; the posterior of a linear model is exact."""

    kind: Literal["gaussian"]
    mean: dict[str, Number]
    deviation: dict[str, Positive]

    def check(self) -> None:
        """See `TomlTable`."""
        if set(self.mean) != set(self.deviation):
            raise ValueError("mean and deviation must name the same parameters")

    @property
    def parameters(self) -> set[str]:
        """The names of the parameters."""
        return set(self.mean)

    def build(self, parameters: tuple[str, ...]) -> "Belief":
        """The belief about parameters of the given names, in that order."""
        from postgrad import beliefs

        return beliefs.Gaussian(_theta(self.mean, parameters), _theta(self.deviation, parameters))


class KnownBelief(TomlTable):
    """Parameters that are known."""

    kind: Literal["known"]
    theta: dict[str, Number]

    @property
    def parameters(self) -> set[str]:
        """The names of the parameters."""
        return set(self.theta)

    def build(self, parameters: tuple[str, ...]) -> "Belief":
        """The belief about parameters of the given names, in that order."""
        from postgrad import beliefs

        return beliefs.Known(_theta(self.theta, parameters))


_Conjugate = NormalBelief | NormalInverseGammaBelief | GammaBelief | InverseGammaBelief | BetaBelief
AnyBelief = Annotated[
    GridBelief | _Conjugate | GaussianBelief | KnownBelief | RegressionBelief,
    Field(discriminator="kind"),
]


def _theta(values: dict[str, float], parameters: tuple[str, ...]) -> Any:
    """A dictionary of several parameters in order; the number itself where there is one."""
    in_order = {name: values[name] for name in parameters}
    return in_order if len(parameters) > 1 else in_order[parameters[0]]


def _forgetting(name: str, forget: float | list[float] | None, *numbers: Any) -> "Belief":
    """A belief with a rate of forgetting, or one that learns which of several rates is right."""
    from postgrad import beliefs

    family = getattr(beliefs, name)
    if isinstance(forget, list):
        return beliefs.Mixture([family(*numbers, forget=rate) for rate in forget])
    return family(*numbers, forget=forget)

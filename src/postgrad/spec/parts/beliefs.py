"""Beliefs that a specification can name."""

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from postgrad import beliefs
from postgrad.spec.parts.part import Number, Part, Positive, Share

_MOST_POINTS = 1_000_000

Forget = Share | Annotated[list[Share], Field(min_length=1, max_length=32)] | None
"""One rate of forgetting, or several to learn from; none, if not given."""


class Levels(Part):
    """Evenly spaced values of a parameter, or of its logarithm."""

    low: Number = Field(alias="from")
    high: Number = Field(alias="to")
    points: Annotated[int, Field(ge=1, le=100_000)]
    spacing: Literal["log", "linear"] = "linear"

    @model_validator(mode="after")
    def _check(self) -> "Levels":
        if self.low > self.high or (self.spacing == "log" and self.low <= 0):
            raise ValueError("`from` must not exceed `to`, and be positive where spacing is log")
        return self

    def values(self) -> np.ndarray:
        """All of them."""
        space = np.geomspace if self.spacing == "log" else np.linspace
        return space(self.low, self.high, self.points)


Values = Levels | Annotated[list[Number], Field(min_length=1, max_length=100_000)]


class GridBelief(Part):
    """The exact posterior on a grid: levels of each parameter, all alike at first."""

    kind: Literal["grid"]
    levels: dict[str, Values]
    forget: Forget = None

    @model_validator(mode="after")
    def _check(self) -> "GridBelief":
        size = 1
        for values in self.levels.values():
            size *= values.points if isinstance(values, Levels) else len(values)
        if size > _MOST_POINTS:
            raise ValueError(f"the grid has {size} points; at most {_MOST_POINTS} are allowed")
        return self

    @property
    def parameters(self) -> set[str]:
        """Those that it has levels of."""
        return set(self.levels)

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief about parameters of the given names."""
        levels = {name: _values(self.levels[name]) for name in parameters}
        points = levels[parameters[0]] if len(parameters) == 1 else beliefs.product_grid(levels)
        return _remembering(beliefs.Grid, self.forget, points)


class NormalBelief(Part):
    """A normal prior of the mean of normal data of known scale."""

    kind: Literal["normal"]
    mean: Number
    deviation: Positive
    forget: Forget = None
    parameters: ClassVar[set[str]] = {"mean"}

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief."""
        del parameters
        return _remembering(beliefs.Normal, self.forget, self.mean, self.deviation)


class NormalInverseGammaBelief(Part):
    """The conjugate prior of the mean and the scale of normal data."""

    kind: Literal["normal-inverse-gamma"]
    mean: Number
    count: Positive
    shape: Positive
    scale: Positive
    forget: Forget = None
    parameters: ClassVar[set[str]] = {"mean", "scale"}

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief."""
        del parameters
        numbers = (self.mean, self.count, self.shape, self.scale)
        return _remembering(beliefs.NormalInverseGamma, self.forget, *numbers)


class GammaBelief(Part):
    """The conjugate prior of the mean of Poisson counts."""

    kind: Literal["gamma"]
    shape: Positive
    rate: Positive
    forget: Forget = None
    parameters: ClassVar[set[str]] = {"mean"}

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief."""
        del parameters
        return _remembering(beliefs.Gamma, self.forget, self.shape, self.rate)


class InverseGammaBelief(Part):
    """The conjugate prior of the mean of exponential data."""

    kind: Literal["inverse-gamma"]
    shape: Positive
    scale: Positive
    forget: Forget = None
    parameters: ClassVar[set[str]] = {"mean"}

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief."""
        del parameters
        return _remembering(beliefs.InverseGamma, self.forget, self.shape, self.scale)


class BetaBelief(Part):
    """The conjugate prior of a probability."""

    kind: Literal["beta"]
    yes: Positive
    no: Positive
    forget: Forget = None
    parameters: ClassVar[set[str]] = {"probability"}

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief."""
        del parameters
        return _remembering(beliefs.Beta, self.forget, self.yes, self.no)


class GaussianBelief(Part):
    """Independent normal priors of all parameters: exact for a linear model."""

    kind: Literal["gaussian"]
    mean: dict[str, Number]
    deviation: dict[str, Positive]

    @model_validator(mode="after")
    def _check(self) -> "GaussianBelief":
        if set(self.mean) != set(self.deviation):
            raise ValueError("mean and deviation must name the same parameters")
        return self

    @property
    def parameters(self) -> set[str]:
        """Those that it has means of."""
        return set(self.mean)

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief about parameters of the given names."""
        if len(parameters) == 1:
            return beliefs.Gaussian(self.mean[parameters[0]], self.deviation[parameters[0]])
        return beliefs.Gaussian(
            {name: self.mean[name] for name in parameters},
            {name: self.deviation[name] for name in parameters},
        )


class KnownBelief(Part):
    """Parameters that are known."""

    kind: Literal["known"]
    theta: dict[str, Number]

    @property
    def parameters(self) -> set[str]:
        """Those that are given."""
        return set(self.theta)

    def build(self, parameters: tuple[str, ...]) -> beliefs.Belief:
        """The belief about parameters of the given names."""
        if len(parameters) == 1:
            return beliefs.Known(self.theta[parameters[0]])
        return beliefs.Known({name: self.theta[name] for name in parameters})


AnyBelief = Annotated[
    GridBelief
    | NormalBelief
    | NormalInverseGammaBelief
    | GammaBelief
    | InverseGammaBelief
    | BetaBelief
    | GaussianBelief
    | KnownBelief,
    Field(discriminator="kind"),
]


def _values(levels: Levels | list[float]) -> np.ndarray:
    return levels.values() if isinstance(levels, Levels) else np.asarray(levels)


def _remembering(make: Any, forget: float | list[float] | None, *numbers: Any) -> beliefs.Belief:
    """A belief that forgets as it is told, or learns how fast to."""
    if isinstance(forget, list):
        return beliefs.Adaptive(make(*numbers, forget=1.0), forget)
    return make(*numbers, forget=forget)

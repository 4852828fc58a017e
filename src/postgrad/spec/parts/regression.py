"""Regression models that `[model]` can name, and the belief about their coefficients.

The terms follow from `[context]`: see `RegressionDemand.terms`.
"""

import itertools
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from postgrad.spec.contexts.calendar import HOLIDAY
from postgrad.spec.contexts.context_table import ContextTable
from postgrad.spec.parts.toml_table import Name, Number, Positive, TomlTable

if TYPE_CHECKING:
    from postgrad.beliefs.belief import Belief
    from postgrad.models import RegressionModel, Term

_NotNegative = Annotated[Number, Field(ge=0)]
_Positives = Annotated[list[Positive], Field(min_length=1, max_length=64)]
# Standard deviation and half-life of the level's deviation, and the drift of weekdays.
_Change = Annotated[list[_NotNegative], Field(min_length=3, max_length=3)]
# The standard deviations of a month's effect and of a seasonal wave.
_Season = tuple[float, float]

# What the belief is about: the coefficients of whatever terms the model has.
_COEFFICIENTS = "coefficients"
# The class of each family in `pg.models`, the number that is known to a belief, and its values if
# none are given. The scale of a normal family has the data's units, so it must be given.
_FAMILIES: dict[str, tuple[str, str | None, tuple[float, ...] | None]] = {
    "negative-binomial": (
        "NegativeBinomial",
        "concentration",
        (0.5, 1.5, 4.0, 10.0, 25.0, 70.0, 300.0, 10_000.0),
    ),
    "poisson": ("Poisson", None, ()),
    "normal": ("Normal", "scale", None),
    "log-normal": ("LogNormal", "scale", (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)),
    "bernoulli": ("Bernoulli", None, ()),
}
_OUTLIERS = 0.005


class RegressionDemand(TomlTable):
    """A linear predictor of the context's numbers, and a law of demand around it.

    Attributes:
        family: The law. The predictor is the mean of a normal law, the logarithm of the median of a
            log-normal one, of the mean of counts, and the logit of a probability.
        outliers: The share of rows that have another cause: learned with, not decided with. 0.005,
            and none for Bernoulli, if not given.
        scales: Of some terms, the prior standard deviation of their coefficients.
        drifts: Of some terms, the standard deviation of a coefficient's random walk in a day.
    """

    kind: Literal["regression"]
    family: Literal["negative-binomial", "poisson", "normal", "log-normal", "bernoulli"]
    outliers: Annotated[Number, Field(ge=0, lt=1)] | None = None
    scales: dict[Name, Positive] = Field(default_factory=dict)
    drifts: dict[Name, _NotNegative] = Field(default_factory=dict)
    parameters: ClassVar[tuple[str, ...]] = (_COEFFICIENTS,)

    def check(self) -> None:
        """See `TomlTable`."""
        if self.family == "bernoulli" and self.outliers:
            raise ValueError("`outliers` are for counts and numbers, not for bernoulli")

    def check_terms(self, context: ContextTable) -> None:
        """Check that scales and drifts are those of terms.

        Raises:
            ValueError: If not.
        """
        terms = ["level", *(feature.name for feature in context.features)]
        for key, given in (("scales", self.scales), ("drifts", self.drifts)):
            if unknown := [name for name in given if name not in terms]:
                raise ValueError(f"model.{key}: must name one of {terms}, got {unknown[0]!r}")
        if "level" in context.columns or "deviation" in context.columns:
            raise ValueError("context.columns: 'level' and 'deviation' are terms of every model")
        fixed = [name for name in self.drifts if name in ("day", "year_share")]
        if fixed:
            raise ValueError(f"model.drifts: trend and season do not drift, got {fixed[0]!r}")

    def build(
        self,
        context: ContextTable,
        season: _Season,
        deviation: float,
        half_life: float,
        weekday_drift: float,
    ) -> "RegressionModel":
        """The model.

        Args:
            context: What it depends on.
            season: The prior standard deviations of the effect of a month, and of a seasonal wave.
            deviation: The standard deviation of the level's deviation, which returns.
            half_life: The days in which half of a deviation is gone.
            weekday_drift: The standard deviation of a weekday's random walk in a day.
        """
        from postgrad import models

        terms = self.terms(context, season, weekday_drift)
        terms["deviation"] = models.Deviation(deviation, half_life)
        family = getattr(models, _FAMILIES[self.family][0])
        model: RegressionModel = family(models.Predictor(**terms))
        return model

    def observed(self, model: "RegressionModel") -> "RegressionModel | None":
        """What is seen of it, with outliers; None if that is the same."""
        from postgrad import models

        usual = 0.0 if self.family == "bernoulli" else _OUTLIERS
        share = usual if self.outliers is None else self.outliers
        return models.WithOutliers(model, share) if share else None

    def terms(
        self, context: ContextTable, season: _Season, weekday_drift: float
    ) -> dict[str, "Term"]:
        """The terms, by the names of the context's numbers.

        A level; an effect of each level of a category, of each weekday and each month; waves of the
        share of the year; a trend in "day"; a slope of each column of numbers.
        """
        from postgrad import models

        terms: dict[str, Term] = {"level": models.Level(**self._numbers("level"))}
        for name, levels in context.features:
            own = self._numbers(name)
            if name == "day":
                terms[name] = models.Trend(**own)
            elif name == "year_share":
                terms[name] = models.Harmonic(**({"scale": season[1]} | own))
            elif levels is None or name == HOLIDAY:
                terms[name] = models.Numeric(**own)
            elif name == "month":
                terms[name] = models.Categorical(levels, **({"scale": season[0]} | own))
            elif name == "weekday":
                terms[name] = models.Categorical(levels, **({"drift": weekday_drift} | own))
            else:
                terms[name] = models.Categorical(levels, **own)
        return terms

    def _numbers(self, name: str) -> dict[str, Any]:
        given = {"scale": self.scales, "drift": self.drifts}
        return {key: of_terms[name] for key, of_terms in given.items() if name in of_terms}


class RegressionBelief(TomlTable):
    """Normal coefficients; what is not known of their priors is weighed by the data.

    A mixture of one belief for each combination of `numbers`, `changes` and `seasons`.

    Attributes:
        numbers: Values of the family's number: concentrations of a negative-binomial law, scales of
            a normal or log-normal one.
        changes: How demand changes: standard deviation and half-life, in days, of a level that
            deviates and returns, and the standard deviation of each weekday's random walk in a day.
        seasons: Prior standard deviations of the effect of a month, or of a seasonal wave. With
            both in the calendar there are members with months, and with waves of the first number.
        discount: What remains of the logarithms of the weights after a day.
    """

    kind: Literal["regression"]
    numbers: _Positives | None = None
    changes: Annotated[list[_Change], Field(min_length=1, max_length=16)] = Field(
        default_factory=lambda: [[0.0, 14.0, 0.0], [0.1, 14.0, 0.003], [0.2, 90.0, 0.003]]
    )
    seasons: Annotated[list[Positive], Field(min_length=1, max_length=16)] = Field(
        default_factory=lambda: [0.05, 0.2]
    )
    discount: Annotated[Number, Field(gt=0, le=1)] = 0.995
    parameters: ClassVar[set[str]] = {_COEFFICIENTS}

    def check(self) -> None:
        """See `TomlTable`."""
        if wrong := [change for change in self.changes if change[1] <= 0]:
            raise ValueError(f"`changes` are [deviation, half-life > 0, drift], got {wrong[0]}")

    def check_family(self, family: str) -> None:
        """Check that there are values of the family's number, if it has one.

        Raises:
            ValueError: If not.
        """
        _, number, usual = _FAMILIES[family]
        if number is None and self.numbers is not None:
            raise ValueError(f"belief.numbers: the family {family!r} has no number; leave it out")
        if usual is None and self.numbers is None:
            needed = f"give values of the {number}, in units of the data"
            raise ValueError(f"belief.numbers: is missing; {needed}")

    def build(self, model: RegressionDemand, context: ContextTable) -> "Belief":
        """The belief about the coefficients of a model."""
        from postgrad import beliefs

        _, name, usual = _FAMILIES[model.family]
        values: Any = (None,) if name is None else self.numbers or usual
        members = [
            beliefs.Regression(
                model.build(context, season, *change), **({name: value} if name else {})
            )
            for value, change, season in itertools.product(
                values, self.changes, self._seasons(context)
            )
        ]
        return beliefs.Mixture(members, discount=self.discount)

    def model(self, model: RegressionDemand, context: ContextTable) -> "RegressionModel":
        """The model; its members' terms differ in the numbers of their priors only."""
        return model.build(context, self._seasons(context)[0], *self.changes[0])

    def _seasons(self, context: ContextTable) -> list[_Season]:
        """One, if the context has no season; steps or waves, not both, if it has both."""
        seasonal = {"month", "year_share"} & set(context.calendar)
        if len(seasonal) == 2:
            return [*((season, 0.0) for season in self.seasons), (0.0, self.seasons[0])]
        return [(season, season) for season in (self.seasons if seasonal else self.seasons[:1])]

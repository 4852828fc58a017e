"""The untuned belief about daily demand: what is not known of its terms is weighed by the data."""

import itertools
from typing import Any

from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.regression.regression import Regression
from postgrad.errors import PriorError
from postgrad.models.daily_demand import daily_demand as model_of
from postgrad.models.families import LogNormal, NegativeBinomial, Normal
from postgrad.models.regression_model import RegressionModel
from postgrad.models.terms import Term

# How uneven demand is, from sporadic demand, with a standard deviation of 1.4 times the mean, to
# Poisson's law.
_CONCENTRATIONS = (0.5, 1.5, 4.0, 10.0, 25.0, 70.0, 300.0, 10_000.0)
# The standard deviation of the logarithm of demand that is not counted, or of demand in units of
# its own spread.
_SCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2)
_NUMBERS = {
    NegativeBinomial: ("concentration", _CONCENTRATIONS),
    LogNormal: ("scale", _SCALES),
    Normal: ("scale", _SCALES),
}
# How demand changes: not at all; for weeks; for months. The standard deviation of the level's
# deviation, its half-life in days, and the drift of each weekday's effect.
_CHANGES = ((0.0, 14.0, 0.0), (0.1, 14.0, 0.003), (0.2, 90.0, 0.003))
# A narrow season and a wide one in steps, and one in waves: the standard deviation of a month's
# effect, and of a wave's size. Steps do not follow a smooth season where means are above 1,000.
_SEASONS = ((0.05, 0.0), (0.2, 0.0), (0.0, 0.05))
_DISCOUNT = 0.995


def daily_demand(
    family: type[RegressionModel] = NegativeBinomial, *, origin: Any = 0.0, **terms: Term
) -> Mixture:
    """A belief about `pg.models.daily_demand(family, origin=origin, **terms)`, without tuning.

    A mixture of 72 beliefs: of eight concentrations, with a level that does not deviate or deviates
    for weeks or for months, and with a narrow season, a wide one or a smooth one. (Other families
    have seven scales, and 63 beliefs.) A day's data count for half in the weights after 138 days,
    so that another member may be right later. Steady demand needs the members that do not change
    and those near Poisson's law.

    The data are best observed with outliers, `pg.models.WithOutliers(model)`.

    Args:
        family: `pg.models.NegativeBinomial`, `LogNormal` or `Normal`.
        origin: The value of the column "day" in the first row.
        **terms: More terms, such as `promo=pg.models.Numeric()`, or others in place of the usual.

    Raises:
        PriorError: If the family is another one.
    """
    if family not in _NUMBERS:
        known = ", ".join(kind.__name__ for kind in _NUMBERS)
        raise PriorError(f"family must be one of {known} of pg.models, got {family!r}")
    name, values = _NUMBERS[family]
    numbers = itertools.product(values, _CHANGES, _SEASONS)
    members = [
        Regression(
            model_of(
                family,
                origin=origin,
                season=season,
                waves=waves,
                deviation=deviation,
                half_life=half_life,
                weekday_drift=drift,
                **terms,
            ),
            **{name: number},
        )
        for number, (deviation, half_life, drift), (season, waves) in numbers
    ]
    return Mixture(members, discount=_DISCOUNT)

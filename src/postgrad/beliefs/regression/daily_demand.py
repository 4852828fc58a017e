"""The untuned belief about daily demand: what is not known of its terms is weighed by the data."""

import itertools
from typing import Any

from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.regression.regression import Regression
from postgrad.models.daily_demand import daily_demand as model_of
from postgrad.models.terms import Term

# How uneven demand is, from sporadic demand, with a standard deviation of 1.4 times the mean, to
# Poisson's law.
_CONCENTRATIONS = (0.5, 1.5, 4.0, 10.0, 25.0, 70.0, 300.0, 10_000.0)
# How demand changes: not at all; for weeks; for months. The standard deviation of the level's
# deviation, its half-life in days, and the drift of each weekday's effect.
_CHANGES = ((0.0, 14.0, 0.0), (0.1, 14.0, 0.003), (0.2, 90.0, 0.003))
# The standard deviation of a month's effect: a narrow season and a wide one.
_SEASONS = (0.05, 0.2)
_DISCOUNT = 0.995


def daily_demand(*, origin: Any = 0.0, **terms: Term) -> Mixture:
    """A belief about `pg.models.daily_demand(origin=origin, **terms)` that needs no tuning.

    A mixture of 48 beliefs: of eight concentrations, with a level that does not deviate or deviates
    for weeks or for months, and with a narrow or a wide season. A day's data count for half in the
    weights after 138 days, so that another member may be right later. Steady demand needs the
    members that do not change and those near Poisson's law.

    The data are best observed with outliers, `pg.models.WithOutliers(model)`.

    Args:
        origin: The value of the column "day" in the first row.
        **terms: More terms, such as `promo=pg.models.Numeric()`, or others in place of the usual.
    """
    numbers = itertools.product(_CONCENTRATIONS, _CHANGES, _SEASONS)
    members = [
        Regression(
            model_of(
                origin=origin,
                season=season,
                deviation=deviation,
                half_life=half_life,
                weekday_drift=drift,
                **terms,
            ),
            concentration=concentration,
        )
        for concentration, (deviation, half_life, drift), season in numbers
    ]
    return Mixture(members, discount=_DISCOUNT)

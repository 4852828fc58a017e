"""The untuned belief about daily demand: what is not known of its terms is weighed by the data."""

import itertools
from typing import Any

from postgrad.beliefs.mixture.mixture import Mixture
from postgrad.beliefs.regression.regression import Regression
from postgrad.models.daily_demand import daily_demand as model_of
from postgrad.models.terms import Term

# How uneven demand is, from a variance of three times the mean at a mean of four to Poisson's law.
_CONCENTRATIONS = (2.0, 5.0, 10.0, 20.0, 50.0, 150.0, 1000.0)
# Of the level's deviation, the standard deviation and the half-life in days.
_DEVIATIONS = ((0.0, 14.0), (0.1, 14.0), (0.2, 90.0))
# The standard deviation of a month's effect: a narrow season and a wide one.
_SEASONS = (0.05, 0.2)
_DISCOUNT = 0.995


def daily_demand(*, origin: Any = 0.0, **terms: Term) -> Mixture:
    """A belief about `pg.models.daily_demand(origin=origin, **terms)` that needs no tuning.

    A mixture of 42 beliefs: of seven concentrations, with a level that does not deviate or deviates
    for weeks or for months, and with a narrow or a wide season. A day's data count for half in the
    weights after 138 days, so that another member may be right later. Steady demand needs the
    members without deviation and those near Poisson's law.

    The data are best observed with outliers, `pg.models.WithOutliers(model)`.

    Args:
        origin: The value of the column "day" in the first row.
        **terms: More terms, such as `promo=pg.models.Numeric()`, or others in place of the usual.
    """
    numbers = itertools.product(_CONCENTRATIONS, _DEVIATIONS, _SEASONS)
    members = [
        Regression(
            model_of(
                origin=origin, season=season, deviation=scale, half_life=half_life, **terms
            ),
            concentration=concentration,
        )
        for concentration, (scale, half_life), season in numbers
    ]
    return Mixture(members, discount=_DISCOUNT)

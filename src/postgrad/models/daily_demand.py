"""Daily demand with a calendar: terms and priors that need no tuning."""

from typing import Any

from postgrad.models.effects import Categorical, Harmonic
from postgrad.models.families import NegativeBinomial
from postgrad.models.levels import Deviation, Level, Trend
from postgrad.models.predictor import Predictor
from postgrad.models.regression_model import RegressionModel
from postgrad.models.terms import Term


def daily_demand(
    family: type[RegressionModel] = NegativeBinomial,
    *,
    origin: Any = 0.0,
    season: Any = 0.2,
    waves: Any = 0.0,
    deviation: Any = 0.1,
    half_life: Any = 14.0,
    weekday_drift: Any = 0.003,
    **terms: Term,
) -> RegressionModel:
    """Demand with weekdays, months, a trend, and a level that deviates: negative-binomial counts.

        log mean  =  level + weekday + month + waves + trend + deviation

    It reads the columns "weekday" (0 to 6), "month" (0 to 11) and "day" (in days). A season is a
    step from month to month, or two pairs of waves in the course of a year. The terms are those of
    a trial on daily sales; `pg.beliefs.daily_demand` weighs what is not known of them.

    Args:
        family: `LogNormal` for positive demand that is not counted, such as kilograms; `Normal` for
            demand in units of its own spread.
        origin: The value of "day" in the first row.
        season: The prior standard deviation of a month's effect.
        waves: The same of each wave's size; there are none, if not given.
        deviation: The standard deviation of the level's deviation.
        half_life: The days in which half of a deviation is gone.
        weekday_drift: The standard deviation of the change of a weekday's effect in a day: at .003
            the effect changes by 6 % in a year.
        **terms: More terms, such as `promo=pg.models.Numeric()`, or others in place of those above.
    """
    usual: dict[str, Term] = {
        "level": Level(),
        "weekday": Categorical(7, scale=0.5, drift=weekday_drift),
        "month": Categorical(12, scale=season),
        "waves": Harmonic(2, "day", scale=waves, period=365.25),
        "trend": Trend(origin=origin),
        "deviation": Deviation(deviation, half_life),
    }
    return family(Predictor(**(usual | terms)))

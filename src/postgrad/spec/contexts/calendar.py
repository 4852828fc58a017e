"""Features of a date: what a calendar says of a day."""

import datetime
from collections.abc import Callable, Collection, Mapping

from postgrad.errors import DataError

_DAY = datetime.timedelta(days=1)
# The day that has number 0 as a feature, and as a time, in days, for what agents store.
_FIRST_DAY, _EPOCH = datetime.datetime(2000, 1, 1), datetime.datetime(1970, 1, 1)

# The features that `calendar` can name; "holiday" comes with `holidays`.
FEATURES: Mapping[str, Callable[[datetime.datetime], float]] = {
    "weekday": lambda date: date.weekday(),
    "month": lambda date: date.month - 1,
    "day": lambda date: (date - _FIRST_DAY) / _DAY,
    "year_share": lambda date: _year_share(date),
}
# Of the features that are whole numbers, how many values each has.
LEVELS = {"weekday": 7, "month": 12, "holiday": 2}
HOLIDAY = "holiday"


def date_of(text: str, where: str) -> datetime.datetime:
    """A date such as 2026-01-31, with or without a time of the day; time zones are left out.

    Raises:
        DataError: If the text is no date.
    """
    try:
        return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError as error:
        raise DataError(f"{where}: {text!r} is no date such as 2026-01-31") from error


def time_of(date: datetime.datetime) -> float:
    """The time of a date in days, as agents store it."""
    return (date - _EPOCH) / _DAY


def calendar_features(
    date: datetime.datetime, names: Collection[str], holidays: Collection[datetime.date] | None
) -> dict[str, float]:
    """The named features of a date, and whether it is a holiday, if holidays are listed."""
    found = {name: FEATURES[name](date) for name in names}
    return found if holidays is None else found | {HOLIDAY: int(date.date() in holidays)}


def _year_share(date: datetime.datetime) -> float:
    """The share of its year that has gone by, in [0, 1)."""
    start = datetime.datetime(date.year, 1, 1)
    # The year 10,000 does not exist, so the length is not the difference of two beginnings.
    leap = date.year % 4 == 0 and (date.year % 100 != 0 or date.year % 400 == 0)
    return (date - start) / datetime.timedelta(days=366 if leap else 365)

"""The table `[context]`: columns, and features of the date, that are known before a decision."""

import datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, Field

from postgrad.spec.contexts.calendar import FEATURES, HOLIDAY, LEVELS
from postgrad.spec.data import Columns
from postgrad.spec.parts.toml_table import Name, Number, TomlTable

# Levels of a category that are not listed: so many may come, if `levels` does not say how many.
_ROOM = 16
_MOST_LEVELS = 1000


def _as_date(value: Any) -> Any:
    """A date of TOML, or a text that is one."""
    if isinstance(value, str):
        return datetime.date.fromisoformat(value)
    return value


def _as_level(value: Any) -> Any:
    """Whole numbers pass for names of levels, since that is how tables write some."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_Date = Annotated[datetime.date, BeforeValidator(_as_date)]
_Level = Annotated[Name, BeforeValidator(_as_level)]
_Levels = Annotated[list[_Level], Field(min_length=1, max_length=_MOST_LEVELS)]
_Room = Annotated[int, Field(ge=1, le=_MOST_LEVELS)]


class _Column(TomlTable):
    """A column of the table of data.

    Attributes:
        column: Its name in the data, or one name for each item; the key, if not given.
    """

    column: Name | dict[Name, Name] | None = None


class NumberColumn(_Column):
    """A number, which models take in units of its deviation from its mean.

    Attributes:
        scale: Mean and deviation; those of the first rows, if not given (`first_rows`).
        missing: What an empty cell stands for.
    """

    kind: Literal["number"]
    scale: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    missing: Number | None = None

    def check(self) -> None:
        """See `TomlTable`."""
        if self.scale is not None and self.scale[1] <= 0:
            raise ValueError(f"`scale` must be [mean, deviation > 0], got {self.scale}")


class CategoryColumn(_Column):
    """One of several levels, each of which has an effect of its own.

    Attributes:
        levels: The levels; or how many there may be, numbered in the order in which rows bring
            them.
        other: Whether a level that was never seen (that is not listed) has an effect that is drawn
            from the prior; it is an error otherwise.
        missing: The level that an empty cell stands for.
    """

    kind: Literal["category"]
    levels: _Levels | _Room = _ROOM
    other: bool = False
    missing: _Level | None = None

    def check(self) -> None:
        """See `TomlTable`."""
        if isinstance(self.levels, list):
            if len(set(self.levels)) < len(self.levels):
                raise ValueError("`levels` must not list the same level twice")
            if self.missing is not None and self.missing not in self.levels and not self.other:
                raise ValueError(f"`missing` must be among `levels`, got {self.missing!r}")

    @property
    def room(self) -> int:
        """How many levels there may be."""
        return self.levels if isinstance(self.levels, int) else len(self.levels)


ContextColumn = Annotated[NumberColumn | CategoryColumn, Field(discriminator="kind")]


class Feature(NamedTuple):
    """One number of a context.

    Attributes:
        name: Its name.
        levels: How many levels it has, numbered from 0; None if it is a number on a scale.
    """

    name: str
    levels: int | None


class ContextTable(TomlTable):
    """`[context]`: what is known before a decision.

    Attributes:
        calendar: Features of the date, each a number of the context.
        holidays: Dates; then "holiday" is 1 on these dates, and 0 on all others.
        columns: Columns of the data, by the name that the context has for them.
        first_rows: The mean and the deviation of a column of numbers are those of so many rows,
            the first ones; until then the column counts for nothing.
    """

    calendar: list[Literal["weekday", "month", "day", "year_share"]] = Field(default_factory=list)
    holidays: Annotated[list[_Date], Field(max_length=10_000)] | None = None
    columns: dict[Name, ContextColumn] = Field(default_factory=dict, max_length=1000)
    first_rows: Annotated[int, Field(ge=2, le=10_000)] = 28

    def check(self) -> None:
        """See `TomlTable`."""
        if len(set(self.calendar)) < len(self.calendar):
            raise ValueError("`calendar` must not list the same feature twice")
        taken = [name for name in self.columns if name in {*FEATURES, HOLIDAY}]
        if taken:
            raise ValueError(f"columns: {taken[0]!r} is a feature of the calendar; take another")
        if not (self.calendar or self.columns or self.holidays is not None):
            raise ValueError("give `calendar`, `holidays` or `columns`")

    def check_data(self, data: Columns) -> None:
        """Check that the columns can be found in data, and that none of them holds demand.

        Raises:
            ValueError: If not; the message begins with the place in the file.
        """
        if self.needs_dates and data.date is None:
            raise ValueError(
                "context: features of the calendar are read off the date; give data.date"
            )
        demand = {*(data.items or ()), data.value}
        for name, column in self.columns.items():
            place = f"context.columns.{name}"
            each = column.column if isinstance(column.column, dict) else {}
            if each and (data.items is None or set(each) != set(data.items)):
                raise ValueError(
                    f"{place}: a column for each item goes with data.items, all of them"
                )
            names = each.values() if each else [column.column or name]
            if wrong := [one for one in names if one in demand]:
                late = f"the column {wrong[0]!r} holds demand"
                raise ValueError(f"{place}: {late}, which is not known before the decision")

    @property
    def needs_dates(self) -> bool:
        """Whether some of it is read off the date."""
        return bool(self.calendar) or self.holidays is not None

    @property
    def features(self) -> tuple[Feature, ...]:
        """The numbers of a context, in order."""
        calendar = [*self.calendar, *([] if self.holidays is None else [HOLIDAY])]
        columns = [
            Feature(
                name,
                column.room + column.other if isinstance(column, CategoryColumn) else None,
            )
            for name, column in self.columns.items()
        ]
        return (*(Feature(name, LEVELS.get(name)) for name in calendar), *columns)

    def in_data(self, name: str, item: str) -> str:
        """The name in the data of a column of the context, for an item."""
        column = self.columns[name].column
        if isinstance(column, dict):
            return column[item]
        return name if column is None else column

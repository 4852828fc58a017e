"""What the columns of the data mean."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from postgrad.spec.parts.part import Name, Number, Part, Positive

_Names = Annotated[list[Name], Field(min_length=1, max_length=10_000)]


class Columns(Part):
    """The columns of a table of data, one row a batch.

    Either one column holds the demand (`value`), for each of many items named in another (`item`)
    or for a single one; or every item has a column of its own (`items`). `names` lists the items
    where the rows name them: then there are no others, and lists of numbers are in this order.
    """

    value: Name | None = None
    item: Name | None = None
    items: _Names | None = None
    names: _Names | None = None
    date: Name | None = None
    id: Name | None = None
    decision: Name | _Names | None = None
    skip: dict[Name, Number | str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check(self) -> "Columns":
        if (self.value is None) == (self.items is None):
            raise ValueError("give either `value` or `items`")
        if self.item is not None and self.value is None:
            raise ValueError("`item` goes with `value`, not with `items`")
        if self.names is not None and self.item is None:
            raise ValueError("`names` goes with `item`")
        if self.items is not None and len(set(self.items)) < len(self.items):
            raise ValueError("`items` must not name a column twice")
        if self.names is not None and len(set(self.names)) < len(self.names):
            raise ValueError("`names` must not name an item twice")
        if isinstance(self.decision, list) and len(self.decision) != len(self.items or ()):
            raise ValueError("`decision` must name one column for each of `items`")
        if isinstance(self.decision, str) and self.items is not None:
            raise ValueError("`decision` must be a list of columns, one for each of `items`")
        return self

    @property
    def known(self) -> tuple[str, ...] | None:
        """The items' names, where they are known before the data."""
        if self.item is None:
            return tuple(self.items or [self.value or ""])
        return None if self.names is None else tuple(self.names)


class WeekdayContext(Part):
    """A decision for each weekday, read off the date."""

    kind: Literal["weekday"]
    pooling: Literal["separate", "partial"] = "separate"
    strength: Positive = 1.0


class ColumnContext(Part):
    """A decision for each value of a column, all of which are listed."""

    kind: Literal["column"]
    column: Name
    values: Annotated[list[Name], Field(min_length=1, max_length=1000)]
    pooling: Literal["separate", "partial"] = "separate"
    strength: Positive = 1.0


AnyContext = Annotated[WeekdayContext | ColumnContext, Field(discriminator="kind")]

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def names_of(context: WeekdayContext | ColumnContext) -> tuple[str, ...]:
    """The contexts' names."""
    return WEEKDAYS if isinstance(context, WeekdayContext) else tuple(context.values)

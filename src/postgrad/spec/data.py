"""The tables `[data]` and `[split_by]`: what the columns mean, and which rows belong together."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from postgrad.spec.parts.toml_table import Name, Number, Positive, TomlTable

_Names = Annotated[list[Name], Field(min_length=1, max_length=10_000)]


class Columns(TomlTable):
    """The columns of a table of data, one row a batch.

    Either every item has a column of demand of its own (`items`), or one column holds the demand
    (`value`): of a single item, or of the item that another column names (`item`). `names` lists
    the items that the column `item` may name; lists of numbers are then in this order.
    """

    value: Name | None = None
    item: Name | None = None
    items: _Names | None = None
    names: _Names | None = None
    date: Name | None = None
    id: Name | None = None
    decision: Name | _Names | None = None
    skip: dict[Name, Number | str] = Field(default_factory=dict)

    def check(self) -> None:
        """See `TomlTable`."""
        if (self.value is None) == (self.items is None):
            raise ValueError("give either `value` or `items`")
        if self.item is not None and self.value is None:
            raise ValueError("`item` goes with `value`, not with `items`")
        if self.names is not None and self.item is None:
            raise ValueError("`names` goes with `item`")
        for key, listed in (("items", self.items), ("names", self.names)):
            if listed is not None and len(set(listed)) < len(listed):
                raise ValueError(f"`{key}` must not list the same name twice")
        several = len(self.decision) if isinstance(self.decision, list) else None
        if self.decision is not None and several != (self.items and len(self.items)):
            raise ValueError(
                "`decision` must be one column with `value`, and one for each of `items`"
            )

    @property
    def item_names(self) -> tuple[str, ...] | None:
        """The names of all items; None if only the rows tell them."""
        if self.item is None:
            return tuple(self.items or [self.value or ""])
        return None if self.names is None else tuple(self.names)


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


class Pooling(TomlTable):
    """`[pooling]`: the items learn from each other."""

    over: Literal["items"] = "items"
    strength: Positive = 1.0


class _Split(TomlTable):
    pooling: Literal["separate", "partial"] = "separate"
    strength: Positive = 1.0


class SplitByWeekday(_Split):
    """A belief and a decision for each weekday, read off the date."""

    kind: Literal["weekday"]
    groups: ClassVar[tuple[str, ...]] = WEEKDAYS


class SplitByColumn(_Split):
    """A belief and a decision for each value of a column; `values` lists all values."""

    kind: Literal["column"]
    column: Name
    values: Annotated[list[Name], Field(min_length=1, max_length=1000)]

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups."""
        return tuple(self.values)


AnySplit = Annotated[SplitByWeekday | SplitByColumn, Field(discriminator="kind")]

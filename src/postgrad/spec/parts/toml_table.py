"""What the tables of a specification file have in common: strictness, and kinds of numbers."""

from collections.abc import Callable
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)


class TomlTable(BaseModel):
    """A table of a specification file. Unknown keys, NaN and infinities are refused.

    Whole numbers pass for numbers; strings, dates and booleans do not.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        self.check()
        return self

    def check(self) -> None:
        """Raises a ValueError if values that are right by themselves do not fit each other."""


def _whole_to_float(value: object) -> object:
    """Whole numbers that a float holds exactly become floats; the strict check does the rest."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must have no control characters")
    return text


Number = Annotated[float, BeforeValidator(_whole_to_float)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(gt=0, le=1)]

# Names reach terminals, figures and tables.
Title = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Name = Annotated[Title, Field(min_length=1)]

# One number for all items, or a list of one for each.
Numbers = Number | Annotated[list[Number], Field(min_length=1, max_length=10_000)]
Positives = Positive | Annotated[list[Positive], Field(min_length=1, max_length=10_000)]

# Takes the numbers of one item, or of all items as an array, out of such a value.
Pick = Callable[[float | list[float]], Any]

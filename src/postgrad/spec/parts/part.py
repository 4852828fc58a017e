"""What all parts of a specification have in common."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Part(BaseModel):
    """A table of a specification: unknown keys are refused, and so are numbers that are not finite.

    Whole numbers pass for numbers; strings, dates and booleans do not.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True
    )


def _number(value: object) -> object:
    """A whole number of any reasonable size is a number; a boolean is none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
        return float(value)
    return value


Number = Annotated[float, BeforeValidator(_number)]
Positive = Annotated[Number, Field(gt=0)]
Share = Annotated[Number, Field(gt=0, le=1)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
"""A number for all items, or one for each."""
Numbers = Number | Annotated[list[Number], Field(min_length=1, max_length=10_000)]
Positives = Positive | Annotated[list[Positive], Field(min_length=1, max_length=10_000)]

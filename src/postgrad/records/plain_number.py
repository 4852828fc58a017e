"""Numbers as people write them: whole ones without a point or an exponent."""

from typing import Any

_EXACT = 2.0**53  # whole numbers up to here are exact as floats


def plain_number(value: Any) -> float | int:
    """A whole number as an int, any other as a float."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def in_plain_text(value: Any, form: str = ".4g") -> str:
    """A number as text: all digits of a whole one, else in the given form."""
    number = plain_number(value)
    whole = isinstance(number, int) and form == ".4g"
    return str(number) if whole else format(float(value), form)

"""What is wrong in a specification: the place in the file, the value, and what was expected."""

import difflib
from collections.abc import Iterable
from typing import Any

from postgrad.spec.parts.toml_table import TomlTable

# How pydantic begins a message, and how we do.
_BEGINNINGS = {
    "Value error, ": "",
    "Input should be ": "must be ",
    "List should ": "must ",
    "String should ": "must ",
}
# What pydantic says of each type that a value could have had, or table.
_OF_TYPE = ("_type", "_parsing", "extra_forbidden")
# Values that are shown as they are.
_SHOWN = str | int | float


def lines(content: Any, found: Iterable[Any]) -> list[str]:
    """A line for each place of a specification at which pydantic found errors."""
    places: dict[str, list[Any]] = {}
    for error in found:
        places.setdefault(_place(content, error), []).append(error)
    # Where a number or a list is allowed and an entry of the list is wrong, pydantic also says
    # that the list is no number: only the entry is reported.
    return [
        f"{place}: {_message(errors)}" if place else _message(errors)
        for place, errors in places.items()
        if not (all(map(_is_of_type, errors)) and any(_is_within(at, place) for at in places))
    ]


def _is_of_type(error: Any) -> bool:
    return str(error["type"]).endswith(_OF_TYPE)


def _is_within(place: str, outer: str) -> bool:
    return place.startswith((f"{outer}.", f"{outer}["))


def _place(content: Any, error: Any) -> str:
    """Where in the file, such as data.items[2]; nothing if it is about the whole file.

    Pydantic also names the type that a value could have had, which is no key of the file: a
    table's `kind`, say.
    """
    text, here, chosen = "", content, False
    missing = len(error["loc"]) if error["type"] == "missing" else 0
    for number, step in enumerate(error["loc"], start=1):
        if isinstance(step, int):
            text += f"[{step}]"
            here = here[step] if isinstance(here, list) and step < len(here) else None
        elif isinstance(here, dict) and not chosen and step == here.get("kind"):
            chosen = True
        elif isinstance(here, dict) and (step in here or number == missing):
            text += f".{step}" if text else step
            here, chosen = here.get(step), False
    return text


def _message(errors: list[Any]) -> str:
    if len(errors) > 1:  # a value of the wrong type could have been of several types
        errors = [error for error in errors if not _is_of_type(error)] or errors
    return "; or: ".join(dict.fromkeys(map(_one_message, errors)))


def _one_message(error: Any) -> str:
    given, kind = error["input"], error["type"]
    if kind == "extra_forbidden":
        return f"there is no such key{_meant(error['loc'][-1])}"
    if kind == "missing":
        return "is missing"
    if kind == "union_tag_not_found":
        return "`kind` is missing"
    if kind == "union_tag_invalid":
        told = error["ctx"]
        return f"`kind` must be one of {told['expected_tags']}, got {told['tag']!r:.60}"
    message = str(error["msg"])
    for beginning, ours in _BEGINNINGS.items():
        if message.startswith(beginning):
            message = ours + message.removeprefix(beginning)
    if kind == "value_error" or not isinstance(given, _SHOWN):
        return message
    return f"{message}, got {_shown(given)}"


def _shown(given: Any) -> str:
    try:
        return f"{given!r:.60}"
    except ValueError:  # whole numbers of thousands of digits are not written out
        return "a number of thousands of digits"


def _meant(key: Any) -> str:
    """The key of any table that is nearest to one that does not exist."""
    tables, keys = [TomlTable], set()
    while tables:
        table = tables.pop()
        tables += table.__subclasses__()
        keys |= {field.alias or name for name, field in table.model_fields.items()}
    near = difflib.get_close_matches(str(key), sorted(keys - {key}), n=1)
    return f"; did you mean {near[0]}?" if near else ""

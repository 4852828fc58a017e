"""What is wrong in a specification: the place in the file, the value, and what was expected."""

import difflib
from collections.abc import Iterable
from typing import Any, get_args

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


def lines(specification: type[TomlTable], content: Any, found: Iterable[Any]) -> list[str]:
    """A line for each place at which pydantic found errors.

    Args:
        specification: The table of the whole file.
        content: The content of the file.
        found: The errors.
    """
    places: dict[str, list[Any]] = {}
    for error in found:
        places.setdefault(_place(content, error), []).append(error)
    # Where a number or a list is allowed and an entry of the list is wrong, pydantic also says
    # that the list is no number: only the entry is reported.
    return [
        ": ".join(filter(None, [place, _message(specification, errors)]))
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


def _message(specification: type[TomlTable], errors: list[Any]) -> str:
    if len(errors) > 1:  # a value of the wrong type could have been of several types
        errors = [error for error in errors if not _is_of_type(error)] or errors
    return "; or: ".join(dict.fromkeys(_one_message(specification, error) for error in errors))


def _one_message(specification: type[TomlTable], error: Any) -> str:
    given, kind = error["input"], error["type"]
    if kind == "extra_forbidden":
        return f"there is no such key{_meant(specification, error['loc'])}"
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


def _meant(specification: type[TomlTable], steps: tuple[int | str, ...]) -> str:
    """The key of the table at hand that is nearest to one that does not exist."""
    tables = [specification]
    for step in steps[:-1]:
        inner = [t.model_fields[step] for t in tables if step in t.model_fields]
        of_kind = [t for t in tables if step in _kinds(t)]
        tables = of_kind or [one for field in inner for one in _tables(field.annotation)] or tables
    keys = {field.alias or name for t in tables for name, field in t.model_fields.items()}
    near = difflib.get_close_matches(str(steps[-1]), sorted(keys - {steps[-1]}), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _kinds(table: type[TomlTable]) -> tuple[Any, ...]:
    kind = table.model_fields.get("kind")
    return () if kind is None else get_args(kind.annotation)


def _tables(annotation: Any) -> list[type[TomlTable]]:
    """The tables that a value may be."""
    if isinstance(annotation, type) and issubclass(annotation, TomlTable):
        return [annotation]
    return [table for part in get_args(annotation) for table in _tables(part)]

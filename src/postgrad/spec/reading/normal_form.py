"""A specification as it is kept in a file of decisions, and compared key by key."""

from collections.abc import Iterator
from typing import Any

from postgrad.errors import SpecificationError
from postgrad.spec.specification import Specification, parse

# To be raised when a key comes to mean something else.
SCHEMA = 1
# What no decision depends on.
_ASIDE = {"title", "backtest"}
_ABSENT = object()


def normal_form(specification: Specification) -> dict[str, Any]:
    """All keys that decisions depend on, those with default values too, in JSON types."""
    return {"schema": SCHEMA, **specification.model_dump(mode="json", exclude=_ASIDE)}


def differing_keys(kept: Any, specification: Specification) -> list[str]:
    """The keys, such as cost.underage, in which a specification differs from one that was kept.

    Keys that were added since it was kept have their default values.

    Args:
        kept: What `normal_form` returned, maybe in another version.
        specification: The specification.
    """
    now, was = normal_form(specification), {}
    if isinstance(kept, dict) and kept.get("schema") == SCHEMA:
        content = {key: value for key, value in kept.items() if key != "schema"}
        try:
            was = normal_form(parse(content))
        except SpecificationError:  # of a version that had other keys
            was = {}
    old, new = dict(_flat(was)), dict(_flat(now))
    return [key for key in {**old, **new} if old.get(key, _ABSENT) != new.get(key, _ABSENT)]


def _flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield key, value
        return
    for name, part in value.items():
        yield from _flat(part, f"{key}.{name}" if key else name)

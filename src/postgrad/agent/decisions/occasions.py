"""The occasion of a batch or of a decision, as users give it and as it is stored.

Stored is JSON, which a reader without JAX understands: the numbers of z by their names, the time
since the batch before, the date, the id of the decision that a batch belongs to, and the version of
the population that a decision used.
"""

import datetime as dt
import json
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.stream import Stream
from postgrad.errors import ContextError, SettingError

_DAY = np.timedelta64(1, "D")


def occasion_now(stream: Stream, context: Any, date: Any, latest: float) -> Occasion:
    """The occasion of something that happens at a date, or one unit of time after the last batch.

    Args:
        stream: Whose batch or decision it is.
        context: z, or None.
        date: The date, or None.
        latest: The latest date of a batch so far; NaN if none had one. What is late moves no time.

    Raises:
        ContextError: If z is missing, or not like the first one.
        SettingError: If the date is none.
    """
    if date is None:
        return stream.contexts.occasion(context, None, None)
    time = as_time(date)
    elapsed = 0.0 if np.isnan(latest) else max(time - latest, 0.0)
    return stream.contexts.occasion(context, elapsed, time)


def as_time(date: Any) -> float:
    """A date as a number of days: since 1970, unless it is a number already.

    Raises:
        SettingError: If it is no date.
    """
    wrong = "date must be a date, as '2026-03-01', or a number of units of time"
    if isinstance(date, bool):
        raise SettingError(f"{wrong}, got {date!r}")
    if isinstance(date, int | float | np.integer | np.floating):
        if not np.isfinite(date):
            raise SettingError(f"{wrong}, got {date!r}")
        return float(date)
    try:
        if isinstance(date, str):
            date = dt.datetime.fromisoformat(date)
        if isinstance(date, dt.datetime) and date.tzinfo is not None:
            date = date.astimezone(dt.UTC).replace(tzinfo=None)
        found = np.datetime64(date, "us")
    except (ValueError, TypeError) as error:
        raise SettingError(f"{wrong}, got {date!r}") from error
    if np.isnat(found):
        raise SettingError(f"{wrong}, got {date!r}")
    return float((found - np.datetime64(0, "us")) / _DAY)


def as_text(
    on: Occasion, of: str | None = None, note: Any = None, population: int | None = None
) -> str | None:
    """An occasion as it is stored; None for one unit of time after the last batch, in no context.

    Args:
        on: The occasion.
        of: The id of the decision that a batch belongs to.
        note: What the caller wants to have kept with it, in JSON types.
        population: The version of the population that a decision used.
    """
    more = {"of": of, "note": note, "population": population}
    more = {key: part for key, part in more.items() if part is not None}
    if on == USUAL and not more:
        return None
    parts: dict[str, Any] = {}
    if on.context is not None:
        parts["z"] = {name: np.asarray(leaf).tolist() for name, leaf in _named(on.context)}
    if on.elapsed is not None:
        parts |= {"elapsed": on.elapsed, "date": on.time}
    return json.dumps(parts | more)


def from_text(stream: Stream, text: str | None) -> Occasion:
    """An occasion that was stored.

    Raises:
        ContextError: If its context is not like the first one.
    """
    if text is None:
        return USUAL
    parts = json.loads(text)
    context = None
    if "z" in parts:
        numbers = parts["z"]
        names = [name for name, _ in _named(stream.contexts.example)]
        if names != list(numbers):
            raise ContextError(f"the stored context has {list(numbers)}, expected {names}")
        structure = jax.tree.structure(stream.contexts.example)
        context = jax.tree.unflatten(structure, [np.asarray(numbers[name]) for name in names])
    return stream.contexts.occasion(context, parts.get("elapsed"), parts.get("date"))


def same_context(one: str | None, other: str | None) -> bool:
    """Whether two stored occasions have the same context and the same date."""
    a, b = (json.loads(text or "{}") for text in (one, other))
    return all(a.get(part) == b.get(part) for part in ("z", "date"))


def context_in_words(text: str | None) -> str:
    """The numbers of a stored context, for messages."""
    numbers = json.loads(text or "{}").get("z", {})
    return ", ".join(f"{name or 'z'} = {value}" for name, value in numbers.items()) or "none"


def _named(context: PyTree) -> list[tuple[str, Any]]:
    """The numbers of a context by their names: those of keys and fields, joined by dots."""
    named, _ = jax.tree.flatten_with_path(context)
    return [(jax.tree_util.keystr(p, simple=True, separator="."), leaf) for p, leaf in named]

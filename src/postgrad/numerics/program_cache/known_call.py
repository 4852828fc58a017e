"""A call of which all can be told that decides what is traced."""

import json
from collections.abc import Callable, Iterator
from typing import Any

from jaxtyping import PyTree

from postgrad.numerics.program_cache.entry import Entry
from postgrad.numerics.program_cache.own_functions import (
    Listener,
    Question,
    answers,
    code_of,
    put_back,
    taken_out,
)
from postgrad.numerics.program_cache.structure import NoDescriptionError

# How many lists of questions are remembered for calls that differ in the user's functions alone.
_MOST = 16


class KnownCall:
    """A call of one of postgrad's functions, which may call functions of the user's own.

    A function of the user's own has no description. But a program follows from postgrad's code and
    from what the user's functions answer when that code calls them. So it is kept under the
    questions that were asked while it was traced, and their answers: see `own_functions`. Which
    questions these are is kept too, under the call with the user's functions left out. A later
    process asks the same questions; if all answers are the same, tracing would go the same way.
    """

    def __init__(self, function: Callable[..., Any], *parts: PyTree):
        """Tells the call from all others but for the user's functions.

        Raises:
            NoDescriptionError: If it cannot be told, as it has other things of the user's own.
        """
        self._function = function
        self._parts, self._own = taken_out(parts)
        self._listeners = [Listener(own) for own in self._own]
        self._entry = Entry(function, *self._parts)

    def entries(self) -> Iterator[Entry]:
        """Where programs of this very call may be kept."""
        if not self._own:
            yield self._entry
            return
        for asked in self._lists()["asked"]:
            if (found := self._answered(asked)) is not None:
                yield found

    def listening(self) -> tuple[Any, ...]:
        """The parts of the call, with functions that note what they are asked."""
        return put_back(self._parts, self._listeners)

    def entry_of_answers(self) -> Entry:
        """Where to keep what was traced with `listening`."""
        if not self._own:
            return self._entry
        asked = [
            [i, question] for i, heard in enumerate(self._listeners) for question in heard.asked
        ]
        self._note("asked", asked)
        return Entry(self._function, *self._parts, answers(self._listeners, asked))

    def is_hopeless(self) -> bool:
        """Whether a call of the same code could not be kept before."""
        return bool(self._own) and self._code() in self._lists()["hopeless"]

    def note_hopeless(self) -> None:
        """Notes that what this call traces to cannot be kept."""
        if self._own:
            self._note("hopeless", self._code())

    def _note(self, name: str, one: Any) -> None:
        lists = self._lists()
        if one not in lists[name]:
            lists[name] = [one, *lists[name]][:_MOST]
            self._entry.put(json.dumps(lists).encode())

    def _answered(self, asked: list[Question]) -> Entry | None:
        try:
            return Entry(self._function, *self._parts, answers(self._listeners, asked))
        except NoDescriptionError:
            return None

    def _lists(self) -> dict[str, list[Any]]:
        try:
            found = json.loads(self._entry.get() or b"{}")
        except ValueError:
            found = {}
        return {"asked": [], "hopeless": []} | found

    def _code(self) -> str:
        return " ".join(code_of(own) for own in self._own)

"""Connections and forks.

A connection must not be used on both sides of a fork, since locks belong to a process; nor can it
be closed in the child alone. So all are closed before the fork, and opened again when they are
used.
"""

import os
import weakref
from typing import Protocol


class Connected(Protocol):
    """Something that has a connection."""

    def before_fork(self) -> None:
        """Close the connection, and let nobody open it."""

    def after_fork(self) -> None:
        """Let it be opened again."""


_known: "weakref.WeakSet[Connected]" = weakref.WeakSet()
_held: list[Connected] = []


def close_at_forks(connected: Connected) -> None:
    """See to it that a connection is closed before every fork."""
    _known.add(connected)


def _before() -> None:
    for connected in list(_known):
        connected.before_fork()
        _held.append(connected)


def _after() -> None:
    while _held:
        _held.pop().after_fork()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)

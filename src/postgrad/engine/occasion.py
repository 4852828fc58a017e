"""The occasion on which a batch arose, or for which is decided."""

from typing import NamedTuple

from jaxtyping import PyTree


class Occasion(NamedTuple):
    """When, and in which context.

    Attributes:
        context: z, as arrays; None where there are no contexts.
        elapsed: The time since the batch before, or since the last batch; None for one unit.
        time: The date, as a number of days; None if none was given.
    """

    context: PyTree = None
    elapsed: float | None = None
    time: float | None = None


USUAL = Occasion()

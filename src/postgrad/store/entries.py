"""What a store keeps: batches, states, and where they are."""

from dataclasses import dataclass


class Stale(Exception):  # noqa: N818
    """Another process has written since the state was read."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as it is kept.

    Attributes:
        id: Its name, if it has one.
        time: When it was observed, in seconds since 1970.
        x: The decision in force, if it was named.
        rows: The data.
        answer: The decision that was issued then, and numbers about it.
        alarm: The alarm that it raised, if any.
    """

    id: str | None
    time: float
    x: bytes | None
    rows: bytes
    answer: bytes
    alarm: str | None


@dataclass(frozen=True, slots=True)
class Saved:
    """A state between two batches.

    Attributes:
        stage: How many batches were observed.
        header: What the words of `state` are.
        state: What the last stage changed.
        report_header: What the words of `report` are.
        report: What the last stage told.
        counters: What else is remembered.
        still: The stage at which the arrays that stages do not change were last replaced; 0 if
            they are still those of the beginning.
    """

    stage: int
    header: str
    state: bytes
    report_header: str
    report: bytes
    counters: bytes
    still: int


@dataclass(frozen=True, slots=True)
class Head:
    """A state and its place in the file.

    Attributes:
        saved: The state.
        commits: How many transactions the stream has seen.
        chain: The checksum of all batches so far.
    """

    saved: Saved
    commits: int
    chain: bytes

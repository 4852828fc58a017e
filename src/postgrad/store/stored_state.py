"""What a store keeps of a stream: batches, states between them, and issued decisions."""

from dataclasses import dataclass

# The header of a state that was lost; others are lists.
MISSING = ""
# The kind of the event that later batches were removed; other kinds are the agent's.
WENT_BACK = "went back"


class StaleStateError(Exception):
    """Another process has written to the stream since the state was read."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch, as stored.

    Attributes:
        id: The id of the batch; None if it has none.
        time: When the batch was observed, in seconds since 1970.
        x: The decision in force, as float64; None if the caller did not name one.
        rows: The observations, as float64.
        answer: The decision that was issued, and numbers about it, as float64.
        alarm: The alarm that the batch raised, as JSON; None if it raised none.
        context: Under which context the batch arose, as JSON; None without contexts.
    """

    id: str | None
    time: float
    x: bytes | None
    rows: bytes
    answer: bytes
    alarm: str | None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class Issue:
    """A decision that was issued under an id, as stored.

    Attributes:
        id: The id.
        stage: How many batches had been observed.
        time: When it was issued, in seconds since 1970.
        context: The context for which it was issued, as JSON; None without contexts.
        answer: The decision, and numbers about it, as float64.
    """

    id: str
    stage: int
    time: float
    context: str | None
    answer: bytes


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state between two batches.

    Attributes:
        stage: How many batches were observed.
        header: Path, type and shape of each array in `state`.
        state: The arrays that stages change.
        report_header: Path, type and shape of each array in `report`.
        report: What the last stage reported.
        counters: Numbers that the agent keeps from stage to stage.
        fixed_since: The stage at which the arrays that stages do not change were last replaced; 0
            if they are those of the beginning.
    """

    stage: int
    header: str
    state: bytes
    report_header: str
    report: bytes
    counters: bytes
    fixed_since: int

    @property
    def is_missing(self) -> bool:
        """Whether the state was lost, and is to be computed from checkpoints and batches."""
        return self.header == MISSING


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to a stream between two batches, on record.

    Attributes:
        stage: How many batches had been observed.
        time: When it happened, in seconds since 1970.
        kind: What happened.
        content: What there is to say about it, as JSON.
    """

    stage: int
    time: float
    kind: str
    content: str


@dataclass(frozen=True, slots=True)
class StreamHead:
    """The latest state of a stream, and what binds it to the stream's batches.

    Attributes:
        saved: The state.
        commits: How many transactions have changed the stream.
        chain: The checksum of all batches so far.
        events: How many events are on record.
        issued: How many decisions were issued under an id.
    """

    saved: StoredState
    commits: int
    chain: bytes
    events: int
    issued: int


@dataclass(frozen=True, slots=True)
class Commit:
    """A change of a stream, as long as it is not committed.

    Attributes:
        stream: The number of the stream.
        before: The state before; None if that was damaged.
        after: The state after.
        without_id: Whether it is by a batch without an id.
    """

    stream: int
    before: StreamHead | None
    after: StreamHead
    without_id: bool = False

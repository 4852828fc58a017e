"""What is told about the past: batches and what came of them, and whether they can be repeated."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from postgrad.records.alarm import Alarm
from postgrad.records.surprise import Surprise


@dataclass(frozen=True)
class Corrected:
    """That a batch was corrected or withdrawn.

    Attributes:
        stage: How many batches had been observed when it was.
        time: When it was.
        rows: The data before.
        withdrawn: Whether it was withdrawn.
    """

    stage: int
    time: datetime
    rows: np.ndarray
    withdrawn: bool


@dataclass(frozen=True)
class Record:
    """One batch, and what came of it.

    Attributes:
        stage: Its number, from one on.
        id: Its name, if it was given one.
        time: When it was observed.
        x: The decision in force when it arose.
        rows: The data, one observation along each entry of the leading axis; of a batch that was
            corrected the right ones, and none of one that was withdrawn.
        decision: The decision that was issued after it, by the data as they were then.
        interval: Between which ends the best decision then lay, with a probability of 95 % entry by
            entry; None where the descent does not tell.
        log_predictive: How well each observation was foreseen: the mean of log f_hat.
        surprise: Where the batch lay among those foreseen.
        alarm: The alarm it raised, if any.
        corrections: That it was corrected or withdrawn since, and what its data were before.
        context: Under which context it arose, as it is stored; None without contexts.
    """

    stage: int
    id: str | None
    time: datetime
    x: np.ndarray
    rows: np.ndarray
    decision: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None
    log_predictive: float
    surprise: Surprise
    alarm: Alarm | None
    corrections: tuple[Corrected, ...] = ()
    context: Any = None


@dataclass(frozen=True)
class ReplayPart:
    """Stages that were not computed by what would compute them now.

    Attributes:
        first: The first stage.
        last: The last stage.
        why: What computed them.
        identical: Whether they come out the same all the same; None if they cannot be computed.
    """

    first: int
    last: int
    why: str
    identical: bool | None

    def __str__(self) -> str:
        came = {True: "identical", False: "different", None: "not computed again"}[self.identical]
        return f"stages {self.first} to {self.last}: {came}; {self.why}"


@dataclass(frozen=True)
class Replay:
    """Whether stages that were computed again came out the same.

    Attributes:
        first: The first stage that was computed again.
        stages: How many were; those of `others` do not count.
        identical: Whether decisions and states are equal to the last bit.
        first_difference: The first stage whose answer differs, if any; the stage after the last
            one compared, if only what is carried on differs.
        others: Stages that cannot be expected to come out the same: computed by other versions, for
            a problem that was changed since, or with a search that was replaced since.
    """

    first: int
    stages: int
    identical: bool
    first_difference: int | None
    others: tuple[ReplayPart, ...] = ()

    def __str__(self) -> str:
        came = "identical to the last bit"
        if not self.identical:
            came = f"different from stage {self.first_difference}"
        lines = [f"{self.stages} stages computed again, {came}", *map(str, self.others)]
        return "\n".join(lines)

"""What is told about the past: batches and what came of them, and whether they can be repeated."""

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from jaxtyping import Float

from postgrad.algorithm.surprise import Surprise
from postgrad.monitoring.misspecification import Alarm


@dataclass(frozen=True)
class Record:
    """One batch, and what came of it.

    Attributes:
        stage: Its number, from one on.
        id: Its name, if it was given one.
        time: When it was observed.
        x: The decision in force when it arose.
        rows: The data, one observation along each entry of the leading axis.
        decision: The decision that was issued after it.
        interval: Between which ends the best decision then lay, with a probability of 95 % entry by
            entry; None where the descent does not tell.
        log_predictive: How well each observation was foreseen: the mean of log f_hat.
        surprise: Where the batch lay among those foreseen.
        alarm: The alarm it raised, if any.
    """

    stage: int
    id: str | None
    time: datetime
    x: np.ndarray
    rows: Float[np.ndarray, "D ..."]
    decision: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None
    log_predictive: float
    surprise: Surprise
    alarm: Alarm | None


@dataclass(frozen=True)
class Replay:
    """Whether stages that were computed again came out the same.

    Attributes:
        first: The first stage that was computed again.
        stages: How many were.
        identical: Whether decisions and final state are equal to the last bit.
        first_difference: The first stage whose answer differs, if any; `first + stages`, if only
            what is carried on differs.
    """

    first: int
    stages: int
    identical: bool
    first_difference: int | None

    def __str__(self) -> str:
        if self.identical:
            return f"{self.stages} stages computed again, identical to the last bit"
        return f"{self.stages} stages computed again, different from stage {self.first_difference}"

"""Records from batches as they are stored."""

import json
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from postgrad.records.alarm import Alarm
from postgrad.records.answer import read_answer
from postgrad.records.record import Corrected, Record
from postgrad.records.streams.stream_events import EventLog
from postgrad.store import Batch


class Shapes(NamedTuple):
    """The shapes of what a stream keeps as plain numbers.

    Attributes:
        decision: That of the decision.
        event: That of one observation.
    """

    decision: tuple[int, ...]
    event: tuple[int, ...]

    def rows(self, data: bytes) -> np.ndarray:
        """The observations of a batch."""
        return np.frombuffer(data, "<f8").reshape(-1, *self.event)

    def x(self, data: bytes) -> np.ndarray:
        """A decision."""
        return np.frombuffer(data, "<f8").reshape(self.decision)


def record_of(
    stage: int, batch: Batch, issued: np.ndarray, events: EventLog, shapes: Shapes
) -> Record:
    """What came of a batch.

    Args:
        stage: The number of the batch.
        batch: The batch.
        issued: The decision in force before it.
        events: What happened besides batches.
        shapes: The shapes of the stream.
    """
    answer, rows = read_answer(batch.answer, *shapes), shapes.rows(batch.rows)
    corrections = tuple(
        Corrected(before.stage, before.time, shapes.rows(before.rows), before.withdrawn)
        for before in events.corrections(stage)
    )
    answered = corrections[0].rows if corrections else rows
    unknown = np.isnan(answer.low).any()
    return Record(
        stage=stage,
        id=batch.id,
        time=datetime.fromtimestamp(batch.time, UTC),
        x=(issued if batch.x is None else shapes.x(batch.x))[()],
        rows=rows,
        decision=answer.decision[()],
        interval=None if unknown else (answer.low[()], answer.high[()]),
        log_predictive=answer.log_predictive / len(answered) if len(answered) else np.nan,
        surprise=answer.surprise,
        alarm=None if batch.alarm is None else alarm_of(batch.alarm),
        corrections=corrections,
        context=None if batch.context is None else json.loads(batch.context),
    )


def issued_after(stage: int, batch: Batch, events: EventLog, shapes: Shapes) -> np.ndarray:
    """The decision in force after the batch of a stage."""
    if (changed := events.decision(stage)) is not None:
        return changed.reshape(shapes.decision)
    return read_answer(batch.answer, *shapes).decision


def issued_first(start: np.ndarray, events: EventLog) -> np.ndarray:
    """The decision in force before the first batch.

    Args:
        start: x_1, as the settings have it.
        events: What happened besides batches.
    """
    changed, first = events.decision(0), events.first_decision
    found = changed if changed is not None else start if first is None else first
    return found.reshape(start.shape)


def alarm_of(text: str) -> Alarm:
    """An alarm as it is stored."""
    numbers = json.loads(text)
    return Alarm(**{**numbers, "coordinate": tuple(numbers["coordinate"])})

"""Histories line by line: what was observed, decided and noticed."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from postgrad.records.explanation import plain_number
from postgrad.spec.reading.stored_streams import ToldStreams
from postgrad.spec.reading.stream_names import Stream


def history_lines(
    told: ToldStreams,
    streams: Sequence[Stream],
    *,
    first: int | None = None,
    count: int | None = None,
) -> Iterator[dict[str, Any]]:
    """One line for each batch and item, in JSON types.

    Args:
        told: Tells of the streams.
        streams: Which.
        first: Only batches from this stage on.
        count: Only so many batches of each stream: from `first` on, or the latest.
    """
    for item, group in streams:
        stream = told.told(item, group)
        found = stream.history(count) if first is None else stream.history(first=first)
        for record in itertools.islice(found, count):
            in_force = np.atleast_1d(record.x)
            rows = record.rows.reshape(len(record.rows), math.prod(record.rows.shape[1:]))
            correction = record.corrections[-1] if record.corrections else None
            done = None
            if correction is not None:
                done = "withdrawn" if correction.withdrawn else "corrected"
            log_predictive = float(record.log_predictive)
            parts = told.by_item(item, record.decision, record.interval)
            for i, (name, decision, ends) in enumerate(parts):
                yield {
                    "item": name,
                    "group": group,
                    "stage": record.stage,
                    "id": record.id,
                    "observed": record.time.isoformat(),
                    "in_force": plain_number(in_force[i]),
                    "data": rows[:, i if rows.shape[1] == in_force.size else 0].tolist(),
                    "decision": decision,
                    "low": None if ends is None else ends[0],
                    "high": None if ends is None else ends[1],
                    "log_predictive": log_predictive if math.isfinite(log_predictive) else None,
                    "alarm": None if record.alarm is None else str(record.alarm),
                    "correction": done,
                }

"""The explanation of an agent's last stage, from its snapshots."""

import dataclasses

import numpy as np

from postgrad.agent.moments import moments_of
from postgrad.engine.snapshot import Snapshot
from postgrad.engine.stream import Stream
from postgrad.records.alarm import Alarm
from postgrad.records.explanation import (
    Explanation,
    StageReport,
    explained,
    interval_of,
    shown,
    spreads_of,
)
from postgrad.records.record import Record
from postgrad.records.streams.stream_events import StreamEvent


def explain(
    stream: Stream,
    now: Snapshot,
    before: Snapshot | None,
    last: Record | None,
    alarms: tuple[Alarm, ...],
    events: tuple[StreamEvent, ...] = (),
    *,
    shares: bool = False,
) -> Explanation:
    """Explains the last stage.

    Args:
        stream: What computed it.
        now: The snapshot after it.
        before: The snapshot before it.
        last: The batch.
        alarms: All so far.
        events: What happened besides batches.
        shares: Whether to compute how much of the move was learning, and how much the search.
    """
    info, after = now.info, spreads_of(moments_of(now.belief))
    if info is None or before is None or last is None:
        return Explanation(now.stage, now.decision[()], after, alarms, events=events)
    course, earlier = info.course, spreads_of(moments_of(before.belief))
    report = StageReport(
        surprise=info.surprise,
        outlook=info.outlook,
        settled=float(course.settled),
        local_only=bool(course.local_only),
        before=earlier,
        after=after,
    )
    found = explained(report, last, now.decision, before.decision, alarms, events)
    # What moves without a batch is the search alone.
    onward = stream.without_data(before) if shares else None
    if onward is None:
        return found
    learned, settled = (now.decision - onward)[()], (onward - before.decision)[()]
    return dataclasses.replace(found, learned=learned, settled=settled)


def interval_now(snapshot: Snapshot) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the best decision lies, with 95 %; None where the descent does not tell."""
    return None if snapshot.info is None else interval_of(snapshot.info.outlook)


def in_short(snapshot: Snapshot, decision: np.ndarray) -> str:
    """The stage and the decision, with one standard deviation of what is not known about it."""
    text = f"stage={snapshot.stage}, decision={shown(decision)}"
    spread = None if snapshot.info is None else np.asarray(snapshot.info.outlook.epistemic)
    return text if spread is None or np.isnan(spread).any() else f"{text} ± {shown(spread, '.2g')}"

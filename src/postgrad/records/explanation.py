"""Why a decision is what it is, in numbers and in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from postgrad.records.alarm import Alarm
from postgrad.records.issued import IssuedDecision
from postgrad.records.moments import Moments
from postgrad.records.outlook import Outlook
from postgrad.records.questions.expectation import Expectation
from postgrad.records.record import Record
from postgrad.records.streams.stream_events import StreamEvent
from postgrad.records.surprise import Surprise

# A batch further out than these shares of those foreseen is remarkable, or astonishing.
_REMARKABLE, _ASTONISHING = 0.1, 0.01
# Vectors are shown up to so many entries.
_EXACT = 2.0**53  # whole numbers up to here are exact as floats
_SHOWN = 6


@dataclass(frozen=True)
class Spread:
    """What is believed about one part of theta.

    Attributes:
        mean: The posterior mean.
        sd: The posterior standard deviation.
    """

    mean: np.ndarray
    sd: np.ndarray

    def __str__(self) -> str:
        return f"{shown(self.mean)} +- {shown(self.sd, '.2g')}"


@dataclass(frozen=True)
class Explanation:
    """The decision, what moved it, and what is uncertain about it.

    Attributes:
        stage: How many batches were observed.
        decision: What is issued.
        after: What is believed about each part of theta.
        alarms: What was noticed so far.
        last: The last batch and what came of it; None before the first.
        interval: Where the best decision lies, to two posterior standard deviations; None where
            the descent measures no curvature.
        change: By how much that batch moved the decision.
        learned: The part of it that the data brought about.
        settled: The rest: what the descent would have gone on to without them. Both are None where
            nobody asked for them, or they cannot be told apart.
        at_rest: Whether the descent came to rest; None where it cannot tell.
        local_only: Whether other valleys may exist that nobody looked for.
        tail: The share of foreseen batches that are as far out as the last one.
        before: What was believed about each part of theta before that batch.
        outlook: What is uncertain, and what it costs.
        events: What happened besides batches.
        outcomes: The expectations of the named outcomes of the decision in force; empty with
            contexts, where they depend on these.
    """

    stage: int
    decision: np.ndarray
    after: dict[str, Spread]
    alarms: tuple[Alarm, ...]
    last: Record | None = None
    interval: tuple[np.ndarray, np.ndarray] | None = None
    change: np.ndarray | None = None
    learned: np.ndarray | None = None
    settled: np.ndarray | None = None
    at_rest: bool | None = None
    local_only: bool = False
    tail: float | None = None
    before: dict[str, Spread] = field(default_factory=dict)
    outlook: Outlook | None = None
    events: tuple[StreamEvent, ...] = ()
    outcomes: Mapping[str, Expectation] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.last is None or self.change is None:
            yield f"The decision is {shown(self.decision)}, as it was given: no batch yet."
        else:
            yield from self._about_batch(self.last, self.change)
        for name, spread in self.after.items():
            change = (
                f"{self.before[name]} before the batch, {spread} now" if self.before else spread
            )
            yield f"{name}: {change}."
        ahead = self.outlook
        if ahead is not None and not np.isnan(ahead.cost_of_not_knowing):
            yield (
                f"Not knowing theta costs {ahead.cost_of_not_knowing:.3g} a decision; one more "
                f"batch like the last is worth {ahead.value_of_a_batch:.3g} of it."
            )
            yield f"Were theta known, the cost would still vary by {ahead.aleatoric:.3g}."
        for name, outcome in self.outcomes.items():
            yield f"{name}: {outcome}."
        if self.alarms:
            yield f"{_counted(len(self.alarms), 'alarm')}; the last: {self.alarms[-1]}."
        else:
            yield "No alarms: the data have looked like the model."
        if self.events:
            yield f"{_counted(len(self.events), 'event')} on record; the last {self.events[-1]}."

    def _about_batch(self, last: Record, change: np.ndarray) -> Iterator[str]:
        numbers = (last.context or {}).get("z")
        name = f" {last.id!r}" if last.id else ""
        batch = f"The last batch{name}, {_counted(len(last.rows), 'observation')}"
        if numbers is not None:
            context = ", ".join(f"{key or 'z'} = {value}" for key, value in numbers.items())
            yield f"After {_counted(self.stage, 'batch')} a decision is sought for each context."
            yield f"{batch} under {shown(last.x)}, arose in the context {context}."
            if self.tail is not None:
                yield _how_surprising(self.tail, last)
            return
        text = f"After {_counted(self.stage, 'batch')} the decision is {shown(self.decision)}."
        if self.interval is not None:
            low, high = self.interval
            text += f" The best one lies between {shown(low)} and {shown(high)} (95 %)."
        yield text
        for one in self.events[-1:]:
            if one.stage == self.stage and "decision" in one.details:
                yield "It was sought anew since the last batch."
                return
        moved = f"{batch} under {shown(last.x)}, moved it by {shown(change, '+.3g')}"
        if self.learned is not None and self.settled is not None:
            moved += (
                f": {shown(self.learned, '+.3g')} by what it taught, "
                f"{shown(self.settled, '+.3g')} by the search that went on"
            )
        yield f"{moved}."
        if self.at_rest is False:
            yield "The search has not come to rest: the decision will move without data."
        if self.local_only:
            yield "Only the neighbourhood was searched: there may be a better decision elsewhere."
        if self.tail is not None:
            yield _how_surprising(self.tail, last)


@dataclass(frozen=True)
class StageReport:
    """What a stage reported, as far as it is explained.

    Attributes:
        surprise: Where its batch lay among those that were foreseen.
        outlook: What is uncertain about its decision.
        settled: 1 if the descent came to rest, 0 if not; NaN where it cannot tell.
        local_only: Whether the descent looked at its neighbourhood only.
        before: What was believed about each part of theta before its batch, if it is known.
        after: What is believed after it.
    """

    surprise: Surprise
    outlook: Outlook
    settled: float
    local_only: bool
    before: dict[str, Spread]
    after: dict[str, Spread]


def explained(
    report: StageReport,
    last: Record,
    decision: np.ndarray,
    issued: np.ndarray,
    alarms: tuple[Alarm, ...],
    events: tuple[StreamEvent, ...],
) -> Explanation:
    """Explains the last stage.

    Args:
        report: What it reported.
        last: Its batch, and what came of it.
        decision: The decision in force.
        issued: The decision in force before the batch.
        alarms: All so far.
        events: What happened besides batches.
    """
    ranks = [np.ravel(report.surprise.pit_location), np.ravel(report.surprise.pit_spread)]
    tails = 2.0 * np.concatenate([np.minimum(u, 1.0 - u) for u in ranks])
    tails = tails[~np.isnan(tails)]
    return Explanation(
        stage=last.stage,
        decision=decision[()],
        after=report.after,
        alarms=alarms,
        last=last,
        interval=interval_of(report.outlook),
        change=(decision - issued)[()],
        at_rest=None if np.isnan(report.settled) else bool(report.settled),
        local_only=report.local_only,
        # Bonferroni's: of several looks at a batch one is likely to be far out.
        tail=float(min(1.0, tails.size * tails.min())) if tails.size else None,
        before=report.before,
        outlook=report.outlook,
        events=events,
    )


def spreads_of(moments: Moments) -> dict[str, Spread]:
    """What is believed about each part of theta."""
    return {name: Spread(mean, sd) for name, (mean, sd) in moments.items()}


def interval_of(outlook: Outlook | IssuedDecision) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the best decision lies, with 95 %; None where the descent does not tell."""
    low, high = np.asarray(outlook.low), np.asarray(outlook.high)
    return None if np.isnan(low).any() else (low[()], high[()])


def _how_surprising(tail: float, last: Record) -> str:
    z = np.asarray(last.surprise.z_location).ravel()
    where = ""
    if z.size and not np.isnan(z).all():
        far = z[np.nanargmax(np.abs(z))]
        side = "above" if far > 0 else "below"
        where = f"; its mean lies {abs(far):.1f} standard deviations {side} what was foreseen"
    if tail > _REMARKABLE:
        return f"It came as foreseen{where}."
    if tail > _ASTONISHING:
        return f"It was somewhat surprising (one in {1 / tail:.0f} is){where}."
    return f"It was very surprising (less than one in a hundred is){where}."


def _counted(count: int, noun: str) -> str:
    """`1 batch`, `2 batches`, `2 alarms`."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count} {noun}{plural if count != 1 else ''}"


def plain_number(value: Any) -> float | int:
    """A whole number as an int, any other as a float."""
    number = float(value)
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def in_plain_text(value: Any, form: str = ".4g") -> str:
    """A number as text: all digits of a whole one, else in the given form."""
    number = plain_number(value)
    whole = isinstance(number, int) and form == ".4g"
    return str(number) if whole else format(float(value), form)


def shown(values: np.ndarray, form: str = ".4g") -> str:
    """A number, or the first entries of an array."""
    flat = np.ravel(values)
    texts = [in_plain_text(value, form) for value in flat[:_SHOWN]]
    if np.ndim(values) == 0:
        return texts[0]
    return "[" + ", ".join(texts) + (", ...]" if flat.size > _SHOWN else "]")

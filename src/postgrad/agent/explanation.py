"""Why the decision is what it is, in numbers and in words."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import jax
import numpy as np

from postgrad.agent.changes.stream_events import StreamEvent
from postgrad.agent.record import Record
from postgrad.algorithm.bayesian_sgd import Info
from postgrad.algorithm.decision_uncertainty import Outlook
from postgrad.beliefs import Belief
from postgrad.engine.stream import Snapshot, Stream
from postgrad.monitoring.misspecification import Alarm

# A batch further out than these shares of those foreseen is remarkable, or astonishing.
_REMARKABLE, _ASTONISHING = 0.1, 0.01
# Vectors are shown up to so many entries.
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
        return f"{_shown(self.mean)} +- {_shown(self.sd, '.2g')}"


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
            they cannot be told apart.
        at_rest: Whether the descent came to rest; None where it cannot tell.
        local_only: Whether other valleys may exist that nobody looked for.
        tail: The share of foreseen batches that are as far out as the last one.
        before: What was believed about each part of theta before that batch.
        outlook: What is uncertain, and what it costs.
        events: What happened besides batches.
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

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        if self.last is None or self.change is None:
            yield f"The decision is {_shown(self.decision)}, as it was given: no batch yet."
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
        if self.alarms:
            yield f"{_counted(len(self.alarms), 'alarm')}; the last: {self.alarms[-1]}."
        else:
            yield "No alarms: the data have looked like the model."
        if self.events:
            yield f"{_counted(len(self.events), 'event')} on record; the last {self.events[-1]}."

    def _about_batch(self, last: Record, change: np.ndarray) -> Iterator[str]:
        text = f"After {_counted(self.stage, 'batch')} the decision is {_shown(self.decision)}."
        if self.interval is not None:
            low, high = self.interval
            text += f" The best one lies between {_shown(low)} and {_shown(high)} (95 %)."
        yield text
        for one in self.events[-1:]:
            if one.stage == self.stage and "decision" in one.details:
                yield "It was sought anew since the last batch."
                return
        name = f" {last.id!r}" if last.id else ""
        moved = (
            f"The last batch{name}, {_counted(len(last.rows), 'observation')} under "
            f"{_shown(last.x)}, moved it by {_shown(change, '+.3g')}"
        )
        if self.learned is not None and self.settled is not None:
            moved += (
                f": {_shown(self.learned, '+.3g')} by what it taught, "
                f"{_shown(self.settled, '+.3g')} by the search that went on"
            )
        yield f"{moved}."
        if self.at_rest is False:
            yield "The search has not come to rest: the decision will move without data."
        if self.local_only:
            yield "Only the neighbourhood was searched: there may be a better decision elsewhere."
        if self.tail is not None:
            yield _how_surprising(self.tail, last)


def explain(
    stream: Stream,
    now: Snapshot,
    before: Snapshot | None,
    last: Record | None,
    alarms: tuple[Alarm, ...],
    events: tuple[StreamEvent, ...] = (),
) -> Explanation:
    """Explains the last stage.

    Args:
        stream: What computed it.
        now: The snapshot after it.
        before: The snapshot before it.
        last: The batch.
        alarms: All so far.
        events: What happened besides batches.
    """
    info, after = now.info, _spreads(now.belief)
    if info is None or before is None or last is None:
        return Explanation(now.stage, now.decision[()], after, alarms, events=events)
    # What moves without a batch is the search alone.
    onward = stream.without_data(before)
    ranks = [np.ravel(info.surprise.pit_location), np.ravel(info.surprise.pit_spread)]
    tails = 2.0 * np.concatenate([np.minimum(u, 1.0 - u) for u in ranks])
    tails = tails[~np.isnan(tails)]
    settled = float(info.course.settled)
    return Explanation(
        stage=now.stage,
        decision=now.decision[()],
        after=after,
        alarms=alarms,
        last=last,
        interval=interval_of(info),
        change=(now.decision - before.decision)[()],
        learned=None if onward is None else (now.decision - onward)[()],
        settled=None if onward is None else (onward - before.decision)[()],
        at_rest=None if np.isnan(settled) else bool(settled),
        local_only=bool(info.course.local_only),
        # Bonferroni's: of several looks at a batch one is likely to be far out.
        tail=float(min(1.0, tails.size * tails.min())) if tails.size else None,
        before=_spreads(before.belief),
        outlook=info.outlook,
        events=events,
    )


def interval_of(info: Info | None) -> tuple[np.ndarray, np.ndarray] | None:
    """Where the best decision lies, with 95 %; None where the descent does not tell."""
    if info is None:
        return None
    low, high = np.asarray(info.outlook.low), np.asarray(info.outlook.high)
    return None if np.isnan(low).any() else (low[()], high[()])


def _spreads(belief: Belief) -> dict[str, Spread]:
    means, _ = jax.tree.flatten_with_path(belief.mean())
    spreads = jax.tree.leaves(belief.spread())
    return {
        f"theta{jax.tree_util.keystr(path)}": Spread(np.asarray(mean), np.asarray(spread))
        for (path, mean), spread in zip(means, spreads, strict=True)
    }


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


def _shown(values: np.ndarray, form: str = ".4g") -> str:
    flat = np.ravel(values)
    texts = [format(value, form) for value in flat[:_SHOWN]]
    if np.ndim(values) == 0:
        return texts[0]
    return "[" + ", ".join(texts) + (", ...]" if flat.size > _SHOWN else "]")


def in_short(snapshot: Snapshot) -> str:
    """The stage and the decision, with one standard deviation of what is not known about it."""
    text = f"stage={snapshot.stage}, decision={_shown(snapshot.decision)}"
    spread = None if snapshot.info is None else np.asarray(snapshot.info.outlook.epistemic)
    return text if spread is None or np.isnan(spread).any() else f"{text} ± {_shown(spread, '.2g')}"

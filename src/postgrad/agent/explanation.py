"""Why the decision is what it is, in numbers and in words."""

from dataclasses import dataclass

import jax
import numpy as np

from postgrad.agent.record import Record, interval
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
        return f"{_shown(self.mean)} +- {_shown(self.sd, 2)}"


@dataclass(frozen=True)
class Explanation:
    """The decision, what moved it, and what is uncertain about it.

    Attributes:
        stage: How many batches were observed.
        decision: What is issued.
        interval: Where the best decision lies, to two posterior standard deviations; None where
            the descent measures no curvature.
        last: The last batch and what came of it; None before the first.
        change: By how much that batch moved the decision.
        learned: The part of it that the data brought about.
        settled: The rest: what the descent would have gone on to without them. Both are None where
            they cannot be told apart.
        at_rest: Whether the descent came to rest; None where it cannot tell.
        tail: The share of foreseen batches that are as far out as the last one.
        before: What was believed about each part of theta before that batch.
        after: And now.
        outlook: What is uncertain, and what it costs.
        alarms: What was noticed so far.
    """

    stage: int
    decision: np.ndarray
    interval: tuple[np.ndarray, np.ndarray] | None
    last: Record | None
    change: np.ndarray | None
    learned: np.ndarray | None
    settled: np.ndarray | None
    at_rest: bool | None
    tail: float | None
    before: dict[str, Spread]
    after: dict[str, Spread]
    outlook: Outlook | None
    alarms: tuple[Alarm, ...]

    def __str__(self) -> str:
        lines = [self._about_decision(), *self._about_batch(), *self._about_theta()]
        lines += [*self._about_uncertainty(), self._about_alarms()]
        return "\n".join(lines)

    def _about_decision(self) -> str:
        if self.last is None:
            return f"The decision is {_shown(self.decision)}, as it was given: no batch yet."
        count = f"{self.stage} batch{'es' if self.stage > 1 else ''}"
        text = f"After {count} the decision is {_shown(self.decision)}."
        if self.interval is not None:
            low, high = self.interval
            text += f" The best one lies between {_shown(low)} and {_shown(high)} (95 %)."
        return text

    def _about_batch(self) -> list[str]:
        if self.last is None or self.change is None:
            return []
        rows, name = len(self.last.rows), f" {self.last.id!r}" if self.last.id else ""
        batch = f"The last batch{name}, {rows} observation{'s' if rows > 1 else ''}"
        moved = f"{batch} under {_shown(self.last.x)}, moved it by {_signed(self.change)}"
        if self.learned is not None and self.settled is not None:
            moved += (
                f": {_signed(self.learned)} by what it taught, {_signed(self.settled)} by the "
                f"search that went on"
            )
        lines = [moved + "."]
        if self.at_rest is False:
            lines.append("The search has not come to rest: the decision will move without data.")
        if self.tail is not None:
            lines.append(_how_surprising(self.tail, self.last))
        return lines

    def _about_theta(self) -> list[str]:
        return [
            f"{name}: {self.before[name]} before the batch, {spread} now."
            if name in self.before
            else f"{name}: {spread}."
            for name, spread in self.after.items()
        ]

    def _about_uncertainty(self) -> list[str]:
        ahead = self.outlook
        if ahead is None or np.isnan(ahead.cost_of_not_knowing):
            return []
        return [
            f"Not knowing theta costs {ahead.cost_of_not_knowing:.3g} a decision; one more batch "
            f"like the last is worth {ahead.value_of_a_batch:.3g} of it.",
            f"Were theta known, the cost would still vary by {ahead.aleatoric:.3g}.",
        ]

    def _about_alarms(self) -> str:
        if not self.alarms:
            return "No alarms: the data have looked like the model."
        count = len(self.alarms)
        return f"{count} alarm{'s' if count > 1 else ''}; the last: {self.alarms[-1]}."


def explain(
    stream: Stream,
    now: Snapshot,
    before: Snapshot | None,
    last: Record | None,
    alarms: tuple[Alarm, ...],
) -> Explanation:
    """Explains the last stage.

    Args:
        stream: What computed it.
        now: The snapshot after it.
        before: The snapshot before it.
        last: The batch.
        alarms: All so far.
    """
    info = now.info
    after = _spreads(now.belief)
    if info is None or before is None or last is None:
        return Explanation(
            now.stage, now.decision[()], None, None, None, None, None, None, None, {}, after,
            None, alarms,
        )  # fmt: skip
    # What moves without a batch is the search alone.
    onward = stream.without_data(before)
    ranks = [np.asarray(info.surprise.pit_location), np.asarray(info.surprise.pit_spread)]
    tails = np.concatenate([2.0 * np.minimum(u, 1.0 - u).ravel() for u in ranks])
    tails = tails[~np.isnan(tails)]
    settled = float(info.course.settled)
    return Explanation(
        stage=now.stage,
        decision=now.decision[()],
        interval=interval(
            now.decision,
            np.asarray(info.outlook.epistemic),
            stream.policy.problem.feasible,
        ),
        last=last,
        change=(now.decision - before.decision)[()],
        learned=None if onward is None else (now.decision - onward)[()],
        settled=None if onward is None else (onward - before.decision)[()],
        at_rest=None if np.isnan(settled) else bool(settled),
        # Bonferroni's: of several looks at a batch one is likely to be far out.
        tail=float(min(1.0, tails.size * tails.min())) if tails.size else None,
        before=_spreads(before.belief),
        after=after,
        outlook=info.outlook,
        alarms=alarms,
    )


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


def _shown(values: np.ndarray, digits: int = 4) -> str:
    flat = np.asarray(values).ravel()
    texts = [f"{value:.{digits}g}" for value in flat[:_SHOWN]]
    if np.ndim(values) == 0:
        return texts[0]
    return "[" + ", ".join(texts) + (", ...]" if flat.size > _SHOWN else "]")


def _signed(values: np.ndarray) -> str:
    flat = np.asarray(values).ravel()
    texts = [f"{value:+.3g}" for value in flat[:_SHOWN]]
    if np.ndim(values) == 0:
        return texts[0]
    return "[" + ", ".join(texts) + (", ...]" if flat.size > _SHOWN else "]")

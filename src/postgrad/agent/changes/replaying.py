"""Computing the past again, part by part, and comparing with what is stored to the last bit."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from postgrad.agent.changes.versions import told_apart, versions_now
from postgrad.agent.moments import without_moments
from postgrad.agent.state_codec import StateCodec
from postgrad.agent.stored_history import StoredHistory
from postgrad.engine.snapshot import Snapshot
from postgrad.records.record import Replay, ReplayPart
from postgrad.records.streams.stream_events import (
    ANEW,
    CHANGED,
    CORRECTED,
    RELEARNED,
    WITHDRAWN,
)
from postgrad.store import WENT_BACK, Store

_UNKNOWN = "computed for a problem that was changed since; pass it in `earlier`"
_REPLACED = "computed by a search, or learned by a rule, that was replaced since"
_NO_BASE = "a correction has removed the state before; pass the problem before it in `earlier`"
_BACK = "computed before events that were undone by going back"


class Past(NamedTuple):
    """What computes the stages of one problem.

    Attributes:
        history: The history.
        codec: What stores the states.
    """

    history: StoredHistory
    codec: StateCodec


class Replaying:
    """Replays a stream. The stages between two events are a part."""

    def __init__(self, present: Past, earlier: Sequence[Past], store: Store):
        """What computes stages.

        Args:
            present: For the problem of today.
            earlier: For the problems before it, as far as they are known; the last one is the one
                that was changed last.
            store: Where the batches are.
        """
        self._pasts, self._store = [*earlier, present], store
        self._events = present.history.events

    def replay(self, now: Snapshot, since: int) -> Replay:
        """Compute stages again; see `Agent.replay`."""
        begin = self._begin(since)
        stages = {one.stage for _, one in self._events.in_force if one.stage > begin}
        count, different, others = 0, None, []
        carried, unlike = None, None
        for low, high in itertools.pairwise([begin, *sorted(stages | {now.stage} - {begin})]):
            past, why = self._computed_by(low, high)
            base = None if past is None else past.history.kept(low)
            if base is not None and base.stage == low:
                unlike = None
            else:  # a later correction has removed the checkpoint
                base, why = carried, why or unlike
            if past is None or base is None:
                found, carried, same = None, None, None
                why = why or (_UNKNOWN if past is None else _NO_BASE)
            else:
                found, carried = self._part(past, base, high, now)
                same = found is None
            if why is None:
                count += high - low
                different = found if different is None else different
            else:
                others.append(ReplayPart(low + 1, high, why, same))
                unlike = None if same else why
        skipped = next((part.last for part in others if part.first == begin + 1), begin)
        return Replay(skipped + 1, count, different is None, different, tuple(others))

    def _begin(self, since: int) -> int:
        """The last stage not after `since` whose state is kept, and can be read."""
        kept = self._store.checkpoint(since)
        return 0 if kept is None else kept.stage

    def _computed_by(self, low: int, high: int) -> tuple[Past | None, str | None]:
        """What can compute the stages from `low + 1` to `high`, and why they may differ."""
        later = [one for _, one in self._events.in_force if one.stage >= high]
        if any(one.kind in (ANEW, RELEARNED) for one in later):
            return None, _REPLACED
        if any(one.kind == WENT_BACK for one in later):
            return None, _BACK
        changes = sum(one.kind == CHANGED for one in later)
        past = self._pasts[-1 - changes] if changes < len(self._pasts) else None
        was, now = self._events.versions(low), versions_now()
        other = was != now
        return past, f"computed by other versions ({told_apart(was or {}, now)})" if other else None

    def _part(
        self, past: Past, base: Snapshot, high: int, now: Snapshot
    ) -> tuple[int | None, Snapshot | None]:
        """Compute the stages from a snapshot up to `high` again, and what happened after them.

        Returns:
            The first stage that differs, `high + 1` if only the state after it does, None if all is
            equal; and the state after it, if it is that of a known problem.
        """
        snapshot, different = base, None
        after = [(number, one) for number, one in self._events.in_force if one.stage >= high]
        as_of = after[0][0] if after else None
        for stage, batch in self._store.batches(base.stage + 1, high):
            data = (batch.rows, batch.x)
            if as_of is not None:
                data = self._events.as_of(as_of, stage, batch)
            snapshot = past.history.again(snapshot, *data, batch.context)
            if snapshot.answer != batch.answer and different is None:
                different = stage
        for number, one in after:
            if one.stage == high and one.kind in (CORRECTED, WITHDRAWN):
                stage = one.details["batch"]
                snapshot = past.history.corrected(snapshot, stage, as_of=number + 1)
            elif one.stage == high and one.kind == CHANGED:
                saved, fixed = past.codec.save(snapshot), past.codec.save_fixed(snapshot)
                past, rebind = self._pasts[self._pasts.index(past) + 1], one.details["rebound"]
                again, _ = past.history.restored(saved, fixed, rebind, as_of=number)
                snapshot = past.history.changed(again, snapshot.decision, as_of=number)
        last = high == now.stage
        expected = past.codec.save(now) if last else self._store.checkpoint(high)
        if different is None and expected is not None and expected.stage == high:
            same = past.codec.save(snapshot) == without_moments(expected)
            different = None if same else high + 1
        return different, snapshot

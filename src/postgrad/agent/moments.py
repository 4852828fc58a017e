"""Mean and spread of what is believed, as they are stored for those who read without JAX.

They follow the arrays of the last stage's report: `after` of what is believed now, `before` of what
was before the last batch, if it is known.
"""

import dataclasses
import functools
import json

import equinox as eqx
import jax
import numpy as np
from jaxtyping import PyTree

from postgrad.beliefs.belief import Belief
from postgrad.engine.snapshot import Snapshot
from postgrad.records.moments import MOMENTS, Moments
from postgrad.store import StoredState
from postgrad.store.array_codec import decode, encode


@eqx.filter_jit
def _moments(belief: Belief) -> tuple[PyTree, PyTree]:
    return belief.mean(), belief.spread()


def moments_of(belief: Belief) -> Moments:
    """Mean and spread of each part of theta, by its name."""
    means, spreads = _moments(belief)
    named, _ = jax.tree.flatten_with_path(means)
    return {
        f"theta{jax.tree_util.keystr(path)}": (np.asarray(mean), np.asarray(spread))
        for (path, mean), spread in zip(named, jax.tree.leaves(spreads), strict=True)
    }


class StoredMoments:
    """Adds moments to the states that are stored."""

    def __init__(self) -> None:
        """Before the first state."""
        self._last: tuple[Belief, Moments] | None = None

    def added(
        self, saved: StoredState, now: Snapshot, before: Snapshot | None = None
    ) -> StoredState:
        """A stored state with moments of what is believed.

        Args:
            saved: The state.
            now: The snapshot that it was made from.
            before: The snapshot before the last batch, if it is at hand.
        """
        if now.report is None:
            return saved
        told = {} if before is None else _named("before", self._of(before.belief))
        header, data = encode(told | _named("after", self._of(now.belief)))
        return dataclasses.replace(
            saved,
            report_header=_joined(saved.report_header, header),
            report=saved.report + data,
        )

    def _of(self, belief: Belief) -> Moments:
        """Computed once, since what follows one batch comes before the next."""
        if self._last is None or self._last[0] is not belief:
            self._last = belief, moments_of(belief)
        return self._last[1]


def without_moments(saved: StoredState) -> StoredState:
    """A stored state with the report of its stage alone."""
    told = decode(saved.report_header, saved.report) if saved.report else {}
    kept = {name: array for name, array in told.items() if not name.startswith(MOMENTS)}
    if len(kept) == len(told):
        return saved
    header, data = encode(kept)
    return dataclasses.replace(saved, report_header=header, report=data)


def _named(when: str, moments: Moments) -> dict[str, np.ndarray]:
    return {
        f"{when}.{what}.{name}": numbers
        for name, pair in moments.items()
        for what, numbers in zip(("mean", "spread"), pair, strict=True)
    }


@functools.lru_cache(maxsize=256)
def _joined(*headers: str) -> str:
    return json.dumps([entry for header in headers for entry in json.loads(header)])

"""Decisions for a context: sought under what is believed now, and issued under an id."""

import json
import time
import warnings
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from postgrad.agent.changes.changing import Changing
from postgrad.agent.decisions.occasions import as_text, context_in_words, occasion_now, same_context
from postgrad.agent.input_checks import as_decision, as_name
from postgrad.engine.snapshot import Snapshot, Solved
from postgrad.errors import ContextError, PostgradError, SettingError, StoreError
from postgrad.monitoring.progress_warnings import doubt_warning
from postgrad.records.issued import IssuedDecision, issued_bytes, read_issued
from postgrad.records.outlook import Outlook
from postgrad.store import Issue, StaleStateError, StreamHead


class Deciding(Changing):
    """What decides for a context. It is of use as a part of `Agent` only."""

    _last_issued: IssuedDecision | None

    @property
    def decision(self) -> np.ndarray:
        """The decision in force, in the shape of the initial x.

        With contexts it is the last one that was issued under an id.
        """
        if self._stream.contexts.example is not None and (last := self.last_issued()) is not None:
            return last.decision
        return self._now.decision[()]

    def decide(
        self,
        context: PyTree = None,
        *,
        id: str | None = None,  # noqa: A002
        date: Any = None,
        note: Any = None,
        fixed: dict[Any, float] | None = None,
        previous: Any = None,
    ) -> np.ndarray:
        """The best decision for a context, under what is believed now.

        It is sought over the whole feasible set, whatever was decided before: the same posterior
        and the same context give the same decision. Nothing is written without an `id`.

        Args:
            context: z, like the one that the agent was made with. Without contexts, and without a
                date, the decision is the one in force.
            id: A name under which the decision is stored, with its context, for batches that arise
                under it: `observe(batch, of=id)`. The same id and context return what was issued.
            date: For when: a date, or a number of units of time. The belief looks ahead to it; by
                one unit, if not given. Nothing that is kept moves.
            note: What the context was made from, in JSON types: kept with what is issued, and told
                by `IssuedDecision.context`.
            fixed: Entries of the decision that are given, by their indices: `{2: 10.0}`. The others
                are the best that go with these. It cannot be stored under an id.
            previous: The decision from which changes are measured, where they cost or are limited:
                see `Problem.change`. The one in force, if not given.

        Warns:
            ConvergenceWarning: If the decision may be wrong.

        Raises:
            ContextError: If the context is missing or not like the first one, or the id was used
                for another context.
            ConstraintError: If no decision keeps to the rules of the problem.
            DecisionError: If no feasible decision has the given entries.
            DivergenceError: If the decision is not finite.
            SettingError: If both an id and entries are given.
            StoreError: If the decision could not be stored; it is not issued then.
        """
        if id is not None and fixed is not None:
            raise SettingError("a decision with fixed= is a question, and cannot have an id")
        if id is not None:
            key = as_name(id, SettingError, "id")
            return self._issue(key, context, date, note, previous).decision
        asked = not (context is date is fixed is previous is None)
        if not asked and self._stream.contexts.example is None:
            return self.decision
        with self._database.lock:
            return self._solved(context, date, fixed, previous).decision[()]

    def outlook(self, context: PyTree = None, *, date: Any = None) -> Outlook:
        """What is uncertain about the decision for a context, and what it costs: see `decide`."""
        with self._database.lock:
            return jax.tree.map(np.asarray, self._solved(context, date).outlook)

    def issued(self, id: str) -> IssuedDecision | None:  # noqa: A002
        """The decision that was issued under an id, with its interval; None if there was none."""
        key = as_name(id, SettingError, "id")
        with self._database.lock:
            issue = self._store.issued(key)
            with self._database.reading():
                return None if issue is None else read_issued(issue, self._shape)

    def last_issued(self) -> IssuedDecision | None:
        """The decision that was issued last under an id; None if there is none."""
        with self._database.lock:
            if self._last_issued is None and (issue := self._store.last_issued()) is not None:
                with self._database.reading():
                    self._last_issued = read_issued(issue, self._shape)
            return self._last_issued

    @property
    def _shape(self) -> tuple[int, ...]:
        return self._stream.start.decision.shape

    def _solved(
        self,
        context: PyTree,
        date: Any,
        fixed: dict[Any, float] | None = None,
        previous: Any = None,
    ) -> Solved:
        on = occasion_now(self._stream, context, date, self._now.time)
        last = as_decision(self.decision if previous is None else previous, self._shape)
        solved = self._past.solved(self._now, on, fixed, last)
        if (warning := doubt_warning(solved.doubt)) is not None:
            warnings.warn(warning, stacklevel=4)
        return solved

    def _issue(
        self, key: str, context: PyTree, date: Any, note: Any, previous: Any
    ) -> IssuedDecision:
        with self._database.lock:
            self._prepare_to_write()
            while True:
                on = occasion_now(self._stream, context, date, self._now.time)
                text = as_text(on, note=note)
                known = self._store.issued(key)
                if known is not None:
                    return self._issued_before(known, text)
                try:
                    solved = self._solved(context, date, previous=previous)
                    ahead = solved.outlook
                    answer = issued_bytes(solved.decision, ahead.low, ahead.high)
                    if self._membership is not None:
                        text = as_text(on, note=note, population=self._membership.lent_version)
                    issue = Issue(key, self.stage, time.time(), text, answer)
                    head = self._store.issue(self._head, issue)
                    break
                except (StaleStateError, PostgradError) as error:
                    if isinstance(error, StoreError) or self._store.is_current(self._head):
                        raise
                    self._load()
            self._move(self._now, head, before=self._before)
            return read_issued(issue, self._shape)

    def _move(self, now: Snapshot, head: StreamHead, before: Snapshot | None = None) -> None:
        self._last_issued = None  # read anew: it may be of another process, or undone
        super()._move(now, head, before)

    def _move_back(self, now: Snapshot, head: StreamHead) -> None:
        self._last_issued = None
        super()._move_back(now, head)

    def _issued_before(self, known: Issue, text: str | None) -> IssuedDecision:
        """What was issued under an id, if it was for the same context."""
        if not same_context(known.context, text):
            was, now = context_in_words(known.context), context_in_words(text)
            dates = [json.loads(one or "{}").get("date") for one in (known.context, text)]
            when = f", for the date {dates[0]} and not {dates[1]}" if dates[0] != dates[1] else ""
            raise ContextError(
                f"decision {known.id!r} was issued before, in the context {was}, and not {now}"
                f"{when}; use another id"
            )
        with self._database.reading():
            return read_issued(known, self._shape)

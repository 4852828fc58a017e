"""One live decision: observe a batch, ask for the decision, and lose neither."""

import json
import os
import warnings
from contextlib import AbstractContextManager, suppress
from typing import Any, TypeVar

import numpy as np
from jaxtyping import PyTree

from postgrad.agent.affordable import affordable
from postgrad.agent.decisions.occasions import as_text, from_text, occasion_now, same_context
from postgrad.agent.explanation import in_short
from postgrad.agent.input_checks import as_decision, as_name, as_rows
from postgrad.agent.moments import StoredMoments
from postgrad.agent.pooling.membership import check_pool
from postgrad.agent.questions.what_if import Asking
from postgrad.agent.shared_parts import shared_parts
from postgrad.algorithm.bayesian_sgd import BayesianSGD
from postgrad.beliefs.belief import Belief
from postgrad.beliefs.pooling.pool import Pool
from postgrad.engine.occasion import Occasion
from postgrad.engine.snapshot import Snapshot
from postgrad.errors import (
    BatchError,
    DuplicateBatchError,
    PostgradError,
    SettingError,
    StoreError,
)
from postgrad.monitoring.misspecification import MisspecificationWarning
from postgrad.problem.contexts import as_context
from postgrad.problem.problem import Problem
from postgrad.records.issued import read_issued
from postgrad.records.streams.stream_events import Correction
from postgrad.store import Batch, Database, StaleStateError, Store, StreamHead

Read = TypeVar("Read")


class Agent(Asking, AbstractContextManager["Agent"]):
    """Keeps one decision good while batches arrive, and says when they do not look like the model.

    Every `observe` is one stage of `BayesianSGD`. Bad input raises a typed error from
    `postgrad.errors` before anything changes: a batch counts entirely or not at all.

    With a `path`, batches and what came of them are kept in a file. When `observe` returns, the
    batch is there for good: the process may be killed at any moment, and an agent made with the
    same arguments goes on where it was, to the last bit. docs/durable.md has the guarantees.

    Batches of up to eight rows share one compiled program, those of up to sixteen the next, and so
    on; what finds the decision is compiled once for all sizes.
    """

    def __init__(
        self,
        problem: Problem,
        belief: Belief,
        x: Any,
        *,
        path: str | os.PathLike[str] | Database | None = None,
        name: str = "main",
        accept_change: bool = False,
        context: PyTree = None,
        alpha: float = 1e-3,
        budget_ms: float | None = None,
        notes: Any = None,
        pool: Pool | None = None,
        **options: Any,
    ):
        """Start from a prior and an initial decision, or go on from a file.

        Args:
            problem: Cost, model and feasible set.
            belief: pi_0.
            x: x_1, the decision in force until the first batch.
            path: Where to keep everything: a file, or a `Database` that agents share; in memory,
                if not given.
            name: Which of the streams in the file; each has an agent of its own.
            accept_change: Whether cost and feasible set may be others than those of the file, which
                is then changed: see `change`.
            context: An example of what is known before a decision, if cost, model or feasible set
                take that: any PyTree of numbers. Other contexts have its structure, shapes and
                kinds of numbers.
            alpha: The level of alarms: see `Monitor`.
            budget_ms: How long a stage may take. K is then as large as fits, found by timing two
                values of it here and now; `iterations` tells what came out. A file remembers it.
            notes: What the agent is made from, in JSON types. The file keeps it, with mean and
                spread of what is believed, for programs that read without making an agent.
            pool: The population that the agent leans on and contributes to, with all agents of the
                file that have a pool of that name: see docs/pooling.md.
            **options: As for `BayesianSGD`: gradient, steps, risk, output, iterations, samples,
                seed.

        Raises:
            ContextError: If the problem takes a context and none is given, or the reverse.
            SettingError: If both budget_ms and iterations are given, or the budget is not positive.
            PriorError: If such beliefs cannot be pooled.
            StoreError: If the file is damaged, or belongs to another problem.
        """
        stream, self._shared = as_name(name, SettingError, "name"), isinstance(path, Database)
        self._database = path if isinstance(path, Database) else Database(path)
        self._alarms = self._before = self._last_issued = None
        self._context = context
        self._notes, self._moments = notes, StoredMoments()
        self._pool, self._name, self._membership = pool, stream, None
        try:
            with self._database.lock:
                self._store = Store(self._database, stream)
                kept = self._store.settings
                with self._database.reading():
                    check_pool(stream, kept, pool)
                if budget_ms is not None and kept is not None:
                    with self._database.reading():
                        options["iterations"] = json.loads(kept)["iterations"]
                elif budget_ms is not None:
                    known = problem if context is None else problem.at(as_context(context))
                    options["iterations"] = affordable(known, belief, x, budget_ms, options)
                self._prior, self._alpha, self._options = belief, alpha, options
                policy = BayesianSGD(problem, **options)
                self._work_on(shared_parts(policy, belief, x, alpha, context))
                self._take_up(accept_change)
        except BaseException:
            self.close()
            raise

    def observe(
        self,
        batch: Any,
        *,
        id: str | None = None,  # noqa: A002
        x: Any = None,
        context: PyTree = None,
        of: str | None = None,
        date: Any = None,
        note: Any = None,
    ) -> np.ndarray:
        """Bayes' rule, then K projected steps; with contexts Bayes' rule alone.

        With contexts nothing is assumed about the context of the next decision, so none is sought:
        see `decide`. A batch that comes late is learned when it comes, in its own context.

        Args:
            batch: One observation or several along the leading axis; also a frame with the Arrow
                interface, one column for each entry of an observation.
            id: A name for the batch. If one of that name was observed before, with the same data,
                nothing happens, and the decision that was answered then is returned again: so a
                batch may be delivered twice, and counts once.
            x: The decision in force when the batch arose; the last one issued, if not given. It
                may lie outside the feasible set, as the past may.
            context: The context in which the batch arose, like the one that the agent was made
                with.
            of: Instead of x and context, the id of the decision under which the batch arose: see
                `decide`. Several batches may name one.
            date: When it arose: a date, or a number of units of time. What drifts or is forgotten
                moves with the time since the latest date; late batches move nothing. One unit
                passes for each batch without a date.
            note: What the context was made from, in JSON types: kept with the batch, and told by
                `Record.context`.

        Returns:
            The new decision. The batch and all that came of it are then stored. With contexts, the
            last decision that was issued under an id.

        Warns:
            MisspecificationWarning: If the data do not look like the model. The batch counts.
            ConvergenceWarning: If the decision of this very stage may be wrong.
            AssumptionWarning: If something that was assumed of cost or model does not hold where
                the decision has come to; all batches are then learned again without it.
            LockInWarning: If the decision has come to where data teach nothing more.

        Raises:
            BatchError: If the batch is empty, not finite numbers or of the wrong shape, or there is
                no decision of the id `of`.
            ContextError: If the context is missing, or not like the first one.
            SupportError: If an observation lies outside the model's support.
            ImpossibleDataError: If no theta explains the batch.
            DuplicateBatchError: If the id was seen before, with other data.
            DecisionError: If x is not finite numbers in the decision's shape.
            StepSizeError: If the schedule has come to a step size that is not positive.
            ModelError: If the model is no proper distribution at x.
            DivergenceError: If the gradient or the new decision is not finite.
            StoreError: If the batch could not be stored. It then does not count, unless the message
                says that it may: then deliver it again with the same id.
        """
        key = None if id is None else as_name(id, BatchError, "id")
        rows = as_rows(batch, self._stream.event_shape)
        given = None if x is None else as_decision(x, self._stream.start.decision.shape)
        with self._database.lock:
            self._prepare_to_write()
            while True:
                in_force, on = self._when(given, context, of, date, self._now)
                text = as_text(on, of, note)
                known = None if key is None else self._store.find(key)
                if known is not None:
                    return self._answered_before(*known, rows, in_force, text)
                try:
                    if self._stream.contexts.example is not None and in_force is None:
                        in_force = np.asarray(self.decision)  # on record: no stage has issued it
                    new = self._past.after(self._now, rows, in_force, on)
                    alarm, entry = new.alarm, self._past.entry(new, key, rows, in_force, text)
                    renewed = new.fixed_since == new.stage
                    fixed = self._codec.save_fixed(new) if renewed else None
                    saved, events = self._saved(new, self._now), self._other_versions()
                    head = self._appended(new, entry, saved, fixed, events)
                    break
                except (StaleStateError, PostgradError) as error:
                    if isinstance(error, StoreError) or self._is_current():
                        raise
                    self._load()  # another process was faster: take up its state, and again
            self._move(new, head, before=self._now)
            if alarm is not None and self._alarms is not None:
                self._alarms.append(alarm)
        if alarm is not None:
            warnings.warn(MisspecificationWarning(alarm), stacklevel=2)
        if new.warning is not None:
            warnings.warn(new.warning, stacklevel=2)
        return self.decision

    def prepare(
        self,
        batch: Any,
        *,
        id: str,  # noqa: A002
        x: Any = None,
        context: PyTree = None,
        of: str | None = None,
        date: Any = None,
        note: Any = None,
    ) -> None:
        """Computes, and compiles, the stage of a batch that will be observed: see `observe`.

        Inside a transaction, for which other processes wait, `observe` then finds it done. Several
        batches may be prepared, in their order. What is wrong with a batch `observe` will say.
        """
        del note  # nothing is computed of it
        with self._database.lock, suppress(PostgradError):
            rows = as_rows(batch, self._stream.event_shape)
            given = None if x is None else as_decision(x, self._stream.start.decision.shape)
            if self._store.find(as_name(id, BatchError, "id")) is None:
                in_force, _ = self._when(given, context, of, date, self._now)
                if self._stream.contexts.example is not None and in_force is None:
                    in_force = np.asarray(self.decision)

                def when(before: Snapshot) -> Occasion:
                    return self._when(None, context, of, date, before)[1]

                self._past.prepare(self._now, rows, in_force, when)

    def close(self) -> None:
        """Lets go of the file, unless it is shared. What was observed is stored already."""
        if not self._shared:
            self._database.close()

    def __repr__(self) -> str:
        return f"Agent({in_short(self._now, self.decision)}, path={self._database.path!r})"

    def __exit__(self, *_: object) -> None:
        self.close()

    def _appended(self, new: Snapshot, *row: Any) -> StreamHead:
        """Stores a batch and the state after it; with it, in one commit, what the pool learns."""
        if self._membership is None:
            return self._store.append(self._head, *row)
        with self._database.transaction():
            head = self._store.append(self._head, *row)
            self._membership.contribute(self._now, new)
        return head

    def _is_current(self) -> bool:
        """Whether no other process has written to the stream, or to the population."""
        alone = self._membership is None or self._membership.is_current()
        return alone and self._store.is_current(self._head)

    def _when(
        self, x: np.ndarray | None, context: Any, of: str | None, date: Any, before: Snapshot
    ) -> tuple[np.ndarray | None, Occasion]:
        """The decision under which a batch arose, if it is named, and the occasion."""
        if of is None:
            return x, occasion_now(self._stream, context, date, before.time)
        if x is not None or context is not None:
            raise SettingError("of= names the decision and its context: leave x and context out")
        issue = self._store.issued(as_name(of, BatchError, "of"))
        if issue is None:
            raise BatchError(f"there is no decision {of!r}: see decide(..., id={of!r})")
        shape = self._stream.start.decision.shape
        with self._database.reading():
            decided = from_text(self._stream, issue.context)
            found = read_issued(issue, shape).decision
        when = occasion_now(self._stream, decided.context, date, before.time)
        return np.asarray(found), when

    def _answered_before(
        self,
        stage: int,
        batch: Batch,
        rows: np.ndarray,
        x: np.ndarray | None,
        context: str | None,
    ) -> np.ndarray:
        if stage > self.stage:
            self._load()
        # What was corrected since may be delivered again as it was, and as it is.
        known: list[Batch | Correction] = [batch, *self._past.events.corrections(stage)]
        given = None if x is None else x.tobytes()
        # With contexts the decision that was in force is on record, also where it was not named.
        named = given in [one.x for one in known] or (given is None and context is not None)
        same = rows.tobytes() in [one.rows for one in known] and named
        if not (same and same_context(batch.context, context)):
            raise DuplicateBatchError(
                f"batch {batch.id!r} was observed before, at stage {stage}, with other data; if "
                f"those were wrong, see `Agent.correct`"
            )
        if self._stream.contexts.example is not None:
            return self.decision
        with self._database.reading():
            return self._codec.read_answer(batch.answer).decision[()]

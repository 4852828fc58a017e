"""Decisions of a stream for an occasion, sought anew under what is believed now."""

from typing import Any

import numpy as np

from postgrad.algorithm.descents.descent import Doubt
from postgrad.engine.compiling import quietly
from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.packing import Packed
from postgrad.engine.policy_in_contexts import PolicyInContexts
from postgrad.engine.programs import Programs, programs, split
from postgrad.engine.questions.given import with_given
from postgrad.engine.questions.ruled import has_rules, refuse_broken, under_rules, with_decision
from postgrad.engine.questions.valuing import ahead
from postgrad.engine.snapshot import Snapshot, Solved
from postgrad.engine.stage import DescendVerdict, LearnVerdict, read
from postgrad.monitoring.progress_warnings import broken_rules


class Solving:
    """What seeks decisions for occasions. It is of use as a part of `Stream` only."""

    contexts: PolicyInContexts
    start: Snapshot
    _programs: Programs
    _fresh: dict[int, Packed]

    def solve(
        self,
        now: Snapshot,
        on: Occasion,
        fixed: dict[Any, float] | None = None,
        previous: np.ndarray | None = None,
    ) -> Solved:
        """The decision for an occasion, under what is believed now; nothing is changed.

        A search over the whole feasible set, from the first decision, whatever was decided before.
        The belief looks ahead by `on.elapsed`. The random numbers follow from (seed, stage).

        Args:
            now: What is known.
            on: The occasion.
            fixed: Entries of the decision that are given, by their indices.
            previous: The decision from which changes are measured; that of `now`, if not given.

        Raises:
            StepSizeError, DivergenceError, AssumptionFailedError: As for `Stream.after`.
            DecisionError: If no feasible decision has the given entries.
            ConstraintError: If no decision keeps to the rules of the problem.
        """
        start, made = self.start.decision, self._programs
        numbers = self.contexts.numbers_on(on, seed=now.stage)
        policy = self.contexts.policy_on(on, seed=now.stage)
        if fixed is not None:
            policy, start = with_given(policy, start, fixed)
            numbers, plan = split(policy)
            made = programs(plan)
        if now.without not in self._fresh:
            self._fresh[now.without] = self._search_at(now, 0, self.start.decision)
        search = self._fresh[now.without]
        if fixed is not None:
            search = self._search_at(now, 0, start)
        before = now._replace(stage=0, decision=start)
        with quietly():
            draws, mixture = made.draw(numbers, now.belief, search, ahead(on))
            told = made.descend(numbers, draws, mixture, search, 1.0).report
        descend = read(DescendVerdict, told.first())
        self._check_assumed(now, descend)
        if not (descend.positive_step and descend.finite):
            self._stop(before, descend, told)
        decision = self._decision(descend)
        if has_rules(policy.problem):
            last = now.decision if previous is None else previous
            decision, broken = under_rules(policy, now, on, decision, told, last)
            refuse_broken(broken)
        return Solved(decision, told, Doubt(int(descend.doubt)))

    def _under_rules(self, in_force: np.ndarray, found: Snapshot) -> Snapshot:
        """What was found, with the decision that keeps to the rules of the problem, if it has any.

        Args:
            in_force: The decision from which changes are measured.
            found: What a search without rules has found.
        """
        policy = self.contexts.policy_on(USUAL, seed=found.stage)
        if not has_rules(policy.problem):
            return found
        assert found.report is not None
        told = found.report.descend
        decision, broken = under_rules(policy, found, USUAL, found.decision, told, in_force)
        state = with_decision(found.search.tree_of_arrays(), decision)
        return found._replace(
            decision=decision,
            search=Packed.of(state, np.concatenate),
            warning=broken_rules(broken),
        )

    def _stage_under_rules(self, before: Snapshot, learned: Snapshot) -> Snapshot:
        """A stage whose decision keeps to the rules of the problem: it is sought anew each time."""
        new = self.sought(self.anew(learned, before.decision))
        assert new.report is not None
        told = read(DescendVerdict, new.report.descend.first())
        stall, warning = before.stall.after(Doubt(int(told.doubt)), *self._taught(told))
        answer = np.concatenate([np.ravel(new.decision), told.answer[new.decision.size :]])
        return new._replace(
            answer=answer.tobytes() + learned.answer,
            stall=stall,
            warning=new.warning or warning,
        )

    def anew(self, snapshot: Snapshot, decision: np.ndarray) -> Snapshot:
        """See `Stream`."""
        raise NotImplementedError

    def sought(self, snapshot: Snapshot) -> Snapshot:
        """See `Stream`."""
        raise NotImplementedError

    def _search_at(self, snapshot: Snapshot, stage: int, decision: np.ndarray) -> Packed:
        raise NotImplementedError

    def _check_assumed(self, before: Snapshot, verdict: LearnVerdict | DescendVerdict) -> None:
        raise NotImplementedError

    def _stop(self, before: Snapshot, verdict: DescendVerdict, told: Packed) -> None:
        raise NotImplementedError

    def _decision(self, verdict: DescendVerdict) -> np.ndarray:
        raise NotImplementedError

    def _taught(self, verdict: DescendVerdict) -> tuple[bool, float, float]:
        raise NotImplementedError

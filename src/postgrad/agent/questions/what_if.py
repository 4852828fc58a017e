"""What decisions would cost and bring: see `WhatIf` and `Preference`."""

import contextlib
import dataclasses
from typing import Any

import numpy as np
from jaxtyping import PyTree

from postgrad.agent.decisions.deciding import Deciding
from postgrad.agent.decisions.occasions import occasion_now
from postgrad.agent.input_checks import as_decision
from postgrad.agent.questions.expectations import deviations, expectation, without_noise
from postgrad.algorithm.descents.descent import Doubt
from postgrad.algorithm.policy import initial_decision
from postgrad.algorithm.questions.valuation import Valued
from postgrad.engine.occasion import USUAL, Occasion
from postgrad.engine.questions.ruled import has_rules
from postgrad.engine.questions.valuing import are_events, value
from postgrad.engine.snapshot import Solved
from postgrad.errors import ConstraintError
from postgrad.records.explanation import Explanation
from postgrad.records.questions.expectation import Expectation
from postgrad.records.questions.what_if import Preference, WhatIf

_CHANCE = (0.0, 1.0)


class Asking(Deciding):
    """What answers questions about decisions. It is of use as a part of `Agent` only."""

    def cost(self, x: Any, context: PyTree = None, *, date: Any = None) -> WhatIf:
        """What a decision would cost, and bring, under what is believed now; nothing is written.

        All decisions are valued with the same draws, so that differences between them are sharp.

        Args:
            x: Any feasible decision.
            context: z, like the one that the agent was made with.
            date: For when: see `decide`.

        Raises:
            DecisionError: If x is not finite numbers inside the feasible set.
            ContextError: If the context is missing, or not like the first one.
        """
        with self._database.lock:
            on = occasion_now(self._stream, context, date, self._now.time)
            place = self._feasible(x, on)
            solved = self._best(on)
            best = place if solved is None else solved.decision
            found, least = self._valued(on, place, best)
            cost, outcomes = self._expectations(found)
            chance, spread = deviations(
                found.means[0], found.common[0], found.squares, found.shares
            )
            parts: dict[str, Any] = {}
            if solved is not None:
                # Of a decision under rules, nobody knows what it would be if theta were known.
                ruled = has_rules(self._stream.policy.problem)
                unknown = np.nan if ruled else float(solved.outlook.cost_of_not_knowing)
                at_best = float(least.means[0] @ least.shares)
                parts = {
                    "best": best[()],
                    "if_known": at_best - unknown,
                    "of_not_knowing": unknown,
                    "of_the_decision": cost.mean - at_best,
                }
            return WhatIf(place[()], cost, outcomes, chance=chance, spread=spread, **parts)

    def compare(self, a: Any, b: Any, context: PyTree = None, *, date: Any = None) -> Preference:
        """How two decisions compare, on the same draws; nothing is written.

        Args:
            a: A feasible decision.
            b: Another one.
            context: z, like the one that the agent was made with.
            date: For when: see `decide`.

        Raises:
            DecisionError: If a or b is not finite numbers inside the feasible set.
            ContextError: If the context is missing, or not like the first one.
        """
        with self._database.lock:
            on = occasion_now(self._stream, context, date, self._now.time)
            one, other = self._feasible(a, on), self._feasible(b, on)
            first, second = self._valued(on, one, other)
            apart = first._replace(
                means=first.means - second.means, common=first.common - second.common
            )
            difference, outcomes = self._expectations(apart, limits=(-1.0, 1.0))
            gaps = without_noise(apart.means[0], apart.common[0], apart.shares)
            better = float(apart.shares @ ((gaps < 0.0) + 0.5 * (gaps == 0.0)))
            return Preference(one[()], other[()], difference, better, outcomes)

    def _explain(self, shares: bool) -> Explanation:
        """Also with the outcomes that the decision in force has."""
        found, stream = super()._explain(shares), self._stream
        if not stream.policy.problem.outcomes.names or stream.contexts.example is not None:
            return found
        place = np.asarray(self._now.decision)
        _, outcomes = self._expectations(self._valued(USUAL, place, place)[0])
        return dataclasses.replace(found, outcomes=outcomes)

    def _feasible(self, x: Any, on: Occasion) -> np.ndarray:
        place = as_decision(x, self._stream.start.decision.shape)
        initial_decision(self._stream.contexts.policy_on(on).problem, place)
        return place

    def _best(self, on: Occasion) -> Solved | None:
        """The best decision; None where the descent does not look for the least mean cost.

        And where no decision keeps to the rules: then there is none to compare with.
        """
        policy = self._stream.policy
        if not (policy.descent.fixes_draws and policy.risk.is_mean):
            return None
        now = self._now
        if self._stream.contexts.example is None and on == USUAL and now.report is not None:
            return Solved(now.decision, now.report.descend, Doubt.NONE)
        with contextlib.suppress(ConstraintError):
            return self._past.solved(now, on, None, as_decision(self.decision, self._shape))
        return None

    def _valued(self, on: Occasion, a: np.ndarray, b: np.ndarray) -> tuple[Valued, Valued]:
        now = self._past.believed_for_decisions(self._now)
        both = value(self._stream, now, on, np.stack([a, b]))
        one, other = (
            both._replace(means=both.means[i], common=both.common[i], squares=both.squares[i],
                          shares=both.shares[i])
            for i in (0, 1)
        )  # fmt: skip
        return one, other

    def _expectations(
        self, found: Valued, limits: tuple[float, float] = _CHANCE
    ) -> tuple[Expectation, dict[str, Expectation]]:
        """Of the cost, and of the outcomes by their names."""
        names = self._stream.policy.problem.outcomes.names
        cost = expectation(found.means[0], found.common[0], found.shares)
        outcomes = {}
        for i, (name, event) in enumerate(zip(names, are_events(self._stream), strict=True), 1):
            ends = limits if event else (-np.inf, np.inf)
            outcomes[name] = expectation(found.means[i], found.common[i], found.shares, event, ends)
        return cost, outcomes

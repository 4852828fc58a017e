"""What a decision would cost and bring, and how two decisions compare, in numbers and in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from postgrad.records.explanation import shown
from postgrad.records.questions.expectation import Expectation


@dataclass(frozen=True)
class WhatIf:
    """What a decision would cost and bring.

    The expected cost has three parts: `if_known + of_not_knowing + of_the_decision = cost.mean`.

    Attributes:
        decision: The decision.
        cost: Its expected cost.
        outcomes: The expectations of the named outcomes.
        best: The best decision under what is believed, to which it is compared.
        if_known: What would be paid on average if theta were known before each decision, and the
            best decision for that theta were taken: what is due to chance.
        of_not_knowing: What the best decision costs more than that, as theta is not known.
        of_the_decision: What this decision costs more than the best one. All three parts are NaN
            where the descent does not look for the best decision.
        chance: The standard deviation of the cost if theta were known: what no data change.
        spread: The standard deviation of the expected cost over theta.
    """

    decision: Any
    cost: Expectation
    outcomes: Mapping[str, Expectation] = field(default_factory=dict)
    best: Any = None
    if_known: float = np.nan
    of_not_knowing: float = np.nan
    of_the_decision: float = np.nan
    chance: float = np.nan
    spread: float = np.nan

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        cost = self.cost
        yield (
            f"{shown(self.decision)} costs {cost.mean:.4g} on average; more data would tell where "
            f"{cost.between} (95 %)."
        )
        if not np.isnan(self.of_the_decision):
            if self.of_the_decision <= 2.0 * cost.error:
                yield f"That is as little as the best decision costs, {shown(self.best)}."
            else:
                yield (
                    f"{self.of_the_decision:.3g} of it would be saved by the best decision, "
                    f"{shown(self.best)}."
                )
        if not np.isnan(self.of_not_knowing):
            yield (
                f"{self.of_not_knowing:.3g} of it is the price of not knowing theta, and "
                f"{self.if_known:.4g} would be paid even if theta were known."
            )
        yield f"From time to time the cost varies by {self.chance:.3g} by chance alone."
        for name, outcome in self.outcomes.items():
            yield f"{name}: {outcome}."
        yield f"The error of simulation is {cost.error:.1g}."


@dataclass(frozen=True)
class Preference:
    """How two decisions compare, on the same draws.

    Attributes:
        a: The first decision.
        b: The second decision.
        difference: The cost of a minus that of b.
        a_is_better: The probability, over theta, that a has the smaller expected cost.
        outcomes: The differences of the named outcomes, a minus b.
    """

    a: Any
    b: Any
    difference: Expectation
    a_is_better: float
    outcomes: Mapping[str, Expectation] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(self._sentences())

    def _sentences(self) -> Iterator[str]:
        gap, sure = self.difference, self.a_is_better
        if abs(gap.mean) <= 2.0 * gap.error:
            yield f"{shown(self.a)} and {shown(self.b)} cost the same, as far as can be told."
        else:
            better, worse, sure = (
                (self.a, self.b, sure) if gap.mean < 0 else (self.b, self.a, 1 - sure)
            )
            yield (
                f"{shown(better)} costs {abs(gap.mean):.3g} less on average than {shown(worse)}; "
                f"under what is believed it is the better one with {100 * sure:.3g} %."
            )
        yield (
            f"The cost of {shown(self.a)} minus that of {shown(self.b)} is {gap} (95 %); the error "
            f"of simulation is {gap.error:.1g}."
        )
        for name, outcome in self.outcomes.items():
            yield f"{name}, of {shown(self.a)} minus of {shown(self.b)}: {outcome}."

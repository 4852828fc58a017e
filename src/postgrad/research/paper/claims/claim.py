"""One claim of the paper: what it says, what was measured, what follows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from postgrad.research.paper.claims.verdicts import Estimate, Requirement, together

_MOST_NAMES = 5


@dataclasses.dataclass(frozen=True)
class Statement:
    """What must be true if a claim is: a named estimate, and what is required of it."""

    what: str
    estimate: Estimate
    requirement: Requirement


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim and the statements that it consists of.

    Attributes:
        id: A short name, unique among the claims.
        claim: What the paper says, in our words.
        measured: The measurements in words.
        runs: How many runs, or draws, each estimate is computed from.
        statements: What must be true if the claim is; empty if there was nothing to measure.
    """

    id: str
    claim: str
    measured: str
    runs: int
    statements: Sequence[Statement] = ()

    def as_dict(self) -> dict[str, Any]:
        """Plain strings and numbers, with the verdict that follows from them."""
        verdicts = (s.requirement.judge(s.estimate) for s in self.statements)
        return {
            "id": self.id,
            "claim": self.claim,
            "measured": self.measured,
            "verdict": together(verdicts).value,
            "rule": self._rule(),
            "runs": self.runs,
            "numbers": {s.what: [s.estimate.value, s.estimate.error] for s in self.statements},
        }

    def _rule(self) -> str:
        """The requirements, on which estimates, and when each holds."""
        if not self.statements:
            return "Inconclusive if there is nothing to measure."
        names: dict[str, list[str]] = {}
        for statement in self.statements:
            names.setdefault(str(statement.requirement), []).append(statement.what)
        asked = "; ".join(f"{required}: {_named(of)}" for required, of in names.items())
        verdicts = dict.fromkeys(statement.requirement.verdicts for statement in self.statements)
        several = ". One failure refutes, and all must hold" if len(self.statements) > 1 else ""
        return f"Asked to be {asked}. {'. '.join(verdicts)}{several}."


def _named(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= _MOST_NAMES else f"each of {len(names)} estimates"


def listed(statements: Sequence[Statement], runs: int) -> str:
    """The statements' estimates in words."""
    return f"{'; '.join(f'{s.what}: {s.estimate}' for s in statements)} ({runs} runs)"
